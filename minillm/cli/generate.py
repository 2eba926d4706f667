"""Complete one prompt or several, and print the text as it comes.

A chat model gets the prompt as a person's message in its chat template; --raw leaves that out.
Several prompts are computed together, in one batch.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from minillm.cli import options
from minillm.cli.output import Output
from minillm.core import FinishReason
from minillm.core.metrics import RequestMetrics, request_metrics
from minillm.llm import LLM, Completion

MAX_NUM_SEQS = 32  # prompts computed at once; more wait
SUMMARY = "complete a prompt, streaming"
EXAMPLES = """\
examples:
  minillm generate "Why is the sky blue?"
  minillm generate "A haiku about rain" "A haiku about snow" --temperature 0.8 --seed 1
  minillm generate --raw "The sky is blue because" --max-tokens 40 --stop "."
  minillm generate - < prompt.txt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompts", nargs="+", metavar="PROMPT", help="a text; - reads stdin")
    parser.add_argument("--raw", action="store_true", help="the prompt as it is, no chat template")
    options.add_sampling(parser, max_tokens=128)
    options.add_model(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    output = Output("generate", args.json)
    params = options.sampling_params(args)
    prompts = [sys.stdin.read() if prompt == "-" else prompt for prompt in args.prompts]
    if not all(prompts):
        raise ValueError("The prompt is empty: it needs at least 1 token.")
    with LLM(**options.model_settings(args), max_num_seqs=MAX_NUM_SEQS) as llm:
        chat = not args.raw and llm.tokenizer.chat_template is not None
        streams = [llm.stream(prompt, params, chat=chat) for prompt in prompts]
        for prompt, stream in zip(prompts, streams, strict=True):
            if len(prompts) > 1:
                output.say(f"── {prompt}")
            for delta in stream:
                output.say(delta, end="")
            output.say()
        completions = [stream.completion for stream in streams]
        metrics = {m.request_id: m for m in request_metrics(llm.trace).values()}
        results = [
            describe(prompt, done, metrics[done.request_id])
            for prompt, done in zip(prompts, completions, strict=True)
        ]
        where = f"measured on {llm.info.device}, {llm.info.model}, {llm.info.dtype}"
        for result in results:
            output.note(f"[{summary(result)}; {where}]")
        output.write_json({
            "provenance": llm.info.provenance, "device": llm.info.device,
            "model": llm.info.model, "dtype": llm.info.dtype,
            "chat_template": chat, "completions": results,
        })  # fmt: skip
    failed = [done for done in completions if done.finish_reason is FinishReason.ERROR]
    if failed:
        raise ValueError(f"{failed[0].request_id} failed: {failed[0].error}")
    return 0


def describe(prompt: str, done: Completion, metrics: RequestMetrics) -> dict[str, Any]:
    """A completion as data: times in milliseconds, tokens counted from ids."""
    return {
        "prompt": prompt,
        "text": done.text,
        "token_ids": list(done.token_ids),
        "finish_reason": str(done.finish_reason),
        "prompt_tokens": len(done.prompt_token_ids),
        "output_tokens": len(done.token_ids),
        "ttft_ms": _milliseconds(metrics.ttft),
        "e2e_ms": _milliseconds(metrics.e2e),
        "tpot_ms": _milliseconds(metrics.tpot),
    }


def summary(result: dict[str, Any]) -> str:
    """One completion's figures in words."""
    parts = [f"{result['output_tokens']} tokens ({result['finish_reason']})"]
    if result["ttft_ms"] is not None:
        parts.append(f"first after {result['ttft_ms']:.0f} ms")
    if result["tpot_ms"] is not None:
        parts.append(f"then {result['tpot_ms']:.0f} ms each")
    return ", ".join(parts)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
