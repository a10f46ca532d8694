"""Answer ahead of the endpoint: begin in a pause, hold the sound back, and throw it away if the user goes on."""

import threading
from collections.abc import Callable

from firstsound import wiring
from firstsound.attempt import Attempt
from firstsound.clock import Clock
from firstsound.cpu import cpu_time_ns
from firstsound.errors import CancelledError, StageError
from firstsound.stages import AudioChunk, Stack
from firstsound.text import words
from firstsound.turn import Speculation, Wiring

ANSWER_TIMEOUT_S = 120.0
"""How long an answer that is wanted may take in all before the turn fails."""


class Speculator:
    """Makes one attempt at a time; a new one begins when the one before has let go of the stack."""

    def __init__(self, stack: Stack, kind: Wiring, clock: Clock, play: Callable[[AudioChunk], None]) -> None:
        """Answer over `stack`; what is confirmed is played."""
        self._stack = stack
        self._kind = kind
        self._clock = clock
        self._play = play
        self._lock = threading.Lock()
        self._tries: list[_Try] = []
        self._confirmed = False
        self._waited_ns = 0
        self._over = False
        """Nothing more is begun: an answer is confirmed or being given, or the turn has ended."""

    def begin(self, transcript: str) -> None:
        """Answer `transcript`, if that is not what is being answered already."""
        with self._lock:
            if self._over or self._answers(transcript) or not words(transcript):
                return
            self._drop()
            attempt = Attempt(transcript, self._kind, self._clock, self._play)
            self._tries.append(_Try(self._stack, attempt, self._clock, self._tries[-1] if self._tries else None))
            self._tries[-1].start()

    def drop(self) -> None:
        """Give up what is being answered: the user goes on, or the turn is over."""
        with self._lock:
            self._drop()

    def confirm(self, transcript: str) -> "_Try | None":
        """The attempt that answers `transcript`, to be waited for; None where there is none: any other is given up."""
        with self._lock:
            self._over = True
            if self._answers(transcript):
                self._confirmed = True
                return self._tries[-1]
            self._drop()
            return None

    def clear(self) -> None:
        """Wait until what was given up has let go of the stack.

        Raises:
            StageError: it does not.
        """
        if not self._tries:
            return
        start_ns = self._clock.now_ns()
        self._tries[-1].join(ANSWER_TIMEOUT_S)
        self._waited_ns = self._clock.now_ns() - start_ns
        if self._tries[-1].is_alive():
            raise StageError(f"an answer that was given up still works after {ANSWER_TIMEOUT_S:.0f} s")

    def end(self) -> None:
        """Give up whatever nobody has confirmed."""
        with self._lock:
            self._over = True
            if self._tries and not self._confirmed:
                self._drop()

    def settle(self) -> Speculation:
        """Wait until the attempts that were given up have ended, and tell what they cost."""
        for each in self._tries:
            each.join(ANSWER_TIMEOUT_S)
        lost = [each for each in self._tries if each.attempt.cancelled]
        return Speculation(
            attempts=len(self._tries),
            discarded=len(lost),
            wasted_deltas=sum(each.attempt.deltas for each in lost),
            wasted_cpu_ns=sum(each.cpu_ns for each in lost),
            waited_ns=self._waited_ns,
        )

    def _answers(self, transcript: str) -> bool:
        if not self._tries or self._tries[-1].attempt.cancelled:
            return False
        return words(self._tries[-1].attempt.transcript) == words(transcript)

    def _drop(self) -> None:
        if self._tries:
            self._tries[-1].attempt.cancel()


class _Try(threading.Thread):
    """An attempt under way."""

    def __init__(self, stack: Stack, attempt: Attempt, clock: Clock, before: "_Try | None") -> None:
        super().__init__(name="firstsound-attempt", daemon=True)
        self.attempt = attempt
        self.cpu_ns = 0
        self._stack = stack
        self._clock = clock
        self._before = before
        self._failure: StageError | None = None

    def run(self) -> None:
        if self._before is not None:
            self._before.join()
        begin_ns = cpu_time_ns(self._stack.pids())
        try:
            self.attempt.go_on()
            wiring.answer(self._stack, self.attempt, self._clock)
        except CancelledError:
            pass
        except StageError as e:
            self._failure = e
        self.cpu_ns = cpu_time_ns(self._stack.pids()) - begin_ns

    def wait(self) -> None:
        """Wait until the answer is complete.

        Raises:
            StageError: a stage failed, or it takes too long.
        """
        self.join(ANSWER_TIMEOUT_S)
        if self.is_alive():
            raise StageError(f"no complete answer after {ANSWER_TIMEOUT_S:.0f} s")
        if self._failure is not None:
            raise self._failure
