"""Answer ahead of the endpoint: begin in a pause, hold the sound back, and throw it away if the user goes on."""

import threading
from collections.abc import Callable, Sequence

from firstsound import prompt, wiring
from firstsound.attempt import Attempt
from firstsound.clock import Clock
from firstsound.cpu import cpu_time_ns
from firstsound.errors import CancelledError, StageError, in_stage
from firstsound.stages import AudioChunk, Passage, Stack
from firstsound.text import words
from firstsound.turn import Speculation, Wiring

ANSWER_TIMEOUT_S = 120.0
"""How long an answer that is wanted may take in all before the turn fails."""


class Speculator:
    """Lets the stack do one thing at a time; the next begins when the one before has let go of it."""

    def __init__(self, stack: Stack, kind: Wiring, clock: Clock, play: Callable[[AudioChunk], None]) -> None:
        """Answer over `stack`; what is confirmed is played."""
        self._stack = stack
        self._kind = kind
        self._clock = clock
        self._play = play
        self._lock = threading.Lock()
        self._works: list[_Work] = []
        self._read: list[Sequence[Passage]] = []
        """The passages that the language model has read ahead, the newest last."""
        self._waited_ns = 0
        self._confirmed = False
        self._over = False
        """Nothing more is begun: an answer is confirmed or being given, or the turn has ended."""

    def hear(self, transcript: str, speech: bool) -> None:  # noqa: FBT001 - what a recognition tells
        """Make use of a partial transcript: of what the user is saying (`speech`), or has said before a pause."""
        if speech:
            self._prepare(transcript)
        else:
            self.begin(transcript)

    def begin(self, transcript: str) -> None:
        """Answer `transcript`, if that is not what is being answered already."""
        with self._lock:
            if self._over or self._answers(transcript) or not words(transcript):
                return
            self._drop()
            attempt = Attempt(transcript, self._kind, self._clock, self._play)
            self._go(_Try(self._stack, attempt, self._clock, self._last))

    def _prepare(self, transcript: str) -> None:
        """Let the language model read what it may be asked, while the user still speaks, if the stack can do that."""
        with self._lock:
            if self._over or self._stack.prefill is None or (self._last is not None and self._last.is_alive()):
                return
            self._go(_Reading(self._stack, transcript, self._read, self._last))

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
                return self._try
            self._drop()
            return None

    def clear(self) -> None:
        """Wait until what was given up has let go of the stack.

        Raises:
            StageError: it does not.
        """
        if self._last is None:
            return
        start_ns = self._clock.now_ns()
        self._last.join(ANSWER_TIMEOUT_S)
        self._waited_ns = self._clock.now_ns() - start_ns
        if self._last.is_alive():
            raise StageError(f"an answer that was given up still works after {ANSWER_TIMEOUT_S:.0f} s")

    def end(self) -> None:
        """Give up whatever nobody has confirmed."""
        with self._lock:
            self._over = True
            if not self._confirmed:
                self._drop()

    def settle(self) -> Speculation:
        """Wait until all that was given up has ended, and tell what it cost."""
        for each in self._works:
            each.join(ANSWER_TIMEOUT_S)
        tries = [each for each in self._works if isinstance(each, _Try)]
        lost = [each for each in tries if each.attempt.cancelled]
        return Speculation(
            attempts=len(tries),
            discarded=len(lost),
            wasted_deltas=sum(each.attempt.deltas for each in lost),
            wasted_cpu_ns=sum(each.cpu_ns for each in lost),
            waited_ns=self._waited_ns,
            prefills=len(self._read),
            prefill_cpu_ns=sum(each.cpu_ns for each in self._works if isinstance(each, _Reading)),
        )

    @property
    def _last(self) -> "_Work | None":
        return self._works[-1] if self._works else None

    @property
    def _try(self) -> "_Try | None":
        return next((work for work in reversed(self._works) if isinstance(work, _Try)), None)

    def _go(self, work: "_Work") -> None:
        self._works.append(work)
        work.start()

    def _answers(self, transcript: str) -> bool:
        attempt = None if self._try is None else self._try.attempt
        return attempt is not None and not attempt.cancelled and words(attempt.transcript) == words(transcript)

    def _drop(self) -> None:
        if self._try is not None:
            self._try.attempt.cancel()


class _Work(threading.Thread):
    """Something that the stack does ahead of the endpoint, once it is done with what came `before`."""

    def __init__(self, stack: Stack, before: "_Work | None") -> None:
        super().__init__(name="firstsound-attempt", daemon=True)
        self.cpu_ns = 0
        self.failure: StageError | None = None
        self._stack = stack
        self._before = before

    def run(self) -> None:
        if self._before is not None:
            self._before.join()
        try:
            begin_ns = self._cpu_ns()
            try:
                self.do()
            finally:
                self.cpu_ns = self._cpu_ns() - begin_ns
        except CancelledError:
            pass
        except StageError as e:
            self.failure = e

    def _cpu_ns(self) -> int:
        with in_stage("the stack's pids()"):
            return cpu_time_ns(self._stack.pids())

    def do(self) -> None:
        """The work itself."""
        raise NotImplementedError


class _Reading(_Work):
    """The language model reads what it may be asked. If it fails, it will fail again where an answer is wanted."""

    def __init__(self, stack: Stack, transcript: str, read: list[Sequence[Passage]], before: _Work | None) -> None:
        super().__init__(stack, before)
        self._transcript = transcript
        self._read = read

    def do(self) -> None:
        with in_stage("retriever"):
            passages = list(self._stack.retriever.search(self._transcript, wiring.PASSAGES_PER_PROMPT))
        # The words of a question are few; it is its passage that takes long to read.
        if self._stack.prefill is not None and passages and passages not in self._read[-1:]:
            self._read.append(passages)
            with in_stage("llm"):
                self._stack.prefill(prompt.build(self._transcript, passages))


class _Try(_Work):
    """An attempt under way."""

    def __init__(self, stack: Stack, attempt: Attempt, clock: Clock, before: _Work | None) -> None:
        super().__init__(stack, before)
        self.attempt = attempt
        self._clock = clock

    def do(self) -> None:
        self.attempt.go_on()
        wiring.answer(self._stack, self.attempt, self._clock)

    def wait(self) -> None:
        """Wait until the answer is complete.

        Raises:
            StageError: a stage failed, or it takes too long.
        """
        self.join(ANSWER_TIMEOUT_S)
        if self.is_alive():
            raise StageError(f"no complete answer after {ANSWER_TIMEOUT_S:.0f} s")
        if self.failure is not None:
            raise self.failure
