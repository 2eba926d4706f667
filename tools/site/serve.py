"""Serve dist/site on this machine only: `make serve-site`, or `python -m tools.site.serve`.

Any static file server does; this one adds nothing but the right types and a free port.
"""

from __future__ import annotations

import argparse
import errno
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

SITE = Path(__file__).resolve().parents[2] / "dist" / "site"
PORTS_TRIED = 50


class Handler(SimpleHTTPRequestHandler):
    """Files with the types that a browser insists on, whatever this machine's tables say."""

    protocol_version = "HTTP/1.1"  # one connection for many files
    extensions_map: ClassVar = {
        **SimpleHTTPRequestHandler.extensions_map,
        ".css": "text/css",
        ".html": "text/html; charset=utf-8",
        ".ipynb": "application/json",
        ".js": "text/javascript",
        ".json": "application/json",
        ".mjs": "text/javascript",
        ".svg": "image/svg+xml",
        ".wasm": "application/wasm",
        ".whl": "application/zip",
        ".woff2": "font/woff2",
        ".zip": "application/zip",
    }

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Only what went wrong is worth a line; log_error says it."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away in the middle of a file is no news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def listen(folder: Path, port: int) -> Server:
    """A server on 127.0.0.1 and this port, or the next free one; 0 takes any."""
    handler = partial(Handler, directory=str(folder))
    tried = range(port, min(port + PORTS_TRIED, 65536)) if port else [0]
    for number in tried:
        try:
            return Server(("127.0.0.1", number), handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    raise OSError(errno.EADDRINUSE, f"no free port from {port} to {tried[-1]}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make serve-site", description=__doc__.split("\n")[0])
    parser.add_argument("--port", type=int, default=8000, help="the first to try (default 8000)")
    parser.add_argument("--dir", type=Path, default=SITE, help="the folder (default dist/site)")
    options = parser.parse_args(arguments)
    if not 0 <= options.port <= 65535:
        parser.error(f"--port is {options.port}; it can be 0 to 65535")
    if not (options.dir / "index.html").is_file():
        print(f"There is no site in {options.dir}; `make site` builds it.", file=sys.stderr)
        return 1
    try:
        server = listen(options.dir, options.port)
    except OSError as error:
        print(f"The site can't be served: {error.strerror}.", file=sys.stderr)
        return 1
    with server:
        print(f"The course is at http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)",
              flush=True)  # fmt: skip
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("\nStopped.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
