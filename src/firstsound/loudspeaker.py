"""A loudspeaker that plays chunks at the pace of life, each from the moment it arrives, in their order."""

from dataclasses import dataclass

import numpy as np

from firstsound.clock import NS_PER_S, Clock
from firstsound.stages import SAMPLE_RATE_HZ, AudioChunk, Float32Audio


@dataclass(frozen=True, slots=True)
class Playing:
    """A chunk at its place: samples since the loudspeaker's origin."""

    start: int
    samples: Float32Audio

    @property
    def end(self) -> int:
        """One past its last sample."""
        return self.start + len(self.samples)


class Loudspeaker:
    """Takes its rate from the first chunk. It keeps what goes wrong in `fault` instead of raising: it is a device."""

    def __init__(self, clock: Clock) -> None:
        """Count samples from the clock's origin, or from what `origin_ns` is set to before anything is played."""
        self._clock = clock
        self.origin_ns = 0
        self.rate_hz = SAMPLE_RATE_HZ
        self.playing: list[Playing] = []
        self.underruns_ns: list[int] = []
        """How long there was nothing to play between two chunks, each time there was."""
        self.fault: str | None = None

    def play(self, chunk: AudioChunk) -> None:
        """Play a chunk from now on, or after those before it; an empty one is nothing to play."""
        if not len(chunk.samples):
            return
        now_ns = self._clock.now_ns() - self.origin_ns
        if not self.playing:
            self.rate_hz = chunk.rate_hz
        elif chunk.rate_hz != self.rate_hz:
            self.fault = self.fault or (
                f"chunk {len(self.playing) + 1} has {chunk.rate_hz} Hz, but {self.rate_hz} Hz are playing"
            )
            return
        start = -(-now_ns * self.rate_hz // NS_PER_S)  # no sample sounds before its chunk is here
        if self.playing:
            end = self.playing[-1].end
            if start > end:
                gap_ns = (start - end) * NS_PER_S // self.rate_hz
                self.underruns_ns.append(gap_ns)
                self.fault = self.fault or (
                    f"underrun: nothing to play for {gap_ns / 1e6:.0f} ms before chunk {len(self.playing) + 1}"
                )
            start = max(start, end)
        self.playing.append(Playing(start, chunk.samples))

    def wait(self) -> None:
        """Wait until the last sample has been played."""
        if self.playing:
            self._clock.sleep_ns(self.origin_ns + self.end_ns - self._clock.now_ns())

    @property
    def end_ns(self) -> int:
        """When the last sample is over, in nanoseconds since the origin."""
        return self.ns(self.playing[-1].end) if self.playing else 0

    def ns(self, sample: int) -> int:
        """When a sample begins, in nanoseconds since the origin."""
        return sample * NS_PER_S // self.rate_hz

    def signal(self) -> Float32Audio:
        """All that was played, from the origin on: mono float32, shape (n,)."""
        whole = np.zeros(self.playing[-1].end if self.playing else 0, dtype=np.float32)
        for chunk in self.playing:
            whole[chunk.start : chunk.end] = chunk.samples
        return whole

    def joint_jump(self) -> float:
        """The largest step between neighbouring samples where a chunk begins or ends; full scale is 1."""
        whole = np.concatenate([[0.0], self.signal(), [0.0]])
        at = [place for chunk in self.playing for place in (chunk.start, chunk.end)]
        return float(np.abs(np.diff(whole)[at]).max()) if at else 0.0
