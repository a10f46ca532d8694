from pathlib import Path

import numpy as np
import pytest
from samples import spoken

from firstsound.clock import NS_PER_MS as MS
from firstsound.clock import AudioTime
from firstsound.errors import FirstsoundError
from firstsound.recording import read, record
from firstsound.stages import Float32Audio

RATE_HZ = 22_050


def answer(begin_ms: int, lead_in_ms: int = 0) -> Float32Audio:
    """Nothing, then the chunk: a faint hiss and a tone."""
    hiss = 0.0003 * np.ones(RATE_HZ * lead_in_ms // 1000)
    tone = 0.3 * np.cos(2 * np.pi * 440 * np.arange(RATE_HZ // 2) / RATE_HZ)
    return np.concatenate([np.zeros(RATE_HZ * begin_ms // 1000), hiss, tone]).astype(np.float32)


@pytest.mark.parametrize(("begin_ms", "lead_in_ms"), [(1_500, 0), (1_500, 120), (620, 50)])
def test_the_silence_ends_where_the_answer_can_be_heard(begin_ms: int, lead_in_ms: int) -> None:
    taken = record(spoken(), answer(begin_ms, lead_in_ms), RATE_HZ)
    silence_ns = taken.silence_ns(AudioTime(500 * MS))
    assert silence_ns is not None
    # A window of 10 ms is audible or not.
    assert silence_ns == pytest.approx((begin_ms + lead_in_ms - 500) * MS, abs=10 * MS)
    if lead_in_ms == 0:
        assert silence_ns == pytest.approx((begin_ms - 500) * MS, abs=MS / 10)


def test_both_sides_lie_on_one_time_line() -> None:
    taken = record(spoken(speech_s=0.5), answer(1_000), RATE_HZ)
    user, reply = (np.flatnonzero(np.abs(taken.pcm[:, side]) > 1_000) / RATE_HZ for side in (0, 1))
    assert user[-1] == pytest.approx(0.5, abs=0.002)
    assert reply[0] == pytest.approx(1.0, abs=0.0001)


@pytest.mark.parametrize("silent", [np.zeros(0), np.zeros(30_000), 0.0001 * np.ones(30_000)])
def test_an_answer_that_nobody_can_hear_has_no_first_sound(silent: Float32Audio) -> None:
    taken = record(spoken(), silent.astype(np.float32), RATE_HZ)
    assert taken.first_sound_ns() is None
    assert taken.silence_ns(AudioTime(0)) is None


def test_a_file_tells_the_same_as_the_recording(tmp_path: Path) -> None:
    taken = record(spoken(), answer(900, 70), RATE_HZ)
    taken.write(tmp_path / "q.flac")
    again = read(tmp_path / "q.flac")
    assert (again.pcm == taken.pcm).all()
    assert again.silence_ns(AudioTime(7)) == taken.silence_ns(AudioTime(7))


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FirstsoundError, match=r"gone/q\.flac: the recording cannot be written"):
        record(spoken(), answer(900), RATE_HZ).write(tmp_path / "gone/q.flac")
