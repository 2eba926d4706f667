"""Text: chat template, incremental detokenisation and stop strings (fault cases C21–C24, C60)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as FastTokenizer

from minillm.model.tokenizer import IncrementalDetokenizer, StopChecker, Tokenizer

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_level_alphabet() -> list[str]:
    """GPT-2's stand-in character of each byte 0–255."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    stand_in = {b: chr(b) for b in printable} | {b: chr(256 + n) for n, b in enumerate(others)}
    return [stand_in[b] for b in range(256)]


def save(tokenizer: FastTokenizer, folder: Path, **settings: object) -> Tokenizer:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return Tokenizer(folder)


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Token id = byte, then some tokens of several bytes, then two special ones."""
    alphabet = byte_level_alphabet()
    pieces = [" quick", " brown", "own f", "ox", "é", "€"]
    names = ["".join(alphabet[b] for b in piece.encode()) for piece in pieces]
    # The tail of one character and the head of the next in one token.
    names += [alphabet[0x98] + alphabet[0x80] + alphabet[0xF0] + alphabet[0x9F]]
    tokenizer = FastTokenizer(
        models.BPE(vocab={t: i for i, t in enumerate(alphabet + names)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|im_start|>", "<|im_end|>"]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in specials])
    folder = tmp_path_factory.mktemp("byte_level")
    return save(
        tokenizer,
        folder,
        bos_token={"content": "<|im_start|>"},
        eos_token="<|im_end|>",
        chat_template=CHATML,
    )


@pytest.fixture(scope="module")
def sentencepiece_like(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Llama 2's kind: ▁ for blanks, a leading one stripped, bytes as <0xNN>."""
    words = ["<unk>", "▁", "▁the", "▁sky", "s", "▁is", ".", "é", "▁▁"]
    vocab = {t: i for i, t in enumerate(words + [f"<0x{b:02X}>" for b in range(256)])}
    tokenizer = FastTokenizer(
        models.BPE(vocab=vocab, merges=[], unk_token="<unk>", byte_fallback=True)
    )
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(content=" ", left=1)])
    return save(tokenizer, tmp_path_factory.mktemp("sentencepiece"))


def stream(tokenizer: Tokenizer, ids: list[int], **options: bool) -> list[str]:
    detokenizer = IncrementalDetokenizer(tokenizer, **options)
    return [detokenizer.push(token_id) for token_id in ids] + [detokenizer.finish()]


@given(data=st.data())
@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece_like"])
@pytest.mark.parametrize("skip_special_tokens", [True, False])
def test_deltas_of_any_ids_are_the_whole_text(
    kind: str, skip_special_tokens: bool, request: pytest.FixtureRequest, data: st.DataObject
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(kind)
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=40))
    deltas = stream(tokenizer, ids, skip_special_tokens=skip_special_tokens)
    assert "".join(deltas) == tokenizer.decode(ids, skip_special_tokens)


@given(text=st.text(max_size=30))
def test_bytes_of_any_text_come_out_without_replacement(byte_level: Tokenizer, text: str) -> None:
    deltas = stream(byte_level, list(text.encode()))
    assert "".join(deltas) == text
    assert all(("\ufffd" in delta) <= ("\ufffd" in text) for delta in deltas)


@given(text=st.text(min_size=1, max_size=10), cut=st.integers(1, 3))
def test_a_cut_off_tail_is_one_replacement(byte_level: Tokenizer, text: str, cut: int) -> None:
    text = text.replace("\ufffd", "") + "😀"
    deltas = stream(byte_level, list(text.encode())[:-cut])
    assert "".join(deltas) == text[:-1] + "\ufffd"
    assert not any("\ufffd" in delta for delta in deltas[:-1])


def test_an_emoji_in_two_tokens_comes_whole(byte_level: Tokenizer) -> None:
    assert stream(byte_level, [0xF0, 0x9F, 0x98, 0x80]) == ["", "", "", "😀", ""]
    assert stream(byte_level, [0xE2, 0x82, 0xAC]) == ["", "", "€", ""]
    assert stream(byte_level, [0x41, 0xF0, 0x9F]) == ["A", "", "", "\ufffd"]
    # Two emoji in three tokens, the middle one with a part of each.
    assert "".join(stream(byte_level, [0xF0, 0x9F, 262, 0x98, 0x80])) == "😀😀"


def test_the_prompt_joins_words_and_is_not_repeated(sentencepiece_like: Tokenizer) -> None:
    the, sky, plural = (sentencepiece_like.backend.token_to_id(t) for t in ("▁the", "▁sky", "s"))
    detokenizer = IncrementalDetokenizer(sentencepiece_like, prompt_ids=[the])
    assert [detokenizer.push(i) for i in (sky, plural)] == [" sky", "s"]
    assert detokenizer.finish() == ""


def test_a_prompt_may_end_inside_a_character(byte_level: Tokenizer) -> None:
    detokenizer = IncrementalDetokenizer(byte_level, prompt_ids=[0x41, 0xF0, 0x9F])
    assert detokenizer.push(0x98) + detokenizer.push(0x80) + detokenizer.finish() == "😀"


def test_a_decoder_that_changes_earlier_text_does_not_raise(tmp_path: Path) -> None:
    vocab = {"[UNK]": 0, "it": 1, "'": 2, "s": 3, "n": 4, "not": 5}
    fast = FastTokenizer(models.WordPiece(vocab=vocab, unk_token="[UNK]"))
    fast.decoder = decoders.WordPiece(cleanup=True)  # "it ' s" loses its blanks afterwards
    tokenizer = save(fast, tmp_path)
    assert "".join(stream(tokenizer, [1, 2, 3, 5])).startswith("it")


