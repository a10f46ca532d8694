"""What a turn records, serial and overlapped, and how each stage's failure is told."""

import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import samples

from firstsound import wiring
from firstsound.adapters.fake import (
    Delay,
    FakeEndpointer,
    FakeLanguageModel,
    FakeRecognizer,
    FakeRetriever,
    FakeSynthesizer,
)
from firstsound.audio import to_int16
from firstsound.clock import NS_PER_MS, AudioTime, MonotonicClock
from firstsound.stages import AudioChunk, Delta, Finish, Float32Audio, Heard, Int16Audio, Stack
from firstsound.stepped import run_turn
from firstsound.turn import WIRINGS_OF, Turn, Wiring, first_sound_parts_ns, stages_ns


def run(stack: Stack, kind: Wiring = "overlapped", **clip: float) -> Turn:
    return run_turn(stack, samples.clip(**clip), 0, kind, MonotonicClock())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", WIRINGS_OF["stepped"])
def test_a_turn_records_all_that_was_said_and_reached(kind: Wiring) -> None:
    turn = run(samples.stack(), kind)
    assert turn.error is None
    assert turn.audio.endpoint == AudioTime(1_000 * NS_PER_MS)
    assert turn.transcript == samples.TEXT
    assert turn.passages == ("p2",)
    assert turn.answer == "".join(samples.ANSWER)
    assert " ".join(turn.fragments) == turn.answer
    assert turn.cache == "prefix"


def test_serial_speaks_once_after_the_whole_answer_and_overlapped_while_it_is_written() -> None:
    llm = FakeLanguageModel(samples.ANSWER, delay=Delay(10))
    serial, overlapped = (run(samples.stack(llm=llm), kind) for kind in WIRINGS_OF["stepped"])
    assert serial.wall.answer_end and serial.wall.first_fragment
    assert serial.wall.first_fragment >= serial.wall.answer_end
    assert serial.fragments == (serial.answer,)
    assert overlapped.wall.answer_end and overlapped.wall.first_sound
    assert overlapped.wall.first_sound < overlapped.wall.answer_end
    assert overlapped.fragments[0] == "Brew it with"


def test_serial_waits_for_every_chunk() -> None:
    class TwoChunks(FakeSynthesizer):
        def synthesize(self, text: str) -> Iterator[AudioChunk]:
            yield from super().synthesize(text)
            second_asked.set()
            yield from super().synthesize(text)

    second_asked = threading.Event()
    turn = run(samples.stack(synthesizer=TwoChunks()), "serial")
    assert second_asked.is_set()
    assert turn.wall.first_chunk == turn.wall.audio_end


@pytest.mark.parametrize("kind", WIRINGS_OF["stepped"])
def test_leading_silence_counts_and_silent_chunks_are_played_out(kind: Wiring) -> None:
    class SilenceFirst(FakeSynthesizer):
        def synthesize(self, text: str) -> Iterator[AudioChunk]:
            yield AudioChunk(np.zeros(2205, dtype=np.float32), 22_050)
            yield from super().synthesize(text)

    turn = run(samples.stack(synthesizer=SilenceFirst(lead_in_ms=50)), kind)
    lead_in_ms = first_sound_parts_ns(turn)["lead_in"] / NS_PER_MS
    assert lead_in_ms == pytest.approx(150, abs=11)


@pytest.mark.parametrize("blank", ["", " ", "\n", "\t \n"])
def test_a_blank_delta_is_not_the_first_token(blank: str) -> None:
    llm = FakeLanguageModel([blank, *samples.ANSWER], delay=Delay(20))
    turn = run(samples.stack(llm=llm))
    assert turn.wall.first_token is not None
    assert stages_ns(turn)["first_token"] >= 20 * NS_PER_MS


@pytest.mark.parametrize(
    ("finish", "cache"),
    [
        (Finish("stop", 90, 0), "cold"),
        (Finish("stop", 90, 40), "prefix"),
        (Finish("stop", 90, 89), "warm"),
        (Finish("length", 90, 90), "warm"),
    ],
)
def test_each_turn_says_how_much_of_its_prompt_was_cached(finish: Finish, cache: str) -> None:
    assert run(samples.stack(llm=FakeLanguageModel(samples.ANSWER, finish=finish))).cache == cache


