"""Build dist/site. Run by `make site` with any Python from 3.11 to 3.13.

First the build's own environment; the rest runs in it (build.py): fetch, own wheel, interpreter,
notebooks, JupyterLite, landing page. The new site takes the old one's place only when all of it
is there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tools.site import environment
from tools.site.errors import SiteError

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / "build" / "site-venv"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make site", description="Build the course as a site.")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "dist" / "site", help="the folder (dist/site)"
    )
    output = parser.parse_args(arguments).output.absolute()
    if not (VENV.exists() and VENV.samefile(sys.prefix)):
        python = environment.make_environment(VENV)
        command = [str(python), "-m", "tools.site", f"--output={output}"]
        return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode

    from tools.site.build import build_site  # it needs what is only in the environment

    os.umask(0o022)  # files that a web server may read; and their modes are part of a wheel
    build_site(ROOT, VENV, output)
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except SiteError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        print("\nStopped; a site that was there is as it was.", file=sys.stderr)
        raise SystemExit(130) from None
