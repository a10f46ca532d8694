"""What a voice stack is made of: one protocol a stage, and the values that pass between them.

A stage only does its work. It takes no time, keeps no marks, retries nothing: that is the suite's business.

Stages are called from threads of the suite, each from one at a time. In an overlapped turn the synthesizer speaks while
the language model writes; in a speculative one both may work while the transcription still hears. There, an answer that
is not wanted is given up: the iterator of `LanguageModel.reply` is closed before its end, and must then stop its
server's work; what `Synthesizer.synthesize` still gives is not played. In a turn that fails, `Transcription.finish`
never comes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Int16Audio = NDArray[np.int16]
Float32Audio = NDArray[np.float32]

SAMPLE_RATE_HZ = 16_000
"""The rate at which a stack hears the user; clips are converted to it on loading."""

LOUDEST = 2.0
"""A synthesizer may overshoot full scale, which is ±1, and is clipped; beyond this its samples are on another scale."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of the corpus."""

    id: str
    text: str

    def __post_init__(self) -> None:
        require_text(self.id)
        require_text(self.text)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the language model is asked; `system` is the same for every turn, so its prefix can be cached."""

    system: str
    user: str


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer's text as it came; may be empty or blank."""

    text: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of an answer. A stream that ends without one was cut off, and fails its turn.

    `prompt_tokens` is the prompt's length and `cached_tokens` how many of them the server did not have to evaluate.
    """

    reason: str
    prompt_tokens: int
    cached_tokens: int

    def __post_init__(self) -> None:
        if not 0 <= self.cached_tokens <= self.prompt_tokens:
            raise ValueError(f"{self.cached_tokens} cached of {self.prompt_tokens} prompt tokens cannot be")


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """A piece of the answer's sound: mono float32 samples, shape (n,), full scale at ±1. It keeps a copy of its own.

    Raises:
        ValueError: the samples are of another type, shape or scale, or not finite, or the rate is no positive int.
    """

    samples: Float32Audio
    rate_hz: int

    def __post_init__(self) -> None:
        if self.samples.dtype != np.float32 or self.samples.ndim != 1:
            raise ValueError(f"a chunk is 1-d float32, not {self.samples.ndim}-d {self.samples.dtype}")
        if not np.isfinite(self.samples).all():
            raise ValueError("a chunk holds samples that are not finite numbers")
        if np.abs(self.samples).max(initial=0) > LOUDEST:
            raise ValueError(
                f"a chunk reaches {np.abs(self.samples).max():.6g}, but full scale is 1: were these samples integers?"
            )
        # A synthesizer may use its buffer again while this is being played.
        object.__setattr__(self, "samples", self.samples.copy())
        if type(self.rate_hz) is not int or self.rate_hz <= 0:
            raise ValueError(f"a chunk's rate must be a positive int, not {self.rate_hz!r}")


def require_text(said: object) -> str:
    """What a stage gave as text, if it is.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(said, str):
        raise TypeError(f"text is wanted, not {type(said).__name__}")
    return said


class Heard(Enum):
    """What an endpointer makes of a frame."""

    SILENCE = "silence"
    SPEECH = "speech"
    ENDPOINT = "endpoint"
    """The user is done. Who has more patience may go on: what follows is judged as if this had not been said."""


class Endpointer(Protocol):
    """Tells speech from silence, and decides when the user is done. One instance hears one clip, each frame once."""

    frame_samples: int
    """Samples a frame, at 16 kHz."""

    def hear(self, frame: Int16Audio) -> Heard:
        """Hear one frame, int16, shape (frame_samples,)."""
        ...


class Recognizer(Protocol):
    """Turns the user's speech into text; in live turns the recorded answer too, to judge what could be heard of it."""

    def transcribe(self, samples: Float32Audio) -> str:
        """The final transcript of 16 kHz mono float32 samples, shape (n,), or "" where there is no speech."""
        ...


class Transcription(Protocol):
    """Turns one utterance into text while it is being spoken."""

    def hear(self, samples: Float32Audio, *, speech: bool) -> str | None:
        """Hear the next 16 kHz mono float32 samples, shape (n,); a partial transcript of all so far if there is news.

        `speech` is what the endpointer makes of them.
        """
        ...

    def finish(self) -> str:
        """The final transcript, or "" where there was no speech; nothing more will be heard."""
        ...


class Retriever(Protocol):
    """Finds the passages that may answer."""

    def search(self, query: str, k: int) -> Sequence[Passage]:
        """The best `k` passages, best first; fewer where fewer match at all."""
        ...


class LanguageModel(Protocol):
    """Writes the answer."""

    def reply(self, prompt: Prompt) -> Iterator[Delta | Finish]:
        """Stream the answer: deltas as they come, then one `Finish`.

        Raises:
            StageError: the server refused, stalled, broke off or sent what cannot be read.
        """
        ...


class Synthesizer(Protocol):
    """Speaks."""

    def synthesize(self, text: str) -> Iterable[AudioChunk]:
        """Stream the sound of `text`; nothing at all where it holds nothing to say."""
        ...


@dataclass(frozen=True, slots=True)
class Stack:
    """A whole voice assistant, and what the results should say about it."""

    name: str
    new_endpointer: Callable[[], Endpointer]
    recognizer: Recognizer
    retriever: Retriever
    llm: LanguageModel
    synthesizer: Synthesizer
    new_transcription: Callable[[], Transcription] | None = None
    """Begins a streaming transcription, for live turns; without it, the recognizer hears the utterance at its end."""
    reads_complete: Callable[[str], bool] | None = None
    """Whether an utterance may be over, by its transcript so far: the endpoint of speculative turns then follows what
    is understood; without it, the endpointer alone decides."""
    prefill: Callable[[Prompt], None] | None = None
    """Lets the language model read a prompt that begins like one that may come, while the user still speaks, so that
    the answer to that one begins sooner; for speculative turns."""
    lead_in_ms: int | None = None
    """How much silence, in ms, is left before the first audible sample of an answer; without it, all there is."""
    pids: Callable[[], Iterable[int]] = tuple
    """The other processes that serve the stack, for the memory line; called at every sample."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """JSON-ready facts for the results: model files and their hashes, thread counts, package versions."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What the suite gives a stack's builder."""

    passages: Sequence[Passage]
    threads: int
    """How many threads the container's CPU quota and affinity allow; size every pool by it."""


class StackBuilder(Protocol):
    """What `--stack module:function` names: a context manager that starts a stack and stops it."""

    def __call__(self, setup: Setup) -> Any:  # noqa: ANN401 - contextlib's types are invariant in the wrong places
        """Return a context manager that yields a `Stack`."""
        ...
