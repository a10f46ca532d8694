from pathlib import Path

import numpy as np
import pytest
import soundfile
from samples import spoken

from firstsound.audio import leading_silence_samples
from firstsound.clock import NS_PER_MS as MS
from firstsound.errors import FirstsoundError
from firstsound.recording import Recording, record
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
    first_sound_ns = taken.first_sound_ns(RATE_HZ * begin_ms // 1000)
    # Of whole windows, the one that holds the onset is the first.
    window = RATE_HZ // 100
    lead_in = RATE_HZ * lead_in_ms // 1000 // window * window
    assert first_sound_ns == pytest.approx(begin_ms * MS + lead_in * 10**9 / RATE_HZ, abs=MS / 10)


@pytest.mark.parametrize("zeros_ms", [9.5, 47, 50.5])
def test_what_lies_before_the_answer_does_not_move_its_windows(zeros_ms: float) -> None:
    """The marks count windows from the chunk's beginning too, so that nothing but lost time lies between the two."""
    zeros = np.zeros(round(RATE_HZ * zeros_ms / 1000), dtype=np.float32)
    chunk = np.concatenate([zeros, answer(0)])
    begin = RATE_HZ
    taken = record(spoken(), np.concatenate([np.zeros(begin, dtype=np.float32), chunk]), RATE_HZ)
    silence = leading_silence_samples(chunk, RATE_HZ)
    assert silence is not None
    assert taken.first_sound_ns(begin) == (begin + silence) * 10**9 // RATE_HZ


def test_both_sides_lie_on_one_time_line() -> None:
    taken = record(spoken(speech_s=0.5), answer(1_000), RATE_HZ)
    user, reply = (np.flatnonzero(np.abs(taken.pcm[:, side]) > 1_000) / RATE_HZ for side in (0, 1))
    assert user[-1] == pytest.approx(0.5, abs=0.002)
    assert reply[0] == pytest.approx(1.0, abs=0.0001)


@pytest.mark.parametrize("silent", [np.zeros(0), np.zeros(30_000), 0.0001 * np.ones(30_000)])
def test_an_answer_that_nobody_can_hear_has_no_first_sound(silent: Float32Audio) -> None:
    taken = record(spoken(), silent.astype(np.float32), RATE_HZ)
    assert taken.first_sound_ns(0) is None


def test_a_file_tells_the_same_as_the_recording(tmp_path: Path) -> None:
    taken = record(spoken(), answer(900, 70), RATE_HZ)
    taken.write(tmp_path / "q.flac")
    pcm, rate_hz = soundfile.read(tmp_path / "q.flac", dtype="int16")
    again = Recording(pcm, rate_hz)
    assert (again.pcm == taken.pcm).all()
    assert again.first_sound_ns(19_845) == taken.first_sound_ns(19_845)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FirstsoundError, match=r"gone/q\.flac: the recording cannot be written"):
        record(spoken(), answer(900), RATE_HZ).write(tmp_path / "gone/q.flac")
