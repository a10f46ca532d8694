import pytest

from firstsound.recognition import Understood
from firstsound.stages import Heard
from firstsound.turn_end import LONG_MS, SHORT_MS, TurnEnd

FRAME = 320


def reads_complete(transcript: str) -> bool:
    return transcript.endswith(".")


def ended_ms(understood: Understood | None, *, heeded: bool = True) -> int | None:
    """After how much silence the turn ends; the endpointer says so after half a second."""
    end = TurnEnd(reads_complete if heeded else None)
    given = 3_200
    assert not end.decide(Heard.SPEECH, FRAME, given, None)
    for ms in range(20, 2_000, 20):
        given += FRAME
        if end.decide(Heard.ENDPOINT if ms >= 500 else Heard.SILENCE, FRAME, given, understood):
            return ms
    return None


def test_what_is_understood_shortens_or_lengthens_the_wait() -> None:
    assert ended_ms(Understood(5_120, "All.", stable=True)) == SHORT_MS
    assert ended_ms(Understood(5_120, "All and", stable=True)) == LONG_MS
    assert ended_ms(Understood(5_120, "All and", stable=False)) == LONG_MS


@pytest.mark.parametrize(
    "understood",
    [
        None,
        Understood(5_120, "All.", stable=False),
        # Made before the last word was over: the words may be another's.
        Understood(3_200, "All.", stable=True),
        Understood(3_200, "All and", stable=True),
    ],
)
def test_without_a_transcript_of_all_that_was_said_the_endpointer_decides(understood: Understood | None) -> None:
    assert ended_ms(understood) == 500


def test_where_nothing_is_read_the_endpointer_decides() -> None:
    assert ended_ms(Understood(5_120, "All.", stable=True), heeded=False) == 500


def test_the_wait_begins_anew_with_each_word() -> None:
    end = TurnEnd(reads_complete)
    understood = Understood(4_000, "All.", stable=True)
    assert not end.decide(Heard.SPEECH, FRAME, 3_200, None)
    assert not any(end.decide(Heard.SILENCE, FRAME, 3_200 + FRAME * i, understood) for i in range(1, 10))
    assert not end.decide(Heard.SPEECH, FRAME, 6_400, understood)
    later = Understood(6_720, "All.", stable=True)
    ends = [end.decide(Heard.SILENCE, FRAME, 6_400 + FRAME * i, later) for i in range(1, 18)]
    assert ends == [False] * 16 + [True]
