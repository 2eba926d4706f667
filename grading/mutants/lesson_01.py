"""Rooflines for exercise 1: right ones, written differently; wrong ones; and stubs."""

from __future__ import annotations


def arithmetic_intensity(batch, n_in, n_out, weight_bytes):
    flop = 2.0 * batch * n_in * n_out
    return flop / (weight_bytes * n_in * n_out + 2 * (batch * n_in + batch * n_out))


def step_time(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    flop = 2.0 * batch * n_in * n_out
    moved = weight_bytes * n_in * n_out + 2 * (batch * n_in + batch * n_out)
    return max(flop / peak_flops, moved / bandwidth)


def intensity_by_harmonics(batch, n_in, n_out, weight_bytes):
    """Bytes for each FLOP, matrix by matrix, turned around."""
    return 1 / (weight_bytes / (2 * batch) + 1 / n_out + 1 / n_in)


def time_by_branches(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    intensity = intensity_by_harmonics(batch, n_in, n_out, weight_bytes)
    reached = peak_flops if intensity >= peak_flops / bandwidth else intensity * bandwidth
    return 2 * batch * n_in * n_out / reached


def weights_alone(batch, n_in, n_out, weight_bytes):
    return 2 * batch / weight_bytes


def activations_like_weights(batch, n_in, n_out, weight_bytes):
    numbers = n_in * n_out + batch * n_in + batch * n_out
    return 2 * batch * n_in * n_out / (weight_bytes * numbers)


def one_flop_each(batch, n_in, n_out, weight_bytes):
    return arithmetic_intensity(batch, n_in, n_out, weight_bytes) / 2


def square(batch, n_in, n_out, weight_bytes):
    return arithmetic_intensity(batch, n_in, n_in, weight_bytes)


def forgets_the_output(batch, n_in, n_out, weight_bytes):
    return 2 * batch * n_in * n_out / (weight_bytes * n_in * n_out + 2 * batch * n_in)


def weights_for_each_row(batch, n_in, n_out, weight_bytes):
    return arithmetic_intensity(1, n_in, n_out, weight_bytes)


def bytes_per_flop(batch, n_in, n_out, weight_bytes):
    return 1 / arithmetic_intensity(batch, n_in, n_out, weight_bytes)


def always_bf16(batch, n_in, n_out, weight_bytes):
    return arithmetic_intensity(batch, n_in, n_out, 2)


def whole_bytes(batch, n_in, n_out, weight_bytes):
    """Takes int4 for nothing."""
    return arithmetic_intensity(batch, n_in, n_out, int(weight_bytes))


def one_after_the_other(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    flop = 2 * batch * n_in * n_out
    moved = weight_bytes * n_in * n_out + 2 * batch * (n_in + n_out)
    return flop / peak_flops + moved / bandwidth


def the_faster_limit(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    flop = 2 * batch * n_in * n_out
    moved = weight_bytes * n_in * n_out + 2 * batch * (n_in + n_out)
    return min(flop / peak_flops, moved / bandwidth)


def never_computes(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    return (weight_bytes * n_in * n_out + 2 * batch * (n_in + n_out)) / bandwidth


def never_reads(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    return 2 * batch * n_in * n_out / peak_flops


def ridge_by_batch(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    """Takes the batch for the FLOP per byte."""
    if batch < peak_flops / bandwidth:
        return never_computes(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth)
    return never_reads(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth)


def weights_only_time(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    flop, moved = 2 * batch * n_in * n_out, weight_bytes * n_in * n_out
    return max(flop / peak_flops, moved / bandwidth)


def milliseconds(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    return 1e3 * step_time(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth)


def only_an_a100(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    return step_time(batch, n_in, n_out, weight_bytes, 312e12, 2039e9)


def per_row(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    return batch * step_time(1, n_in, n_out, weight_bytes, peak_flops, bandwidth)


def zero_intensity(batch, n_in, n_out, weight_bytes):
    return 0 / 1


def zero_time(batch, n_in, n_out, weight_bytes, peak_flops, bandwidth):
    return 0.0


def raises(*args):
    raise NotImplementedError


def nothing(*args):
    return None


RIGHT = [
    {"arithmetic_intensity": arithmetic_intensity, "step_time": step_time},
    {"arithmetic_intensity": intensity_by_harmonics, "step_time": time_by_branches},
]
WRONG = [
    *({"arithmetic_intensity": wrong} for wrong in (
        weights_alone, activations_like_weights, one_flop_each, square, forgets_the_output,
        weights_for_each_row, bytes_per_flop, always_bf16, whole_bytes,
    )),
    *({"step_time": wrong} for wrong in (
        one_after_the_other, the_faster_limit, never_computes, never_reads, ridge_by_batch,
        weights_only_time, milliseconds, only_an_a100, per_row,
    )),
]  # fmt: skip
STUBS = [
    {"arithmetic_intensity": zero_intensity, "step_time": zero_time},
    {"arithmetic_intensity": raises, "step_time": raises},
    {"arithmetic_intensity": nothing, "step_time": nothing},
]
