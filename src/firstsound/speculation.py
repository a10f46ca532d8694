"""Answer ahead of the endpoint: begin in a pause, hold the sound back, and throw it away if the user goes on."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from firstsound import prompt, wiring
from firstsound.attempt import Attempt
from firstsound.clock import Clock
from firstsound.cpu import cpu_time_ns
from firstsound.errors import CancelledError, StageError, in_stage
from firstsound.recognition import Understood
from firstsound.stages import (
    AudioChunk,
    Delta,
    Finish,
    LanguageModel,
    Passage,
    Prompt,
    Retriever,
    Stack,
    Synthesizer,
)
from firstsound.text import same, words
from firstsound.turn import Speculation, Wiring

ANSWER_TIMEOUT_S = 120.0
"""How long an answer that is wanted may take in all before the turn fails."""


class Speculator:
    """Has one answer under way at a time; what is given up may still hold a stage, which the next then waits for."""

    def __init__(self, stack: Stack, kind: Wiring, clock: Clock, play: Callable[[AudioChunk], None]) -> None:
        """Answer over `stack`; what is confirmed is played."""
        self._stack = stack
        self._locks = _Locks()
        self._kind = kind
        self._clock = clock
        self._play = play
        self._lock = threading.Lock()
        self._tries: list[_Try] = []
        self._readings: list[_Reading] = []
        self._read: list[Sequence[Passage]] = []
        """The passages that the language model has read ahead, the newest last."""
        self._confirmed = False
        self._over = False
        """Nothing more is begun: an answer is confirmed or being given, or the turn has ended."""

    def stack_for(self, attempt: Attempt) -> Stack:
        """The stack, of which each stage is asked one thing at a time; who was given up while waiting leaves."""
        return _one_at_a_time(self._stack, self._locks, attempt.go_on)

    def hear(self, understood: Understood, speech: bool) -> None:  # noqa: FBT001 - what a recognition tells
        """Make use of a partial transcript: of what the user is saying (`speech`), or has said before a pause."""
        if speech:
            self._prepare(understood.transcript)
        elif understood.stable or understood.complete is not False:
            # Of what cannot be all, the first transcript in a pause is not worth an answer.
            self.begin(understood.transcript)

    def begin(self, transcript: str) -> None:
        """Answer `transcript`, if that is not what is being answered already."""
        with self._lock:
            if self._over or self._answers(transcript) or not words(transcript):
                return
            self._drop()
            attempt = Attempt(transcript, self._kind, self._clock, self._play)
            self._tries.append(_Try(self.stack_for(attempt), attempt, self._clock))
            self._tries[-1].start()

    def _prepare(self, transcript: str) -> None:
        """Let the language model read what it may be asked, while the user still speaks, if the stack can do that."""
        with self._lock:
            if self._over or self._stack.prefill is None or any(work.is_alive() for work in self._works):
                return
            stack = _one_at_a_time(self._stack, self._locks, lambda: None)
            self._readings.append(_Reading(stack, transcript, self._read))
            self._readings[-1].start()

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
        lost = [each for each in self._tries if each.attempt.cancelled]
        return Speculation(
            attempts=len(self._tries),
            discarded=len(lost),
            wasted_deltas=sum(each.attempt.deltas for each in lost),
            wasted_cpu_ns=sum(each.cpu_ns for each in lost),
            prefills=len(self._read),
            prefill_cpu_ns=sum(each.cpu_ns for each in self._readings),
            failed_prefills=sum(each.failure is not None for each in self._readings),
        )

    @property
    def _works(self) -> "list[_Work]":
        return [*self._tries, *self._readings]

    def _answers(self, transcript: str) -> bool:
        if not self._tries or self._tries[-1].attempt.cancelled:
            return False
        return same(self._tries[-1].attempt.transcript, transcript)

    def _drop(self) -> None:
        if self._tries:
            self._tries[-1].attempt.cancel()


class _Work(threading.Thread):
    """Something that the stack does ahead of the endpoint."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(name="firstsound-attempt", daemon=True)
        self.cpu_ns = 0
        self.failure: StageError | None = None
        self._stack = stack

    def run(self) -> None:
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

    def do(self) -> None:
        """The work itself."""
        raise NotImplementedError

    def _cpu_ns(self) -> int:
        with in_stage("the stack's pids()"):
            return cpu_time_ns(self._stack.pids())


class _Reading(_Work):
    """The language model reads what it may be asked. Where that fails, the answer only comes later; it is counted."""

    def __init__(self, stack: Stack, transcript: str, read: list[Sequence[Passage]]) -> None:
        super().__init__(stack)
        self._transcript = transcript
        self._read = read

    def do(self) -> None:
        with in_stage("retriever"):
            passages = list(self._stack.retriever.search(self._transcript, wiring.PASSAGES_PER_PROMPT))
        if self._stack.prefill is not None and passages:
            with in_stage("llm"):
                self._stack.prefill(prompt.build(self._transcript, passages))
            self._read.append(passages)


class _Try(_Work):
    """An attempt under way."""

    def __init__(self, stack: Stack, attempt: Attempt, clock: Clock) -> None:
        super().__init__(stack)
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
            self.attempt.cancel()
            raise StageError(f"no complete answer after {ANSWER_TIMEOUT_S:.0f} s")
        if self.failure is not None:
            raise self.failure


@dataclass(frozen=True, slots=True)
class _Locks:
    """One for each stage that answers."""

    retriever: threading.Lock = field(default_factory=threading.Lock)
    llm: threading.Lock = field(default_factory=threading.Lock)
    synthesizer: threading.Lock = field(default_factory=threading.Lock)


def _one_at_a_time(stack: Stack, locks: _Locks, go_on: Callable[[], None]) -> Stack:
    """The same stack, behind `locks`; `go_on` is called once a lock is had, and may raise."""
    reads = stack.prefill

    def prefill(asked: Prompt) -> None:
        with locks.llm:
            go_on()
            if reads is not None:
                reads(asked)

    return replace(
        stack,
        retriever=_OneRetriever(stack.retriever, locks.retriever, go_on),
        llm=_OneLanguageModel(stack.llm, locks.llm, go_on),
        synthesizer=_OneSynthesizer(stack.synthesizer, locks.synthesizer, go_on),
        prefill=None if reads is None else prefill,
    )


@dataclass(frozen=True, slots=True)
class _OneRetriever:
    retriever: Retriever
    lock: threading.Lock
    go_on: Callable[[], None]

    def search(self, query: str, k: int) -> Sequence[Passage]:
        with self.lock:
            self.go_on()
            return self.retriever.search(query, k)


@dataclass(frozen=True, slots=True)
class _OneLanguageModel:
    llm: LanguageModel
    lock: threading.Lock
    go_on: Callable[[], None]

    def reply(self, asked: Prompt) -> Iterator[Delta | Finish]:
        with self.lock:
            self.go_on()
            with wiring.closed(self.llm.reply(asked)) as events:
                yield from events


@dataclass(frozen=True, slots=True)
class _OneSynthesizer:
    synthesizer: Synthesizer
    lock: threading.Lock
    go_on: Callable[[], None]

    def synthesize(self, text: str) -> Iterator[AudioChunk]:
        with self.lock:
            self.go_on()
            with wiring.closed(self.synthesizer.synthesize(text)) as chunks:
                yield from chunks
