"""The steps of a build, from the pinned downloads to dist/site."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tools.site import fetch, landing, lite, picture, runtime
from tools.site.contents import copy_contents
from tools.site.errors import SiteError
from tools.site.wheel import build_wheel

EPOCH = 315_532_800  # 1980-01-01, the first date that a zip file can hold


def build_site(root: Path, environment: Path, target: Path) -> None:
    """Build the site of this working tree into `target`; SiteError leaves what was there."""
    started = time.monotonic()
    python = environment / "bin" / "python"
    pins = fetch.read_lock()
    files = fetch.fetch(pins, root / "build" / "site-cache", python)
    with tempfile.TemporaryDirectory(dir=root / "build", prefix="site-work-") as temporary:
        work = Path(temporary)
        new = assemble(root, work, environment, files, source_date(root))
        swap(new, target)
    size, count = weigh(target)
    print(
        f"{target} is ready: {size / 1e6:.1f} MB in {count:,} files, "
        f"{time.monotonic() - started:.0f} s. `make serve-site` shows it; any static file server "
        "can serve it."
    )


def assemble(root: Path, work: Path, environment: Path, files: list[Path], epoch: int) -> Path:
    """All of the site in a folder below `work`. files: the pinned downloads."""
    python, kernel = environment / "bin" / "python", environment / lite.KERNEL_EXTENSION
    tree, new = work / "lite", work / "site"
    print("Building the course's wheel", flush=True)
    own = build_wheel(root, work / "own", python, epoch)
    wheels = [path for path in files if path.suffix == ".whl"]
    tarball = next(path for path in files if path.name.startswith("pyodide-"))
    names = runtime.assemble(
        tree / "static" / "pyodide",
        tarball,
        [own, *wheels, *runtime.kernel_wheels(kernel)],
    )
    copy_contents(root, tree / "contents")
    views = [path for path in wheels if path.name.startswith(("anywidget-", "jupyterlab_widgets-"))]
    lite.configure(tree, [kernel, *views], names)
    print("Building JupyterLite", flush=True)
    lite.build(tree, new, python, epoch)
    write_landing_page(root, new, tarball)
    return new


def write_landing_page(root: Path, site: Path, tarball: Path) -> None:
    figure = picture.svg(picture.runs())
    pyodide = tarball.name.removesuffix(".tgz").split("-")[-1]
    versions = f"Inside: JupyterLite (BSD-3-Clause) and Pyodide {pyodide} (MPL-2.0)."
    html = landing.page(landing.read_lessons(root / "notebooks"), figure, versions)
    (site / "index.html").write_text(html, encoding="utf-8")


def source_date(root: Path) -> int:
    """The time that all files of the site carry: SOURCE_DATE_EPOCH, or that of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        if not given.isdigit():
            raise SiteError(f"SOURCE_DATE_EPOCH is {given!r}; it has to be a number of seconds.")
        return max(int(given), EPOCH)
    try:
        done = subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, text=True
        )
    except OSError:
        return EPOCH
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else EPOCH


def swap(new: Path, target: Path) -> None:
    """Put the new folder in the old one's place; the old one is there until the last moment."""
    target.parent.mkdir(parents=True, exist_ok=True)
    old = target.with_name(f".{target.name}-old-{os.getpid()}")
    staged = target.with_name(f".{target.name}-new-{os.getpid()}")
    shutil.move(new, staged)  # a copy, where the target lies on another disk
    if target.exists():
        target.rename(old)
    staged.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def weigh(site: Path) -> tuple[int, int]:
    """Bytes and number of the site's files."""
    sizes = [path.stat().st_size for path in site.rglob("*") if path.is_file()]
    return sum(sizes), len(sizes)
