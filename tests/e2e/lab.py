"""Drive JupyterLab in a real browser: start a server, open a notebook, run it, read what came.

`LabServer` runs JupyterLab on a free loopback port with every folder of its own (root, settings,
workspaces, runtime), so that nothing of the person's machine leaks into a test. `LabPage` wraps a
Playwright page and keeps the console errors and the requests that left this machine.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from playwright.sync_api import ConsoleMessage, Page, Request

from tools.lab import QUIET_OPTIONS

REPOSITORY = Path(__file__).resolve().parent.parent.parent
START_LIMIT_S = 120.0

# The browser never gets off this machine: every name but loopback fails to resolve.
CHROMIUM_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

OPEN_AND_READY = """path => {
    const app = window.jupyterapp;
    const panel = app && app.shell.currentWidget;
    const kernel = panel?.sessionContext?.session?.kernel;
    return !!(panel?.context?.path === path && panel.context.isReady && kernel?.status === 'idle');
}"""

RUN_ALL = """() => {
    window.minillmRun = {done: false, error: null};
    const finish = error => { window.minillmRun = {done: true, error}; };
    void window.jupyterapp.commands.execute('notebook:run-all-cells')
        .then(() => finish(null), error => finish(String(error)));
}"""


@dataclass(slots=True)
class LabServer:
    """A running JupyterLab: its address, token and root folder."""

    root: Path
    state: Path  # settings, runtime files, log
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    url: str = ""  # http://127.0.0.1:<port>
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait until it listens; RuntimeError with its log otherwise."""
        environment = dict(os.environ, JUPYTER_TOKEN=self.token, MINILLM_TEST="1")
        for name in ("CONFIG", "DATA", "RUNTIME"):
            environment[f"JUPYTER_{name}_DIR"] = str(self.state / name.lower())
        environment["JUPYTERLAB_SETTINGS_DIR"] = str(self.state / "settings")
        environment["JUPYTERLAB_WORKSPACES_DIR"] = str(self.state / "workspaces")
        environment["IPYTHONDIR"] = str(self.state / "ipython")
        environment["PYTHONPATH"] = str(REPOSITORY)
        command = [
            sys.executable, "-m", "jupyterlab",
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port=0",
            "--ServerApp.open_browser=False",
            "--ServerApp.allow_root=True",
            f"--ServerApp.root_dir={self.root}",
            *QUIET_OPTIONS,
            "--LabApp.expose_app_in_browser=True",
        ]  # fmt: skip
        with open(self.state / "jupyterlab.log", "wb") as log:
            self.process = subprocess.Popen(
                command, cwd=self.root, env=environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        info = self.state / "runtime" / f"jpserver-{self.process.pid}.json"
        deadline = time.monotonic() + START_LIMIT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                self.url = json.loads(info.read_text(encoding="utf-8"))["url"].rstrip("/")
                return
            except (OSError, ValueError):
                time.sleep(0.1)
        self.stop()
        raise RuntimeError(f"JupyterLab did not start:\n{self.log()[-3000:]}")

    def shut_down_kernels(self) -> None:
        """End every kernel, so that the next test starts with free memory."""
        headers = {"Authorization": f"token {self.token}"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False) as api:
            for session in api.get("/api/sessions").raise_for_status().json():
                api.delete(f"/api/sessions/{session['id']}")

    def log(self) -> str:
        return (self.state / "jupyterlab.log").read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """End the server; it ends its kernels."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class LabPage:
    """One browser page on a LabServer; `.page` is the Playwright page."""

    def __init__(self, page: Page, lab: LabServer) -> None:
        self.page, self.lab = page, lab
        self.console_errors: list[str] = []
        self.external_requests: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.console_errors.append(str(error)))
        page.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            where = (message.location or {}).get("url", "")
            self.console_errors.append(f"{message.text} ({where})")

    def _on_request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.hostname != "127.0.0.1":
            self.external_requests.append(request.url)

    def open_notebook(self, path: str, timeout_s: float = 120.0) -> None:
        """Open a notebook (path below the root) and wait until its kernel is idle."""
        self.page.goto(
            f"{self.lab.url}/lab/tree/{quote(path)}?reset&token={self.lab.token}",
            timeout=timeout_s * 1000,
        )
        self.page.wait_for_function(OPEN_AND_READY, arg=path, timeout=timeout_s * 1000)

    def start_all_cells(self) -> None:
        """Start every cell; returns at once, `wait_until_run` waits for the end."""
        self.page.evaluate(RUN_ALL)

    def wait_until_run(self, timeout_s: float = 300.0) -> list[str]:
        """Wait until the started cells are through and give their errors, in order."""
        self.page.wait_for_function(
            "() => window.minillmRun?.done", timeout=timeout_s * 1000, polling=200
        )
        refused = self.page.evaluate("() => window.minillmRun.error")
        errors = [refused] if refused else []
        for cell in self.cells():
            for output in cell.get("outputs", ()):
                if output["output_type"] == "error":
                    errors.append(f"{cell['id']}: {output['ename']}: {output['evalue']}")
        return errors

    def cells(self) -> list[dict[str, Any]]:
        """The open notebook's cells as they are now, outputs included (nbformat's fields)."""
        return self.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.context.model.toJSON().cells"
        )

    def show_cell(self, cell_id: str) -> None:
        """Scroll to a cell: JupyterLab draws only what is near the visible part."""
        self.page.evaluate(
            """async id => {
                const notebook = window.jupyterapp.shell.currentWidget.content;
                const index = notebook.widgets.findIndex(cell => cell.model.id === id);
                if (index < 0) throw new Error(`no cell ${id}`);
                notebook.activeCellIndex = index;
                await notebook.scrollToItem(index, 'start');
            }""",
            cell_id,
        )

    def set_theme(self, theme: str) -> None:
        """"JupyterLab Light" or "JupyterLab Dark"."""
        self.page.evaluate(
            "theme => { void window.jupyterapp.commands.execute("
            "'apputils:change-theme', {theme}); }",
            theme,
        )
        light = "true" if theme.endswith("Light") else "false"
        self.page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")

    def check_clean(self) -> None:
        """No error on the console and no request that left this machine."""
        assert self.external_requests == []
        assert self.console_errors == []


def run_notebook(page: LabPage, path: str, timeout_s: float = 300.0) -> list[str]:
    """Open a notebook, run all its cells, wait for the end; gives the errors, in order."""
    page.open_notebook(path)
    page.start_all_cells()
    return page.wait_until_run(timeout_s)
