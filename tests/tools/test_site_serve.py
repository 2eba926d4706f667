"""`make serve-site`: right types, loopback alone, the next free port, a clear sentence."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from tools.site import serve

ROOT = Path(__file__).resolve().parents[2]
TYPES = {
    "lab.js": "text/javascript",
    "pyodide.mjs": "text/javascript",
    "pyodide.asm.wasm": "application/wasm",
    "lock.json": "application/json",
    "05.ipynb": "application/json",
    "picture.svg": "image/svg+xml",
    "style.css": "text/css",
    "index.html": "text/html; charset=utf-8",
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name in TYPES:
        (tmp_path / name).write_text(name)
    return tmp_path


def test_every_file_has_the_type_that_a_browser_insists_on(site):
    server = serve.listen(site, 0)
    assert server.server_address[0] == "127.0.0.1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        with httpx.Client(base_url=base, trust_env=False, timeout=30) as client:
            for name, kind in TYPES.items():
                answer = client.get(f"/{name}")
                assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
            assert client.get("/").text == "index.html"
            assert client.get("/nothing").status_code == 404
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_taken_port_gives_the_next_one(site):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with serve.listen(site, port) as server:
            assert port < server.server_port < port + serve.PORTS_TRIED


def test_without_a_site_it_says_what_builds_one(tmp_path, capsys):
    assert serve.main(["--dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"There is no site in {tmp_path}; `make site` builds it.\n"


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_is_none_is_refused(port, capsys):
    with pytest.raises(SystemExit) as caught:
        serve.main(["--port", port])
    assert caught.value.code == 2
    assert port in capsys.readouterr().err


def test_it_prints_its_address_and_ends_with_ctrl_c(site):
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.site.serve", "--dir", str(site), "--port", "0"],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        address = line.split()[4]
        assert httpx.get(address, trust_env=False, timeout=30).text == "index.html"
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=30)[0]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert (process.returncode, rest) == (0, "\nStopped.\n")
