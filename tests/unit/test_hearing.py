import numpy as np
import pytest

from firstsound.hearing import PAUSE_MS, joined
from firstsound.stages import Float32Audio

FRAME = 320
KEPT = PAUSE_MS // 20


def pieces(pattern: str) -> list[tuple[Float32Audio, bool]]:
    """A frame a character: `s` is speech, `-` is not; each holds its number."""
    return [(np.full(FRAME, i, dtype=np.float32), c == "s") for i, c in enumerate(pattern)]


def frames(samples: Float32Audio) -> list[int]:
    assert samples.dtype == np.float32
    return [int(number) for number in samples[::FRAME]]


@pytest.mark.parametrize("pattern", ["", "-", "sss", "-" * 15 + "ss" + "-" * 50, "ss" + "-" * 2 * KEPT + "s"])
def test_all_is_heard_of_what_lies_around_speech_and_of_short_pauses(pattern: str) -> None:
    assert frames(joined(pieces(pattern))) == list(range(len(pattern)))


def test_the_middle_of_a_long_pause_is_left_out() -> None:
    pattern = "--s" + "-" * 30 + "ss" + "-" * 40 + "s-"
    left = frames(joined(pieces(pattern)))
    assert left == [
        *range(3 + KEPT),
        *range(33 - KEPT, 35 + KEPT),
        *range(75 - KEPT, 77),
    ]
