"""The command `minillm`: one module a command, nothing heavy imported before a command needs it.

Exit codes: 0 done, 1 the course can't run here (doctor) or too many requests failed (bench), 2 bad
input, 130 stopped with Ctrl-C.
What goes wrong is one sentence on stderr; MINILLM_DEBUG=1 shows the traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import minillm
from minillm.cli import (
    bench,
    chat,
    cluster,
    compare,
    doctor,
    generate,
    serve,
    simulate,
    trace,
)

COMMANDS = {
    "doctor": doctor,
    "generate": generate,
    "chat": chat,
    "compare": compare,
    "serve": serve,
    "cluster": cluster,
    "bench": bench,
    "simulate": simulate,
    "trace": trace,
}


class Parser(argparse.ArgumentParser):
    """argparse, but an error is one sentence and not also the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def build_parser() -> Parser:
    parser = Parser(
        prog="minillm",
        description="A small, real LLM inference engine that shows how servers batch requests.",
        epilog="Start with `minillm doctor`. Each command explains itself: minillm compare --help.",
    )
    parser.add_argument("--version", action="version", version=f"minillm {minillm.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = build_parser().parse_args(argv)
    try:
        return COMMANDS[args.command].run(args)
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has gone, as in `minillm … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError, ImportError, MemoryError) as error:
        if os.environ.get("MINILLM_DEBUG"):
            raise
        print(f"minillm {args.command}: {_sentence(error)}", file=sys.stderr)
        return 2


def _sentence(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"{error}; `make setup` installs what is needed."
    text = " ".join(str(error).split())
    return text or f"{type(error).__name__}."
