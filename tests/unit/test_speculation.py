import threading
from collections.abc import Iterator

import pytest
import samples

from firstsound.adapters.fake import Delay, FakeLanguageModel, FakeRetriever, FakeSynthesizer
from firstsound.clock import MonotonicClock
from firstsound.errors import StageError
from firstsound.recognition import Understood
from firstsound.speculation import Speculator
from firstsound.stages import AudioChunk, Delta, Finish, Prompt, Stack


class Gated:
    """Writes a word a time when it is let, and says when it was hung up on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = threading.Event()
        self.written = threading.Event()
        self.closed = threading.Event()

    def reply(self, prompt: Prompt) -> Iterator[Delta | Finish]:
        self.asked.append(prompt.user)
        try:
            for _ in range(3):
                yield Delta("word ")
                self.written.set()
                self.go.wait(10)
            yield Finish("stop", 10, 5)
        finally:
            self.closed.set()


@pytest.fixture
def played() -> list[AudioChunk]:
    return []


def speculator(played: list[AudioChunk], **parts: object) -> tuple[Speculator, Stack]:
    stack = samples.stack(**parts)
    return Speculator(stack, "speculative", MonotonicClock(), played.append), stack


def test_who_was_given_up_while_waiting_for_a_stage_does_not_use_it(played: list[AudioChunk]) -> None:
    class Slow(FakeSynthesizer):
        def __init__(self) -> None:
            super().__init__()
            self.asked: list[str] = []
            self.speaks = threading.Event()
            self.go = threading.Event()

        def synthesize(self, text: str) -> Iterator[AudioChunk]:
            self.asked.append(text)
            self.speaks.set()
            self.go.wait(10)
            yield from super().synthesize(text)

    synthesizer = Slow()
    ahead, _ = speculator(played, synthesizer=synthesizer, llm=FakeLanguageModel(["Brew it hot."]))
    ahead.begin("how do I brew")
    assert synthesizer.speaks.wait(10)
    # The second waits for the synthesizer, and is given up there.
    ahead.begin("how do I brew tea")
    MonotonicClock().sleep_ns(200_000_000)
    ahead.begin("how do I brew coffee")
    confirmed = ahead.confirm("how do I brew coffee")
    synthesizer.go.set()
    assert confirmed is not None
    confirmed.wait()
    assert len(synthesizer.asked) == 2
    assert ahead.settle().discarded == 2


def test_a_prompt_that_cannot_be_read_ahead_is_counted_and_the_answer_comes_all_the_same(
    played: list[AudioChunk],
) -> None:
    def refuse(asked: Prompt) -> None:
        raise OSError(asked.user)

    for prefill, counted in ((refuse, (0, 1)), (lambda _: None, (1, 0))):
        ahead, _ = speculator(played, prefill=prefill)
        ahead.hear(Understood(1, "how do I brew", stable=False, complete=True), speech=True)
        ahead.settle()
        ahead.hear(Understood(2, "how do I brew", stable=True, complete=True), speech=False)
        confirmed = ahead.confirm("how do I brew")
        assert confirmed is not None
        confirmed.wait()
        told = ahead.settle()
        assert (told.prefills, told.failed_prefills) == counted


@pytest.mark.parametrize(
    ("understood", "begun"),
    [
        (Understood(1, "how do I brew", stable=False, complete=True), 1),
        (Understood(1, "how do I brew", stable=False, complete=None), 1),
        (Understood(1, "how do I brew", stable=False, complete=False), 0),
        (Understood(1, "how do I brew", stable=True, complete=False), 1),
    ],
)
def test_what_cannot_be_all_is_answered_only_when_it_was_heard_twice(
    played: list[AudioChunk], understood: Understood, begun: int
) -> None:
    ahead, _ = speculator(played)
    ahead.hear(understood, speech=False)
    ahead.end()
    assert ahead.settle().attempts == begun


def test_a_confirmed_attempt_is_played_and_nothing_is_lost(played: list[AudioChunk]) -> None:
    ahead, _ = speculator(played)
    ahead.begin("How do I brew coffee")
    confirmed = ahead.confirm("how do I brew coffee?")
    assert confirmed is not None
    confirmed.wait()
    assert played == []
    confirmed.attempt.release()
    assert len(played) == len(confirmed.attempt.fragments)
    told = ahead.settle()
    assert (told.attempts, told.discarded, told.wasted_deltas, told.wasted_cpu_ns) == (1, 0, 0, 0)


def test_the_same_words_are_not_answered_twice(played: list[AudioChunk]) -> None:
    llm = Gated()
    ahead, _ = speculator(played, llm=llm)
    for text in ("how do I brew", "How do I brew?", "", "..."):
        ahead.begin(text)
    llm.go.set()
    assert ahead.settle().attempts == 1


def test_another_final_transcript_throws_the_attempt_away_and_hangs_up(played: list[AudioChunk]) -> None:
    llm = Gated()
    ahead, _ = speculator(played, llm=llm)
    ahead.begin("how do I brew")
    assert llm.written.wait(10)
    assert ahead.confirm("how do I brew tea") is None
    llm.go.set()
    told = ahead.settle()
    assert llm.closed.is_set()
    # The word in hand, and the one that was under way.
    assert (told.attempts, told.discarded, told.wasted_deltas) == (1, 1, 1)
    assert played == []


def test_who_goes_on_and_says_no_more_is_answered_again(played: list[AudioChunk]) -> None:
    ahead, _ = speculator(played)
    ahead.begin("how do I brew")
    ahead.drop()
    ahead.begin("how do I brew")
    confirmed = ahead.confirm("how do I brew")
    assert confirmed is not None
    confirmed.wait()
    assert ahead.settle().attempts == 2


def test_an_attempt_begins_when_the_one_before_has_let_go(played: list[AudioChunk]) -> None:
    llm = Gated()
    ahead, _ = speculator(played, llm=llm)
    ahead.begin("how do I brew")
    assert llm.written.wait(10)
    ahead.begin("how do I brew coffee")
    assert len(llm.asked) == 1
    llm.go.set()
    confirmed = ahead.confirm("how do I brew coffee")
    assert confirmed is not None
    confirmed.wait()
    assert len(llm.asked) == 2


def test_what_is_confirmed_is_neither_dropped_nor_replaced(played: list[AudioChunk]) -> None:
    ahead, _ = speculator(played, llm=FakeLanguageModel(samples.ANSWER, delay=Delay(2)))
    ahead.begin("how do I brew")
    confirmed = ahead.confirm("how do I brew")
    assert confirmed is not None
    ahead.end()
    ahead.begin("something else")
    confirmed.wait()
    assert ahead.settle().attempts == 1


def test_nothing_is_begun_once_the_turn_is_over(played: list[AudioChunk]) -> None:
    """A decode that was under way at the clip's end may still come with a partial transcript."""
    ahead, _ = speculator(played)
    ahead.end()
    ahead.begin("how do I brew")
    assert ahead.settle().attempts == 0


def test_a_failure_is_raised_only_where_the_answer_is_wanted(played: list[AudioChunk]) -> None:
    ahead, _ = speculator(played, retriever=FakeRetriever([]))
    ahead.begin("how do I brew")
    confirmed = ahead.confirm("how do I brew")
    assert confirmed is not None
    with pytest.raises(StageError, match="retriever: no passage was found"):
        confirmed.wait()
    other, _ = speculator(played, retriever=FakeRetriever([]))
    other.begin("how do I brew")
    assert other.confirm("how do I brew tea") is None
    assert other.settle().discarded == 1
