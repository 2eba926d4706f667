"""nginx in front of replicas: its configuration (nginx.conf.jinja), checked before it is used.

Everything lies in one private folder, which is nginx's prefix; no rights but the user's own are
needed, and only the loopback interface is touched.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

import jinja2

CONFIG = "nginx.conf"
# Our names for nginx's ways to choose. The simulator's routers of these names do the same.
ROUTERS = {
    "nginx": "least_conn",
    "least_conn": "least_conn",
    "round_robin": "",  # nginx's own default
    "random": "random",
    "power_of_two": "random two least_conn",
    "hash": "hash $affinity consistent",
}
NEED_PROMPTS = ("least_tokens", "prefix_aware", "prefix_load")
MAX_WORKERS = 64


@dataclass(frozen=True, slots=True)
class Upstream:
    """Who is behind nginx, and how it chooses. Raises ValueError for a router it can't be.

    ports: the replicas', on 127.0.0.1. out: numbers of replicas that get nothing new for now.
    zone: shared memory for the workers' counts; without it each worker counts its own requests.
    A replica that failed `max_fails` times is left out for `fail_timeout_s` seconds, then tried.
    """

    ports: tuple[int, ...]
    router: str = "nginx"
    workers: int = 2
    zone: bool = True
    out: frozenset[int] = frozenset()
    max_fails: int = 1
    fail_timeout_s: int = 2
    max_body_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        check_router(self.router)
        if not 1 <= self.workers <= MAX_WORKERS:
            raise ValueError(f"nginx can have 1 to {MAX_WORKERS} workers, got {self.workers}.")
        if not self.ports:
            raise ValueError("nginx needs at least 1 replica behind it.")

    def config(self, port: int) -> str:
        """nginx.conf for nginx on 127.0.0.1:port."""
        environment = jinja2.Environment(
            loader=jinja2.PackageLoader("minillm.serve", "."), undefined=jinja2.StrictUndefined,
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        )  # fmt: skip
        return environment.get_template("nginx.conf.jinja").render(
            **asdict(self), port=port, method=ROUTERS[self.router], user=_worker_user(),
            body_kib=self.max_body_bytes >> 10, errors=self._errors(),
        )  # fmt: skip

    def _errors(self) -> dict[str, str]:
        limit = f"The body is larger than {self.max_body_bytes} bytes."
        return {
            "too_large": _error(limit, "invalid_request_error", "body_too_large"),
            "not_here": _error(
                "The router has /v1/ and /health; each replica has its own /metrics and /trace.",
                "invalid_request_error", "not_found",
            ),
            "no_answer": _error(
                "The replica that had this request has stopped, or none is up.",
                "server_error", "no_replica",
            ),
        }  # fmt: skip


def check_router(name: str) -> None:
    """Raise ValueError for a router that nginx has not got."""
    names = ", ".join(ROUTERS)
    if name in NEED_PROMPTS:
        raise ValueError(
            f"nginx reads no prompts, so it can't route by {name}: choose one of {names}, or see "
            "what it would do with `minillm simulate cluster`."
        )
    if name not in ROUTERS:
        raise ValueError(f"Unknown router {name!r}: choose one of {names}.")


def find_nginx() -> str:
    """The program's path. Raises ValueError that says how to install it."""
    found = shutil.which("nginx")
    if found is None:  # Debian's place for it is often not on a user's PATH
        places = ("/usr/sbin/nginx", "/usr/local/sbin/nginx")
        found = next((place for place in places if os.access(place, os.X_OK)), None)
    if found is None:
        raise ValueError(
            "nginx is not installed; `apt install nginx-light`, `brew install nginx` or "
            "`conda install -c conda-forge nginx` brings it."
        )
    return found


def nginx_command(nginx: str, folder: Path, config: str = CONFIG) -> list[str]:
    """Runs nginx in that folder."""
    return [nginx, "-p", f"{folder}/", "-c", config]


def write_config(nginx: str, folder: Path, text: str) -> None:
    """Make it the folder's configuration, if nginx takes it; else ValueError in nginx's words."""
    (folder / "temp").mkdir(exist_ok=True)
    draft = folder / "draft.conf"
    draft.write_text(text, encoding="utf-8")
    answer = subprocess.run(
        [*nginx_command(nginx, folder, draft.name), "-t", "-q"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    if answer.returncode != 0:
        raise ValueError(f"nginx refuses its configuration: {' '.join(answer.stderr.split())}")
    draft.replace(folder / CONFIG)


def _worker_user() -> str:
    """Whom nginx's workers shall be where root starts it; they need no rights at all."""
    if os.geteuid() != 0:
        return ""
    import grp
    import pwd

    nobody = pwd.getpwnam("nobody")
    return f"nobody {grp.getgrgid(nobody.pw_gid).gr_name}"


def _error(message: str, kind: str, code: str) -> str:
    """OpenAI's error object; nginx puts it in single quotes."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return json.dumps({"error": error}, separators=(",", ":"))