class Endless(FakeEndpointer):
    def hear(self, frame: object) -> Heard:  # noqa: ARG002
        return Heard.SPEECH


class AtOnce(FakeEndpointer):
    def hear(self, frame: object) -> Heard:  # noqa: ARG002
        return Heard.ENDPOINT


class Broken:
    def __getattr__(self, name: str) -> object:
        def fail(*_: object) -> object:
            raise RuntimeError(f"{name} is out of order")

        return fail


class Mute(FakeSynthesizer):
    def synthesize(self, text: str) -> Iterator[AudioChunk]:  # noqa: ARG002
        yield from ()


class BreaksOff(FakeLanguageModel):
    def reply(self, prompt: object) -> Iterator[Delta | Finish]:  # noqa: ARG002
        yield Delta("Brew it with hot water")
        raise ConnectionError("the server is gone")


class Peeks(FakeEndpointer):
    def hear(self, frame: Int16Audio) -> Heard:
        assert frame.base is None
        return super().hear(frame)


def test_a_frame_does_not_hold_the_rest_of_the_clip() -> None:
    assert run(samples.stack(new_endpointer=Peeks)).error is None


class Ends(FakeSynthesizer):
    """Ends, at its second fragment, in what ends a program or a task."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
        self.asked = 0

    def synthesize(self, text: str) -> Iterator[AudioChunk]:
        self.asked += 1
        if self.asked == 2:
            raise self.error
        return super().synthesize(text)


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
def test_a_synthesizer_that_ends_what_it_runs_in_fails_its_turn(error: BaseException) -> None:
    turn = run(samples.stack(synthesizer=Ends(error)), "overlapped")
    assert turn.error is not None
    assert turn.error.startswith(f"synthesizer: {type(error).__name__}: ")


class Gives:
    """Gives what it was made with, whatever it is asked."""

    def __init__(self, given: object) -> None:
        self.given = given

    def transcribe(self, samples: object) -> object:  # noqa: ARG002
        return self.given

    def search(self, query: str, k: int) -> object:  # noqa: ARG002
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given

    def synthesize(self, text: str) -> object:  # noqa: ARG002
        return [self.given]


@pytest.mark.parametrize("kind", WIRINGS_OF["stepped"])
@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"recognizer": Gives(None)}, "recognizer: TypeError: text is wanted, not NoneType"),
        ({"recognizer": Gives(b"how")}, "recognizer: TypeError: text is wanted, not bytes"),
        ({"retriever": Gives(["p1"])}, "retriever: search() gave ['p1'], which are not all Passages"),
        ({"retriever": Gives(SystemExit(3))}, "retriever: SystemExit: 3"),
        ({"llm": FakeLanguageModel([None])}, "llm: AttributeError"),  # type: ignore[list-item]
        ({"synthesizer": Gives(np.zeros(9, np.float32))}, "synthesizer: synthesize() gave ndarray, which is no Audio"),
    ],
)
def test_what_is_of_another_type_fails_its_turn_by_name(kind: Wiring, parts: dict[str, object], told: str) -> None:
    turn = run(samples.stack(**parts), kind)
    assert turn.error is not None
    assert turn.error.startswith(told)


@pytest.mark.parametrize("kind", WIRINGS_OF["stepped"])
@pytest.mark.parametrize(
    ("parts", "told", "reached"),
    [
        ({"new_endpointer": Endless}, "endpointer: audio ended before an endpoint: 1.50 s heard", 0),
        ({"new_endpointer": AtOnce}, "endpointer: early endpoint: 480 ms before the end of speech", 0),
        ({"recognizer": Broken()}, "recognizer: RuntimeError: transcribe is out of order", 0),
        ({"recognizer": FakeRecognizer(" ")}, "recognizer: no speech was recognized", 1),
        ({"retriever": Broken()}, "retriever: RuntimeError: search is out of order", 1),
        ({"retriever": FakeRetriever([])}, "retriever: no passage was found", 2),
        ({"llm": Broken()}, "llm: RuntimeError: reply is out of order", 2),
        ({"llm": FakeLanguageModel([])}, "llm: the answer holds nothing to say: ''", 2),
        ({"llm": FakeLanguageModel(["..."])}, "llm: the answer holds nothing to say: '...'", 3),
        ({"llm": FakeLanguageModel(samples.ANSWER, finish=None)}, "llm: the stream ended without a finish reason", 3),
        ({"llm": BreaksOff([])}, "llm: ConnectionError: the server is gone", 3),
        ({"synthesizer": Broken()}, "synthesizer: RuntimeError: synthesize is out of order", 3),
        ({"synthesizer": Mute()}, "synthesizer: no sound for", 3),
        ({"synthesizer": FakeSynthesizer(amplitude=0.001)}, "synthesizer: the answer has no audible sample", 3),
    ],
)
def test_a_failed_stage_is_named_and_what_was_reached_is_kept(
    kind: Wiring, parts: dict[str, object], told: str, reached: int
) -> None:
    turn = run(samples.stack(**parts), kind)
    assert turn.error is not None
    assert turn.error.startswith(told)
    marks = [turn.wall.final, turn.wall.retrieved, turn.wall.first_token]
    assert [mark is not None for mark in marks] == [i < reached for i in range(3)]
    # Overlapped, a first sound may be out before the answer breaks off; the turn has failed all the same.
    assert turn.wall.first_sound is None or (kind == "overlapped" and told.startswith("llm"))


def test_a_silent_fragment_in_an_answer_that_is_otherwise_heard_fails_the_turn() -> None:
    class Swallows(FakeSynthesizer):
        def synthesize(self, text: str) -> Iterator[AudioChunk]:
            for chunk in super().synthesize(text):
                yield AudioChunk(chunk.samples * (text != "Brew it with"), chunk.rate_hz)

    turn = run(samples.stack(synthesizer=Swallows()))
    assert turn.error == "synthesizer: the answer has no audible sample for 'Brew it with'"


def test_a_clip_without_room_tone_ends_before_an_endpoint() -> None:
    turn = run(samples.stack(), silence_s=0.3)
    assert turn.error is not None
    assert "audio ended before an endpoint" in turn.error
    assert "needs more room tone" in turn.error


def test_a_synthesizer_that_hangs_fails_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    synthesizer = samples.HangingSynthesizer()
    monkeypatch.setattr(wiring, "SYNTHESIS_TIMEOUT_S", 0.05)
    turn = run(samples.stack(synthesizer=synthesizer))
    synthesizer.released.set()
    assert turn.error == "synthesizer: still not done 0 s after the answer's end"


def test_a_clock_that_goes_backwards_fails_the_turn_and_is_told() -> None:
    class Backwards(MonotonicClock):
        now = 10**12

        def now_ns(self) -> int:
            self.now -= 1_000_000
            return self.now

    turn = run_turn(samples.stack(), samples.clip(), 0, "serial", Backwards())
    assert turn.error is not None
    assert turn.error.startswith("marks: mark final is -1000000 ns")
    assert turn.wall.final is None


def test_the_recognizer_hears_the_clip_up_to_the_endpoint_and_the_endpointer_each_frame_once() -> None:
    heard: list[int] = []
    frames: list[bytes] = []

    class Listens(FakeRecognizer):
        def transcribe(self, samples: Float32Audio) -> str:
            heard.append(len(samples))
            return super().transcribe(samples)

    class Counts(FakeEndpointer):
        def hear(self, frame: object) -> Heard:
            frames.append(frame.tobytes())  # type: ignore[attr-defined]
            return super().hear(frame)  # type: ignore[arg-type]

    run(samples.stack(recognizer=Listens(samples.TEXT), new_endpointer=Counts))
    assert heard == [16_000]
    assert b"".join(frames) == to_int16(samples.spoken())[:16_000].tobytes()
