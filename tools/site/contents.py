"""The notebooks as the site carries them: the same cells, another kernel's name.

There is one source, notebooks/. What differs in a browser is decided at run time by the lessons'
own code; here only the metadata that names the kernel is changed. Files lie as in the repository,
and those that a notebook links to come along.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tools.site.errors import SiteError

FOLDER = "notebooks"
KERNEL = {"display_name": "Python (Pyodide)", "language": "python", "name": "python"}

_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")  # of Markdown, to a file


def copy_contents(root: Path, target: Path) -> list[Path]:
    """Write the notebooks, and what they link to, below `target`; their paths relative to it."""
    root = root.resolve()
    found = sorted(root.glob(f"{FOLDER}/*.ipynb")) + sorted(root.glob(f"{FOLDER}/*/*.ipynb"))
    if not found:
        raise SiteError(f"{root / FOLDER} has no notebooks.")
    linked = set()
    for path in found:
        notebook = read_notebook(path)
        linked |= links(path, notebook, root)
        _write(target / path.relative_to(root), for_browser(notebook))
    for path in linked.difference(found):
        copy = target / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return [path.relative_to(root) for path in sorted(linked.union(found))]


def read_notebook(path: Path) -> dict:
    """A notebook's JSON; SiteError for anything else."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        notebook["metadata"]["kernelspec"], notebook["cells"][0]["cell_type"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise SiteError(f"{path.name} is not a notebook: {error!r}.") from error
    return notebook


def links(path: Path, notebook: dict, root: Path) -> set[Path]:
    """The files of the repository that a notebook's text links to; SiteError for a dead link."""
    found = set()
    for cell in notebook["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        for link in _LINK.findall("".join(cell["source"])):
            file = (path.parent / link).resolve()
            if not file.is_file() or root not in file.parents:
                raise SiteError(f"{path.name} links to {link}, which is no file of the repository.")
            found.add(file)
    return found


def for_browser(notebook: dict) -> str:
    """The notebook's JSON with Pyodide's kernel in its metadata and no outputs of another run."""
    notebook["metadata"]["kernelspec"] = dict(KERNEL)
    notebook["metadata"]["language_info"] = {"name": "python"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"], cell["outputs"] = None, []
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
