import pytest

from firstsound.recognition import Understood
from firstsound.stages import Heard
from firstsound.turn_end import LONG_MS, MIN_SPEECH_MS, SHORT_MS, TurnEnd

FRAME = 320
SPOKEN = MIN_SPEECH_MS // 20


def understood(samples: int = 20 * FRAME, *, stable: bool = True, complete: bool | None = True) -> Understood:
    return Understood(samples, "All.", stable, complete)


def ended_ms(known: Understood | None, speech_frames: int = SPOKEN, gap_ms: int = 500) -> int | None:
    """After how much silence the turn ends; the endpointer says so after `gap_ms`."""
    end = TurnEnd()
    given = 10 * FRAME
    assert not any(end.decide(Heard.SPEECH, FRAME, given, None) for _ in range(speech_frames))
    for ms in range(20, 2_000, 20):
        given += FRAME
        if end.decide(Heard.ENDPOINT if ms >= gap_ms else Heard.SILENCE, FRAME, given, known):
            return ms
    return None


def test_what_is_understood_shortens_or_lengthens_the_wait() -> None:
    assert ended_ms(understood()) == SHORT_MS
    assert ended_ms(understood(complete=False)) == LONG_MS
    assert ended_ms(understood(complete=False, stable=False)) == LONG_MS


def test_an_endpointer_with_more_patience_is_not_hurried_by_what_cannot_be_all() -> None:
    assert ended_ms(understood(complete=False), gap_ms=1_200) == 1_200
    assert ended_ms(understood(), gap_ms=1_200) == SHORT_MS


@pytest.mark.parametrize(
    "known",
    [
        None,
        understood(stable=False),
        understood(complete=None),
        # Made before the last word was over: the words may be another's.
        understood(10 * FRAME),
        understood(10 * FRAME, complete=False),
    ],
)
def test_without_a_transcript_of_all_that_was_said_the_endpointer_decides(known: Understood | None) -> None:
    assert ended_ms(known) == 500


@pytest.mark.parametrize("complete", [True, False])
def test_what_is_understood_of_a_click_ends_nothing(complete: bool) -> None:  # noqa: FBT001
    assert ended_ms(understood(complete=complete), SPOKEN - 1) == 500


def test_the_wait_begins_anew_with_each_word() -> None:
    end = TurnEnd()
    assert not any(end.decide(Heard.SPEECH, FRAME, 3_200, None) for _ in range(SPOKEN))
    assert not any(end.decide(Heard.SILENCE, FRAME, 3_200 + FRAME * i, understood(4_000)) for i in range(1, 10))
    assert not end.decide(Heard.SPEECH, FRAME, 6_400, understood(4_000))
    ends = [end.decide(Heard.SILENCE, FRAME, 6_400 + FRAME * i, understood(6_720)) for i in range(1, 18)]
    assert ends == [False] * 16 + [True]
