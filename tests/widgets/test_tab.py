"""The tab's connections: null is null on both sides, at any depth."""

from __future__ import annotations

import sys
from types import ModuleType

import comm
import pytest

from widgets import tab


class JsNull:
    """As Pyodide has it."""


class PyodideComm:
    """What pyodide_kernel.comm.Comm does, as far as a message is concerned."""

    def __init__(self) -> None:
        self.sent: list[tuple] = []
        self.came: list[dict] = []

    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
        self.sent.append((msg_type, data, metadata, buffers, keys))

    def handle_msg(self, msg):
        self.came.append(msg)


@pytest.fixture
def jsnull(monkeypatch) -> JsNull:
    """The two packages of a tab's kernel, as far as they are used."""
    null = JsNull()
    ffi, kernel_comm = ModuleType("pyodide.ffi"), ModuleType("pyodide_kernel.comm")
    ffi.jsnull, kernel_comm.Comm = null, PyodideComm
    for name, module in {
        "pyodide": ModuleType("pyodide"), "pyodide.ffi": ffi,
        "pyodide_kernel": ModuleType("pyodide_kernel"), "pyodide_kernel.comm": kernel_comm,
    }.items():  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(comm, "create_comm", comm.create_comm)
    return null


def test_outside_of_a_tab_nothing_is_installed(monkeypatch):
    before = comm.create_comm
    assert not tab.install()
    assert comm.create_comm is before


def test_none_leaves_as_null_and_null_comes_as_none(jsnull):
    assert tab.install()
    line = comm.create_comm()
    buffers = [b"frame"]
    line.publish_msg("comm_msg", {"state": {"answer": None, "rows": (1, [None])}}, None, buffers)
    [(kind, data, _, sent, _)] = line.sent
    assert kind == "comm_msg"
    assert data == {"state": {"answer": jsnull, "rows": [1, [jsnull]]}}
    assert sent is buffers
    line.handle_msg({"content": {"data": {"t": jsnull, "req": [jsnull, 0, "", False]}}})
    assert line.came == [{"content": {"data": {"t": None, "req": [None, 0, "", False]}}}]
