"""Talk with the model. /new starts over, /quit (or Ctrl-D) ends, Ctrl-C stops an answer.

The whole conversation is the prompt each time; the prefix cache spares its recomputation.
"""

from __future__ import annotations

import argparse
import sys

from minillm.cli import options
from minillm.cli.output import Output
from minillm.core import SamplingParams
from minillm.llm import LLM

SUMMARY = "a conversation in the terminal"
EXAMPLES = """\
examples:
  minillm chat
  minillm chat --system "You answer in one sentence." --temperature 0
"""
Messages = list[dict[str, str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", metavar="TEXT", help="how the model should behave")
    options.add_sampling(parser, max_tokens=256, temperature=0.2, top_p=0.9)
    options.add_model(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    output = Output("chat", args.json)
    params = options.sampling_params(args)
    start: Messages = [{"role": "system", "content": args.system}] if args.system else []
    messages = list(start)
    with LLM(**options.model_settings(args)) as llm:
        output.note(f"{llm.info.model} on {llm.info.device}. /new starts over, /quit ends.")
        while (line := read_line()) is not None and line != "/quit":
            if line == "/new":
                messages = list(start)
            elif line:
                messages = answer(llm, output, messages, line, params)
        output.write_json({
            "provenance": llm.info.provenance, "device": llm.info.device,
            "model": llm.info.model, "dtype": llm.info.dtype, "messages": messages,
        })  # fmt: skip
    return 0


def read_line() -> str | None:
    """What the person typed; None at the end of the input."""
    if sys.stdin.isatty():
        print("you> ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line.strip() if line else None


def answer(
    llm: LLM, output: Output, messages: Messages, line: str, params: SamplingParams
) -> Messages:
    """Stream one answer; the conversation afterwards. A question that can't be served drops out."""
    asked = [*messages, {"role": "user", "content": line}]
    pieces: list[str] = []
    try:
        with llm.stream(asked, params) as stream:
            for delta in stream:
                pieces.append(delta)
                output.say(delta, end="")
    except ValueError as error:
        output.note(f"{error} Try /new.")
        return messages
    except KeyboardInterrupt:
        output.note(" (stopped)")
    output.say()
    return [*asked, {"role": "assistant", "content": "".join(pieces)}]
