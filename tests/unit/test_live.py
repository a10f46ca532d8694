"""A live turn over fakes: what it records, how its failures are told, and that the recording is the judge."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import samples

from firstsound import live
from firstsound.adapters.fake import LOUD, Delay, FakeEndpointer, FakeLanguageModel, FakeRecognizer, FakeSynthesizer
from firstsound.adapters.incremental_transcription import IncrementalTranscription
from firstsound.clock import NS_PER_MS as MS
from firstsound.clock import AudioTime, MonotonicClock
from firstsound.loudspeaker import Loudspeaker
from firstsound.manifest import Clip
from firstsound.recording import Recording
from firstsound.stages import SAMPLE_RATE_HZ, AudioChunk, Float32Audio, Heard, Int16Audio, Stack
from firstsound.turn import WIRINGS, Turn, Wiring, closure_ns, perceived_of_ns


class Hasty(FakeEndpointer):
    """Waits for a tenth of a second only, so that the tests do not take long."""

    def __init__(self) -> None:
        super().__init__(gap_ms=100)


def run(
    stack: Stack, kind: Wiring = "overlapped", speech_s: float = 0.2, silence_s: float = 0.3
) -> tuple[Turn, list[Recording]]:
    taken: list[Recording] = []
    turn = live.run_turn(stack, samples.clip("q", speech_s, silence_s), 0, kind, MonotonicClock(), taken.append)
    return turn, taken


def silence_ns(turn: Turn, taken: Recording) -> int:
    """From the end of speech to the first sample of the tone that the fake speaks, as whole windows count it."""
    begin = int(np.flatnonzero(taken.answer)[0])
    window = taken.rate_hz // 100
    assert turn.live is not None
    assert turn.audio.endpoint is not None
    start_ns = turn.live.played[0].start.ns + turn.audio.endpoint.ns
    start = round(start_ns * taken.rate_hz / 1e9)
    first = start + (begin - start) // window * window
    return first * 10**9 // taken.rate_hz - turn.audio.speech_end.ns


def stack(**parts: object) -> Stack:
    return samples.stack(**{"new_endpointer": Hasty, "llm": FakeLanguageModel(("Brew it hot.",)), **parts})


@pytest.mark.parametrize("kind", WIRINGS)
def test_a_live_turn_has_its_silence_from_the_recording(kind: Wiring) -> None:
    turn, [taken] = run(stack(synthesizer=FakeSynthesizer(lead_in_ms=40)), kind)
    assert turn.error is None
    assert turn.live is not None
    # A button is let go of at once; the endpointer waits for a tenth of a second.
    assert turn.audio.endpoint == AudioTime((200 if kind == "batch" else 300) * MS)
    assert perceived_of_ns(turn) == silence_ns(turn, taken)
    assert turn.wall.first_chunk and turn.wall.first_sound
    # The time of a frame and no more lies between what the marks say and what the recording says.
    assert 0 <= closure_ns(turn) < 20 * MS
    assert turn.wall.first_sound - turn.wall.first_chunk >= 40 * MS
    assert len(turn.live.frame_lateness_ns) >= 10
    assert [span.end - span.start for span in turn.live.played] == [pytest.approx(190 * MS, abs=MS)]
    assert turn.live.heard == samples.TEXT


def test_what_was_sent_is_what_was_recorded() -> None:
    sent: list[Float32Audio] = []

    class Keeps(FakeSynthesizer):
        def synthesize(self, text: str) -> Iterator[AudioChunk]:
            for chunk in super().synthesize(text):
                for half in np.array_split(chunk.samples, 2):
                    sent.append(half)
                    yield AudioChunk(half, chunk.rate_hz)

    turn, [taken] = run(stack(llm=FakeLanguageModel(samples.ANSWER), synthesizer=Keeps()))
    assert turn.error is None
    whole = np.concatenate(sent)
    [begin, *_] = np.flatnonzero(taken.answer)
    # The tone's first sample is 0.
    recorded = taken.answer[begin - 1 :][: len(whole)] / 2**15
    assert np.abs(recorded - whole).max() <= 2**-15
    assert not taken.answer[begin - 1 + len(whole) :].any()


def test_a_hidden_delay_between_synthesizer_and_loudspeaker_is_in_the_silence_and_not_in_the_marks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Loudspeaker.play

    def late(self: Loudspeaker, chunk: AudioChunk) -> None:
        MonotonicClock().sleep_ns(150 * MS)
        play(self, chunk)

    monkeypatch.setattr(Loudspeaker, "play", late)
    turn, [taken] = run(stack())
    assert 150 * MS <= closure_ns(turn) < 250 * MS
    assert perceived_of_ns(turn) == silence_ns(turn, taken)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda first, _: [first], id="lost"),
        pytest.param(lambda first, second: [first, second, second], id="doubled"),
        pytest.param(lambda first, second: [first, AudioChunk(second.samples[:-9], second.rate_hz)], id="cut"),
        pytest.param(lambda first, second: [second, first], id="swapped"),
    ],
)
def test_what_is_lost_doubled_cut_or_swapped_on_the_way_fails_the_turn(
    change: Callable[[AudioChunk, AudioChunk], list[AudioChunk]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Halves(FakeSynthesizer):
        def synthesize(self, text: str) -> Iterator[AudioChunk]:
            for chunk in super().synthesize(text):
                for half in np.array_split(chunk.samples, 2):
                    yield AudioChunk(half, chunk.rate_hz)

    play = Loudspeaker.play
    sent: list[AudioChunk] = []

    def tamper(self: Loudspeaker, chunk: AudioChunk) -> None:
        sent.append(chunk)
        for each in change(*sent) if len(sent) == 2 else ():
            play(self, each)

    monkeypatch.setattr(Loudspeaker, "play", tamper)
    turn, _ = run(stack(synthesizer=Halves()))
    assert turn.error is not None
    assert turn.error.startswith("recording: ")
    assert "samples were synthesized, but the" in turn.error


def test_a_stack_that_does_not_stream_has_no_backlog_and_not_one_of_zero() -> None:
    turn, _ = run(stack(new_transcription=None))
    assert turn.error is None
    assert turn.live is not None
    assert turn.live.backlog_ns is None


def test_a_recognizer_slower_than_speech_shows_as_backlog_and_in_final() -> None:
    class Slow:
        """Takes 1.3 seconds a second."""

        def hear(self, samples: Float32Audio, *, speech: bool) -> None:  # noqa: ARG002
            MonotonicClock().sleep_ns(round(1.3 * len(samples) / SAMPLE_RATE_HZ * 1e9))

        def finish(self) -> str:
            return samples.TEXT

    turn, _ = run(stack(new_transcription=Slow), speech_s=0.9)
    assert turn.error is None
    assert turn.live and turn.live.backlog_ns and turn.wall.final
    # A second has been heard, and 1 / 1.3 of it worked off; the rest takes 1.3 times as long as it is.
    assert turn.live.backlog_ns >= 200 * MS
    assert turn.wall.final.ns >= 270 * MS


def test_partials_lie_before_the_final_transcript() -> None:
    class Partly:
        def hear(self, samples: Float32Audio, *, speech: bool) -> str | None:  # noqa: ARG002
            return "how" if speech else None

        def finish(self) -> str:
            return samples.TEXT

    turn, _ = run(stack(new_transcription=Partly))
    assert turn.live is not None
    assert {partial.text for partial in turn.live.partials} == {"how"}
    assert len(turn.live.partials) == 10
    assert all(partial.span.end.ns < 0 for partial in turn.live.partials)


def test_the_recognizer_hears_from_before_the_first_speech_up_to_the_endpoint() -> None:
    clip = samples.clip("q", 0.2, 0.3)
    silence = np.zeros(SAMPLE_RATE_HZ // 2, dtype=np.float32)
    later = AudioTime(clip.speech_end.ns + 500 * MS)
    clip = replace(clip, samples=np.concatenate([silence, clip.samples]), speech_end=later)
    heard: list[Float32Audio] = []

    class Listens:
        def hear(self, samples: Float32Audio, *, speech: bool) -> None:  # noqa: ARG002
            heard.append(samples)

        def finish(self) -> str:
            return samples.TEXT

    turn = live.run_turn(stack(new_transcription=Listens), clip, 0, "serial", MonotonicClock(), lambda _: None)
    assert turn.error is None
    whole = np.concatenate(heard)
    assert len(whole) == round((0.3 + 0.2 + 0.1) * SAMPLE_RATE_HZ)
    assert np.flatnonzero(np.abs(whole) > LOUD / 2**15)[0] >= 0.3 * SAMPLE_RATE_HZ


class Silent(FakeSynthesizer):
    def synthesize(self, text: str) -> Iterator[AudioChunk]:  # noqa: ARG002
        yield AudioChunk(np.zeros(2_000, dtype=np.float32), 22_050)


class Nothing(FakeSynthesizer):
    def synthesize(self, text: str) -> Iterator[AudioChunk]:  # noqa: ARG002
        yield from ()


class Changes(FakeSynthesizer):
    def synthesize(self, text: str) -> Iterator[AudioChunk]:
        yield from super().synthesize(text)
        yield AudioChunk(np.ones(100, dtype=np.float32), 16_000)


class Stalls(FakeSynthesizer):
    def synthesize(self, text: str) -> Iterator[AudioChunk]:
        yield from super().synthesize(text)
        MonotonicClock().sleep_ns(300 * MS)
        yield from super().synthesize(text)


class Mumbles:
    def transcribe(self, samples: Float32Audio) -> str:  # noqa: ARG002
        raise OSError("out of order")


class NeverHears(FakeEndpointer):
    def hear(self, frame: object) -> object:  # type: ignore[override] # noqa: ARG002
        raise OSError("out of order")


class Broken(FakeSynthesizer):
    def synthesize(self, text: str) -> Iterator[AudioChunk]:
        yield from super().synthesize(text)
        yield AudioChunk(np.array([0.1, np.nan], dtype=np.float32), 22_050)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"synthesizer": Broken()}, "synthesizer: ValueError: a chunk holds samples that are not finite numbers"),
        ({"synthesizer": Silent()}, "synthesizer: the answer has no audible sample"),
        ({"synthesizer": Nothing()}, "synthesizer: no sound for 'Brew it hot.'"),
        ({"synthesizer": Changes()}, "loudspeaker: chunk 2 has 16000 Hz, but 22050 Hz are playing"),
        ({"synthesizer": Stalls()}, "loudspeaker: underrun: nothing to play for 1"),
        ({"recognizer": Mumbles()}, "recognizer: OSError: out of order"),
        ({"new_endpointer": NeverHears}, "endpointer: OSError: out of order"),
        ({"llm": FakeLanguageModel(["Brew it", " hot, it"], delay=Delay(1), finish=None)}, "llm: the stream ended"),
    ],
)
def test_a_failed_turn_is_told_by_name_and_never_a_good_sample(parts: dict[str, object], told: str) -> None:
    turn, _ = run(stack(**parts))
    assert turn.error is not None
    assert turn.error.startswith(told)


def test_an_underrun_is_counted_and_measured() -> None:
    turn, _ = run(stack(synthesizer=Stalls()))
    assert turn.live is not None
    [gap_ns] = turn.live.underruns_ns
    assert 100 * MS <= gap_ns <= 290 * MS


def test_a_clip_without_room_tone_ends_before_an_endpoint_and_is_not_recorded() -> None:
    turn, taken = run(stack(), silence_s=0.05)
    assert turn.error is not None
    assert turn.error.startswith("endpointer: audio ended before an endpoint: 0.24 s heard")
    assert taken == []
    assert turn.live is not None
    assert len(turn.live.frame_lateness_ns) == 12


def paused(pause_s: float) -> Clip:
    """Speech, a pause, speech, and room tone."""
    clip = samples.clip("q", 0.2, 0.6)
    speech, pause = clip.samples[:3_200], np.zeros(round(pause_s * SAMPLE_RATE_HZ), dtype=np.float32)
    end = AudioTime(clip.speech_end.ns + round((0.2 + pause_s) * 1e9))
    return replace(clip, samples=np.concatenate([speech, pause, clip.samples]), speech_end=end)


def speculate(clip: Clip, **parts: object) -> Turn:
    class Patient(FakeEndpointer):
        def __init__(self) -> None:
            super().__init__(gap_ms=400)

    whole = samples.stack(**{"new_endpointer": Patient, "llm": FakeLanguageModel(("Brew it hot.",)), **parts})
    return live.run_turn(whole, clip, 0, "speculative", MonotonicClock(), lambda _: None)


def test_an_answer_begun_in_the_pause_is_there_at_the_endpoint() -> None:
    llm = FakeLanguageModel(("Brew it hot.",), first_delay=Delay(100))
    turn = speculate(samples.clip("q", 0.2, 0.6), llm=llm)
    assert turn.error is None
    assert turn.wall.final is not None
    # Nobody waited for any of it, though the model took its time.
    assert turn.wall.final == turn.wall.retrieved == turn.wall.first_token == turn.wall.first_chunk
    assert turn.wall.final.ns < 100 * MS
    assert abs(closure_ns(turn)) < 20 * MS
    assert turn.live and turn.live.speculation
    assert (turn.live.speculation.attempts, turn.live.speculation.discarded) == (1, 0)


def test_an_answer_that_takes_longer_than_the_endpoint_is_waited_for() -> None:
    turn = speculate(samples.clip("q", 0.2, 0.6), llm=FakeLanguageModel(("Brew it hot.",), first_delay=Delay(500)))
    assert turn.error is None
    assert turn.wall.retrieved and turn.wall.first_token
    assert turn.wall.first_token - turn.wall.retrieved >= 100 * MS


def test_who_goes_on_after_a_pause_is_answered_to_all_of_it() -> None:
    class Listens:
        """Hears a word more for every 200 ms of speech."""

        def __init__(self) -> None:
            self.speech = 0
            self.silence = 0

        def text(self) -> str:
            return " ".join(["how do I brew", "coffee"][: round(self.speech / 10)])

        def hear(self, samples: Float32Audio, *, speech: bool) -> str | None:  # noqa: ARG002
            self.speech += speech
            self.silence = 0 if speech else self.silence + 1
            return self.text() if self.silence == 5 else None

        def finish(self) -> str:
            return self.text()

    turn = speculate(paused(0.25), new_transcription=Listens)
    assert turn.error is None
    assert turn.transcript == "how do I brew coffee"
    assert turn.live and turn.live.speculation
    assert (turn.live.speculation.attempts, turn.live.speculation.discarded) == (2, 1)


class ChangesItsMind:
    """Understands in the pause what it takes back at the end."""

    def hear(self, samples: Float32Audio, *, speech: bool) -> str | None:  # noqa: ARG002
        return None if speech else "milk is white"

    def finish(self) -> str:
        return samples.TEXT


def test_an_attempt_to_something_else_than_the_final_transcript_is_not_heard() -> None:
    turn = speculate(samples.clip("q", 0.2, 0.6), new_transcription=ChangesItsMind)
    assert turn.error is None
    assert (turn.transcript, turn.passages) == (samples.TEXT, ("p2",))
    assert turn.live and turn.live.speculation
    assert turn.live.speculation.discarded == turn.live.speculation.attempts == 1
    assert turn.wall.final and turn.wall.retrieved and turn.wall.final < turn.wall.retrieved


def test_no_stage_is_asked_for_two_things_at_a_time_when_an_attempt_is_given_up() -> None:
    class OneAtATime(FakeSynthesizer):
        busy = threading.Lock()

        def synthesize(self, text: str) -> Iterator[AudioChunk]:
            assert self.busy.acquire(blocking=False)
            try:
                MonotonicClock().sleep_ns(700 * MS)
                yield from super().synthesize(text)
            finally:
                self.busy.release()

    turn = speculate(samples.clip("q", 0.2, 0.6), new_transcription=ChangesItsMind, synthesizer=OneAtATime())
    assert turn.error is None
    assert turn.live and turn.live.speculation
    assert turn.live.speculation.discarded == 1
    # The transcript was there at once; the wait for the synthesizer is the synthesizer's.
    assert turn.wall.final and turn.wall.first_token and turn.wall.first_chunk
    assert turn.wall.final.ns <= turn.wall.first_token.ns < 100 * MS
    assert turn.wall.first_chunk - turn.wall.first_token >= 700 * MS


def test_a_turn_without_an_endpoint_leaves_no_attempt_behind() -> None:
    turn = speculate(samples.clip("q", 0.2, 0.3))
    assert turn.error is not None
    assert "audio ended before an endpoint" in turn.error
    assert turn.live and turn.live.speculation
    assert turn.live.speculation.discarded == turn.live.speculation.attempts == 1
    assert turn.live.partials == ()
    assert not [t for t in threading.enumerate() if t.name == "firstsound-attempt"]


class Careful(FakeEndpointer):
    """Takes nothing shorter than a tenth of a second for an utterance, as detectors do."""

    def __init__(self) -> None:
        super().__init__(gap_ms=400)
        self.loud = 0
        self.spoken = False

    def hear(self, frame: Int16Audio) -> Heard:
        heard = super().hear(frame)
        self.loud = self.loud + 1 if heard is Heard.SPEECH else 0
        self.spoken = self.spoken or self.loud >= 5
        return Heard.SILENCE if heard is Heard.ENDPOINT and not self.spoken else heard


@pytest.mark.parametrize("text", ["and", "Thank you."])
def test_a_click_before_the_user_speaks_does_not_end_a_speculative_turn(text: str) -> None:
    """Whatever a recognizer makes of it: nobody has begun to speak."""
    click = np.zeros(round(1.3 * SAMPLE_RATE_HZ), dtype=np.float32)
    click[960:1_280] = 0.3
    clip = samples.clip("q", 0.2, 0.6)
    clip = replace(
        clip,
        samples=np.concatenate([click, clip.samples]),
        speech_end=AudioTime(clip.speech_end.ns + 1_300 * MS),
    )
    recognizer = FakeRecognizer(text)
    turn = speculate(
        clip,
        new_endpointer=Careful,
        recognizer=recognizer,
        new_transcription=lambda: IncrementalTranscription(recognizer),
        reads_complete=lambda said: said != "and",
    )
    # After "and" it waits beyond the clip's end.
    assert turn.audio.endpoint is None or turn.audio.endpoint > turn.audio.speech_end
    assert turn.audio.endpoint or text == "and"


def test_what_an_endpointer_gives_that_is_no_heard_is_told() -> None:
    class Says(FakeEndpointer):
        def hear(self, frame: object) -> object:  # type: ignore[override] # noqa: ARG002
            return "speech"

    turn, _ = run(stack(new_endpointer=Says))
    assert turn.error == "endpointer: hear() gave 'speech', which is no Heard"


def test_what_breaks_while_a_transcript_is_read_is_told_by_its_name() -> None:
    def broken(transcript: str) -> bool:
        raise OSError(f"no grammar for {transcript}")

    turn = speculate(samples.clip("q", 0.6, 0.6), reads_complete=broken)
    assert turn.error is not None
    assert turn.error.startswith("recognizer: reads_complete: OSError: no grammar")
