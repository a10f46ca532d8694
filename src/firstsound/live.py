"""Live turns: everything at the pace of life, both sides recorded, and the silence taken off the recording."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from firstsound import audio, recording, wiring
from firstsound.attempt import Attempt
from firstsound.button import Button
from firstsound.clock import NS_PER_S, AudioTime, Clock, WallTime
from firstsound.draft import Draft
from firstsound.errors import StageError, in_stage
from firstsound.hearing import PRE_ROLL_SAMPLES, Hearing
from firstsound.loudspeaker import Loudspeaker
from firstsound.manifest import Clip
from firstsound.microphone import Microphone
from firstsound.recognition import Recognition, WholeUtterance
from firstsound.recording import Recording
from firstsound.speculation import Speculator
from firstsound.stages import SAMPLE_RATE_HZ, Heard, Int16Audio, Stack, require_text
from firstsound.turn import Live, Partial, Span, Turn, Wiring
from firstsound.turn_end import TurnEnd

GOING_ON_MS = 100
"""So much speech in a row after a pause, and the user goes on; less is a blip of the detector."""


def run_turn(
    stack: Stack, clip: Clip, round_: int, kind: Wiring, clock: Clock, keep: Callable[[Recording], None]
) -> Turn:
    """One live turn; `keep` is given its recording as soon as it is over, if it came to an endpoint.

    Whatever a stage raises ends the turn, not the run: it is told in the turn's `error`, with the marks up to there.
    """
    start_ns = clock.now_ns()
    draft = Draft(clip, round_, kind, "live")
    loudspeaker = Loudspeaker(clock)
    error = None
    try:
        _converse(stack, draft, loudspeaker, clock)
    except StageError as e:
        error = str(e)
    loudspeaker.wait()
    if draft.endpoint is not None:
        try:
            with in_stage("recording"):
                taken = recording.record(clip.samples, loudspeaker.signal(), loudspeaker.rate_hz)
            keep(taken)
            _judge(stack, draft, draft.endpoint, loudspeaker, taken)
        except StageError as e:
            error = error or str(e)
    if draft.live is not None:
        draft.live = replace(draft.live, took_ns=clock.now_ns() - start_ns)
    return draft.freeze(error)


def _converse(stack: Stack, draft: Draft, loudspeaker: Loudspeaker, clock: Clock) -> None:
    # The user ends the recording with a button, and nothing is done before.
    batch = draft.wiring == "batch"
    with in_stage("endpointer"):
        endpointer = Button(draft.clip) if batch else stack.new_endpointer()
    microphone = Microphone(audio.to_int16(draft.clip.samples), endpointer.frame_samples, clock)
    with in_stage("recognizer"):
        new = None if batch else stack.new_transcription
        transcription = WholeUtterance(stack.recognizer) if new is None else new()
    speculator = Speculator(stack, draft.wiring, clock, loudspeaker.play)
    ahead = draft.wiring == "speculative"
    backlog_ns = None
    with Recognition(
        transcription, clock, speculator.hear if ahead else None, stack.reads_complete if ahead else None
    ) as recognition:
        try:
            with in_stage("endpointer"), microphone.on() as frames:
                # The answer counts from the microphone's first sample, so that both sides lie on one time line.
                loudspeaker.origin_ns = microphone.start_ns
                backlog_ns = _listen(Hearing(endpointer), frames, recognition, speculator, draft, clock)
                if new is None:
                    # What only stores the samples has not worked them off.
                    backlog_ns = None
            with in_stage("recognizer"):
                transcript = recognition.final()
            _answer(draft, transcript, speculator, loudspeaker, clock)
        finally:
            speculator.end()
            draft.live = Live(
                frame_lateness_ns=tuple(microphone.lateness_ns),
                backlog_ns=backlog_ns,
                # Without an endpoint there is nothing that their times could count from.
                partials=tuple(
                    Partial(Span(WallTime(start_ns - draft.endpoint_ns), WallTime(end_ns - draft.endpoint_ns)), text)
                    for start_ns, end_ns, text in recognition.partials
                    if draft.endpoint is not None
                ),
                speculation=speculator.settle() if ahead else None,
            )


def _answer(draft: Draft, transcript: str, speculator: Speculator, loudspeaker: Loudspeaker, clock: Clock) -> None:
    """Let the answer be heard that was begun ahead of the endpoint, if it is one to this transcript; else give one."""
    begun = speculator.confirm(transcript)
    if begun is not None:
        draft.attempt, draft.floor_ns = begun.attempt, clock.now_ns()
        begun.attempt.release()
        begun.wait()
    else:
        draft.attempt = Attempt(transcript, draft.wiring, clock, loudspeaker.play)
        draft.attempt.release()
        wiring.answer(speculator.stack_for(draft.attempt), draft.attempt, clock)
    wiring.require_sound(draft.attempt)


def _listen(
    hearing: Hearing,
    frames: Iterator[Int16Audio],
    recognition: Recognition,
    speculator: Speculator,
    draft: Draft,
    clock: Clock,
) -> int:
    """Hear frames until the endpoint; return how much audio, in ns, the recognizer had not yet worked off then."""
    turn_end = TurnEnd()
    speech_samples = 0
    for frame in frames:
        heard, pieces = hearing.hear(frame)
        backlog = AudioTime.from_samples(recognition.backlog_samples, SAMPLE_RATE_HZ)
        for samples, speech in pieces:
            recognition.hear(samples, speech=speech)
        if turn_end.decide(heard, len(frame), recognition.given_samples, recognition.understood):
            draft.set_endpoint(hearing.samples, clock.now_ns(), spoken=hearing.spoken)
            return backlog.ns
        speech_samples = speech_samples + len(frame) if heard is Heard.SPEECH else 0
        if speech_samples * 1000 >= GOING_ON_MS * SAMPLE_RATE_HZ:
            speculator.drop()
    raise draft.without_endpoint(hearing.samples)


def _judge(stack: Stack, draft: Draft, endpoint: AudioTime, loudspeaker: Loudspeaker, taken: Recording) -> None:
    """Put what the recording says in place of what the marks expected, and listen to the answer on it.

    Raises:
        StageError: the loudspeaker could not play as it should, what it played is not what was synthesized, nothing can
            be heard, or the answer cannot be transcribed.
    """
    playing = loudspeaker.playing
    first_sound_ns = taken.first_sound_ns(playing[0].start) if playing else None
    if first_sound_ns is not None:
        draft.first_sound = WallTime(first_sound_ns - endpoint.ns)
    draft.live = replace(
        draft.live or Live(),
        timed_first_sound=draft.wall().get("first_sound"),
        played=tuple(
            Span(WallTime(loudspeaker.ns(chunk.start) - endpoint.ns), WallTime(loudspeaker.ns(chunk.end) - endpoint.ns))
            for chunk in playing
        ),
        underruns_ns=tuple(loudspeaker.underruns_ns),
        joint_jump=loudspeaker.joint_jump(),
    )
    if loudspeaker.fault is not None:
        raise StageError(f"loudspeaker: {loudspeaker.fault}")
    if draft.attempt is not None:
        sent = np.concatenate([np.zeros(0, dtype=np.float32), *(chunk.samples for chunk in draft.attempt.sent)])
        recorded = np.concatenate([np.zeros(0, dtype=np.int16), *(taken.answer[c.start : c.end] for c in playing)])
        if not np.array_equal(audio.to_int16(sent), recorded):
            raise StageError(
                f"recording: {len(sent)} samples were synthesized, but the {len(recorded)} on it are not the same"
            )
    if first_sound_ns is None:
        raise StageError("recording: nothing on it can be heard of the answer")
    with in_stage("transcription of the recorded answer"):
        answer = audio.to_rate(audio.to_float32(taken.answer), taken.rate_hz)
        begin = first_sound_ns * SAMPLE_RATE_HZ // NS_PER_S - PRE_ROLL_SAMPLES
        draft.live = replace(draft.live, heard=require_text(stack.recognizer.transcribe(answer[max(0, begin) :])))
