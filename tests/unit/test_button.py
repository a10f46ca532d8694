import numpy as np
import pytest
import samples

from firstsound.button import Button
from firstsound.stages import Heard


@pytest.mark.parametrize(("speech_s", "frames"), [(0.5, 25), (0.501, 26), (0.02, 1)])
def test_it_is_let_go_of_with_the_frame_that_holds_the_last_of_speech(speech_s: float, frames: int) -> None:
    button = Button(samples.clip("q", speech_s))
    heard = [button.hear(np.zeros(320, dtype=np.int16)) for _ in range(frames)]
    assert heard == [Heard.SPEECH] * (frames - 1) + [Heard.ENDPOINT]
