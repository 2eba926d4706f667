"""llama.cpp, several sequences in a batch, through llama-cpp-python's low-level interface.

Its server's way of working (tools/server in llama.cpp): each pass takes a token of every sequence
that decodes and fills the batch with prompt tokens of those that wait. The weights are the same
safetensors, written once as GGUF without a vocabulary, for tokens go in and come out.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.peer_runners.protocol import Run, serve

NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip
ENDS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
CONTEXT = 1024  # tokens a sequence may have


def gguf_name(name: str) -> str:
    """model.layers.3.mlp.up_proj.weight → blk.3.ffn_up.weight"""
    stem = name.removesuffix(".weight")
    if stem in ENDS:
        return f"{ENDS[stem]}.weight"
    layer, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{NAMES[part]}.weight"


def converted(model: str, scratch: str, dtype: str) -> Path:
    """The model as GGUF; written where it isn't there yet."""
    import gguf
    import numpy

    path = Path(scratch) / f"{Path(model).name}-{dtype}.gguf"
    if path.exists():
        return path
    config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer = gguf.GGUFWriter(path.with_suffix(".part"), "llama")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    kind = gguf.GGMLQuantizationType.BF16 if dtype == "bfloat16" else gguf.GGMLQuantizationType.F32
    with (Path(model) / "model.safetensors").open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            file.seek(8 + size + begin)
            if entry["dtype"] != "BF16":
                raise ValueError(f"{name} is {entry['dtype']}; only BF16 can be converted here.")
            bits = numpy.frombuffer(file.read(end - begin), numpy.uint16).reshape(entry["shape"])
            if ".q_proj." in name or ".k_proj." in name:
                bits = interleaved(bits, heads if ".q_proj." in name else kv_heads)
            if kind is gguf.GGMLQuantizationType.BF16 and bits.ndim > 1:
                data = numpy.ascontiguousarray(bits).view(numpy.uint8)
                writer.add_tensor(gguf_name(name), data, raw_dtype=kind)
            else:  # llama.cpp wants its norms in float32
                wide = (bits.astype(numpy.uint32) << 16).view(numpy.float32)
                writer.add_tensor(gguf_name(name), numpy.ascontiguousarray(wide))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.with_suffix(".part").rename(path)


def interleaved(bits, heads: int):
    """Rows of q or k from halves (HF's rotary form) to pairs, as llama.cpp's rotates them."""
    out, hidden = bits.shape
    return bits.reshape(heads, 2, out // heads // 2, hidden).swapaxes(1, 2).reshape(out, hidden)


class Batcher:
    """Continuous batching over one llama_context."""

    def __init__(self, settings: dict) -> None:
        import llama_cpp

        self.api = llama_cpp
        path = converted(settings["model"], settings["scratch"], settings["dtype"])
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params()
        )
        if not self.model:
            raise RuntimeError(f"llama.cpp could not load {path.name}.")
        self.slots, self.budget = settings["max_num_seqs"], settings["max_num_batched_tokens"]
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = self.slots * CONTEXT
        options.n_batch = options.n_ubatch = self.budget
        options.n_seq_max = self.slots
        options.n_threads = options.n_threads_batch = settings["threads"]
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        if not self.context:
            raise RuntimeError(f"llama.cpp could not make a context for {self.slots} sequences.")
        self.batch = llama_cpp.llama_batch_init(self.budget, 0, 1)
        self.greedy = llama_cpp.llama_sampler_init_greedy()

    def run(self, requests: list[dict]) -> list[int]:
        """How many tokens each request got."""
        for request in requests:
            if len(request["prompt_ids"]) + request["max_tokens"] > CONTEXT:
                raise ValueError(f"Request {request['id']} has more than {CONTEXT} tokens.")
        api, counts = self.api, [0] * len(requests)
        waiting, free = list(range(len(requests))), list(range(self.slots))
        slot_of, fed, last = {}, {}, {}
        while waiting or slot_of:
            while waiting and free:
                slot_of[waiting[0]] = free.pop()
                fed[waiting.pop(0)] = 0
            # Who decodes first, then prompts while the batch has room, in order of arrival.
            asking: dict[int, int] = {}
            self.batch.n_tokens = 0
            for number in sorted(slot_of, key=lambda n: (counts[n] == 0, n)):
                prompt = requests[number]["prompt_ids"]
                left = prompt[fed[number] :] or [last[number]]
                for token in left[: self.budget - self.batch.n_tokens]:
                    fed[number] += 1
                    at = self._put(token, fed[number] - 1, slot_of[number])
                    if fed[number] >= len(prompt):
                        self.batch.logits[at] = 1
                        asking[number] = at
            status = api.llama_decode(self.context, self.batch)
            if status != 0:
                raise RuntimeError(f"llama_decode returned {status}.")
            for number, at in asking.items():
                last[number] = api.llama_sampler_sample(self.greedy, self.context, at)
                counts[number] += 1
                if counts[number] == requests[number]["max_tokens"]:
                    slot = slot_of.pop(number)
                    api.llama_memory_seq_rm(api.llama_get_memory(self.context), slot, -1, -1)
                    free.append(slot)
        return counts

    def _put(self, token: int, position: int, slot: int) -> int:
        """A token into the batch; its place there."""
        at, batch = self.batch.n_tokens, self.batch
        batch.token[at], batch.pos[at], batch.n_seq_id[at] = token, position, 1
        batch.seq_id[at][0], batch.logits[at] = slot, 0
        batch.n_tokens += 1
        return at


def load(settings: dict) -> Run:
    return Batcher(settings).run


if __name__ == "__main__":
    serve(load, ("llama_cpp_python", "gguf"))
