import numpy as np
import pytest
from samples import SteppedClock

from firstsound.attempt import Attempt
from firstsound.clock import NS_PER_MS as MS
from firstsound.clock import WallTime
from firstsound.errors import CancelledError
from firstsound.stages import AudioChunk

RATE_HZ = 8_000


def chunk(silence_ms: int) -> AudioChunk:
    """Silence, then 100 ms that can be heard."""
    tone = 0.3 * np.sin(np.arange(800))
    return AudioChunk(np.concatenate([np.zeros(8 * silence_ms), tone]).astype(np.float32), RATE_HZ)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def played() -> list[AudioChunk]:
    return []


@pytest.fixture
def attempt(clock: SteppedClock, played: list[AudioChunk]) -> Attempt:
    return Attempt("why", "speculative", clock, played.append)


def test_sound_is_held_back_until_the_release_and_then_played_in_order(
    clock: SteppedClock, attempt: Attempt, played: list[AudioChunk]
) -> None:
    first, second, third = chunk(20), chunk(0), chunk(0)
    attempt.receive(first, clock.now_ns())
    attempt.receive(second, clock.now_ns())
    assert played == []
    assert not attempt.reached("first_sound")
    clock.sleep_ns(500 * MS)
    attempt.release()
    assert played == [first, second]
    # The first sound is due when it is released, after its own silence.
    assert attempt.wall(clock.now_ns())["first_sound"] == WallTime(20 * MS)
    attempt.receive(third, clock.now_ns())
    assert played == [first, second, third]


def test_a_silent_chunk_is_played_out_before_the_next_can_be_heard(clock: SteppedClock, attempt: Attempt) -> None:
    origin_ns = clock.now_ns()
    attempt.release()
    attempt.receive(AudioChunk(np.zeros(800, dtype=np.float32), RATE_HZ), clock.now_ns())
    attempt.receive(chunk(50), clock.now_ns())
    wall = attempt.wall(origin_ns)
    assert (wall["first_chunk"], wall["first_sound"]) == (WallTime(0), WallTime(150 * MS))


def test_nobody_waited_for_what_was_reached_before_the_floor(clock: SteppedClock, attempt: Attempt) -> None:
    attempt.mark("retrieved")
    clock.sleep_ns(100 * MS)
    endpoint_ns = clock.now_ns()
    clock.sleep_ns(1 * MS)
    floor_ns = clock.now_ns()
    clock.sleep_ns(5 * MS)
    attempt.mark("first_token")
    assert attempt.wall(endpoint_ns, floor_ns) == {
        "final": WallTime(1 * MS),
        "retrieved": WallTime(1 * MS),
        "first_token": WallTime(6 * MS),
    }
    # Without a floor, a mark before the endpoint is what it is: a fault, and not a good sample.
    assert attempt.wall(endpoint_ns)["retrieved"] == WallTime(-100 * MS)


def test_an_answer_that_is_not_wanted_goes_no_further(attempt: Attempt) -> None:
    attempt.go_on()
    attempt.cancel()
    assert attempt.cancelled
    with pytest.raises(CancelledError, match="not wanted any more"):
        attempt.go_on()


@pytest.mark.parametrize("size", [1, 32, 99, 2_000])
def test_the_first_sound_is_where_it_is_wherever_chunks_are_cut(
    clock: SteppedClock, attempt: Attempt, size: int
) -> None:
    origin_ns = clock.now_ns()
    attempt.release()
    whole = chunk(37).samples
    for i in range(0, len(whole), size):
        attempt.receive(AudioChunk(whole[i : i + size], RATE_HZ), clock.now_ns())
    assert attempt.wall(origin_ns)["first_sound"] == WallTime(30 * MS)


@pytest.mark.parametrize("held", [True, False])
def test_a_sound_that_is_shorter_than_a_window_counts_once_it_is_known_to_be_all(
    clock: SteppedClock,
    attempt: Attempt,
    held: bool,  # noqa: FBT001
) -> None:
    if not held:
        attempt.release()
    attempt.receive(AudioChunk(chunk(0).samples[:70], RATE_HZ), clock.now_ns())
    assert not attempt.reached("first_sound")
    attempt.end()
    if held:
        assert not attempt.reached("first_sound")
        attempt.release()
    assert attempt.reached("first_sound")


def test_no_window_lies_on_both_sides_of_a_gap(clock: SteppedClock, attempt: Attempt) -> None:
    """Silence that ends in the middle of a window, then nothing for a while, then a tone."""
    origin_ns = clock.now_ns()
    attempt.release()
    attempt.receive(AudioChunk(np.zeros(196, dtype=np.float32), RATE_HZ), clock.now_ns())
    clock.sleep_ns(800 * MS)
    attempt.receive(chunk(0), clock.now_ns())
    assert attempt.wall(origin_ns)["first_sound"] == WallTime(800 * MS)


def test_what_could_be_heard_before_a_gap_was(clock: SteppedClock, attempt: Attempt) -> None:
    origin_ns = clock.now_ns()
    attempt.release()
    attempt.receive(AudioChunk(chunk(0).samples[:60], RATE_HZ), clock.now_ns())
    clock.sleep_ns(800 * MS)
    attempt.receive(chunk(0), clock.now_ns())
    assert attempt.wall(origin_ns)["first_sound"] == WallTime(0)
