"""Behind any nginx, one that buffers and packs too, a stream comes token by token (C52)."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from tests.capabilities import find_program
from tests.serve.conftest import wait_for

CONFIG = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{}}
http {{
  access_log off; proxy_buffering {buffering};
  gzip {gzip}; gzip_types text/event-stream; gzip_min_length 0;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {url}; }} }}
}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("gzip", ["off", "on"])
@pytest.mark.parametrize("buffering", ["off", "on"])
def test_a_stream_is_not_held_back(serve, tmp_path: Path, buffering: str, gzip: str):
    nginx = find_program("nginx", "nginx")
    served = serve(step_s=0.03)
    port = free_port()
    config = tmp_path / "nginx.conf"
    config.write_text(
        CONFIG.format(folder=tmp_path, port=port, url=served.url, buffering=buffering, gzip=gzip)
    )
    server = subprocess.Popen([nginx, "-p", str(tmp_path), "-c", str(config)])
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: answers(url), "nginx is up")
        body = {"prompt": "a", "max_tokens": 20, "stream": True}
        start = time.perf_counter()
        times = []
        with httpx.stream("POST", f"{url}/v1/completions", json=body) as answer:
            assert answer.headers.get("content-encoding") == ("gzip" if gzip == "on" else None)
            for part in answer.iter_bytes():
                times += [time.perf_counter() - start] * part.count(b'"text"')
        assert len(times) == 20
        assert times[-1] - times[0] > 0.4  # of 0.57 s
        assert len({round(t, 3) for t in times}) >= 10
    finally:
        server.terminate()
        server.wait(10)
        shutil.rmtree(tmp_path, ignore_errors=True)
