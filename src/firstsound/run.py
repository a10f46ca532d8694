"""A whole run: a warm-up round and the measured ones, every wiring on every query, interleaved."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from firstsound.clock import Clock
from firstsound.manifest import Clip
from firstsound.memory import MemoryMonitor
from firstsound.stages import Stack
from firstsound.turn import WARM_UP_ROUND, Turn, Wiring, to_json
from firstsound.wiring import run_turn


@dataclass(frozen=True, slots=True)
class Step:
    """One turn that is to be run."""

    round: int
    wiring: Wiring
    clip: Clip


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come."""

    step: Step
    done: int
    total: int
    left_s: float | None
    """Seconds to go at the pace so far; None before the first turn is done."""


def schedule(clips: Sequence[Clip], wirings: Sequence[Wiring], rounds: int) -> Iterator[Step]:
    """The steps of a run in their order: the warm-up, then `rounds` rounds, the wirings taking turns.

    Each wiring goes through the clips from another place, so that (from three clips on) no prompt follows its own
    like and finds it cached.
    """
    for round_ in range(WARM_UP_ROUND, rounds):
        for i in range(len(clips)):
            for w, wiring in enumerate(wirings):
                yield Step(round_, wiring, clips[(i - w * len(clips) // len(wirings)) % len(clips)])


def execute(
    stack: Stack,
    steps: Sequence[Step],
    clock: Clock,
    monitor: MemoryMonitor,
    turns_file: TextIO,
    tell: Callable[[Progress], None],
) -> list[Turn]:
    """Run every step, and write each turn to `turns_file` as soon as it is over."""
    turns: list[Turn] = []
    start_ns = clock.now_ns()
    for done, step in enumerate(steps):
        elapsed_s = (clock.now_ns() - start_ns) / 1e9
        tell(Progress(step, done, len(steps), elapsed_s / done * (len(steps) - done) if done else None))
        monitor.tag = (step.clip.query, step.round)
        turn = run_turn(stack, step.clip, step.round, step.wiring, clock)
        monitor.tag = None
        turns.append(turn)
        turns_file.write(to_json(turn) + "\n")
        turns_file.flush()
    return turns
