"""Files in parts, to the kernel and to the page."""

from __future__ import annotations

import gzip
import random

import pytest

from widgets.replay.files import KEEP, PART, Downloads, Upload

NOISE = random.Random(7).randbytes(3 * PART - 5000)  # does not shrink when packed


def test_an_upload_comes_whole_whatever_its_parts():
    upload = Upload()
    upload.begin(3, "run.jsonl", len(NOISE))
    assert upload.add(3, NOISE[:PART]) is None
    assert upload.add(4, b"of another file") is None
    assert upload.add(3, NOISE[PART : 2 * PART]) is None
    assert upload.add(3, NOISE[2 * PART :]) == ("run.jsonl", NOISE)
    assert upload.add(3, b"more") is None


def test_a_new_upload_replaces_one_that_was_not_ended():
    upload = Upload()
    upload.begin(1, "a", 10)
    upload.add(1, b"12345")
    upload.begin(2, "b", 3)
    assert upload.add(1, b"67890") is None
    assert upload.add(2, b"xyz") == ("b", b"xyz")


@pytest.mark.parametrize("size", [0, -1, 2**40])
def test_a_file_of_a_size_that_cannot_be_is_refused(size):
    with pytest.raises(ValueError, match=r"run has .* MB; a file of up to 32 MB can be opened"):
        Upload().begin(1, "run", size)


@pytest.mark.parametrize("odd", [(None, "a", 1), (1, None, 1), (1, "a", "1")])
def test_an_odd_announcement_is_refused(odd):
    with pytest.raises(ValueError, match="no file that can be taken"):
        Upload().begin(*odd)


def test_a_download_in_parts_is_the_file():
    downloads = Downloads()
    said = downloads.offer("a.csv", "text/csv", NOISE)
    assert (said["kind"], said["name"], said["mime"]) == ("file", "a.csv", "text/csv")
    assert said["parts"] == 3
    parts = [downloads.part(said["number"], i) for i in range(said["parts"])]
    assert all(len(data) <= PART for _, data in parts)
    assert gzip.decompress(b"".join(data for _, data in parts)) == NOISE
    for odd in (
        (said["number"], 3),
        (said["number"], -1),
        (said["number"], "0"),
        (99, 0),
        (None, 0),
    ):
        assert downloads.part(*odd) is None


def test_the_newest_downloads_are_kept():
    downloads = Downloads()
    numbers = [downloads.offer(f"{i}", "text/csv", b"x")["number"] for i in range(KEEP + 2)]
    kept = [downloads.part(number, 0) is not None for number in numbers]
    assert kept == [False, False] + [True] * KEEP
