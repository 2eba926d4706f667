"""Drive the real dashboard in a browser: `make dashboard`'s own script, on free ports."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from playwright.sync_api import ConsoleMessage, Page

REPOSITORY = Path(__file__).resolve().parent.parent.parent
START_LIMIT_S = 120.0
STOP_LIMIT_S = 30.0
# Voila's own bundle against JupyterLab's newer extensions: nothing that the page does.
NOT_OURS = ("shared singleton module", "shared module", "Federation Runtime")


class DashboardServer:
    """tools/dashboard.py as a child process. url: of the page."""

    def __init__(self, *flags: str) -> None:
        environment = dict(os.environ, MINILLM_BROWSER="0", PYTHONUNBUFFERED="1")
        self.process = subprocess.Popen(
            [sys.executable, str(REPOSITORY / "tools" / "dashboard.py"), "--port", "0", *flags],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        self.url = self._wait_for_address()

    def _read(self) -> None:
        self.lines += iter(self.process.stdout.readline, "")

    def _wait_for_address(self) -> str:
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(r"http://127\.0\.0\.1:\d+/", "".join(self.lines))
            if found:
                return found[0]
            time.sleep(0.1)
        self.stop()
        raise RuntimeError("The dashboard did not start:\n" + "".join(self.lines))

    def children(self) -> list[psutil.Process]:
        """Everything that it has started, kernels too."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def find(self, *words: str) -> list[psutil.Process]:
        """Its processes that have all these words on their command lines."""
        found = []
        for process in self.children():
            try:
                line = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if all(word in line for word in words):
                found.append(process)
        return found

    def kernels(self) -> list[psutil.Process]:
        """All of them: those of pages and those that wait for one."""
        return self.find("ipykernel_launcher")

    def kernel_of(self, page: Page) -> psutil.Process:
        """The kernel behind a page."""
        config = page.locator("#jupyter-config-data").inner_text()
        (kernel,) = self.find("ipykernel_launcher", json.loads(config)["kernelId"])
        return kernel

    def interrupt(self) -> int:
        """Ctrl-C, and the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(STOP_LIMIT_S)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Visitor:
    """One page on the dashboard, and what its console and network said."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.errors: list[str] = []
        self.external: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._on_request(request.url))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(each in message.text for each in NOT_OURS):
            self.errors.append(message.text)

    def _on_request(self, url: str) -> None:
        address = urlsplit(url)
        if address.scheme not in ("data", "blob") and address.hostname != "127.0.0.1":
            self.external.append(url)

    def open(self, theme: str = "light", limit_s: float = 150.0) -> float:
        """Go there and wait until the engine is shown; seconds that it took."""
        begun = time.monotonic()
        self.page.goto(f"{self.url}?colours={theme}", timeout=limit_s * 1000)
        self.page.locator(".mld-origin b").wait_for(timeout=limit_s * 1000)
        return time.monotonic() - begun

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def wait(self, expression: str, arg: object = None, limit_s: float = 30.0) -> None:
        """Until a JavaScript function gives something true."""
        self.page.wait_for_function(expression, arg=arg, timeout=limit_s * 1000)

    def check_clean(self) -> None:
        """No request left this machine, and the console has no error of ours."""
        said = [*(f"external: {url}" for url in self.external), *self.errors]
        if said:
            raise AssertionError("\n".join(said))
