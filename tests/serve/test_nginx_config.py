"""nginx's configuration: what each setting puts there, and that nginx itself takes it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minillm.serve import nginx
from minillm.serve.nginx import ROUTERS, Upstream, find_nginx, write_config
from minillm.serve.server import KEEP_ALIVE_S
from minillm.serve.service import ServerSettings
from minillm.sim.routers import ROUTERS as SIMULATED
from tests.capabilities import find_program

METHODS = {
    "nginx": "least_conn;",
    "least_conn": "least_conn;",
    "round_robin": None,
    "random": "random;",
    "power_of_two": "random two least_conn;",
    "hash": "hash $affinity consistent;",
}


def upstream_block(text: str) -> list[str]:
    """The directives of `upstream`, without comments."""
    (block,) = re.findall(r"upstream replicas \{\n(.*?)\n    \}", text, re.DOTALL)
    return [line.split("  #")[0].strip() for line in block.splitlines()]


@pytest.mark.parametrize("router", ROUTERS)
def test_each_router_is_a_method_of_nginx(router: str):
    lines = upstream_block(Upstream((8001, 8002), router).config(8000))
    method = METHODS[router]
    assert lines[0] == "zone replicas 128k;"
    assert lines[1 : 1 + (method is not None)] == ([method] if method else [])
    assert lines[-3:] == [
        "server 127.0.0.1:8001 max_fails=1 fail_timeout=2s;",
        "server 127.0.0.1:8002 max_fails=1 fail_timeout=2s;",
        "keepalive 32;",  # after the method, as nginx wants it
    ]


def test_a_router_here_is_the_simulators_of_that_name_or_nginx_alone_has_it():
    assert set(ROUTERS) - set(SIMULATED) == {"nginx", "hash"}
    assert set(SIMULATED) - set(ROUTERS) == set(nginx.NEED_PROMPTS)


@settings(max_examples=25, deadline=None)
@given(
    ports=st.lists(st.integers(1, 65535), min_size=1, max_size=20, unique=True),
    router=st.sampled_from(sorted(ROUTERS)),
    workers=st.integers(1, 8),
    zone=st.booleans(),
    data=st.data(),
)
def test_who_is_named_gets_requests(ports, router, workers, zone, data):
    out = data.draw(st.sets(st.integers(0, len(ports) - 1), max_size=len(ports) - 1))
    text = Upstream(tuple(ports), router, workers, zone, frozenset(out)).config(8000)
    servers = [line for line in upstream_block(text) if line.startswith("server ")]
    assert [int(re.search(r":(\d+)", line)[1]) for line in servers] == ports
    assert {i for i, line in enumerate(servers) if line.endswith(" down;")} == out
    assert ("zone replicas" in text) == zone
    assert f"worker_processes {workers};" in text


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("zone", [True, False])
def test_nginx_takes_it(tmp_path: Path, router: str, zone: bool):
    program = find_program("nginx", "nginx")
    folder = tmp_path / "a folder"  # with a space
    folder.mkdir()
    text = Upstream((8001, 8002, 8003), router, 4, zone, frozenset({1})).config(8000)
    write_config(program, folder, text)
    assert (folder / "nginx.conf").read_text() == text


def test_what_nginx_refuses_is_said_and_the_old_configuration_stays(tmp_path: Path):
    program = find_program("nginx", "nginx")
    good = Upstream((8001,)).config(8000)
    write_config(program, tmp_path, good)
    with pytest.raises(ValueError, match=r"unknown directive \"nonsense\""):
        write_config(program, tmp_path, good.replace("gzip off", "nonsense on"))
    assert (tmp_path / "nginx.conf").read_text() == good


def test_it_stays_in_its_folder_and_on_the_loopback_interface():
    text = Upstream((8001, 8002), "hash").config(8000)
    code = "\n".join(line.split("# ")[0] for line in text.splitlines())
    paths = re.findall(r"^\s*(?:pid|error_log|\w+_temp_path|include) (\S+?);?(?: |$)", code, re.M)
    assert len(paths) == 7
    assert not any(path.startswith(("/", "..")) for path in paths)
    assert re.findall(r"listen (\S+);", code) == ["127.0.0.1:8000"]
    assert set(re.findall(r"server (\S+?):\d", code)) == {"127.0.0.1"}


def test_its_limits_are_the_servers():
    text = Upstream((8001,)).config(8000)
    assert f"client_max_body_size {ServerSettings().max_body_bytes >> 10}k;" in text
    assert Upstream((8001,)).max_body_bytes == ServerSettings().max_body_bytes
    assert KEEP_ALIVE_S > 60  # nginx's own for idle connections to a replica
    assert "non_idempotent;" not in text
    bodies = re.findall(r"return (\d+) '(.*)';", text)
    assert [int(status) for status, _ in bodies] == [404, 413, 502]
    for _, body in bodies:
        assert list(json.loads(body)["error"]) == ["message", "type", "param", "code"]


def test_a_value_that_is_missing_in_the_template_is_an_error():
    text = Path(nginx.__file__).with_name("nginx.conf.jinja").read_text()
    with pytest.raises(jinja2.UndefinedError):
        jinja2.Template(text, undefined=jinja2.StrictUndefined).render()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"router": "prefix_aware"}, "reads no prompts"),
        ({"router": "fastest"}, "Unknown router 'fastest'"),
        ({"workers": 0}, "1 to 64 workers, got 0"),
        ({"workers": 65}, "got 65"),
        ({"ports": ()}, "at least 1 replica"),
    ],
)
def test_what_cannot_be_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        Upstream(**{"ports": (8001,), **settings})


def test_without_nginx_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(nginx.os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match=r"nginx-light.*brew.*conda-forge") as caught:
        find_nginx()
    assert str(caught.value).count(". ") == 0  # one sentence
