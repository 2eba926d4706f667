"""What the site downloads: the lock, the cache, and the sentence that a broken file gives."""

from __future__ import annotations

import hashlib
import http.server
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tools.site import fetch
from tools.site.errors import SiteError

WHEEL = "psygnal-0.14.1-py3-none-any.whl"
TARBALL = "pyodide-314.0.6.tgz"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def lock(folder: Path, *lines: str) -> Path:
    path = folder / "downloads.lock"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_lock_names_pyodide_once_and_only_pure_wheels():
    pins = fetch.read_lock()
    assert [name for name in pins if name.endswith(".tgz")] == [TARBALL]
    wheels = [name for name in pins if name.endswith(".whl")]
    names = {fetch.requirement(wheel).split("==")[0] for wheel in wheels}
    assert {"anywidget", "ipywidgets", "ipython", "micropip"} <= names
    assert len(names) == len(wheels)  # one version each
    assert list(pins) == sorted(pins)


def test_comments_and_empty_lines_of_a_lock_are_skipped(tmp_path):
    path = lock(tmp_path, "# a comment", "", f"{'a' * 64}  {WHEEL}", f"{'b' * 64}  {TARBALL}")
    assert fetch.read_lock(path) == {WHEEL: "a" * 64, TARBALL: "b" * 64}


@pytest.mark.parametrize(
    "line",
    [
        f"{'a' * 63}  {WHEEL}",
        f"{'a' * 64} {WHEEL}",
        f"{'a' * 64}  ../{WHEEL}",
        f"{'a' * 64}  psygnal-0.14.1-cp311-cp311-linux_x86_64.whl",
        f"{'a' * 64}  setup.py",
        WHEEL,
    ],
)
def test_a_line_that_pins_nothing_is_named_with_its_number(tmp_path, line):
    with pytest.raises(SiteError, match=r"downloads\.lock, line 2: expected 64 hexadecimal"):
        fetch.read_lock(lock(tmp_path, "# first", line))


def test_a_file_that_is_there_twice_is_refused(tmp_path):
    with pytest.raises(SiteError, match=r"line 2: .* is there twice"):
        fetch.read_lock(lock(tmp_path, f"{'a' * 64}  {WHEEL}", f"{'b' * 64}  {WHEEL}"))


def test_what_is_whole_in_the_cache_is_not_fetched_again(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "_pip_download", lambda *_: pytest.fail("it is there"))
    (tmp_path / WHEEL).write_bytes(b"whole")
    assert fetch.fetch({WHEEL: digest(b"whole")}, tmp_path, Path(sys.executable)) == [
        tmp_path / WHEEL
    ]


def serve_wheels(monkeypatch, content: bytes) -> list[list[str]]:
    """Stand in for pip: each wheel that is asked for has this content. Gives what was asked."""
    asked: list[list[str]] = []

    def download(wheels: list[str], folder: Path, python: Path) -> str:
        asked.append(wheels)
        for wheel in wheels:
            (folder / wheel).write_bytes(content)
        return "https://index.example/simple"

    monkeypatch.setattr(fetch, "_pip_download", download)
    return asked


def test_a_broken_download_says_which_file_from_where_and_both_hashes(tmp_path, monkeypatch):
    serve_wheels(monkeypatch, b"half of i")
    expected, got = digest(b"half of it"), digest(b"half of i")
    with pytest.raises(SiteError) as caught:
        fetch.fetch({WHEEL: expected}, tmp_path, Path(sys.executable))
    assert str(caught.value) == (
        f"{WHEEL} from https://index.example/simple is not the file in downloads.lock: "
        f"expected SHA-256 {expected}, got {got} (9 bytes)."
    )
    assert list(tmp_path.iterdir()) == []  # nothing of it is kept


def test_a_damaged_file_in_the_cache_is_fetched_again_and_only_that(tmp_path, monkeypatch):
    asked = serve_wheels(monkeypatch, b"whole")
    other = "comm-0.2.3-py3-none-any.whl"
    (tmp_path / WHEEL).write_bytes(b"who")
    (tmp_path / other).write_bytes(b"whole")
    pins = {WHEEL: digest(b"whole"), other: digest(b"whole")}
    files = fetch.fetch(pins, tmp_path, Path(sys.executable))
    assert [path.read_bytes() for path in files] == [b"whole", b"whole"]
    assert asked == [[WHEEL]]


