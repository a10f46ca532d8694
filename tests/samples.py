"""Small recordings, manifests and stacks that several tests share."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import soundfile
import yaml

from firstsound.adapters.fake import FakeEndpointer, FakeLanguageModel, FakeRecognizer, FakeRetriever, FakeSynthesizer
from firstsound.adapters.incremental_transcription import IncrementalTranscription
from firstsound.clock import NS_PER_MS as MS
from firstsound.clock import AudioTime, WallTime
from firstsound.manifest import Clip
from firstsound.stages import SAMPLE_RATE_HZ, AudioChunk, Float32Audio, Passage, Recognizer, Stack
from firstsound.turn import AudioMarks, Turn, WallMarks

TEXT = "how do I brew coffee"
PASSAGES = (Passage("p1", "Milk is white"), Passage("p2", "Brew it hot"))
ANSWER = ("Brew", " it", " with", " hot", " water,", " and", " wait", " a", " while.")

TURN = Turn(
    query="q01",
    round=0,
    wiring="overlapped",
    mode="stepped",
    audio=AudioMarks(AudioTime(2310 * MS), AudioTime(2900 * MS)),
    wall=WallMarks(
        final=WallTime(95 * MS),
        retrieved=WallTime(96 * MS),
        first_token=WallTime(180 * MS),
        first_fragment=WallTime(230 * MS),
        first_chunk=WallTime(295 * MS),
        first_sound=WallTime(341 * MS),
        answer_end=WallTime(610 * MS),
        audio_end=WallTime(900 * MS),
    ),
    transcript="what time is it",
    passages=("p017",),
    answer="It is noon.",
    fragments=("It is", "noon."),
    cache="prefix",
)


def spoken(speech_s: float = 0.5, silence_s: float = 1.0, rate_hz: int = SAMPLE_RATE_HZ) -> Float32Audio:
    """A tone in place of speech, then silence: mono float32."""
    t = np.arange(int(speech_s * rate_hz)) / rate_hz
    tone = 0.3 * np.sin(2 * np.pi * 300 * t)
    return np.concatenate([tone, np.zeros(int(silence_s * rate_hz))]).astype(np.float32)


def clip(query: str = "q01", speech_s: float = 0.5, silence_s: float = 1.0) -> Clip:
    samples = spoken(speech_s, silence_s)
    end = AudioTime.from_samples(int(speech_s * SAMPLE_RATE_HZ) - 1, SAMPLE_RATE_HZ)
    return Clip(query, samples, TEXT, AudioTime(0), end, "p2", "0" * 64)


class HangingSynthesizer(FakeSynthesizer):
    """Speaks only once it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def synthesize(self, text: str) -> Iterator[AudioChunk]:
        self.released.wait(10)
        return super().synthesize(text)


def stack(**parts: object) -> Stack:
    """A fake stack that answers at once; name a part to replace it."""
    recognizer = parts.get("recognizer", FakeRecognizer(TEXT))
    whole: dict[str, object] = {
        "name": "fake",
        "new_endpointer": FakeEndpointer,
        "recognizer": recognizer,
        "retriever": FakeRetriever(PASSAGES),
        "llm": FakeLanguageModel(ANSWER),
        "synthesizer": FakeSynthesizer(),
        "new_transcription": lambda: IncrementalTranscription(cast("Recognizer", recognizer)),
    }
    return Stack(**{**whole, **parts})  # type: ignore[arg-type]


def write_clip(
    folder: Path, name: str = "q01.wav", *, rate_hz: int = SAMPLE_RATE_HZ, subtype: str = "PCM_16", channels: int = 1
) -> dict[str, object]:
    """Write a recording and return its manifest entry."""
    samples = spoken(rate_hz=rate_hz)
    soundfile.write(folder / name, np.repeat(samples[:, None], channels, axis=1), rate_hz, subtype=subtype)
    return {
        "file": name,
        "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest(),
        "sample_rate_hz": rate_hz,
        "text": TEXT,
        "speech_start_sample": 0,
        "speech_end_sample": rate_hz // 2 - 1,
        "expected_passage": "p2",
    }


def write_manifest(folder: Path, *entries: dict[str, object]) -> Path:
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "clips": list(entries)}))
    return path


class SteppedClock:
    """A clock that moves only when somebody sleeps, and oversleeps each time by `late_ns`."""

    def __init__(self, late_ns: int = 0) -> None:
        self.now = 5_000_000_000
        self.late_ns = late_ns

    def now_ns(self) -> int:
        return self.now

    def sleep_ns(self, duration_ns: int) -> None:
        if duration_ns > 0:
            self.now += duration_ns + self.late_ns
