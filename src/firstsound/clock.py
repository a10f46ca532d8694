"""Two kinds of time that never mix, and the only reader of a timer.

The *audio clock* counts nanoseconds of audio since the first sample of a recording; it is derived from sample counts.
The *wall clock* counts nanoseconds since the endpoint decision; it is read from a monotonic timer. They meet in
`since_first_sample_ns` and nowhere else.
"""

import time
from dataclasses import dataclass
from typing import Protocol, Self

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
NS_PER_US = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class _Instant:
    """A point on one clock, in whole nanoseconds since that clock's origin."""

    ns: int

    def __post_init__(self) -> None:
        if type(self.ns) is not int:
            raise TypeError(f"{type(self).__name__} takes whole nanoseconds as int, not {self.ns!r}")

    def _same_clock(self, other: object) -> Self:
        if type(other) is not type(self):
            raise TypeError(f"{type(self).__name__} and {type(other).__name__} are different clocks and do not mix")
        return other

    def __sub__(self, other: Self) -> int:
        """Nanoseconds from `other` to this instant; both must be on the same clock."""
        return self.ns - self._same_clock(other).ns

    # A mix is refused by the type checker too; `object` as the parameter's type would let it through.
    def __eq__(self, other: Self | None) -> bool:  # type: ignore[override]
        return other is not None and self.ns == self._same_clock(other).ns

    def __ne__(self, other: Self | None) -> bool:  # type: ignore[override]
        return not self == other

    # Each by name: what functools.total_ordering makes of `Self`, mypy refuses on one clock as well.
    def __lt__(self, other: Self) -> bool:
        return self.ns < self._same_clock(other).ns

    def __le__(self, other: Self) -> bool:
        return self.ns <= self._same_clock(other).ns

    def __gt__(self, other: Self) -> bool:
        return self.ns > self._same_clock(other).ns

    def __ge__(self, other: Self) -> bool:
        return self.ns >= self._same_clock(other).ns

    def __hash__(self) -> int:
        return hash((type(self), self.ns))


class AudioTime(_Instant):
    """Nanoseconds of audio since the first sample of the recording."""

    __slots__ = ()

    @classmethod
    def from_samples(cls, samples: int, rate_hz: int) -> Self:
        """The instant at which `samples` samples have passed, rounded to the nearest nanosecond.

        Raises:
            ValueError: `samples` is negative or `rate_hz` is not positive.
        """
        if samples < 0 or rate_hz <= 0:
            raise ValueError(f"need samples >= 0 and a positive rate, got {samples} samples at {rate_hz} Hz")
        return cls((samples * NS_PER_S + rate_hz // 2) // rate_hz)


class WallTime(_Instant):
    """Nanoseconds on the monotonic clock since the endpoint decision."""

    __slots__ = ()


def since_first_sample_ns(endpoint: AudioTime, mark: WallTime) -> int:
    """Nanoseconds from the recording's first sample to a mark that came after its endpoint: audio plus wall."""
    return endpoint.ns + mark.ns


def perceived_ns(speech_end: AudioTime, endpoint: AudioTime, first_sound: WallTime) -> int:
    """The silence that the user felt: the endpointer's wait (audio) plus the way to the first sound (wall)."""
    return since_first_sample_ns(endpoint, first_sound) - speech_end.ns


class Clock(Protocol):
    """What the suite asks of time, so that a test can bring its own."""

    def now_ns(self) -> int:
        """Nanoseconds on a clock that never goes backwards; the origin is arbitrary."""
        ...

    def sleep_ns(self, duration_ns: int) -> None:
        """Wait for at least `duration_ns` nanoseconds; return at once if it is not positive."""
        ...


class MonotonicClock:
    """The machine's monotonic clock; steps of the system time do not touch it."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary origin."""
        return time.monotonic_ns()

    def sleep_ns(self, duration_ns: int) -> None:
        """Wait for at least `duration_ns` nanoseconds."""
        if duration_ns > 0:
            time.sleep(duration_ns / NS_PER_S)


class Deadline:
    """A moment after which waiting is over."""

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        """Set the deadline `timeout_s` seconds from now."""
        self._clock = clock
        self._end_ns = clock.now_ns() + round(timeout_s * NS_PER_S)

    def remaining_s(self) -> float:
        """Seconds that are left; 0 once the deadline has passed."""
        return max(0, self._end_ns - self._clock.now_ns()) / NS_PER_S


def utc_stamp() -> str:
    """The present UTC time as `20260131T235959Z`, to name a run; never used to measure."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
