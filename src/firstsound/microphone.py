"""A microphone that hears a clip at the pace of life, by absolute deadlines."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue

from firstsound.clock import NS_PER_S, Clock
from firstsound.stages import SAMPLE_RATE_HZ, Int16Audio

PRIORITY = -10
"""The nice value of the thread that delivers the frames: beside three busy ones on two cores, the p95 of their lateness
in the worst of five turns was 1.5 ms without, and 0.4 ms with it."""


class Microphone:
    """Delivers a clip in whole frames, each as soon as its last sample has passed; what is left over is dropped."""

    def __init__(self, pcm: Int16Audio, frame_samples: int, clock: Clock) -> None:
        """Hear `pcm`, 16 kHz int16, shape (n,), in frames of `frame_samples`."""
        self._pcm = pcm
        self._frame_samples = frame_samples
        self._clock = clock
        self._queue: SimpleQueue[Int16Audio | None] = SimpleQueue()
        self._stop = threading.Event()
        self.start_ns = 0
        """When the first sample passed, on the clock."""
        self.lateness_ns: list[int] = []
        """For each frame, how long after its last sample it was delivered."""

    @contextmanager
    def on(self) -> Iterator[Iterator[Int16Audio]]:
        """Switch on; yields the frames, which wait for their time."""
        thread = threading.Thread(target=self._feed, name="firstsound-microphone", daemon=True)
        self.start_ns = self._clock.now_ns()
        thread.start()
        try:
            yield self._frames()
        finally:
            # Not joined: it sleeps until the next frame, and the answer is being waited for.
            self._stop.set()

    def _frames(self) -> Iterator[Int16Audio]:
        while (frame := self._queue.get()) is not None:
            yield frame

    def _feed(self) -> None:
        size = self._frame_samples
        # A device that interrupts, as it would. Where that is not allowed, lateness is a matter of the scheduler.
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), PRIORITY)
        try:
            for end in range(size, len(self._pcm) + 1, size):
                # From the start each time, not from the last frame: lateness must not add up.
                due_ns = self.start_ns + end * NS_PER_S // SAMPLE_RATE_HZ
                self._clock.sleep_ns(due_ns - self._clock.now_ns())
                if self._stop.is_set():
                    break
                self.lateness_ns.append(max(0, self._clock.now_ns() - due_ns))
                # A copy: a view would let a stage look at what has not been said yet.
                self._queue.put(self._pcm[end - size : end].copy())
        finally:
            self._queue.put(None)
