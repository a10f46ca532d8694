"""A whole run: for each mode a warm-up and the measured rounds, every wiring on every query, interleaved."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from firstsound import live, stepped
from firstsound.clock import NS_PER_S, Clock
from firstsound.manifest import Clip
from firstsound.memory import MemoryMonitor
from firstsound.recording import Recording
from firstsound.stages import SAMPLE_RATE_HZ, Stack
from firstsound.turn import MODES, WARM_UP_ROUND, WIRINGS_OF, Mode, Turn, Wiring
from firstsound.turnfile import to_json


@dataclass(frozen=True, slots=True)
class Step:
    """One turn that is to be run."""

    mode: Mode
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
    """Seconds to go, about; None before the first turn is done."""


def schedule(clips: Sequence[Clip], wirings: Sequence[Wiring], rounds: Mapping[Mode, int]) -> Iterator[Step]:
    """The steps of a run in their order: for each mode the warm-up, then its rounds, the wirings taking turns.

    Each wiring goes through the clips from another place, so that (from three clips on) no prompt follows its own
    like and finds it cached.
    """
    for mode in MODES:
        if not rounds.get(mode, 0):
            continue
        joined = [wiring for wiring in wirings if wiring in WIRINGS_OF[mode]]
        for round_ in range(WARM_UP_ROUND, rounds[mode]):
            # Live turns take the time that speaking takes; one of each wiring warms up what there is to warm up.
            heard = clips[:1] if mode == "live" and round_ == WARM_UP_ROUND else clips
            for i in range(len(heard)):
                for w, wiring in enumerate(joined):
                    yield Step(mode, round_, wiring, heard[(i - w * len(heard) // len(joined)) % len(heard)])


def execute(
    stack: Stack,
    steps: Sequence[Step],
    clock: Clock,
    monitor: MemoryMonitor,
    turns_file: TextIO,
    recordings: Path,
    tell: Callable[[Progress], None],
) -> list[Turn]:
    """Run every step; write each turn to `turns_file`, and a live one's recording to `recordings`, as it ends."""
    turns: list[Turn] = []
    took_ns: dict[Mode, list[int]] = {}
    for done, step in enumerate(steps):
        tell(Progress(step, done, len(steps), _left_s(took_ns, steps[done:]) if done else None))
        start_ns = clock.now_ns()
        monitor.tag = (step.mode, step.clip.query, step.round)
        if step.mode == "live":
            file = recordings / recording_name(step.clip.query, step.wiring, step.round)
            turn = live.run_turn(stack, step.clip, step.round, step.wiring, clock, partial(Recording.write, path=file))
        else:
            turn = stepped.run_turn(stack, step.clip, step.round, step.wiring, clock)
        turns.append(turn)
        turns_file.write(to_json(turn) + "\n")
        turns_file.flush()
        took_ns.setdefault(step.mode, []).append(clock.now_ns() - start_ns)
    return turns


def _left_s(took_ns: Mapping[Mode, Sequence[int]], steps: Sequence[Step]) -> float:
    """How long the steps will take at their mode's pace so far; a mode yet to come takes at least its clips' length."""

    def turn_s(step: Step) -> float:
        took = took_ns.get(step.mode)
        return sum(took) / len(took) / NS_PER_S if took else len(step.clip.samples) / SAMPLE_RATE_HZ

    return sum(map(turn_s, steps))


def recording_name(query: str, wiring: Wiring, round_: int) -> str:
    """The file name of a live turn's recording."""
    return f"{query}-{wiring}-{'warm-up' if round_ == WARM_UP_ROUND else round_}.flac"