def test_a_source_that_gives_another_file_is_named_with_what_it_gave(tmp_path, monkeypatch):
    def download(wheels: list[str], folder: Path, python: Path) -> str:
        (folder / "psygnal-0.15.0-py3-none-any.whl").write_bytes(b"")
        return "the index"

    monkeypatch.setattr(fetch, "_pip_download", download)
    with pytest.raises(SiteError, match=r"index did not give psygnal-0\.14.*gave psygnal-0\.15"):
        fetch.fetch({WHEEL: "a" * 64}, tmp_path, Path(sys.executable))


def test_pips_own_reason_is_in_the_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(SiteError, match=r"^http://127\.0\.0\.1:9/simple did not give .*psygnal"):
        fetch.fetch({WHEEL: "a" * 64}, tmp_path, Path(sys.executable))


@pytest.mark.parametrize("name", ["psygnal.whl", "psygnal-0.14-cp311-none-any.whl", "../x.whl"])
def test_a_name_that_is_no_pure_wheel_is_refused(name):
    with pytest.raises(SiteError, match="not the name of a pure wheel"):
        fetch.requirement(name)


# ── npm ─────────────────────────────────────────────────────────────────────────────────────────


def without_npm(monkeypatch) -> None:
    monkeypatch.setattr(fetch.shutil, "which", lambda name: None)


@pytest.fixture
def registry(monkeypatch):
    """A registry on loopback that has the tarball, and no npm on the PATH."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            there = self.path == f"/mirror/pyodide/-/{TARBALL}"
            self.send_response(200 if there else 404)
            self.end_headers()
            self.wfile.write(b"the tarball" if there else b"")

        def log_message(self, *arguments: object) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    without_npm(monkeypatch)
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_without_npm_the_tarball_comes_from_the_registry(tmp_path, monkeypatch, registry):
    monkeypatch.setenv("npm_config_registry", f"{registry}mirror")
    files = fetch.fetch({TARBALL: digest(b"the tarball")}, tmp_path, Path(sys.executable))
    assert files[0].read_bytes() == b"the tarball"


def test_a_registry_without_the_tarball_is_named_with_its_answer(tmp_path, monkeypatch, registry):
    monkeypatch.setenv("npm_config_registry", registry)
    with pytest.raises(SiteError, match=rf"{TARBALL} could not be fetched from {registry}.*404"):
        fetch.fetch({TARBALL: "a" * 64}, tmp_path, Path(sys.executable))


def test_the_registry_is_the_environments_then_npmrcs_then_npms_own(tmp_path, monkeypatch):
    monkeypatch.delenv("npm_config_registry", raising=False)
    monkeypatch.delenv("NPM_CONFIG_REGISTRY", raising=False)
    assert fetch.npm_registry(tmp_path) == fetch.NPM_DEFAULT
    (tmp_path / ".npmrc").write_text("fund=false\nregistry = http://mirror.example/npm\n")
    assert fetch.npm_registry(tmp_path) == "http://mirror.example/npm/"
    monkeypatch.setenv("npm_config_registry", "http://other.example")
    assert fetch.npm_registry(tmp_path) == "http://other.example/"


def test_npms_reason_is_in_the_sentence(tmp_path, monkeypatch):
    npm = tmp_path / "npm"
    npm.write_text(
        '#!/bin/sh\n[ "$1" = config ] && echo http://mirror.example/ && exit 0\n'
        'echo "npm error code E404" >&2\necho "npm error 404 Not Found" >&2\nexit 1\n'
    )
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(fetch.shutil, "which", lambda name: str(npm))
    with pytest.raises(SiteError, match=r"mirror\.example/ did not give pyodide@314\.0\.6: 404"):
        fetch.fetch({TARBALL: "a" * 64}, tmp_path / "cache", Path(sys.executable))


def test_the_build_ends_with_one_sentence_and_exit_code_1(tmp_path):
    code = (
        "import runpy, sys\n"
        "from tools.site import environment, errors\n"
        "def broken(folder): raise errors.SiteError('pyodide is not there.')\n"
        "environment.make_environment = broken\n"
        "sys.argv = ['tools.site']\n"
        "runpy.run_module('tools.site', run_name='__main__')\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "pyodide is not there.\n")
