"""static/pyodide of the site: the interpreter, the wheels, and the lock file that names them.

Pyodide's own lock file lists its whole distribution, most of which isn't here. Ours lists what
is, so that the kernel can load nothing else: each wheel with its SHA-256, what it needs of the
others, and the modules it brings.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import tarfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tools.site.errors import SiteError
from tools.site.fetch import sha256

INTERPRETER = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
LOCK = "pyodide-lock.json"
# ipywidgets' part of JupyterLab: the page has it as an extension, the kernel has no use for it.
PAGE_ONLY = "jupyterlab-widgets"
# Jedi's stubs of other people's packages: four fifths of its 5,600 files, each of which a kernel
# would unpack at its start. It completes without them, those packages aren't here.
LEFT_OUT = {"jedi": ("jedi/third_party/typeshed/stubs/", "jedi/third_party/django-stubs/")}


def assemble(target: Path, tarball: Path, wheels: Iterable[Path]) -> list[str]:
    """Fill the folder from Pyodide's npm package and these wheels; gives the packages' names."""
    target.mkdir(parents=True)
    with tarfile.open(tarball) as archive:
        for name in (*INTERPRETER, LOCK):
            _extract(archive, f"package/{name}", target / name)
    inside = sorted(wheel for wheel in wheels if _name(wheel) != PAGE_ONLY)
    copied = [copy_wheel(wheel, target / wheel.name) for wheel in inside]
    info = json.loads((target / LOCK).read_text(encoding="utf-8"))["info"]
    lock = pyodide_lock(info, copied)
    text = json.dumps(lock, indent=1, sort_keys=True) + "\n"
    (target / LOCK).write_text(text, encoding="utf-8")
    return sorted(lock["packages"])


def kernel_wheels(extension: Path) -> list[Path]:
    """What the kernel's extension brings: its own ipykernel, piplite, pyodide-kernel and a stub.

    Of several versions of one (the stub for old and new ipywidgets) the newest.
    """
    found = (extension / "static" / "pypi").glob("*.whl")
    newest = {_name(wheel): wheel for wheel in sorted(found, key=_version)}
    if not newest:
        raise SiteError(f"The kernel's extension has no wheels in {extension}.")
    return list(newest.values())


def copy_wheel(wheel: Path, target: Path) -> Path:
    """Copy a wheel, without what LEFT_OUT names of it; gives the copy's path."""
    left_out = LEFT_OUT.get(_name(wheel), ())
    if not left_out:
        return Path(shutil.copyfile(wheel, target))
    with zipfile.ZipFile(wheel) as full, zipfile.ZipFile(target, "w") as slim:
        for member in full.infolist():
            if member.filename.startswith(left_out):
                continue
            content = full.read(member)
            if member.filename.endswith(".dist-info/RECORD"):
                lines = content.decode().splitlines(keepends=True)
                content = "".join(line for line in lines if not line.startswith(left_out)).encode()
            slim.writestr(member, content, zipfile.ZIP_DEFLATED, 9)
    return target


def pyodide_lock(info: Mapping[str, str], wheels: Sequence[Path]) -> dict:
    """The lock's content. info: of Pyodide's own lock; SiteError for a need that isn't met."""
    distributions = {_name(wheel): _distribution(wheel) for wheel in wheels}
    packages = {}
    for wheel in wheels:
        name, distribution = _name(wheel), distributions[_name(wheel)]
        needs = _needs(distribution, info["python"])
        if missing := sorted(needs - set(distributions)):
            raise SiteError(f"{wheel.name} needs {', '.join(missing)}, not in downloads.lock.")
        packages[name] = {
            "depends": sorted(needs),
            "file_name": wheel.name,
            "imports": _modules(wheel),
            "install_dir": "site",
            "name": name,
            "package_type": "package",
            "sha256": sha256(wheel),
            "unvendored_tests": False,
            "version": distribution.version,
        }
    return {"info": dict(info), "packages": packages}


def _name(wheel: Path) -> str:
    return parse_wheel_filename(wheel.name)[0]


def _version(wheel: Path) -> Version:
    return parse_wheel_filename(wheel.name)[1]


def _distribution(wheel: Path) -> importlib.metadata.PathDistribution:
    root = zipfile.Path(wheel)
    info = next(entry for entry in root.iterdir() if entry.name.endswith(".dist-info"))
    return importlib.metadata.PathDistribution(info)


def _needs(distribution: importlib.metadata.Distribution, python: str) -> set[str]:
    """The packages that a distribution needs in the browser, extras left out."""
    browser = {
        "extra": "", "implementation_name": "cpython", "os_name": "posix",
        "platform_machine": "wasm32", "platform_python_implementation": "CPython",
        "platform_system": "Emscripten", "python_full_version": python,
        "python_version": ".".join(python.split(".")[:2]), "sys_platform": "emscripten",
    }  # fmt: skip
    needs = map(Requirement, distribution.requires or ())
    return {
        canonicalize_name(need.name)
        for need in needs
        if need.marker is None or need.marker.evaluate(browser)
    } - {PAGE_ONLY}


def _modules(wheel: Path) -> list[str]:
    """The top-level modules in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        paths = [PurePosixPath(name) for name in archive.namelist()]
    first = {path.parts[0] for path in paths if path.suffix == ".py"}
    return sorted({name.removesuffix(".py") for name in first if not name.endswith("-info")})


def _extract(archive: tarfile.TarFile, member: str, path: Path) -> None:
    try:
        source = archive.extractfile(member)
    except KeyError:
        source = None
    if source is None:
        raise SiteError(f"{Path(str(archive.name)).name} has no file {member}.")
    with source, path.open("wb") as target:
        shutil.copyfileobj(source, target)
