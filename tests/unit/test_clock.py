import re
from dataclasses import FrozenInstanceError

import pytest

from firstsound.clock import (
    AudioTime,
    Deadline,
    MonotonicClock,
    WallTime,
    perceived_ns,
    since_first_sample_ns,
    utc_stamp,
)


class HandClock:
    """A clock that is moved by hand."""

    def __init__(self, ns: int = 0) -> None:
        self.ns = ns

    def now_ns(self) -> int:
        return self.ns

    def sleep_ns(self, duration_ns: int) -> None:
        self.ns += max(0, duration_ns)


@pytest.mark.parametrize(
    ("samples", "rate_hz", "ns"),
    [
        (0, 16_000, 0),
        (16_000, 16_000, 1_000_000_000),
        (320, 16_000, 20_000_000),
        (1, 44_100, 22_676),  # 22675.7
        (1, 48_000, 20_833),  # 20833.3
        (1, 2_000_000_000, 1),  # 0.5: a half goes up
        (3_600 * 48_000, 48_000, 3_600_000_000_000),
    ],
)
def test_samples_become_the_nearest_nanosecond(samples: int, rate_hz: int, ns: int) -> None:
    assert AudioTime.from_samples(samples, rate_hz) == AudioTime(ns)


@pytest.mark.parametrize(("samples", "rate_hz"), [(-1, 16_000), (1, 0), (1, -16_000)])
def test_there_is_no_time_before_the_first_sample_nor_without_a_rate(samples: int, rate_hz: int) -> None:
    with pytest.raises(ValueError, match=f"got {samples} samples at {rate_hz} Hz"):
        AudioTime.from_samples(samples, rate_hz)


@pytest.mark.parametrize("clock", [AudioTime, WallTime])
@pytest.mark.parametrize("value", [1.0, "1", None, True])
def test_an_instant_takes_whole_nanoseconds_only(clock: type[AudioTime | WallTime], value: int) -> None:
    with pytest.raises(TypeError, match=f"{clock.__name__} takes whole nanoseconds"):
        clock(value)


def test_an_instant_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        WallTime(1).ns = 2  # type: ignore[misc]


def test_a_mark_that_is_missing_is_like_no_instant() -> None:
    missing: WallTime | None = None
    zero: WallTime | None = WallTime(0)
    assert zero != missing
    assert missing != zero
    assert not zero == missing  # noqa: SIM201 - both operators are on trial


def test_a_mix_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="AudioTime and WallTime are different clocks and do not mix"):
        AudioTime(2) - WallTime(1)  # type: ignore[operator]


def test_the_two_clocks_meet_behind_the_endpoint() -> None:
    assert since_first_sample_ns(AudioTime(2_900), WallTime(341)) == 3_241
    assert perceived_ns(AudioTime(2_310), AudioTime(2_900), WallTime(341)) == 590 + 341


def test_a_deadline_runs_out_and_stays_so() -> None:
    clock = HandClock(500)
    deadline = Deadline(clock, 1.5)
    assert deadline.remaining_s() == 1.5
    clock.ns += 1_000_000_000
    assert deadline.remaining_s() == 0.5
    clock.ns += 10_000_000_000
    assert deadline.remaining_s() == 0


def test_the_monotonic_clock_sleeps_at_least_as_long_as_asked() -> None:
    clock = MonotonicClock()
    start_ns = clock.now_ns()
    clock.sleep_ns(3_000_000)
    assert clock.now_ns() - start_ns >= 3_000_000


@pytest.mark.parametrize("duration_ns", [0, -1_000_000_000])
def test_the_monotonic_clock_does_not_sleep_into_the_past(duration_ns: int) -> None:
    clock = MonotonicClock()
    start_ns = clock.now_ns()
    clock.sleep_ns(duration_ns)
    assert clock.now_ns() - start_ns < 500_000_000


def test_a_run_is_named_by_its_utc_time() -> None:
    assert re.fullmatch(r"20\d{6}T\d{6}Z", utc_stamp())
