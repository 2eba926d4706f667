"""Drive the built site in a browser: a strict static server, and a page on it.

`SiteServer` serves the folder below a sub-path, as a school's server might: exact files only, no
listing, no guessing of types, no special header. `SitePage` is a LabPage on it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

from playwright.sync_api import Page, Request

from tests.e2e.lab import OPEN_AND_READY, REPOSITORY, LabPage
from tools.site.serve import Handler, Server

# Counts the frames in which something was drawn on a canvas: times in ms, in window.paints.
COUNT_PAINTS = """(() => {
    const paints = window.paints = [];
    let counted = false;
    const count = () => {
        if (counted) return;
        counted = true;
        paints.push(performance.now());
        requestAnimationFrame(() => { counted = false; });
    };
    const context = CanvasRenderingContext2D.prototype;
    for (const name of ['fillRect', 'drawImage', 'fillText', 'stroke', 'fill']) {
        const draw = context[name];
        context[name] = function (...args) { count(); return draw.apply(this, args); };
    }
})()"""


def build_site(output: Path) -> float:
    """Build the site of this checkout into a folder; gives the seconds it took."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tools.site", "--output", str(output)],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"The site could not be built:\n{done.stdout}{done.stderr}")
    return time.monotonic() - started


class StrictHandler(Handler):
    """Files and nothing else; keeps what was asked for and not there."""

    missing: list[str]

    def __init__(self, *arguments: object, missing: list[str], **options: object) -> None:
        self.missing = missing
        super().__init__(*arguments, **options)

    def end_headers(self) -> None:
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def list_directory(self, path: object) -> None:
        self.send_error(404)

    def send_error(self, code: int, *arguments: object, **options: object) -> None:
        self.missing.append(f"{code} {self.path}")
        super().send_error(code, *arguments, **options)


class SiteServer:
    """The site at http://127.0.0.1:<port>/<prefix>; use as a context manager."""

    def __init__(self, site: Path, folder: Path, prefix: str = "course/spring") -> None:
        link = folder / prefix
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(site, target_is_directory=True)
        self.missing: list[str] = []
        handler = partial(StrictHandler, directory=str(folder), missing=self.missing)
        self.server = Server(("127.0.0.1", 0), handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/{prefix}"

    def __enter__(self) -> SiteServer:
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class SitePage(LabPage):
    """A page on the site's lab. Its kernel is a worker of the page and ends with it."""

    def __init__(self, page: Page, site: SiteServer, host: str = "127.0.0.1") -> None:
        super().__init__(page, site)
        self.host, self.url = host, site.url.replace("127.0.0.1", host)
        page.add_init_script(COUNT_PAINTS)

    def _on_request(self, request: Request) -> None:
        if urlsplit(request.url).hostname != self.host:
            super()._on_request(request)

    def check_clean(self) -> None:
        """Nothing on the console, nothing from elsewhere, nothing that isn't there."""
        super().check_clean()
        assert self.lab.missing == []

    def open_notebook(self, path: str, timeout_s: float = 180.0) -> None:
        self.show_notebook(path, timeout_s)
        self.page.wait_for_function(OPEN_AND_READY, arg=path, timeout=timeout_s * 1000)

    def show_notebook(self, path: str, timeout_s: float = 180.0) -> None:
        """Open a notebook and wait until its cells are there; its kernel may still be loading.

        What is run from here on waits for the kernel. (Before there is a session JupyterLab would
        drop it.)
        """
        address = f"{self.url}/lab/index.html?path={quote(path, safe='')}"
        self.page.goto(address, timeout=timeout_s * 1000)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=timeout_s * 1000)
        self.page.wait_for_function(
            "() => !!window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel",
            timeout=timeout_s * 1000,
        )

    def set_source(self, cell_id: str, source: str) -> None:
        """Type into a cell."""
        self.page.evaluate(
            """([id, source]) => {
                const notebook = window.jupyterapp.shell.currentWidget.content;
                const cell = notebook.widgets.find(cell => cell.model.id === id);
                cell.model.sharedModel.setSource(source);
            }""",
            [cell_id, source],
        )

    def run_cell(self, cell_id: str, source: str | None = None, timeout_s: float = 180.0) -> str:
        """Run one cell, with another source if one is given; its outputs as JSON text."""
        if source is not None:
            self.set_source(cell_id, source)
        self.page.evaluate(
            """id => {
                const notebook = window.jupyterapp.shell.currentWidget.content;
                notebook.activeCellIndex = notebook.widgets.findIndex(c => c.model.id === id);
                window.minillmRun = {done: false};
                void window.jupyterapp.commands.execute('notebook:run-cell')
                    .finally(() => { window.minillmRun = {done: true, error: null}; });
            }""",
            cell_id,
        )
        self.page.wait_for_function(
            "() => window.minillmRun.done", timeout=timeout_s * 1000, polling=200
        )
        cell = next(cell for cell in self.cells() if cell["id"] == cell_id)
        return json.dumps(cell["outputs"], ensure_ascii=False)
