"""Run one turn over a stack: hear the clip, then join the stages serially or overlapped, and mark what happens when."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue

from firstsound import audio, prompt
from firstsound.clock import NS_PER_S, AudioTime, Clock, Deadline, Stopwatch, WallTime
from firstsound.errors import StageError
from firstsound.fragment import fragments
from firstsound.manifest import Clip
from firstsound.stages import SAMPLE_RATE_HZ, AudioChunk, Delta, Finish, Float32Audio, Prompt, Stack
from firstsound.turn import AudioMarks, Cache, Turn, WallMarks, Wiring

PASSAGES_PER_PROMPT = 1
SYNTHESIS_TIMEOUT_S = 60.0
"""How long the synthesizer may go on after the answer's last token before the turn fails."""


@dataclass(slots=True)
class _Draft:
    """A turn while it runs: what has been reached so far."""

    clip: Clip
    round: int
    wiring: Wiring
    stopwatch: Stopwatch
    endpoint: AudioTime | None = None
    wall: dict[str, WallTime] = field(default_factory=dict)
    transcript: str = ""
    passages: tuple[str, ...] = ()
    answer: str = ""
    fragments: list[str] = field(default_factory=list)
    cache: Cache | None = None
    play_end_ns: int = 0

    def mark(self, name: str) -> WallTime:
        """Set the mark `name` to this moment and return it."""
        self.wall[name] = self.stopwatch.read()
        return self.wall[name]

    def freeze(self, error: str | None) -> Turn:
        def turn(wall: WallMarks, error: str | None) -> Turn:
            return Turn(
                query=self.clip.query,
                round=self.round,
                wiring=self.wiring,
                mode="stepped",
                audio=AudioMarks(self.clip.speech_end, self.endpoint),
                wall=wall,
                transcript=self.transcript,
                passages=self.passages,
                answer=self.answer,
                fragments=tuple(self.fragments),
                cache=self.cache,
                error=error,
            )

        try:
            return turn(WallMarks(**self.wall), error)
        except ValueError as e:
            # Marks that cannot be are kept in words: as numbers they would pass for a measurement.
            told = ", ".join(f"{name} {mark.ns} ns" for name, mark in self.wall.items())
            return turn(WallMarks(), f"{error or 'marks'}: {e} ({told})")


def run_turn(stack: Stack, clip: Clip, round_: int, wiring: Wiring, clock: Clock) -> Turn:
    """One stepped turn: the clip is fed as fast as possible up to the endpoint, then the wall clock runs.

    Whatever a stage raises ends the turn, not the run: it is told in the turn's `error`, with the marks up to there.
    """
    draft = _Draft(clip, round_, wiring, Stopwatch(clock))
    try:
        heard = _listen(stack, draft)
        draft.stopwatch = Stopwatch(clock)
        _answer(stack, draft, heard, clock)
    except StageError as e:
        return draft.freeze(str(e))
    return draft.freeze(None)


@contextmanager
def _stage(name: str) -> Iterator[None]:
    """Tell of any failure inside as that stage's."""
    try:
        yield
    except StageError as e:
        raise StageError(f"{name}: {e}") from e
    except Exception as e:
        raise StageError(f"{name}: {type(e).__name__}: {e}") from e


def _listen(stack: Stack, draft: _Draft) -> Float32Audio:
    """Feed the clip frame by frame until the endpoint; return what the user said up to there."""
    clip = draft.clip
    with _stage("endpointer"):
        pcm = audio.to_int16(clip.samples)
        endpointer = stack.new_endpointer()
        size = endpointer.frame_samples
        # The last frame is dropped if it is partial: a detector takes whole frames only.
        for start in range(0, len(pcm) - size + 1, size):
            if endpointer.is_endpoint(pcm[start : start + size]):
                draft.endpoint = AudioTime.from_samples(start + size, SAMPLE_RATE_HZ)
                break
        else:
            raise StageError(
                f"audio ended before an endpoint: {len(pcm) / SAMPLE_RATE_HZ:.2f} s heard, speech ends at "
                f"{clip.speech_end.ns / NS_PER_S:.2f} s; the clip needs more room tone, or its noise passes for speech"
            )
        if draft.endpoint < clip.speech_end:
            early_ms = (clip.speech_end - draft.endpoint) / 1e6
            raise StageError(f"early endpoint: {early_ms:.0f} ms before the end of speech")
        return clip.samples[: start + size]


def _answer(stack: Stack, draft: _Draft, heard: Float32Audio, clock: Clock) -> None:
    with _stage("recognizer"):
        draft.transcript = stack.recognizer.transcribe(heard).strip()
        draft.mark("final")
        if not draft.transcript:
            raise StageError("no speech was recognized")
    with _stage("retriever"):
        passages = list(stack.retriever.search(draft.transcript, PASSAGES_PER_PROMPT))
        draft.mark("retrieved")
        if not passages:
            raise StageError("no passage was found")
        draft.passages = tuple(passage.id for passage in passages)
    pieces = _read_reply(stack, draft, prompt.build(draft.transcript, passages))
    _JOIN[draft.wiring](stack, draft, pieces, clock)
    if "first_sound" not in draft.wall:
        raise StageError("synthesizer: the answer has no audible sample")


def _read_reply(stack: Stack, draft: _Draft, asked: Prompt) -> Iterator[str]:
    """Yield the answer's text as it comes, and mark its first token and its end."""
    with _stage("llm"):
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


def _serial(stack: Stack, draft: _Draft, pieces: Iterator[str], _clock: Clock) -> None:
    """The whole answer is written, then the whole answer is synthesized, then it is played."""
    text = "".join(pieces).strip()
    draft.fragments.append(text)
    with _stage("synthesizer"):
        draft.mark("first_fragment")
        chunks = list(stack.synthesizer.synthesize(text))
        if not chunks:
            raise StageError(f"no sound for {text!r}")
        received = draft.mark("first_chunk")
        draft.wall["audio_end"] = received
        for chunk in chunks:
            _play(draft, chunk, received)


def _overlapped(stack: Stack, draft: _Draft, pieces: Iterator[str], clock: Clock) -> None:
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


def _speak(stack: Stack, draft: _Draft, text: str) -> None:
    with _stage("synthesizer"):
        if "first_fragment" not in draft.wall:
            draft.mark("first_fragment")
        sounded = False
        for chunk in stack.synthesizer.synthesize(text):
            received = draft.mark("audio_end")
            draft.wall.setdefault("first_chunk", received)
            sounded = True
            _play(draft, chunk, received)
        if not sounded and any(c.isalnum() for c in text):
            raise StageError(f"no sound for {text!r}")


def _play(draft: _Draft, chunk: AudioChunk, received: WallTime) -> None:
    """Put a chunk on the loudspeaker's time line, right after the one before it, and note the first audible sample."""
    start_ns = max(received.ns, draft.play_end_ns)
    draft.play_end_ns = start_ns + len(chunk.samples) * NS_PER_S // chunk.rate_hz
    if "first_sound" not in draft.wall:
        silence = audio.leading_silence_samples(chunk.samples, chunk.rate_hz)
        if silence is not None:
            draft.wall["first_sound"] = WallTime(start_ns + silence * NS_PER_S // chunk.rate_hz)


_JOIN: dict[Wiring, Callable[[Stack, _Draft, Iterator[str], Clock], None]] = {
    "serial": _serial,
    "overlapped": _overlapped,
}
