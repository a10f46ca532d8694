"""Answer the user: retrieve, write and speak, joined serially or overlapped, and mark what happens when."""

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from firstsound import prompt
from firstsound.clock import Clock, Deadline
from firstsound.draft import Draft
from firstsound.errors import StageError, in_stage
from firstsound.fragment import fragments
from firstsound.stages import Delta, Finish, Prompt, Stack
from firstsound.turn import Cache, Wiring

PASSAGES_PER_PROMPT = 1
SYNTHESIS_TIMEOUT_S = 60.0
"""How long the synthesizer may go on after the answer's last token before the turn fails."""


def answer(stack: Stack, draft: Draft, clock: Clock) -> None:
    """Go from the transcript, which is in hand at this moment, to the last sound of the answer.

    Raises:
        StageError: a stage failed; the message names it.
    """
    with in_stage("recognizer"):
        draft.mark("final")
        draft.transcript = draft.transcript.strip()
        if not draft.transcript:
            raise StageError("no speech was recognized")
    with in_stage("retriever"):
        passages = list(stack.retriever.search(draft.transcript, PASSAGES_PER_PROMPT))
        draft.mark("retrieved")
        if not passages:
            raise StageError("no passage was found")
        draft.passages = tuple(passage.id for passage in passages)
    pieces = _read_reply(stack, draft, prompt.build(draft.transcript, passages))
    _JOIN[draft.wiring](stack, draft, pieces, clock)
    if "first_sound" not in draft.wall:
        raise StageError("synthesizer: the answer has no audible sample")


def _read_reply(stack: Stack, draft: Draft, asked: Prompt) -> Iterator[str]:
    """Yield the answer's text as it comes, and mark its first token and its end."""
    with in_stage("llm"):
        for event in stack.llm.reply(asked):
            match event:
                case Delta(text):
                    # A role or white space is not a token: the user could hear nothing of it.
                    if "first_token" not in draft.wall and text.strip():
                        draft.mark("first_token")
                    draft.answer += text
                    yield text
                case Finish():
                    draft.mark("answer_end")
                    draft.cache = _cache(event)
        if draft.cache is None:
            raise StageError("the stream ended without a finish reason: the answer was cut off")
        if not any(c.isalnum() for c in draft.answer):
            raise StageError(f"the answer holds nothing to say: {draft.answer!r}")


def _cache(finish: Finish) -> Cache:
    if finish.cached_tokens == 0:
        return "cold"
    # A server evaluates at least the last token again, to have something to sample from.
    return "warm" if finish.prompt_tokens - finish.cached_tokens <= 1 else "prefix"


def _serial(stack: Stack, draft: Draft, pieces: Iterator[str], _clock: Clock) -> None:
    """The whole answer is written, then the whole answer is synthesized, then it is played."""
    text = "".join(pieces).strip()
    draft.fragments.append(text)
    with in_stage("synthesizer"):
        draft.mark("first_fragment")
        chunks = list(stack.synthesizer.synthesize(text))
        if not chunks:
            raise StageError(f"no sound for {text!r}")
        received = draft.mark("first_chunk")
        draft.wall["audio_end"] = received
        for chunk in chunks:
            draft.receive(chunk, received)


def _overlapped(stack: Stack, draft: Draft, pieces: Iterator[str], clock: Clock) -> None:
    """Each fragment is spoken by a second thread while the rest of the answer is being written."""
    queue: SimpleQueue[str | None] = SimpleQueue()
    failure: list[StageError] = []

    def speak_all() -> None:
        try:
            for text in iter(queue.get, None):
                _speak(stack, draft, text)
        except StageError as e:
            failure.append(e)

    speaker = threading.Thread(target=speak_all, name="firstsound-speaker", daemon=True)
    speaker.start()
    try:
        # The answer is read to its end even if speaking fails, so that the server is idle before the next turn.
        for text in fragments(pieces):
            draft.fragments.append(text)
            queue.put(text)
    finally:
        queue.put(None)
        deadline = Deadline(clock, SYNTHESIS_TIMEOUT_S)
        speaker.join(deadline.remaining_s())
    if failure:
        raise failure[0]
    if speaker.is_alive():
        raise StageError(f"synthesizer: still not done {SYNTHESIS_TIMEOUT_S:.0f} s after the answer's end")


def _speak(stack: Stack, draft: Draft, text: str) -> None:
    with in_stage("synthesizer"):
        if "first_fragment" not in draft.wall:
            draft.mark("first_fragment")
        sounded = False
        for chunk in stack.synthesizer.synthesize(text):
            received = draft.mark("audio_end")
            draft.wall.setdefault("first_chunk", received)
            sounded = True
            draft.receive(chunk, received)
        if not sounded and any(c.isalnum() for c in text):
            raise StageError(f"no sound for {text!r}")


_JOIN: dict[Wiring, Callable[[Stack, Draft, Iterator[str], Clock], None]] = {
    "serial": _serial,
    "overlapped": _overlapped,
}
