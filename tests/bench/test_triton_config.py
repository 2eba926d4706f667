"""Triton's config.pbtxt as far as it is about batching: read, refused, and run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minillm.bench.triton_config import TritonBatching, parse_text_format, parse_triton
from minillm.core import SchedulerConfig

WHOLE_FILE = """
# a comment with { brackets }
name: "classifier"   platform: 'onnxruntime_onnx'
max_batch_size: 8
input [
  { name: "INPUT" data_type: TYPE_FP32 dims: [ 3, -1 ] },
  { name: "MASK", data_type: TYPE_BOOL, dims: 1; }
]
instance_group [ { count: 1 kind: KIND_GPU } ]
dynamic_batching {
  preferred_batch_size: [ 8, 4 ]
  max_queue_delay_microseconds: 50000
  preserve_ordering: true
  default_queue_policy { timeout_action: REJECT max_queue_size: 6 }
}
parameters { key: "weight" value: { string_value: "0.5 # no comment" } }
"""


def test_a_whole_file_is_read():
    found = parse_triton(WHOLE_FILE)
    assert found == TritonBatching(8, (4, 8), 50_000, ("preserve_ordering", "default_queue_policy"))
    config = SchedulerConfig(**found.settings)
    assert (config.max_num_seqs, config.preferred_batch_sizes) == (8, (4, 8))
    assert config.max_queue_delay_s == 0.05


def test_the_rest_of_the_file_is_read_and_left_alone():
    fields = parse_text_format(WHOLE_FILE)
    assert fields["name"] == ["classifier"]
    assert fields["input"][0]["dims"] == [3, -1]
    assert fields["input"][1] == {"name": ["MASK"], "data_type": ["TYPE_BOOL"], "dims": [1]}
    assert fields["parameters"][0]["value"] == [{"string_value": ["0.5 # no comment"]}]


@pytest.mark.parametrize(
    "text",
    [
        "max_batch_size: 4 dynamic_batching { }",
        "max_batch_size: 4, dynamic_batching: { }",
        "dynamic_batching{}max_batch_size:4",
    ],
)
def test_all_defaults_means_no_delay_and_no_preferred_sizes(text):
    assert parse_triton(text) == TritonBatching(4)


def test_repeated_fields_add_up():
    text = "max_batch_size: 8 dynamic_batching { preferred_batch_size: 2 preferred_batch_size: 6 }"
    assert parse_triton(text).preferred_batch_size == (2, 6)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"There is no dynamic_batching \{ … \} in it \(found: nothing\)"),
        ("max_batch_size: 8 dynamic_batchng {}", "found: max_batch_size, dynamic_batchng"),
        ("dynamic_batching {}", "needs max_batch_size ≥ 1, got 0"),
        ("max_batch_size: 0 dynamic_batching {}", "got 0: 0 means no batching"),
        ("max_batch_size: 8 max_batch_size: 4 dynamic_batching {}", "is given 2 times"),
        ("max_batch_size: 8 dynamic_batching: 3", "is a message: write dynamic_batching"),
        ("max_batch_size: -1 dynamic_batching {}", "max_batch_size must be a whole number ≥ 0"),
        ("max_batch_size: true dynamic_batching {}", "must be a whole number ≥ 0, got True"),
        ("max_batch_size: 8x dynamic_batching {}", "must be a whole number ≥ 0, got '8x'"),
        ("max_batch_size: 8 dynamic_batching { preferred_batch_size: [16] }", "must be 1 to 8"),
        ("max_batch_size: 8 dynamic_batching { preferred_batch_size: 0 }", "must be 1 to 8"),
        ("max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 1.5 }", "got 1.5"),
        ("max_batch_size: 8 dynamic_batching { max_queue_delay_ms: 50 }", "has no field"),
        ("max_batch_size: 8 dynamic_batching {", "Line 1 of the config: .* got the end"),
        ("max_batch_size: 8\ndynamic_batching }", "Line 2 of the config: expected ':' or '{'"),
        ("max_batch_size 8", "Line 1 of the config: expected ':' or '{', got '8'"),
        ("max_batch_size: [1 2]", "expected ',' or ']'"),
        ("max_batch_size: }", "expected a value, got '}'"),
        ("\n\n  @", "Line 3 of the config cannot be read at '@'"),
        ('name: "open', "Line 1 of the config cannot be read at"),
        ("a {" * 200, "nested more than 32 deep"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_triton(text)


@given(
    st.integers(1, 500).flatmap(
        lambda size: st.builds(
            TritonBatching,
            st.just(size),
            st.sets(st.integers(1, size), max_size=4).map(lambda sizes: tuple(sorted(sizes))),
            st.integers(0, 10**7),
        )
    )
)
def test_what_it_writes_it_reads(batching):
    assert parse_triton(batching.text) == batching


@given(st.text(alphabet='ab:{}[],;# "\n019-.', max_size=60))
def test_no_text_ends_in_anything_but_a_sentence(text):
    said = ""
    try:
        parse_triton(text)
    except ValueError as error:
        said = str(error)
    assert "\n" not in said
