"""Form fields: what may be asked for, and what a browser may answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widgets.dashboard import fields

POLICY = fields.choice("policy", "Policy", ("static", "continuous"))
RATE = fields.slider("rate", "Arrivals a second", (0, 0.5, 1, 2))
PROMPT = fields.text("prompt", "Prompt", most=10)
ALL = [POLICY, RATE, PROMPT, fields.buttons("go", ("run", "Run"), ("stop", "Stop"))]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=5,
)


def test_options_have_words():
    assert POLICY["options"] == [["static", "static"], ["continuous", "continuous"]]
    assert RATE["options"][1] == [0.5, "0.5"]
    assert fields.slider("n", "N", (1000,), "tokens")["options"] == [[1000, "1,000 tokens"]]


def test_a_field_without_options_is_refused():
    with pytest.raises(ValueError, match="'gpu' needs at least one option"):
        fields.select("gpu", "GPU", ())


@pytest.mark.parametrize(
    ("field", "fine", "not_fine"),
    [
        (POLICY, ["static"], ["Static", None, 0, ["static"]]),
        (RATE, [0, 0.5, 2], [3, True, "1", None, float("nan")]),
        (PROMPT, ["", "ten letter"], ["eleven char", None, 3]),
        (ALL[3], [], ["run", True]),
    ],
)
def test_a_browser_is_not_believed(field, fine, not_fine):
    assert all(fields.is_fine(field, value) for value in fine)
    assert not any(fields.is_fine(field, value) for value in not_fine)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["policy", "rate", "prompt", "go", "other"]), JSON) | JSON)
def test_only_fine_changes_come_through(sent):
    before = {"policy": "static", "rate": 1, "prompt": ""}
    found = fields.changed(ALL, before, sent)
    by_name = {field["name"]: field for field in ALL}
    for name, value in found.items():
        assert fields.is_fine(by_name[name], value)
        assert value != before[name]


def test_buttons_have_names():
    assert fields.press_names(ALL) == {"run", "stop"}