# Stop strings


def expected(text: str, stops: list[str], include: bool) -> tuple[str, bool]:
    """By the rule's wording: the match that ends first; of those, the longest."""
    matches = [(text.index(s) + len(s), text.index(s)) for s in stops if s in text]
    if not matches:
        return text, False
    end, start = min(matches)
    return text[: end if include else start], True


def run(checker: StopChecker, deltas: list[str]) -> tuple[list[str], bool]:
    out = []
    for delta in deltas:
        text, stopped = checker.push(delta)
        out.append(text)
        if stopped:
            return out, True
    return [*out, checker.flush()], False


@given(
    deltas=st.lists(st.text(alphabet="abc", max_size=4), max_size=12),
    stops=st.lists(st.text(alphabet="abc", min_size=1, max_size=5), max_size=3),
    include=st.booleans(),
)
def test_stops_cut_the_same_however_text_is_split(
    deltas: list[str], stops: list[str], include: bool
) -> None:
    out, stopped = run(StopChecker(stops, include), deltas)
    assert ("".join(out), stopped) == expected("".join(deltas), stops, include)


@given(
    deltas=st.lists(st.text(alphabet="ab", max_size=3), max_size=10),
    stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=6), min_size=1, max_size=3),
)
def test_only_true_heads_are_held(deltas: list[str], stops: list[str]) -> None:
    checker, given_text, read = StopChecker(stops), "", ""
    for delta in deltas:
        text, stopped = checker.push(delta)
        if stopped:
            return
        given_text, read = given_text + text, read + delta
        held = read[len(given_text) :]
        heads = {s[:n] for s in stops for n in range(1, len(s))}
        longest = max(
            (n for n in range(len(read) + 1) if read[len(read) - n :] in heads), default=0
        )
        assert len(held) == longest <= max(map(len, stops)) - 1


def test_a_stop_string_over_two_tokens(byte_level: Tokenizer) -> None:
    checker = StopChecker(["own fox"])
    assert run(checker, ["qu", "ick", "br", "own f", "ox"]) == (["qu", "ick", "br", "", ""], True)
    assert checker.matched == "own fox"
    assert checker.push("more") == ("", True)
    assert run(StopChecker(["own fox"]), ["br", "own f"]) == (["br", "", "own f"], False)
    assert run(StopChecker(["own fox"]), ["br", "own f", "ar"])[0] == ["br", "", "own far", ""]


@pytest.mark.parametrize("stop", ["text", [""], [3]])
def test_unusable_stops_are_refused(stop: object) -> None:
    with pytest.raises(ValueError, match="stop"):
        StopChecker(stop)  # type: ignore[arg-type]


# Tokenizer and chat


def test_specials_and_ids(byte_level: Tokenizer) -> None:
    assert byte_level.bos_token_id == 263
    assert byte_level.eos_token_ids == frozenset({264})
    assert byte_level.pad_token_id is None
    assert byte_level.encode("") == []
    assert byte_level.decode([72, 264, 105]) == "Hi"
    assert byte_level.decode([72, 264, 105], skip_special_tokens=False) == "H<|im_end|>i"


def test_chat(byte_level: Tokenizer) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert byte_level.render_chat(messages) == text
    ids = byte_level.apply_chat_template(messages)
    assert ids[0] == 263
    assert byte_level.decode(ids, skip_special_tokens=False) == text
    assert byte_level.render_chat(messages, add_generation_prompt=False).endswith("<|im_end|>\n")


@pytest.mark.parametrize(
    "messages", [[], [{}], [{"role": "user"}], ["hi"], [{"role": "u", "content": 1}]]
)
def test_unusable_messages_are_refused(byte_level: Tokenizer, messages: list) -> None:
    with pytest.raises(ValueError, match=r"^(A chat|Message 0) needs .*\.$"):
        byte_level.apply_chat_template(messages)


@pytest.mark.parametrize(
    "template",
    ["{{ raise_exception('only users') }}", "{{ messages[", "{{ ''.__class__.__mro__ }}"],
)
def test_templates_are_sandboxed_and_their_errors_are_sentences(
    byte_level: Tokenizer, template: str, tmp_path: Path
) -> None:
    save(byte_level.backend, tmp_path, chat_template="unused: the file beside counts")
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
    with pytest.raises(ValueError, match="chat template refuses"):
        Tokenizer(tmp_path).render_chat([{"role": "user", "content": "Hi"}])


def test_named_templates_and_none(byte_level: Tokenizer, tmp_path: Path) -> None:
    named = [{"name": "tools", "template": "T"}, {"name": "default", "template": "D"}]
    messages = [{"role": "user", "content": "Hi"}]
    assert (
        save(byte_level.backend, tmp_path / "a", chat_template=named).render_chat(messages) == "D"
    )
    with pytest.raises(ValueError, match="no chat template"):
        save(byte_level.backend, tmp_path / "b").render_chat(messages)


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no tokenizer\.json"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="can't be read as a tokenizer"):
        Tokenizer(tmp_path)


def test_fork_after_use_is_quiet_and_transformers_stays_out(
    byte_level: Tokenizer, tmp_path: Path
) -> None:
    save(byte_level.backend, tmp_path)
    code = (
        "import os, sys\n"
        "from minillm.model.tokenizer import Tokenizer\n"
        "t = Tokenizer(sys.argv[1])\n"
        "t.backend.encode_batch(['a b c'] * 64)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    t.backend.encode_batch(['a b c'] * 64); os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert not {'transformers', 'torch'} & set(sys.modules)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
