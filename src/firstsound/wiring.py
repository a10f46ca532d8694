"""Answer the user: retrieve, write and speak, joined serially or overlapped, and mark what happens when."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeVar

from firstsound import audio, prompt
from firstsound.attempt import Attempt
from firstsound.clock import Clock
from firstsound.errors import StageError, in_stage
from firstsound.fragment import fragments
from firstsound.lead_in import without_lead_in
from firstsound.stages import AudioChunk, Delta, Finish, Passage, Prompt, Stack, require_text
from firstsound.turn import Cache, Wiring

T = TypeVar("T")

PASSAGES_PER_PROMPT = 1
SYNTHESIS_TIMEOUT_S = 60.0
"""How long the synthesizer may go on after the answer's last token before the turn fails."""


def answer(stack: Stack, attempt: Attempt, clock: Clock) -> None:
    """Go from the transcript to the last sound of the answer.

    Raises:
        CancelledError: the answer is not wanted any more.
        StageError: a stage failed; the message names it.
    """
    with in_stage("recognizer"):
        attempt.transcript = require_text(attempt.transcript).strip()
        if not attempt.transcript:
            raise StageError("no speech was recognized")
    with in_stage("retriever"):
        passages = list(stack.retriever.search(attempt.transcript, PASSAGES_PER_PROMPT))
        attempt.mark("retrieved")
        if not passages:
            raise StageError("no passage was found")
        if not all(isinstance(passage, Passage) for passage in passages):
            raise StageError(f"search() gave {passages!r:.80}, which are not all Passages")
        attempt.passages = tuple(passage.id for passage in passages)
    attempt.go_on()
    pieces = _read_reply(stack, attempt, prompt.build(attempt.transcript, passages))
    _JOIN[attempt.wiring](stack, attempt, pieces, clock)
    attempt.end()


def require_sound(attempt: Attempt) -> None:
    """Refuse an answer that was given and that nobody can hear.

    Raises:
        StageError: no sample of it is audible.
    """
    if not attempt.reached("first_sound"):
        raise StageError("synthesizer: the answer has no audible sample")


def _read_reply(stack: Stack, attempt: Attempt, asked: Prompt) -> Iterator[str]:
    """Yield the answer's text as it comes, and mark its first token and its end."""
    with in_stage("llm"), closed(stack.llm.reply(asked)) as events:
        for event in events:
            attempt.go_on()
            match event:
                case Delta(text):
                    # A role or white space is not a token: the user could hear nothing of it.
                    if not attempt.reached("first_token") and text.strip():
                        attempt.mark("first_token")
                    attempt.answer += text
                    attempt.deltas += bool(text)
                    yield text
                case Finish():
                    attempt.mark("answer_end")
                    attempt.cache = _cache(event)
                case _:
                    raise StageError(f"reply() gave {event!r}, which is neither a Delta nor a Finish")
        if attempt.cache is None:
            raise StageError("the stream ended without a finish reason (no Finish): the answer was cut off")
        if not any(c.isalnum() for c in attempt.answer):
            raise StageError(f"the answer holds nothing to say: {attempt.answer!r}")


@contextmanager
def closed(given: Iterable[T]) -> Iterator[Iterable[T]]:
    """Close what a stage streams on leaving, so that it stops working on what nobody wants."""
    try:
        yield given
    finally:
        close = getattr(given, "close", None)
        if close is not None:
            close()


def _cache(finish: Finish) -> Cache:
    if finish.cached_tokens == 0:
        return "cold"
    # A server evaluates at least the last token again, to have something to sample from.
    return "warm" if finish.prompt_tokens - finish.cached_tokens <= 1 else "prefix"


def _serial(stack: Stack, attempt: Attempt, pieces: Iterator[str], clock: Clock) -> None:
    """The whole answer is written, then the whole answer is synthesized, then it is played."""
    text = "".join(pieces).strip()
    attempt.fragments.append(text)
    with in_stage("synthesizer"):
        attempt.mark("first_fragment")
        chunks = list(_sound(stack, attempt, text))
        if not chunks:
            raise StageError(f"no sound for {text!r}")
        received_ns = clock.now_ns()
        for chunk in chunks:
            attempt.receive(chunk, received_ns)


def _overlapped(stack: Stack, attempt: Attempt, pieces: Iterator[str], clock: Clock) -> None:
    """Each fragment is spoken by a second thread while the rest of the answer is being written."""
    queue: SimpleQueue[str | None] = SimpleQueue()
    failure: list[StageError] = []

    def speak_all() -> None:
        try:
            for text in iter(queue.get, None):
                _speak(stack, attempt, text, clock)
        except BaseException as e:  # noqa: BLE001 - whatever ends this thread ends the answer
            failure.append(e if isinstance(e, StageError) else StageError(f"synthesizer: {type(e).__name__}: {e}"))

    speaker = threading.Thread(target=speak_all, name="firstsound-speaker", daemon=True)
    speaker.start()
    try:
        # The answer is read to its end even if speaking fails, so that the server is idle before the next turn.
        for text in fragments(pieces):
            attempt.fragments.append(text)
            queue.put(text)
    finally:
        queue.put(None)
        speaker.join(SYNTHESIS_TIMEOUT_S)
    if failure:
        raise failure[0]
    if speaker.is_alive():
        raise StageError(f"synthesizer: still not done {SYNTHESIS_TIMEOUT_S:.0f} s after the answer's end")


def _speak(stack: Stack, attempt: Attempt, text: str, clock: Clock) -> None:
    with in_stage("synthesizer"):
        attempt.go_on()
        if not attempt.reached("first_fragment"):
            attempt.mark("first_fragment")
        onset = audio.Onset()
        rate_hz = None
        with closed(_sound(stack, attempt, text)) as chunks:
            for chunk in chunks:
                attempt.go_on()
                attempt.receive(chunk, clock.now_ns())
                rate_hz = chunk.rate_hz
                onset.hear(chunk.samples, rate_hz)
        if not any(c.isalnum() for c in text):
            return
        if rate_hz is None:
            raise StageError(f"no sound for {text!r}")
        onset.end(rate_hz)
        if onset.at_samples is None:
            raise StageError(f"the answer has no audible sample for {text!r}")


def _sound(stack: Stack, attempt: Attempt, text: str) -> Iterator[AudioChunk]:
    """The sound of `text`; of the silence before an answer's first sound, what the stack wants left out is."""
    with closed(stack.synthesizer.synthesize(text)) as chunks:
        if stack.lead_in_ms is None or attempt.sent:
            yield from _checked(chunks)
        else:
            yield from without_lead_in(_checked(chunks), stack.lead_in_ms)


def _checked(chunks: Iterable[AudioChunk]) -> Iterator[AudioChunk]:
    for chunk in chunks:
        if not isinstance(chunk, AudioChunk):
            raise StageError(f"synthesize() gave {type(chunk).__name__}, which is no AudioChunk")
        yield chunk


_JOIN: dict[Wiring, Callable[[Stack, Attempt, Iterator[str], Clock], None]] = {
    "serial": _serial,
    "overlapped": _overlapped,
    "speculative": _overlapped,
    "batch": _serial,
}
