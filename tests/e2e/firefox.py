"""A page in the system's Firefox, over WebDriver BiDi: as much of it as the site's test needs.

Playwright drives a Firefox build of its own only; this drives the one that people have.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websocket import WebSocketTimeoutException, create_connection

START_LIMIT_S = 120.0
# Nothing but loopback is reachable: the rest goes to a proxy that isn't there.
PREFERENCES = {
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.no_proxies_on": "127.0.0.1",
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "network.proxy.type": 1,
    "remote.active-protocols": 1,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}


class Firefox:
    """One headless Firefox with one page; use as a context manager.

    console_errors, external_requests: what the page said and where it went.
    """

    def __init__(self, program: str, profile: Path) -> None:
        self.console_errors: list[str] = []
        self.external_requests: list[str] = []
        self._numbers = itertools.count(1)
        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in PREFERENCES.items()]
        (profile / "user.js").write_text("\n".join(lines), encoding="utf-8")
        self._log = profile / "firefox.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    program, "--headless", "--no-remote", "--profile", str(profile),
                    "--remote-debugging-port=0",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def __enter__(self) -> Firefox:
        try:
            self._socket = create_connection(
                f"{self._address()}/session", timeout=30, suppress_origin=True
            )
            self._call("session.new", capabilities={})
            self._call(
                "session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"]
            )
            made = self._call("browsingContext.create", type="tab")
            self.context = made["context"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if socket := getattr(self, "_socket", None):
            socket.close()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _address(self) -> str:
        deadline = time.monotonic() + START_LIMIT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            text = self._log.read_text(encoding="utf-8", errors="replace")
            if found := re.search(r"BiDi listening on (ws://\S+)", text):
                return found[1]
            time.sleep(0.1)
        log = self._log.read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"Firefox did not start:\n{log[-2000:]}")

    def goto(self, url: str) -> None:
        self._call("browsingContext.navigate", context=self.context, url=url, wait="none")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited, by way of JSON."""
        got = self._call(
            "script.evaluate",
            expression=f"Promise.resolve({expression}).then(JSON.stringify)",
            target={"context": self.context},
            awaitPromise=True,
        )
        if got["type"] == "exception":
            raise RuntimeError(got["exceptionDetails"]["text"])
        value = got["result"].get("value")
        return None if value is None else json.loads(value)

    def wait_for(self, expression: str, timeout_s: float) -> Any:
        """Ask until the expression is true; gives its value, TimeoutError after the limit."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                if value := self.evaluate(expression):
                    return value
            except RuntimeError:  # the page was on its way to the next one
                pass
            time.sleep(0.2)
        raise TimeoutError(f"not true after {timeout_s:.0f} s: {expression}")

    def screenshot(self, path: Path) -> None:
        got = self._call("browsingContext.captureScreenshot", context=self.context)
        path.write_bytes(base64.b64decode(got["data"]))

    def _call(self, method: str, timeout_s: float = 120.0, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        deadline = time.monotonic() + timeout_s
        while True:
            self._socket.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                message = json.loads(self._socket.recv())
            except WebSocketTimeoutException:
                raise TimeoutError(f"Firefox gave no answer to {method}") from None
            if message.get("type") == "event":
                self._note(message["method"], message["params"])
            elif message.get("id") == number:
                if message["type"] == "error":
                    raise RuntimeError(f"{method}: {message['message']}")
                return message["result"]

    def _note(self, event: str, what: dict[str, Any]) -> None:
        if event == "log.entryAdded" and what["level"] == "error":
            self.console_errors.append(what["text"] or "")
        if event == "network.beforeRequestSent":
            address = urlsplit(what["request"]["url"])
            if address.scheme in ("http", "https", "ws", "wss") and address.hostname != "127.0.0.1":
                self.external_requests.append(what["request"]["url"])
