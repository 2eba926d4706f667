"""One request as its client saw it: when it was due, sent, answered; what came of it.

Times in seconds on the run's clock. Definitions (all of them None where nothing was seen):

- TTFT: from the *scheduled* send to the first chunk with output. ttft_sent: from the actual send.
  A chunk that only names the role, a comment and a usage frame are no output; an empty text
  without a role is (a token that shows no text).
- E2E: from the scheduled send to the last chunk with output; e2e_sent: from the actual send.
- icl: time between chunks, what `vllm bench serve` prints as ITL. A chunk may carry several tokens.
- itl: time between tokens; known only where every chunk carried one token.
- TPOT: (E2E − TTFT) / (n − 1), n from the server's usage; None for n = 1 or a single chunk.
- client_queue: how long after its scheduled time the client sent it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class ClientRequest:
    """Filled in while the request runs. error: one sentence; error_kind: what it's counted as."""

    index: int
    scheduled: float
    max_tokens: int
    sent: float | None = None
    chunk_times: list[float] = field(default_factory=list)
    finished: float | None = None
    prompt_tokens: int | None = None
    usage_tokens: int | None = None  # n as the server counted
    finish_reason: str | None = None
    error: str | None = None
    error_kind: str | None = None
    cancelled: bool = False
    request_id: str | None = None  # as the server was told it (X-Request-Id)

    def fail(self, kind: str, error: str) -> None:
        self.error_kind, self.error = kind, error

    @property
    def failed(self) -> bool:
        return self.error_kind is not None

    @property
    def completed(self) -> bool:
        return self.finished is not None and not (self.failed or self.cancelled)

    @property
    def output_tokens(self) -> int:
        """n by the server's usage; without one, the chunks with output."""
        return len(self.chunk_times) if self.usage_tokens is None else self.usage_tokens

    @property
    def ttft(self) -> float | None:
        return self.chunk_times[0] - self.scheduled if self.chunk_times else None

    @property
    def ttft_sent(self) -> float | None:
        return self.chunk_times[0] - self.sent if self.chunk_times else None

    @property
    def e2e(self) -> float | None:
        return self.chunk_times[-1] - self.scheduled if self.chunk_times else None

    @property
    def e2e_sent(self) -> float | None:
        return self.chunk_times[-1] - self.sent if self.chunk_times else None

    @property
    def tpot(self) -> float | None:
        if self.output_tokens < 2 or len(self.chunk_times) < 2:
            return None
        return (self.chunk_times[-1] - self.chunk_times[0]) / (self.output_tokens - 1)

    @property
    def icl(self) -> list[float]:
        return [b - a for a, b in pairwise(self.chunk_times)]

    @property
    def itl(self) -> list[float]:
        return self.icl if self.output_tokens == len(self.chunk_times) else []

    @property
    def client_queue(self) -> float | None:
        return None if self.sent is None else self.sent - self.scheduled
