"""Stepped turns: the clip is fed as fast as possible up to the endpoint, then the wall clock runs."""

from firstsound import audio, wiring
from firstsound.attempt import Attempt
from firstsound.clock import Clock
from firstsound.draft import Draft
from firstsound.errors import StageError, in_stage
from firstsound.hearing import Hearing, joined
from firstsound.manifest import Clip
from firstsound.stages import Float32Audio, Heard, Stack, require_text
from firstsound.turn import Turn, Wiring


def run_turn(stack: Stack, clip: Clip, round_: int, kind: Wiring, clock: Clock) -> Turn:
    """One stepped turn.

    Whatever a stage raises ends the turn, not the run: it is told in the turn's `error`, with the marks up to there.
    """
    draft = Draft(clip, round_, kind, "stepped")
    try:
        utterance = _listen(stack, draft)
        draft.endpoint_ns = clock.now_ns()
        with in_stage("recognizer"):
            transcript = require_text(stack.recognizer.transcribe(utterance))
        draft.attempt = Attempt(transcript, kind, clock, play=lambda _: None)
        draft.attempt.release()
        wiring.answer(stack, draft.attempt, clock)
        wiring.require_sound(draft.attempt)
    except StageError as e:
        return draft.freeze(str(e))
    return draft.freeze(None)


def _listen(stack: Stack, draft: Draft) -> Float32Audio:
    """Feed the clip frame by frame until the endpoint; return what the user said up to there."""
    with in_stage("endpointer"):
        pcm = audio.to_int16(draft.clip.samples)
        endpointer = stack.new_endpointer()
        hearing = Hearing(endpointer)
        utterance: list[tuple[Float32Audio, bool]] = []
        size = endpointer.frame_samples
        # A copy: a view would let a stage look at the rest of the clip.
        # The last frame is dropped if it is partial: a detector takes whole frames only.
        for start in range(0, len(pcm) - size + 1, size):
            heard, pieces = hearing.hear(pcm[start : start + size].copy())
            utterance += pieces
            if heard is Heard.ENDPOINT:
                draft.set_endpoint(hearing.samples, 0, spoken=hearing.spoken)
                return joined(utterance)
        raise draft.without_endpoint(len(pcm))
