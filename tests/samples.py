"""Small recordings, manifests and stacks that several tests share."""

import hashlib
from pathlib import Path

import numpy as np
import soundfile
import yaml

from firstsound.adapters.fake import FakeEndpointer, FakeLanguageModel, FakeRecognizer, FakeRetriever, FakeSynthesizer
from firstsound.clock import AudioTime
from firstsound.manifest import Clip
from firstsound.stages import SAMPLE_RATE_HZ, Float32Audio, Passage, Stack

TEXT = "how do I brew coffee"
PASSAGES = (Passage("p1", "Milk is white"), Passage("p2", "Brew it hot"))
ANSWER = ("Brew", " it", " with", " hot", " water,", " and", " wait", " a", " while.")


def spoken(speech_s: float = 0.5, silence_s: float = 1.0, rate_hz: int = SAMPLE_RATE_HZ) -> Float32Audio:
    """A tone in place of speech, then silence: mono float32."""
    t = np.arange(int(speech_s * rate_hz)) / rate_hz
    tone = 0.3 * np.sin(2 * np.pi * 300 * t)
    return np.concatenate([tone, np.zeros(int(silence_s * rate_hz))]).astype(np.float32)


def clip(query: str = "q01", speech_s: float = 0.5, silence_s: float = 1.0) -> Clip:
    samples = spoken(speech_s, silence_s)
    end = AudioTime.from_samples(int(speech_s * SAMPLE_RATE_HZ) - 1, SAMPLE_RATE_HZ)
    return Clip(query, samples, TEXT, end, "p2", "0" * 64)


def stack(**parts: object) -> Stack:
    """A fake stack that answers at once; name a part to replace it."""
    whole: dict[str, object] = {
        "name": "fake",
        "new_endpointer": FakeEndpointer,
        "recognizer": FakeRecognizer(TEXT),
        "retriever": FakeRetriever(PASSAGES),
        "llm": FakeLanguageModel(ANSWER),
        "synthesizer": FakeSynthesizer(),
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
