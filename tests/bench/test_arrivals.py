"""Send times: independent gaps of the right law, ramps, an absolute schedule (C48)."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from minillm.bench.arrivals import Ramp, parse_ramp, send_times


def gaps(times: list[float]) -> list[float]:
    return [b - a for a, b in pairwise([0.0, *times])]


def ks_p_value(values: list[float], rate: float) -> float:
    """Kolmogorov–Smirnov against the exponential law; the asymptotic p (Stephens 1970)."""
    n = len(values)
    ordered = [1 - math.exp(-rate * value) for value in sorted(values)]
    distance = max(max((i + 1) / n - u, u - i / n) for i, u in enumerate(ordered))
    x = (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)) * distance
    if x < 0.2:
        return 1.0
    return 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * x) ** 2) for k in range(1, 101))


def test_the_ks_test_itself_tells_other_laws_apart():
    even = send_times(400, 20.0, burstiness=math.inf)
    assert ks_p_value(gaps(even), 20.0) < 1e-6
    assert ks_p_value([-math.log(1 - (i + 0.5) / 400) / 20 for i in range(400)], 20.0) > 0.99


@pytest.mark.parametrize("seed", range(8))
def test_poisson_gaps_are_distinct_and_exponential(seed: int):
    """Workers that seed their generators alike give every gap several times: 28.9/s for 20/s."""
    times = send_times(100, 20.0, seed=seed)
    between = gaps(times)[1:]
    assert len(set(between)) == len(times) - 1
    assert abs(fmean(between) * 20.0 - 1) < 3 / math.sqrt(len(between))
    assert ks_p_value(between, 20.0) > 0.01


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_burstiness_is_the_gamma_laws_shape(burstiness: float):
    between = gaps(send_times(20_000, 10.0, burstiness=burstiness, seed=3))
    assert fmean(between) == pytest.approx(0.1, rel=0.06)
    assert pstdev(between) / fmean(between) == pytest.approx(burstiness**-0.5, rel=0.06)


def test_infinite_burstiness_is_an_even_beat_and_no_rate_is_at_once():
    assert send_times(4, 2.0, burstiness=math.inf) == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert send_times(3, None) == [0.0, 0.0, 0.0]


def test_the_seed_alone_decides():
    assert send_times(50, 5.0, seed=1) == send_times(50, 5.0, seed=1)
    assert send_times(50, 5.0, seed=1) != send_times(50, 5.0, seed=2)


def test_a_ramp_reaches_its_rates():
    ramp = Ramp(2.0, 10.0, 20.0)  # 120 requests in the ramp, then 10 a second
    assert ramp.when(120) == pytest.approx(20.0)
    assert ramp.when(130) == pytest.approx(21.0)
    for start, end in ((2.0, 10.0), (0.0, 5.0), (10.0, 2.0), (4.0, 4.0)):
        ramp = Ramp(start, end, 20.0)
        for when in (0.0, 1.0, 7.5, 19.9):
            due = start * when + (end - start) * when**2 / 40
            assert ramp.when(due) == pytest.approx(when, abs=1e-9)


def test_a_ramps_arrivals_follow_it():
    times = send_times(6_000, Ramp(0.0, 100.0, 100.0), seed=5)
    early = sum(t < 50 for t in times)
    within = sum(t < 100 for t in times)
    assert early == pytest.approx(1_250, rel=0.15)
    assert within == pytest.approx(5_000, rel=0.1)


@pytest.mark.parametrize("text", ["", "1:2", "a:b:c", "-1:2:3", "1:0:3", "1:2:0", "1:inf:3"])
def test_a_wrong_ramp_is_refused_in_a_sentence(text: str):
    with pytest.raises(ValueError, match=r"\.$"):
        parse_ramp(text)


@pytest.mark.parametrize("burstiness", [0.0, -1.0, math.nan])
def test_a_wrong_burstiness_is_refused(burstiness: float):
    with pytest.raises(ValueError, match="burstiness"):
        send_times(3, 1.0, burstiness=burstiness)
