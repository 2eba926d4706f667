"""JupyterLab as static files: `jupyter lite build` with everything given, nothing looked for.

Only the application "lab" is built, with three extensions: Pyodide's kernel from the build's
environment, ipywidgets' and anywidget's from the same pinned wheels that the kernel loads.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.site.errors import SiteError

SETTINGS = Path(__file__).resolve().parents[1] / "jupyterlab"  # the installed course's, too
KERNEL_EXTENSION = "share/jupyter/labextensions/@jupyterlite/pyodide-kernel-extension"
KERNEL_PLUGIN = "@jupyterlite/pyodide-kernel-extension:kernel"


def configure(folder: Path, extensions: Sequence[Path], preload: Sequence[str]) -> None:
    """Write what `jupyter lite build` and the running lab read.

    extensions: JupyterLab's, as folders or wheels; preload: packages that the kernel starts with.
    """
    shutil.copy(SETTINGS / "overrides.json", folder / "overrides.json")
    plugin = {
        "pyodideUrl": "./static/pyodide/pyodide.mjs",
        "disablePyPIFallback": True,  # a package that isn't here is an error, never a request
        "loadPyodideOptions": {"packages": list(preload)},
    }
    running = {
        "jupyter-lite-schema-version": 0,
        "jupyter-config-data": {
            "appName": "minillm",
            "exposeAppInBrowser": True,  # window.jupyterapp, as in the course's own tests
            "litePluginSettings": {KERNEL_PLUGIN: plugin},
        },
    }
    build = {
        "LiteBuildConfig": {
            "apps": ["lab"],
            "cache_dir": str(folder / "cache"),
            "contents": ["contents"],
            "federated_extensions": [str(path) for path in extensions],
            "ignore_sys_prefix": ["federated_extensions"],
            "no_sourcemaps": True,
            "no_unused_shared_packages": True,
        }
    }
    _write(folder / "jupyter-lite.json", running)
    _write(folder / "jupyter_lite_config.json", build)


def build(folder: Path, output: Path, python: Path, epoch: int) -> None:
    """Build the configured folder into `output`; its log is shown when it fails."""
    home = folder / "home"  # nothing of the person's own Jupyter gets in
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")},
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_NO_CONFIG": "1",
        "SOURCE_DATE_EPOCH": str(epoch),
        "PYTHONHASHSEED": "0",
    }
    done = subprocess.run(
        [
            str(python), "-m", "jupyterlite_core.app", "build",
            f"--lite-dir={folder}", f"--output-dir={output}",
            f"--source-date-epoch={epoch}",
        ],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode != 0 or not (output / "lab" / "index.html").is_file():
        print(done.stdout[-4000:])
        raise SiteError("JupyterLite's build failed; its last lines above say why.")
    _name_icon(output / "lab" / "index.html")


def _name_icon(page: Path) -> None:
    """Say in the page where its icon is: else a browser asks for /favicon.ico, outside the site."""
    html = page.read_text(encoding="utf-8")
    if html.count("<head>") != 1:
        raise SiteError(f"{page.name} of JupyterLite's lab has no <head> to put its icon into.")
    link = '<head>\n    <link rel="icon" type="image/x-icon" href="favicon.ico">'
    page.write_text(html.replace("<head>", link), encoding="utf-8")


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
