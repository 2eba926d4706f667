"""The tokenizer inside a GGUF file, written as tokenizer.json and its companions.

Byte-level BPE with GPT-2's or SmolLM's word splitting is written here, through the `tokenizers`
library (about a second); any other kind is left to transformers' own conversion, if that library
is installed. Either way it is done once; afterwards tokenizer.json loads in a fraction of that.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from minillm.model.cache import cache_folder, replace_folder

_CONTROL_TYPES = (3, 4)  # llama.cpp's token types: control, user-defined
_SPECIAL = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "pad_token": "padding_token_id",
    "unk_token": "unknown_token_id",
}


def cached_tokenizer_folder(gguf: Path) -> Path:
    """A folder with the tokenizer.json of this GGUF file, made on the first call."""
    if not gguf.is_file():
        raise ValueError(f"There is no GGUF file {gguf}.")
    stat = gguf.stat()
    key = f"{gguf.resolve()}:{stat.st_size}:{stat.st_mtime_ns}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    folder = cache_folder() / "tokenizers" / f"{gguf.stem}-{digest}"
    if not (folder / "tokenizer.json").is_file():
        from minillm.model.gguf_reader import read_metadata

        metadata = read_metadata(gguf)
        with replace_folder(folder) as unfinished:
            if is_plain_byte_level(metadata):
                write_tokenizer(metadata, unfinished)
            else:
                _write_through_transformers(gguf, unfinished)
    return folder


def is_plain_byte_level(metadata: Mapping[str, Any]) -> bool:
    """Whether `write_tokenizer` knows this kind."""
    kind = (metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre"))
    return kind in (("gpt2", "smollm"), ("gpt2", "gpt-2"))


def write_tokenizer(metadata: Mapping[str, Any], folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja into the folder."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    types: list[int] = metadata["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
    vocab = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if metadata["tokenizer.ggml.pre"] == "smollm":  # each digit is a token of its own
        split = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), split])
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, types, strict=True) if kind in _CONTROL_TYPES]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    for name, key in _SPECIAL.items():
        token_id = metadata.get(f"tokenizer.ggml.{key}")
        if token_id is not None:
            settings[name] = tokens[token_id]
    if metadata.get("tokenizer.ggml.add_bos_token") and "bos_token" in settings:
        bos = settings["bos_token"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, vocab[bos])]
        )
    tokenizer.save(str(folder / "tokenizer.json"))
    text = json.dumps(settings, indent=2, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
    template = metadata.get("tokenizer.chat_template")
    if template:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def _write_through_transformers(gguf: Path, folder: Path) -> None:
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise ValueError(
            f"The tokenizer of {gguf} needs the transformers library to be converted once: "
            "pip install transformers."
        ) from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f"The tokenizer of {gguf} can't be converted: {error}.") from None
    tokenizer.save_pretrained(folder)
