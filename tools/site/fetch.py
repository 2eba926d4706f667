"""What the site downloads: each file pinned by its SHA-256 in downloads.lock, kept in a cache.

Wheels come through pip, Pyodide through npm (or straight from npm's registry where there is no
npm), so that a person's own mirrors and proxies count. Nothing that does not match the lock is
ever used or kept.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.site.errors import SiteError

LOCK = Path(__file__).with_name("downloads.lock")
NPM_DEFAULT = "https://registry.npmjs.org/"  # npm's own default; .npmrc or the environment differ
TIMEOUT_S = 120.0

_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")
_WHEEL = re.compile(r"(?P<name>\w[\w.]*)-(?P<version>[\w.!+]+)-(py2\.)?py3-none-any\.whl")
_TARBALL = re.compile(r"(?P<name>[a-z][a-z0-9-]*?)-(?P<version>\d[\w.-]*)\.tgz")


def read_lock(path: Path = LOCK) -> dict[str, str]:
    """File name → SHA-256, in the order of the file, whose lines are as `sha256sum` writes them."""
    pins: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        name = found[2] if found else ""
        if not (_WHEEL.fullmatch(name) or _TARBALL.fullmatch(name)):
            raise SiteError(
                f"{path.name}, line {number}: expected 64 hexadecimal digits, two spaces and the "
                f"name of a pure wheel or an npm tarball, got {line!r}."
            )
        if name in pins:
            raise SiteError(f"{path.name}, line {number}: {name} is there twice.")
        pins[name] = found[1]
    return pins


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(pins: Mapping[str, str], cache: Path, python: Path) -> list[Path]:
    """All pinned files, from the cache or freshly downloaded; SiteError for one that isn't right.

    python: an interpreter whose pip is used. What arrived whole stays in the cache, so that a
    call after a failure fetches only the rest.
    """
    cache.mkdir(parents=True, exist_ok=True)
    missing = [name for name in pins if not _is_whole(cache / name, pins[name])]
    wheels = [name for name in missing if name.endswith(".whl")]
    if wheels:
        _fetch(wheels, pins, cache, lambda folder: _pip_download(wheels, folder, python))
    for name in missing:
        if name.endswith(".tgz"):
            _fetch([name], pins, cache, lambda folder, name=name: _npm_pack(name, folder))
    return [cache / name for name in pins]


def _is_whole(path: Path, expected: str) -> bool:
    return path.is_file() and sha256(path) == expected


def _fetch(
    names: list[str], pins: Mapping[str, str], cache: Path, download: Callable[[Path], str]
) -> None:
    """download(folder) puts the files there and says where they came from."""
    print(f"Fetching {', '.join(names) if len(names) < 4 else f'{len(names)} files'}", flush=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="partial-") as temporary:
        folder = Path(temporary)
        source = download(folder)
        for name in names:
            path = folder / name
            if not path.is_file():
                others = ", ".join(sorted(each.name for each in folder.iterdir())) or "nothing"
                raise SiteError(f"{source} did not give {name}; it gave {others}.")
            got = sha256(path)
            if got != pins[name]:
                size = path.stat().st_size
                raise SiteError(
                    f"{name} from {source} is not the file in {LOCK.name}: expected SHA-256 "
                    f"{pins[name]}, got {got} ({size:,} bytes)."
                )
            path.replace(cache / name)


# ── wheels, through pip ─────────────────────────────────────────────────────────────────────────


def requirement(wheel: str) -> str:
    """A wheel's file name as a pin for pip: psygnal-0.14.1-py3-none-any.whl → psygnal==0.14.1."""
    parts = _WHEEL.fullmatch(wheel)
    if parts is None:
        raise SiteError(f"{wheel!r} is not the name of a pure wheel (…-py3-none-any.whl).")
    return f"{parts['name']}=={parts['version']}"


def _pip_download(wheels: list[str], folder: Path, python: Path) -> str:
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    configured = _output([*pip, "config", "get", "global.index-url"])
    source = os.environ.get("PIP_INDEX_URL") or configured or "pip's package index"
    # The platform is the browser's, not this machine's: only pure wheels fit, never a compiled one.
    command = [
        *pip, "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder),
        "--platform=any", "--implementation=py", "--abi=none", "--python-version=3.14",
        *map(requirement, wheels),
    ]  # fmt: skip
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise SiteError(f"{source} did not give the wheels: {_reason(done.stderr, 'ERROR:')}")
    return source


# ── Pyodide, through npm ────────────────────────────────────────────────────────────────────────


def _npm_pack(tarball: str, folder: Path) -> str:
    parts = _TARBALL.fullmatch(tarball)
    npm = shutil.which("npm")
    if npm is None:
        return _download(f"{npm_registry()}{parts['name']}/-/{tarball}", folder / tarball)
    spec = f"{parts['name']}@{parts['version']}"
    source = _output([npm, "config", "get", "registry"]) or "npm's registry"
    done = subprocess.run(
        [npm, "pack", spec, "--silent", "--loglevel=error", f"--pack-destination={folder}"],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        raise SiteError(f"{source} did not give {spec}: {_reason(done.stderr, 'npm error')}")
    return source


def npm_registry(home: Path | None = None) -> str:
    """The registry that npm would ask: of the environment, of ~/.npmrc, or npm's default."""
    named = {name.lower(): value for name, value in os.environ.items()}.get("npm_config_registry")
    if not named:
        try:
            settings = ((home or Path.home()) / ".npmrc").read_text(encoding="utf-8")
        except OSError:
            settings = ""
        found = re.search(r"^\s*registry\s*=\s*(\S+)", settings, re.MULTILINE)
        named = found[1] if found else NPM_DEFAULT
    return named.rstrip("/") + "/"


def _download(url: str, path: Path) -> str:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer, path.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise SiteError(f"{path.name} could not be fetched from {url}: {error}.") from error
    return url


def _output(command: list[str]) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def _reason(text: str, mark: str) -> str:
    """The line that says why, of a tool's many: the last with its mark, else the last of all."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line.removeprefix(mark).strip() for line in lines if line.startswith(mark)]
    return (marked or lines or ["it gave no reason"])[-1]
