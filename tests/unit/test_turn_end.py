import pytest

from firstsound.recognition import Understood
from firstsound.stages import Heard
from firstsound.turn_end import TurnEnd

FRAME = 320


class Waits:
    """As long as the transcript says, in ms."""

    def __call__(self, transcript: str, *, stable: bool) -> int | None:
        return int(transcript) if stable else None


def silence_ms(patience: Waits | None, understood: Understood | None, gap_ms: int = 500) -> int | None:
    """After how much silence the turn ends; the endpointer says so after `gap_ms`."""
    end = TurnEnd(patience)
    given = 3_200
    assert not end.decide(Heard.SPEECH, FRAME, given, None)
    for ms in range(20, 2_000, 20):
        given += FRAME
        if end.decide(Heard.ENDPOINT if ms >= gap_ms else Heard.SILENCE, FRAME, given, understood):
            return ms
    return None


@pytest.mark.parametrize(("gap", "ended_ms"), [("340", 340), ("350", 360), ("1000", 1_000), ("500", 500)])
def test_what_is_understood_shortens_or_lengthens_the_wait(gap: str, ended_ms: int) -> None:
    assert silence_ms(Waits(), Understood(5_120, gap, stable=True)) == ended_ms


@pytest.mark.parametrize(
    "understood",
    [
        None,
        Understood(5_120, "340", stable=False),
        # Made before the last word was over: the words may be another's.
        Understood(3_200, "340", stable=True),
    ],
)
def test_without_a_transcript_of_all_that_was_said_the_endpointer_decides(understood: Understood | None) -> None:
    assert silence_ms(Waits(), understood) == 500


def test_without_patience_the_endpointer_decides() -> None:
    assert silence_ms(None, Understood(5_120, "340", stable=True)) == 500


def test_the_wait_begins_anew_with_each_word() -> None:
    end = TurnEnd(Waits())
    understood = Understood(4_000, "40", stable=True)
    assert not end.decide(Heard.SPEECH, FRAME, 3_200, None)
    assert not end.decide(Heard.SILENCE, FRAME, 3_520, understood)
    assert not end.decide(Heard.SPEECH, FRAME, 3_840, understood)
    assert not end.decide(Heard.SILENCE, FRAME, 4_160, understood)
    assert end.decide(Heard.SILENCE, FRAME, 4_480, understood)
