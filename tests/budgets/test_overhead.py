"""What the suite itself adds to a turn."""

from collections.abc import Callable
from statistics import median

import pytest
import samples

from firstsound.adapters.fake import Delay, FakeLanguageModel, FakeRecognizer, FakeRetriever, FakeSynthesizer
from firstsound.clock import NS_PER_MS, MonotonicClock
from firstsound.memory import MemoryMonitor
from firstsound.stepped import run_turn
from firstsound.suite import MEMORY_INTERVAL_S
from firstsound.turn import WIRINGS_OF, Turn, Wiring, first_sound_parts_ns, stages_ns

READ: dict[str, Callable[[Turn], int]] = {
    "final": lambda turn: stages_ns(turn)["final"],
    "retrieval": lambda turn: stages_ns(turn)["retrieval"],
    "first_token": lambda turn: stages_ns(turn)["first_token"],
    "fragment": lambda turn: first_sound_parts_ns(turn)["fragment"],
    "synthesis": lambda turn: first_sound_parts_ns(turn)["synthesis"],
}


def added_ms(kind: Wiring) -> float:
    """What the stages took in one turn over fakes, less what the fakes really slept."""
    delays = {name: Delay(5) for name in READ if name != "fragment"}
    stack = samples.stack(
        recognizer=FakeRecognizer(samples.TEXT, delays["final"]),
        retriever=FakeRetriever(samples.PASSAGES, delays["retrieval"]),
        llm=FakeLanguageModel(["Brew it with hot water. "], first_delay=delays["first_token"]),
        synthesizer=FakeSynthesizer(delays["synthesis"]),
    )
    turn = run_turn(stack, samples.clip(), 0, kind, MonotonicClock())
    slept_ns = sum(delay.slept_ns[0] for delay in delays.values())
    return (sum(read(turn) for read in READ.values()) - slept_ns) / NS_PER_MS


@pytest.mark.parametrize("kind", WIRINGS_OF["stepped"])
def test_the_suite_adds_less_than_a_millisecond_to_a_turn(kind: Wiring) -> None:
    # Beside the memory monitor, as in a run. A neighbour's load only ever adds, so the best of some medians is the
    # suite's own share.
    with MemoryMonitor(MonotonicClock(), interval_s=MEMORY_INTERVAL_S):
        assert min(median(added_ms(kind) for _ in range(9)) for _ in range(5)) < 1
