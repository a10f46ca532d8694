import threading

import numpy as np
import pytest

from firstsound import recognition
from firstsound.clock import MonotonicClock
from firstsound.errors import StageError
from firstsound.recognition import Recognition, WholeUtterance
from firstsound.stages import Float32Audio

TEN = np.arange(10, dtype=np.float32)


class Counts:
    """Says how many samples it has heard; waits for `go` before each."""

    def __init__(self) -> None:
        self.heard = 0
        self.go = threading.Event()
        self.finished = False

    def hear(self, samples: Float32Audio, *, speech: bool) -> str | None:
        self.go.wait(10)
        self.heard += len(samples)
        return f"{self.heard}" if speech else None

    def finish(self) -> str:
        self.finished = True
        return f"{self.heard} in all"


def test_the_final_transcript_comes_after_all_that_was_given_and_the_partials_say_when() -> None:
    transcription = Counts()
    transcription.go.set()
    with Recognition(transcription, MonotonicClock()) as r:
        r.hear(TEN, speech=True)
        r.hear(TEN, speech=False)
        assert r.final() == "20 in all"
    assert [text for _, _, text in r.partials] == ["10"]
    assert all(start <= end for start, end, _ in r.partials)


def test_what_has_not_been_worked_off_is_the_backlog() -> None:
    transcription = Counts()
    with Recognition(transcription, MonotonicClock()) as r:
        assert r.backlog_samples == 0
        r.hear(TEN, speech=True)
        r.hear(TEN, speech=True)
        assert r.backlog_samples == 20
        transcription.go.set()
        r.final()
        assert r.backlog_samples == 0


def test_what_the_transcription_raises_is_raised_where_its_text_is_wanted() -> None:
    class Breaks(Counts):
        def hear(self, samples: Float32Audio, *, speech: bool) -> str | None:  # noqa: ARG002
            raise OSError("no more memory")

    with Recognition(Breaks(), MonotonicClock()) as r:
        r.hear(TEN, speech=True)
        with pytest.raises(OSError, match="no more memory"):
            r.final()


def test_a_transcription_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "FINAL_TIMEOUT_S", 0.05)
    transcription = Counts()
    with Recognition(transcription, MonotonicClock()) as r:
        r.hear(TEN, speech=True)
        with pytest.raises(StageError, match="no final transcript 0 s after the endpoint"):
            r.final()
        transcription.go.set()
    assert not transcription.finished


def test_an_abandoned_one_does_not_finish() -> None:
    transcription = Counts()
    with Recognition(transcription, MonotonicClock()) as r:
        r.hear(TEN, speech=True)
        r.hear(TEN, speech=True)
        threading.Timer(0.05, transcription.go.set).start()
    assert transcription.heard <= 10
    assert not transcription.finished


def test_without_streaming_everything_is_heard_at_the_end() -> None:
    class Length:
        def transcribe(self, samples: Float32Audio) -> str:
            return str(samples.tolist())

    whole = WholeUtterance(Length())
    assert whole.finish() == "[]"
    for samples in (TEN[:2], TEN[2:4]):
        assert whole.hear(samples, speech=True) is None  # type: ignore[func-returns-value]
    assert whole.finish() == "[0.0, 1.0, 2.0, 3.0]"
