import numpy as np
import pytest
from samples import SteppedClock

from firstsound.clock import NS_PER_MS as MS
from firstsound.loudspeaker import Loudspeaker
from firstsound.stages import AudioChunk

RATE_HZ = 8_000


def chunk(*values: float, rate_hz: int = RATE_HZ) -> AudioChunk:
    return AudioChunk(np.array(values, dtype=np.float32), rate_hz)


def hundred_ms(level: float) -> AudioChunk:
    return chunk(*[level] * (RATE_HZ // 10))


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def loudspeaker(clock: SteppedClock) -> Loudspeaker:
    device = Loudspeaker(clock)
    device.origin_ns = clock.now
    return device


def test_chunks_follow_each_other_from_the_moment_the_first_is_here(
    clock: SteppedClock, loudspeaker: Loudspeaker
) -> None:
    clock.sleep_ns(1_000 * MS)
    loudspeaker.play(hundred_ms(0.1))
    clock.sleep_ns(50 * MS)
    loudspeaker.play(hundred_ms(0.2))
    assert [(c.start, c.end) for c in loudspeaker.playing] == [(8_000, 8_800), (8_800, 9_600)]
    assert loudspeaker.signal().tolist() == pytest.approx([0.0] * 8_000 + [0.1] * 800 + [0.2] * 800)
    assert (loudspeaker.underruns_ns, loudspeaker.fault) == ([], None)


def test_no_sample_sounds_before_its_chunk_is_here(clock: SteppedClock, loudspeaker: Loudspeaker) -> None:
    clock.sleep_ns(1)
    loudspeaker.play(hundred_ms(0.1))
    assert loudspeaker.playing[0].start == 1


def test_waiting_ends_with_the_last_sample(clock: SteppedClock, loudspeaker: Loudspeaker) -> None:
    loudspeaker.wait()
    assert clock.now == loudspeaker.origin_ns
    loudspeaker.play(hundred_ms(0.1))
    loudspeaker.play(hundred_ms(0.1))
    loudspeaker.wait()
    assert clock.now == loudspeaker.origin_ns + 200 * MS


def test_a_gap_is_an_underrun_that_is_measured_and_told(clock: SteppedClock, loudspeaker: Loudspeaker) -> None:
    loudspeaker.play(hundred_ms(0.1))
    clock.sleep_ns(130 * MS)
    loudspeaker.play(hundred_ms(0.1))
    clock.sleep_ns(150 * MS)
    loudspeaker.play(hundred_ms(0.1))
    assert loudspeaker.underruns_ns == [30 * MS, 50 * MS]
    assert loudspeaker.fault == "underrun: nothing to play for 30 ms before chunk 2"
    assert not loudspeaker.signal()[800:1_040].any()


def test_a_chunk_at_another_rate_is_not_played_and_told(loudspeaker: Loudspeaker) -> None:
    loudspeaker.play(hundred_ms(0.1))
    loudspeaker.play(chunk(0.1, rate_hz=16_000))
    assert loudspeaker.fault == "chunk 2 has 16000 Hz, but 8000 Hz are playing"
    assert len(loudspeaker.playing) == 1


def test_steps_are_measured_where_chunks_begin_and_end_and_nowhere_else(loudspeaker: Loudspeaker) -> None:
    assert loudspeaker.joint_jump() == 0
    loudspeaker.play(chunk(0.0, 0.9, 0.0))
    assert loudspeaker.joint_jump() == 0
    loudspeaker.play(chunk(0.25, 0.25))
    assert loudspeaker.joint_jump() == 0.25
    loudspeaker.play(chunk(0.25, -0.5))
    assert loudspeaker.joint_jump() == 0.5


def test_an_empty_chunk_is_nothing_to_play_and_no_underrun_follows_it(
    clock: SteppedClock, loudspeaker: Loudspeaker
) -> None:
    loudspeaker.play(chunk())
    clock.sleep_ns(50 * MS)
    loudspeaker.play(hundred_ms(0.1))
    assert (len(loudspeaker.playing), loudspeaker.underruns_ns) == (1, [])


def test_a_buffer_that_is_used_again_does_not_change_what_was_played(loudspeaker: Loudspeaker) -> None:
    buffer = np.full(800, 0.1, dtype=np.float32)
    loudspeaker.play(AudioChunk(buffer, RATE_HZ))
    buffer[:] = 0.9
    loudspeaker.play(AudioChunk(buffer, RATE_HZ))
    assert loudspeaker.signal().tolist() == pytest.approx([0.1] * 800 + [0.9] * 800)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_chunk_with_a_sample_that_is_no_number_is_none(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite numbers"):
        chunk(0.1, bad)
