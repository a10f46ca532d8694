"""Stages with scripted answers and delays, for tests of the suite itself; never for measuring."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from firstsound.clock import NS_PER_MS, Clock, MonotonicClock
from firstsound.stages import (
    SAMPLE_RATE_HZ,
    AudioChunk,
    Delta,
    Finish,
    Float32Audio,
    Heard,
    Int16Audio,
    Passage,
    Prompt,
)

LOUD = 1000
"""A frame with a sample beyond this, of 32,768, is speech to the fake endpointer."""


@dataclass(slots=True)
class Delay:
    """A scripted wait; `slept_ns` is what it really took, since a sleep is always a little longer than asked."""

    ms: float = 0
    clock: Clock = field(default_factory=MonotonicClock)
    slept_ns: list[int] = field(default_factory=list)

    def wait(self) -> None:
        """Sleep as scripted."""
        start_ns = self.clock.now_ns()
        self.clock.sleep_ns(round(self.ms * NS_PER_MS))
        self.slept_ns.append(self.clock.now_ns() - start_ns)


@dataclass(slots=True)
class FakeEndpointer:
    """Takes loudness for speech and `gap_ms` of quiet for the end."""

    gap_ms: int = 500
    frame_samples: int = SAMPLE_RATE_HZ // 50
    _begun: bool = False
    _quiet_ms: int = 0

    def hear(self, frame: Int16Audio) -> Heard:
        """Hear one frame."""
        if (np.abs(frame.astype(np.int32)) > LOUD).any():
            self._begun, self._quiet_ms = True, 0
            return Heard.SPEECH
        self._quiet_ms += 20
        return Heard.ENDPOINT if self._begun and self._quiet_ms >= self.gap_ms else Heard.SILENCE


@dataclass(slots=True)
class FakeRecognizer:
    """Hears the same text in every clip that is not silent."""

    text: str
    delay: Delay = field(default_factory=Delay)

    def transcribe(self, samples: Float32Audio) -> str:
        """The scripted text, after the delay; "" for silence."""
        self.delay.wait()
        return self.text if np.abs(samples).max(initial=0) > LOUD / 2**15 else ""


@dataclass(slots=True)
class FakeRetriever:
    """Finds the passages that share a word with the query, in the corpus's order."""

    passages: Sequence[Passage]
    delay: Delay = field(default_factory=Delay)

    def search(self, query: str, k: int) -> list[Passage]:
        """The first `k` that match, after the delay."""
        self.delay.wait()
        asked = set(query.lower().split())
        return [passage for passage in self.passages if asked & set(passage.text.lower().split())][:k]


@dataclass(slots=True)
class FakeLanguageModel:
    """Streams the scripted pieces, the first after one delay and the others after another."""

    pieces: Sequence[str]
    first_delay: Delay = field(default_factory=Delay)
    delay: Delay = field(default_factory=Delay)
    finish: Finish | None = Finish("stop", prompt_tokens=100, cached_tokens=40)  # noqa: RUF009 - frozen

    def reply(self, prompt: Prompt) -> Iterator[Delta | Finish]:  # noqa: ARG002 - the script knows its answer
        """Stream the script."""
        for i, piece in enumerate(self.pieces):
            (self.delay if i else self.first_delay).wait()
            yield Delta(piece)
        if self.finish is not None:
            yield self.finish


@dataclass(slots=True)
class FakeSynthesizer:
    """Speaks a tone of 50 ms a word after `lead_in_ms` of silence; nothing where there is nothing to say."""

    delay: Delay = field(default_factory=Delay)
    lead_in_ms: int = 0
    rate_hz: int = 22_050
    amplitude: float = 0.3

    def synthesize(self, text: str) -> Iterator[AudioChunk]:
        """One chunk, after the delay."""
        words = [word for word in text.split() if any(c.isalnum() for c in word)]
        if not words:
            return
        self.delay.wait()
        silence = np.zeros(self.rate_hz * self.lead_in_ms // 1000, dtype=np.float32)
        t = np.arange(self.rate_hz * 50 * len(words) // 1000, dtype=np.float32) / self.rate_hz
        tone = self.amplitude * np.sin(2 * np.pi * 440 * t, dtype=np.float32)
        yield AudioChunk(np.concatenate([silence, tone.astype(np.float32)]), self.rate_hz)
