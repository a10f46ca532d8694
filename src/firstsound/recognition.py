"""Recognition beside everything else: a thread that lets a transcription hear what the microphone delivers."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Self

from firstsound.clock import Clock
from firstsound.errors import StageError, in_stage
from firstsound.hearing import joined
from firstsound.stages import Float32Audio, Recognizer, Transcription, require_text
from firstsound.text import same, words

FINAL_TIMEOUT_S = 60.0
"""How long after the endpoint the recognizer may work before the turn fails."""
END_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Understood:
    """A partial transcript."""

    samples: int
    """How many of the samples given it covers."""
    transcript: str
    stable: bool
    """Whether the one before had the same words."""
    complete: bool | None
    """Whether it reads as if it might be all; None where nobody can tell."""


class WholeUtterance:
    """The transcription of a stack that has no streaming one: all is heard first, and understood at the end."""

    def __init__(self, recognizer: Recognizer) -> None:
        """Let `recognizer` transcribe the utterance."""
        self._recognizer = recognizer
        self._heard: list[tuple[Float32Audio, bool]] = []

    def hear(self, samples: Float32Audio, *, speech: bool) -> None:
        """Keep the samples."""
        self._heard.append((samples, speech))

    def finish(self) -> str:
        """The transcript of all that was heard."""
        return self._recognizer.transcribe(joined(self._heard))


class Recognition:
    """Works off what it is given in its own time; what it has not come to is its backlog."""

    def __init__(
        self,
        transcription: Transcription,
        clock: Clock,
        tell: Callable[[Understood, bool], None] | None = None,
        reads_complete: Callable[[str], bool] | None = None,
    ) -> None:
        """Listen within a `with` statement; `tell` is given each partial transcript, and whether the user spoke on."""
        self._transcription = transcription
        self._clock = clock
        self._tell = tell
        self._reads_complete = reads_complete
        self._queue: SimpleQueue[tuple[Float32Audio, bool] | None] = SimpleQueue()
        self._given_samples = 0
        self._done_samples = 0
        self._abandoned = False
        self._text = ""
        self._failure: BaseException | None = None
        self.understood: Understood | None = None
        """The newest partial transcript."""
        self.partials: list[tuple[int, int, str]] = []
        """For each partial transcript, when work on it began and ended on the clock, and the text."""
        self._thread = threading.Thread(target=self._work, name="firstsound-recognition", daemon=True)

    @property
    def given_samples(self) -> int:
        """How many samples it was given."""
        return self._given_samples

    @property
    def backlog_samples(self) -> int:
        """How many of the samples given it has not yet worked off."""
        return self._given_samples - self._done_samples

    def hear(self, samples: Float32Audio, *, speech: bool) -> None:
        """Give it the next samples, without waiting."""
        self._given_samples += len(samples)
        self._queue.put((samples, speech))

    def final(self) -> str:
        """Wait for the final transcript.

        Raises:
            StageError: it does not come in time.
            Exception: whatever the transcription raised.
        """
        self._queue.put(None)
        self._thread.join(FINAL_TIMEOUT_S)
        if self._thread.is_alive():
            raise StageError(f"no final transcript {FINAL_TIMEOUT_S:.0f} s after the endpoint")
        if self._failure is not None:
            raise self._failure
        return self._text

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # At the next opportunity, whatever is left.
        self._abandoned = True
        self._queue.put(None)
        self._thread.join(END_TIMEOUT_S)

    def _understand(self, text: str) -> Understood:
        stable = self.understood is not None and same(text, self.understood.transcript)
        complete = None
        if self._reads_complete is not None and words(text):
            with in_stage("reads_complete"):
                complete = self._reads_complete(text)
        return Understood(self._done_samples, text, stable, complete)

    def _work(self) -> None:
        try:
            for samples, speech in iter(self._queue.get, None):
                if self._abandoned:
                    return
                start_ns = self._clock.now_ns()
                text = self._transcription.hear(samples, speech=speech)
                if text is not None:
                    require_text(text)
                self._done_samples += len(samples)
                if text is not None:
                    self.partials.append((start_ns, self._clock.now_ns(), text))
                    self.understood = self._understand(text)
                    if self._tell is not None:
                        self._tell(self.understood, speech)
            if not self._abandoned:
                self._text = require_text(self._transcription.finish())
        except BaseException as e:  # noqa: BLE001 - raised where the transcript is wanted
            self._failure = e
