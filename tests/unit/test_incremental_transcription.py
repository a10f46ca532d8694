import numpy as np

from firstsound.adapters.incremental_transcription import PAUSES_SAMPLES, IncrementalTranscription
from firstsound.hearing import PAUSE_MS
from firstsound.stages import Float32Audio

FRAME = 320


class Logs:
    """Tells how long an utterance it was given, in frames; from `sure` frames on, always the same."""

    def __init__(self, sure: int = 1_000) -> None:
        self.frames: list[int] = []
        self.sure = sure

    def transcribe(self, samples: Float32Audio) -> str:
        self.frames.append(len(samples) // FRAME)
        return f"text of {min(self.frames[-1], self.sure)}"


def heard(pattern: str, sure: int = 1_000) -> tuple[Logs, IncrementalTranscription, list[str | None]]:
    """Feed a frame a character: `s` is speech, `-` is not."""
    log = Logs(sure)
    transcription = IncrementalTranscription(log)
    said = [transcription.hear(np.zeros(FRAME, dtype=np.float32), speech=c == "s") for c in pattern]
    return log, transcription, said


EARLY, SAFE, LATE = (samples // FRAME for samples in PAUSES_SAMPLES)


def test_it_decodes_after_half_a_second_and_then_in_proportion() -> None:
    log, _, said = heard("s" * 250)
    assert log.frames == [25, 50, 75, 100, 125, 157, 197, 247]
    assert [text for text in said if text] == [f"text of {n}" for n in log.frames]


def test_in_a_pause_it_decodes_early_and_once_more_and_that_is_final() -> None:
    log, transcription, said = heard("s" * 10 + "-" * 30, sure=10)
    assert log.frames == [10 + EARLY, 10 + SAFE]
    assert said[10 + SAFE - 1] == "text of 10"
    assert transcription.finish() == "text of 10"
    assert len(log.frames) == 2


def test_what_is_heard_otherwise_the_second_time_is_decoded_a_third_time() -> None:
    log, transcription, said = heard("s" * 10 + "-" * 30)
    assert log.frames == [10 + EARLY, 10 + SAFE, 10 + LATE]
    assert said.index(f"text of {10 + LATE}") == 10 + LATE - 1
    assert transcription.finish() == f"text of {10 + LATE}"
    assert len(log.frames) == 3


def test_what_is_said_after_a_pause_is_decoded_too() -> None:
    log, transcription, _ = heard("s" * 5 + "-" * SAFE + "s" * 3 + "-" * 2)
    assert log.frames == [5 + EARLY, 5 + SAFE]
    # The middle of the pause is left out.
    assert transcription.finish() == f"text of {5 + 2 * PAUSE_MS // 20 + 5}"


def test_an_endpoint_before_the_last_word_is_safe_decodes_again() -> None:
    log, transcription, _ = heard("s" * 5 + "-" * (SAFE - 1))
    assert log.frames == [5 + EARLY]
    assert transcription.finish() == f"text of {5 + SAFE - 1}"


def test_a_decode_in_the_middle_of_a_word_is_not_final() -> None:
    log, transcription, _ = heard("s" * 25 + "-" * (EARLY - 1))
    assert log.frames == [25]
    assert transcription.finish() == f"text of {25 + EARLY - 1}"


def test_silence_is_not_decoded() -> None:
    log, transcription, said = heard("-" * 100)
    assert transcription.finish() == ""
    assert (log.frames, set(said)) == ([], {None})
