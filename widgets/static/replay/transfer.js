// Files between the page and the kernel, in parts; packed on the way (widgets/replay/files.py).

import { saveBlob } from "../shared/save.js";

const PART = 256 * 1024; // bytes
const PACE_MS = 300; // between full parts: a Jupyter server drops more than 1 MB a second

async function through(blob, stream) {
  return new Response(blob.stream().pipeThrough(stream)).blob();
}

/** Send a file: {ask: "upload", …}, then its parts. Returns a sentence where it cannot be. */
export async function sendFile(model, file) {
  const most = model.get("most_bytes");
  const megabytes = (bytes) => (bytes / 2 ** 20).toLocaleString("en-US", { maximumFractionDigits: 1 });
  if (!file.size) return `${file.name} is empty.`;
  if (file.size > most) return `${file.name} has ${megabytes(file.size)} MB; a file of up to ${megabytes(most)} MB can be opened.`;
  const packed = file.name.endsWith(".gz") ? file : await through(file, new CompressionStream("gzip"));
  const number = Math.floor(Math.random() * 2 ** 31);
  model.send({ ask: "upload", number, name: file.name, size: packed.size });
  for (let at = 0; at < packed.size; at += PART) {
    const part = await packed.slice(at, at + PART).arrayBuffer();
    model.send({ ask: "bytes", number }, undefined, [part]);
  }
  return "";
}

/** Fetches the files that this view asked for, and saves them. */
export class Fetcher {
  constructor(model, by) {
    this.model = model;
    this.by = by; // our name: other views of the widget get the same messages
    this.files = new Map();
  }

  /** {"kind": "file"}: one is ready, ask for its first part. */
  begin({ number, name, mime, parts }) {
    this.files.set(number, { name, mime, parts, got: [] });
    this.ask(number, 0);
  }

  ask(number, part) {
    this.model.send({ ask: "part", number, part, by: this.by });
  }

  /** {"kind": "part"} with its bytes; the promise of the saved file's name, null while more come. */
  async take({ number, part }, bytes) {
    const file = this.files.get(number);
    if (!file || part !== file.got.length) return null;
    file.got.push(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength).slice());
    if (file.got.length < file.parts) {
      setTimeout(() => this.ask(number, part + 1), PACE_MS);
      return null;
    }
    this.files.delete(number);
    const plain = await through(new Blob(file.got), new DecompressionStream("gzip"));
    saveBlob(new Blob([plain], { type: file.mime }), file.name);
    return file.name;
  }
}
