"""Sizes for exercise 6: right ones, written differently; wrong ones; and stubs."""

from __future__ import annotations

import math


def kv_bytes_per_token(num_layers, num_heads, num_kv_heads, head_dim, element_bytes):
    return num_layers * (2 * num_kv_heads * head_dim * element_bytes)


def decode_bytes(weight_bytes, token_bytes, contexts):
    total = weight_bytes
    for context in contexts:
        total += context * token_bytes
    return total


def crossover_context(weight_bytes, token_bytes):
    return math.ceil(weight_bytes / token_bytes)


def kv_by_layers(num_layers, num_heads, num_kv_heads, head_dim, element_bytes):
    keys = values = 0
    for _ in range(num_layers):
        keys += num_kv_heads * head_dim
        values += num_kv_heads * head_dim
    return (keys + values) * element_bytes


def bytes_by_sums(weight_bytes, token_bytes, contexts):
    return sum((weight_bytes, *(token_bytes * context for context in contexts)))


def crossover_by_remainder(weight_bytes, token_bytes):
    whole, left = divmod(weight_bytes, token_bytes)
    return whole + 1 if left else whole


def query_heads(num_layers, num_heads, num_kv_heads, head_dim, element_bytes):
    return 2 * num_layers * num_heads * head_dim * element_bytes


def only_keys(num_layers, num_heads, num_kv_heads, head_dim, element_bytes):
    return num_layers * num_kv_heads * head_dim * element_bytes


def one_layer(num_layers, num_heads, num_kv_heads, head_dim, element_bytes):
    return 2 * num_kv_heads * head_dim * element_bytes


def always_bf16(num_layers, num_heads, num_kv_heads, head_dim, element_bytes):
    return 2 * num_layers * num_kv_heads * head_dim * 2


def groups_for_heads(num_layers, num_heads, num_kv_heads, head_dim, element_bytes):
    return 2 * num_layers * (num_heads // num_kv_heads) * head_dim * element_bytes


def in_kilobytes(num_layers, num_heads, num_kv_heads, head_dim, element_bytes):
    return 2 * num_layers * num_kv_heads * head_dim * element_bytes / 1024


def only_llama(num_layers, num_heads, num_kv_heads, head_dim, element_bytes):
    return 131072


def weights_for_each(weight_bytes, token_bytes, contexts):
    return sum(weight_bytes + token_bytes * context for context in contexts)


def forgets_the_weights(weight_bytes, token_bytes, contexts):
    return token_bytes * sum(contexts)


def longest_for_all(weight_bytes, token_bytes, contexts):
    return weight_bytes + token_bytes * max(contexts) * len(contexts)


def only_the_longest(weight_bytes, token_bytes, contexts):
    return weight_bytes + token_bytes * max(contexts)


def one_token_each(weight_bytes, token_bytes, contexts):
    return weight_bytes + token_bytes * len(contexts)


def different_contexts(weight_bytes, token_bytes, contexts):
    return weight_bytes + token_bytes * sum(set(contexts))


def without_the_new_token(weight_bytes, token_bytes, contexts):
    return weight_bytes + token_bytes * sum(context - 1 for context in contexts)


def empties_the_list(weight_bytes, token_bytes, contexts):
    total = weight_bytes
    while contexts:
        total += token_bytes * contexts.pop()
    return total


def rounds_down(weight_bytes, token_bytes):
    return weight_bytes // token_bytes


def always_one_more(weight_bytes, token_bytes):
    return weight_bytes // token_bytes + 1


def rounds_to_the_nearest(weight_bytes, token_bytes):
    return round(weight_bytes / token_bytes)


def not_whole(weight_bytes, token_bytes):
    return weight_bytes / token_bytes


def upside_down(weight_bytes, token_bytes):
    return math.ceil(token_bytes / weight_bytes)


def half_of_all(weight_bytes, token_bytes):
    return math.ceil(weight_bytes / token_bytes / 2)


def zero(*args):
    return 0


def raises(*args):
    raise NotImplementedError


def nothing(*args):
    return None


NAMES = ("kv_bytes_per_token", "decode_bytes", "crossover_context")
RIGHT = [
    dict(zip(NAMES, (kv_bytes_per_token, decode_bytes, crossover_context), strict=True)),
    dict(zip(NAMES, (kv_by_layers, bytes_by_sums, crossover_by_remainder), strict=True)),
]
WRONG = [
    *({"kv_bytes_per_token": wrong} for wrong in (
        query_heads, only_keys, one_layer, always_bf16, groups_for_heads, in_kilobytes, only_llama,
    )),
    *({"decode_bytes": wrong} for wrong in (
        weights_for_each, forgets_the_weights, longest_for_all, only_the_longest, one_token_each,
        different_contexts, without_the_new_token, empties_the_list,
    )),
    *({"crossover_context": wrong} for wrong in (
        rounds_down, always_one_more, rounds_to_the_nearest, not_whole, upside_down, half_of_all,
    )),
]  # fmt: skip
STUBS = [dict.fromkeys(NAMES, stub) for stub in (zero, raises, nothing)]
