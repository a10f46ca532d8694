"""The recordings of the user, and the labels that come with them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from firstsound import audio, yamlfile
from firstsound.clock import AudioTime
from firstsound.errors import FirstsoundError
from firstsound.stages import SAMPLE_RATE_HZ, Float32Audio
from firstsound.text import words

_Count = Annotated[int, Field(ge=0, strict=True)]


class Entry(BaseModel):
    """One clip as the manifest names it; samples count at the file's own rate."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    sample_rate_hz: Annotated[int, Field(gt=0, strict=True)]
    text: Annotated[str, Field(min_length=1)]
    speech_start_sample: _Count
    speech_end_sample: _Count
    expected_passage: str | None = None
    made: dict[str, Any] = {}

    @field_validator("text")
    @classmethod
    def _holds_words(cls, text: str) -> str:
        if not words(text):
            raise ValueError(f"{text!r} holds no word that could be understood")
        return text

    @field_validator("file")
    @classmethod
    def _stays_in_its_folder(cls, file: str) -> str:
        path = PurePosixPath(file)
        if path.is_absolute() or ".." in path.parts or not path.name:
            raise ValueError(f"{file!r} leaves the manifest's folder")
        return file


class _Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1]
    clips: Annotated[list[Entry], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Clip:
    """One recording of the user, ready to be heard."""

    query: str
    """The file's name without its ending; unique in a manifest."""
    samples: Float32Audio
    """16 kHz mono float32, shape (n,)."""
    text: str
    speech_start: AudioTime
    speech_end: AudioTime
    expected_passage: str | None
    sha256: str


def load(path: Path) -> list[Clip]:
    """All clips of the manifest at `path`, in its order.

    Raises:
        FirstsoundError: the manifest is broken, or a clip is missing, altered, unreadable or wrongly labelled; the
            message names the manifest or the clip.
    """
    entries = yamlfile.load(path, _Manifest, "; name another with --clips=FILE").clips
    clips = [_load_clip(path.parent, entry) for entry in entries]
    names = [clip.query for clip in clips]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FirstsoundError(f"{path}: more than one clip is called {', '.join(twice)}; rename the files")
    return clips


def _load_clip(folder: Path, entry: Entry) -> Clip:
    file = folder / entry.file
    try:
        data = file.read_bytes()
    except OSError as e:
        raise FirstsoundError(f"{file}: the manifest names this recording, but it cannot be read: {e}") from e
    digest = hashlib.sha256(data).hexdigest()
    if digest != entry.sha256:
        raise FirstsoundError(
            f"{file}: the manifest says sha256 {entry.sha256} but the file has {digest}; "
            "restore the file, or label the new one and enter its hash"
        )
    samples, rate_hz = audio.decode(data, str(file))
    if rate_hz != entry.sample_rate_hz:
        raise FirstsoundError(f"{file}: the manifest says {entry.sample_rate_hz} Hz but the file has {rate_hz} Hz")
    speech_end = AudioTime.from_samples(entry.speech_end_sample, rate_hz)
    duration = AudioTime.from_samples(len(samples), SAMPLE_RATE_HZ)
    if speech_end >= duration:
        raise FirstsoundError(
            f"{file}: speech_end_sample {entry.speech_end_sample} is beyond the clip, which ends at "
            f"{duration.ns / 1e9:.3f} s"
        )
    if entry.speech_start_sample >= entry.speech_end_sample:
        raise FirstsoundError(f"{file}: speech_start_sample must come before speech_end_sample")
    return Clip(
        query=Path(entry.file).stem,
        samples=samples,
        text=entry.text,
        speech_start=AudioTime.from_samples(entry.speech_start_sample, rate_hz),
        speech_end=speech_end,
        expected_passage=entry.expected_passage,
        sha256=digest,
    )
