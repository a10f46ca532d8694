"""One attempt at an answer: what it has reached so far, and the sound it holds back until it may be heard."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from firstsound import audio
from firstsound.clock import NS_PER_S, Clock, WallTime
from firstsound.errors import CancelledError
from firstsound.stages import AudioChunk
from firstsound.turn import Cache, Wiring


@dataclass(frozen=True, slots=True)
class _Placed:
    """A chunk on its way out: which samples of the answer it holds, and when the first of them is due, on the clock."""

    begin: int
    end: int
    start_ns: int
    rate_hz: int


class Attempt:
    """An answer in the making. Its marks are instants on the clock, since the endpoint may be yet to come."""

    def __init__(self, transcript: str, wiring: Wiring, clock: Clock, play: Callable[[AudioChunk], None]) -> None:
        """Answer `transcript`, in hand at this moment; sound goes to `play`, once `release` has been called."""
        self.wiring = wiring
        self.transcript = transcript
        self.passages: tuple[str, ...] = ()
        self.answer = ""
        self.fragments: list[str] = []
        self.cache: Cache | None = None
        self.sent: list[AudioChunk] = []
        """All its sound, in order."""
        self.deltas = 0
        """Pieces of text received: tokens, with most servers."""
        self._clock = clock
        self._play = play
        self._marks_ns = {"final": clock.now_ns()}
        self._lock = threading.Lock()
        self._held: list[AudioChunk] = []
        self._released = False
        self._ended = False
        self._play_end_ns = 0
        self._onset = audio.Onset()
        self._placed: list[_Placed] = []
        """What was played up to the first audible sample."""
        self._cancelled = False

    def mark(self, name: str) -> int:
        """Set the mark `name` to this moment and return it, on the clock."""
        self._marks_ns[name] = self._clock.now_ns()
        return self._marks_ns[name]

    def reached(self, name: str) -> bool:
        """Whether the mark `name` is set."""
        return name in self._marks_ns

    def receive(self, chunk: AudioChunk, received_ns: int) -> None:
        """Note a chunk of the answer's sound, and play it or hold it back."""
        self._marks_ns["audio_end"] = received_ns
        self._marks_ns.setdefault("first_chunk", received_ns)
        self.sent.append(chunk)
        with self._lock:
            if self._released:
                self._sound(chunk, received_ns)
            else:
                self._held.append(chunk)

    def release(self) -> None:
        """Play what was held back, and from now on everything as it comes."""
        with self._lock:
            now_ns = self._clock.now_ns()
            for chunk in self._held:
                self._sound(chunk, now_ns)
            self._held.clear()
            self._released = True
            self._close()

    def end(self) -> None:
        """Note that all its sound has been received."""
        with self._lock:
            self._ended = True
            self._close()

    def _sound(self, chunk: AudioChunk, at_ns: int) -> None:
        """Play a chunk; its samples are due right after those of the chunks before it."""
        self._play(chunk)
        start_ns = max(at_ns, self._play_end_ns)
        if self._placed and start_ns > self._play_end_ns:
            self._begin_anew()
        self._play_end_ns = start_ns + len(chunk.samples) * NS_PER_S // chunk.rate_hz
        if not self.reached("first_sound"):
            begin = self._placed[-1].end if self._placed else 0
            self._placed.append(_Placed(begin, begin + len(chunk.samples), start_ns, chunk.rate_hz))
            self._onset.hear(chunk.samples, chunk.rate_hz)
            self._mark_first_sound()

    def _begin_anew(self) -> None:
        """After a gap in which nothing plays, windows count from the next chunk: none may lie on both sides of it."""
        if not self.reached("first_sound"):
            self._onset.end(self._placed[-1].rate_hz)
            self._mark_first_sound()
        self._onset = audio.Onset()
        self._placed.clear()

    def _close(self) -> None:
        """Judge the last window, which may be a short one, once all has been played."""
        if self._ended and self._released and self._placed and not self.reached("first_sound"):
            self._onset.end(self._placed[-1].rate_hz)
            self._mark_first_sound()

    def _mark_first_sound(self) -> None:
        at = self._onset.at_samples
        if at is not None:
            chunk = next(chunk for chunk in self._placed if at < chunk.end)
            self._marks_ns["first_sound"] = chunk.start_ns + (at - chunk.begin) * NS_PER_S // chunk.rate_hz

    def cancel(self) -> None:
        """Let it end at the next opportunity."""
        self._cancelled = True

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants it any more."""
        return self._cancelled

    def go_on(self) -> None:
        """Nothing, while the answer is wanted.

        Raises:
            CancelledError: it is not.
        """
        if self._cancelled:
            raise CancelledError("the answer is not wanted any more")

    def wall(self, endpoint_ns: int, floor_ns: int | None = None) -> dict[str, WallTime]:
        """The marks on the wall clock, which begins at `endpoint_ns` on the clock.

        Nobody waited for what was reached before `floor_ns`: such a mark is set to it.
        """
        return {
            name: WallTime((ns if floor_ns is None else max(ns, floor_ns)) - endpoint_ns)
            for name, ns in self._marks_ns.items()
        }
