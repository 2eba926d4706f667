"""The notebooks as the site carries them: the same cells, another kernel's name.

There is one source, notebooks/. What differs in a browser is decided at run time by the lessons'
own code; here only the metadata that names the kernel is changed.
"""

from __future__ import annotations

import json
from pathlib import Path

from tools.site.errors import SiteError

KERNEL = {"display_name": "Python (Pyodide)", "language": "python", "name": "python"}


def copy_notebooks(source: Path, target: Path) -> list[Path]:
    """Write each notebook of `source` and its exercises below `target`; paths relative to it."""
    found = sorted([*source.glob("*.ipynb"), *source.glob("exercises/*.ipynb")])
    if not found:
        raise SiteError(f"{source} has no notebooks.")
    relative = [path.relative_to(source) for path in found]
    for path in relative:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(for_browser(source / path), encoding="utf-8")
    return relative


def for_browser(path: Path) -> str:
    """The notebook's JSON with Pyodide's kernel in its metadata and no outputs of another run."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        metadata, cells = notebook["metadata"], notebook["cells"]
    except (ValueError, KeyError, TypeError) as error:
        raise SiteError(f"{path.name} is not a notebook: {error!r}.") from error
    metadata["kernelspec"] = dict(KERNEL)
    metadata["language_info"] = {"name": "python"}
    for cell in cells:
        if cell["cell_type"] == "code":
            cell["execution_count"], cell["outputs"] = None, []
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
