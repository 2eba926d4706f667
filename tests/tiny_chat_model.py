"""A tiny random chat model with a byte-level tokenizer: a whole model folder in milliseconds."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer

SPECIALS = ["<|im_start|>", "<|im_end|>"]
MAX_MODEL_LEN = 512
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save_tiny_chat_model(folder: Path) -> Path:
    """Llama of 2 layers, one token a byte; weights float32, the same each time."""
    from safetensors.torch import save_file

    from minillm.model.config import ModelConfig
    from minillm.model.loader import dummy_weights

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = FastTokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIALS])
    eos = tokenizer.token_to_id("<|im_end|>")
    config = ModelConfig(
        architecture="LlamaForCausalLM", num_layers=2, hidden_size=32, intermediate_size=64,
        num_heads=4, num_kv_heads=2, head_dim=8, vocab_size=tokenizer.get_vocab_size(),
        max_position_embeddings=MAX_MODEL_LEN, tie_word_embeddings=False,
        eos_token_ids=frozenset([eos]), torch_dtype="float32", name="tiny",
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<|im_end|>", "chat_template": CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config.to_dict()), encoding="utf-8")
    weights = {name: w * 20 for name, w in dummy_weights(config).items()}  # so that outputs vary
    save_file(weights, folder / "model.safetensors")
    return folder
