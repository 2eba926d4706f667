"""What a browser tab's kernel needs besides: null between widgets and page, both ways.

Pyodide turns None into JavaScript's undefined, and null into an object of its own (jsnull), so a
widget's "no answer yet" would not arrive as what it is. Installed by `import widgets` in a tab.
"""

from __future__ import annotations

from typing import Any


def replaced(value: Any, old: object, new: object) -> Any:
    """A message's data with `old` replaced by `new` at any depth; lists and tuples become lists."""
    if value is old:
        return new
    if isinstance(value, dict):
        return {key: replaced(each, old, new) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [replaced(each, old, new) for each in value]
    return value


def install() -> bool:
    """Make widgets' connections carry null; False outside of a tab's kernel."""
    try:
        import comm
        from pyodide.ffi import jsnull
        from pyodide_kernel.comm import Comm
    except ImportError:
        return False

    class TabComm(Comm):
        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys) -> None:
            data = replaced(data, None, jsnull)
            super().publish_msg(msg_type, data, metadata, buffers, **keys)

        def handle_msg(self, msg: dict) -> None:
            super().handle_msg(replaced(msg, jsnull, None))

    comm.create_comm = TabComm
    return True
