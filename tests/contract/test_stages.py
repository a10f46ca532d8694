"""What every stage promises, kept by each backend and each fake."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import jiwer
import numpy as np
import psutil
import pytest
import samples

from firstsound import corpus, limits, manifest, prompt, text
from firstsound.adapters import llama_server, local
from firstsound.audio import to_int16
from firstsound.clock import AudioTime, MonotonicClock
from firstsound.errors import StageError
from firstsound.hearing import Hearing
from firstsound.manifest import Clip
from firstsound.stages import AudioChunk, Delta, Finish, Float32Audio, Heard, Passage, Setup, Stack
from firstsound.stepped import run_turn
from firstsound.turn import Turn

ROOT = Path(__file__).parents[2]
real = pytest.mark.real


@pytest.fixture(scope="module")
def local_stack() -> Iterator[Stack]:
    passages = corpus.load(ROOT / "fixtures/corpus/passages.jsonl")
    with local.stack(Setup(passages, limits.read_limits().threads)) as stack:
        yield stack


@pytest.fixture(scope="module", params=["fake", pytest.param("local", marks=real)])
def stack(request: pytest.FixtureRequest) -> Stack:
    return samples.stack() if request.param == "fake" else request.getfixturevalue("local_stack")


@pytest.fixture(scope="module")
def clips() -> list[Clip]:
    return manifest.load(ROOT / "fixtures/audio/manifest.yaml")


def endpoint_of(stack: Stack, clip: Clip) -> int | None:
    endpointer, pcm = stack.new_endpointer(), to_int16(clip.samples)
    size = endpointer.frame_samples
    for start in range(0, len(pcm) - size + 1, size):
        if endpointer.hear(pcm[start : start + size]) is Heard.ENDPOINT:
            return start + size
    return None


def test_an_endpointer_decides_after_speech_and_a_new_one_has_forgotten_the_clip_before(
    stack: Stack, clips: list[Clip]
) -> None:
    a, b = clips[0], clips[4]
    first = [endpoint_of(stack, a), endpoint_of(stack, b)]
    assert [endpoint_of(stack, b), endpoint_of(stack, a)] == first[::-1]
    assert all(
        AudioTime.from_samples(end or 0, 16_000) > clip.speech_end for end, clip in zip(first, (a, b), strict=True)
    )


def test_an_endpointer_hears_no_end_where_nobody_speaks(stack: Stack) -> None:
    silence = Clip("silence", np.zeros(48_000, dtype=np.float32), "-", AudioTime(0), AudioTime(0), None, "")
    assert endpoint_of(stack, silence) is None


def test_a_recognizer_hears_words_in_speech_and_none_in_silence(stack: Stack, clips: list[Clip]) -> None:
    assert stack.recognizer.transcribe(clips[0].samples).strip()
    assert stack.recognizer.transcribe(np.zeros(16_000, dtype=np.float32)) == ""


def utterance(stack: Stack, samples: Float32Audio) -> list[tuple[Float32Audio, bool]]:
    """What reaches the recognizer of a clip, piece by piece, up to the endpoint."""
    hearing, size = Hearing(stack.new_endpointer()), 320
    pieces = []
    for start in range(0, len(samples) - size + 1, size):
        heard, more = hearing.hear(to_int16(samples[start : start + size]))
        pieces += more
        if heard is Heard.ENDPOINT:
            break
    return pieces


def transcribed(stack: Stack, pieces: list[tuple[Float32Audio, bool]]) -> tuple[list[str], str]:
    """Partials and final transcript of what is heard piece by piece."""
    assert stack.new_transcription is not None
    transcription = stack.new_transcription()
    said = [transcription.hear(samples, speech=speech) for samples, speech in pieces]
    return [heard for heard in said if heard is not None], transcription.finish()


def test_a_transcription_gives_partials_while_it_hears_and_a_final_one_and_forgets(
    stack: Stack, clips: list[Clip]
) -> None:
    heard = utterance(stack, clips[0].samples)
    partials, final = transcribed(stack, heard)
    assert final
    assert partials
    assert transcribed(stack, [(np.zeros(16_000, dtype=np.float32), False)]) == ([], "")
    assert transcribed(stack, heard) == (partials, final)


@real
def test_streaming_understands_as_well_as_hearing_all_at_once(local_stack: Stack, clips: list[Clip]) -> None:
    def error_rate(heard: list[str]) -> float:
        rate: float = jiwer.wer([text.words(clip.text) for clip in clips], [text.words(said) for said in heard])
        return rate

    spoken = [utterance(local_stack, clip.samples) for clip in clips]
    streamed = error_rate([transcribed(local_stack, pieces)[1] for pieces in spoken])
    assert streamed <= error_rate([local_stack.recognizer.transcribe(clip.samples) for clip in clips]) + 0.02


def test_a_retriever_gives_at_most_k_best_first_and_nothing_for_strange_words(stack: Stack) -> None:
    one, two = stack.retriever.search("brew hot milk", 1), stack.retriever.search("brew hot milk", 2)
    assert len(one) == 1
    assert list(two)[:1] == list(one)
    assert list(stack.retriever.search("xyzzy qwrtz", 3)) == []
    assert list(stack.retriever.search("", 3)) == []


def test_a_language_model_streams_deltas_and_ends_with_one_finish(stack: Stack) -> None:
    asked = prompt.build("Why is milk white?", [Passage("p", "Milk is white because of its fat.")])
    *deltas, finish = stack.llm.reply(asked)
    assert isinstance(finish, Finish)
    assert deltas
    assert all(isinstance(delta, Delta) for delta in deltas)
    assert "".join(d.text for d in deltas if isinstance(d, Delta)).strip()


def test_a_synthesizer_speaks_and_is_silent_where_there_is_nothing_to_say(stack: Stack) -> None:
    chunks = list(stack.synthesizer.synthesize("Brew it hot."))
    assert all(isinstance(chunk, AudioChunk) for chunk in chunks)
    assert sum(len(chunk.samples) / chunk.rate_hz for chunk in chunks) > 0.1
    for nothing in ("", " ", "..."):
        assert list(stack.synthesizer.synthesize(nothing)) == []


@real
def test_every_last_word_of_the_clips_is_heard(local_stack: Stack, clips: list[Clip]) -> None:
    def last_word(text: str) -> str:
        return text.rstrip(".?!").split()[-1].lower()

    heard = [local_stack.recognizer.transcribe(clip.samples[: endpoint_of(local_stack, clip)]) for clip in clips]
    missed = [
        (clip.query, text) for clip, text in zip(clips, heard, strict=True) if last_word(text) != last_word(clip.text)
    ]
    assert len(missed) <= 1, missed


@real
def test_a_recognizer_refuses_what_would_give_gibberish(local_stack: Stack) -> None:
    with pytest.raises(StageError, match="float32"):
        local_stack.recognizer.transcribe(np.zeros(16_000))  # type: ignore[arg-type]
    with pytest.raises(StageError, match=r"lasts 31.0 s"):
        local_stack.recognizer.transcribe(np.zeros(31 * 16_000, dtype=np.float32))


@real
def test_the_second_prompt_reuses_the_fixed_part_and_a_repeated_one_all(local_stack: Stack) -> None:
    def finish(question: str) -> Finish:
        asked = prompt.build(question, [Passage("p", f"A note about {question}")])
        return next(event for event in local_stack.llm.reply(asked) if isinstance(event, Finish))

    finish("milk")
    other, again = finish("water"), finish("water")
    assert 10 < other.cached_tokens < other.prompt_tokens - 1
    assert again.prompt_tokens - again.cached_tokens <= 1


@real
def test_hanging_up_stops_the_servers_work(local_stack: Stack) -> None:
    """Else the next turn would wait for an answer that nobody reads: the server does one thing at a time."""

    def first_token_and_all_s(question: str, *, hang_up: bool) -> tuple[float, float]:
        events = local_stack.llm.reply(prompt.build(question, [Passage("p", f"A long note about {question}")]))
        start = time.monotonic()
        next(events)
        first_token_s = time.monotonic() - start
        if hang_up:
            events.close()  # type: ignore[attr-defined]
        else:
            list(events)
        return first_token_s, time.monotonic() - start

    written: list[float] = []
    waited: dict[bool, list[float]] = {True: [], False: []}
    for i in range(4):
        for hang_up in (False, True):
            first_token_s, all_s = first_token_and_all_s(f"coffee {i} {hang_up}", hang_up=hang_up)
            if not hang_up:
                written.append(all_s - first_token_s)
            waited[hang_up].append(first_token_and_all_s(f"tea {i} {hang_up}", hang_up=False)[0])
    # Writing the rest of an answer takes its time; next to none of that is waited for.
    assert median(waited[True]) < median(waited[False]) + median(written) / 2


@real
def test_every_pool_follows_the_quota(local_stack: Stack) -> None:
    allowed = limits.read_limits().threads
    assert all(1 <= threads <= allowed for threads in local_stack.facts["threads"].values())
    (server,) = local_stack.pids()
    command = psutil.Process(server).cmdline()
    assert command[command.index("--n_threads_batch") + 1] == str(allowed)
    assert int(command[command.index("--n_threads") + 1]) <= allowed


@real
def test_the_server_listens_on_loopback_only_and_wants_its_key(local_stack: Stack) -> None:
    import httpx

    (server,) = local_stack.pids()
    (listening,) = [c for c in psutil.Process(server).net_connections() if c.status == psutil.CONN_LISTEN]
    assert listening.laddr.ip == "127.0.0.1"
    with httpx.Client(trust_env=False) as client:
        assert client.get(f"http://127.0.0.1:{listening.laddr.port}/v1/models").status_code == httpx.codes.UNAUTHORIZED


@real
def test_a_server_that_stalls_or_is_killed_fails_its_turn_by_name_and_nothing_is_left(
    clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama_server, "READ_TIMEOUT_S", 2.0)
    passages = corpus.load(ROOT / "fixtures/corpus/passages.jsonl")
    with local.stack(Setup(passages, limits.read_limits().threads)) as stack:
        (server,) = stack.pids()

        def run(clip: Clip) -> Turn:
            return run_turn(stack, clip, 0, "overlapped", MonotonicClock())

        assert run(clips[0]).error is None
        os.kill(server, signal.SIGSTOP)
        stalled = run(clips[1])
        os.kill(server, signal.SIGCONT)
        assert stalled.error == "llm: the server sent nothing for 2 s"
        assert run(clips[2]).error is None
        os.kill(server, signal.SIGKILL)
        killed = run(clips[1])
    assert killed.error is not None
    assert killed.error.startswith("llm: ")
    assert "signal 9 (SIGKILL" in killed.error
    assert killed.transcript
    assert not psutil.pid_exists(server)


@real
def test_a_recognizer_does_not_grow_with_every_length_that_it_hears(local_stack: Stack, clips: list[Clip]) -> None:
    speech = np.concatenate([clip.samples for clip in clips[:3]])

    def hear(offset: int) -> int:
        for length in range(20):
            local_stack.recognizer.transcribe(speech[: 16_000 + offset + 6_400 * length])
        rss: int = psutil.Process().memory_info().rss
        return rss

    before = hear(0)
    # Three rounds of new lengths took 60 MiB more, when the kernels for each were kept.
    assert max(hear(offset) for offset in (1_600, 3_200, 4_800)) - before < 15 * 2**20
