"""A whole run: for each mode a warm-up and the measured rounds, every wiring on every query, interleaved."""

import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from firstsound import live, stepped
from firstsound.clock import NS_PER_S, Clock
from firstsound.draft import Draft
from firstsound.errors import FirstsoundError
from firstsound.manifest import Clip
from firstsound.memory import MemoryMonitor
from firstsound.recording import Recording
from firstsound.stages import SAMPLE_RATE_HZ, Stack
from firstsound.turn import MODES, WARM_UP_ROUND, WIRINGS_OF, Mode, Turn, Wiring
from firstsound.turnfile import to_json

TURN_TIMEOUT_S = 300.0
"""Longer than any turn: the recognizer takes 30 s of speech, and every other wait has a time-out of its own."""


SWITCH_INTERVAL_S = 0.0005


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

    Each wiring goes through the clips from another place, so that no prompt follows its own like and finds it cached,
    as long as there are more clips than wirings.
    """
    for mode in MODES:
        if not rounds.get(mode, 0):
            continue
        joined = [wiring for wiring in wirings if wiring in WIRINGS_OF[mode]]
        for round_ in range(WARM_UP_ROUND, rounds[mode]):
            # Live turns take the time that speaking takes; one of each wiring warms up what there is to warm up.
            first = len(clips) - 1 if mode == "live" and round_ == WARM_UP_ROUND else 0
            for i in range(first, len(clips)):
                for w, wiring in enumerate(joined):
                    yield Step(mode, round_, wiring, clips[(i - w * len(clips) // len(joined)) % len(clips)])


def execute(
    stack: Stack,
    steps: Sequence[Step],
    clock: Clock,
    monitor: MemoryMonitor,
    turns_file: TextIO,
    recordings: Path,
    tell: Callable[[Progress], None],
    problems: list[str],
) -> list[Turn]:
    """Run every step; write each turn to `turns_file`, and a live one's recording to `recordings`, as it ends.

    What breaks off one mode does not lose what was measured in another: it is added to `problems`.

    Raises:
        FirstsoundError: nothing was measured before the run broke off.
    """
    turns: list[Turn] = []
    took_ns: dict[Mode, list[int]] = {}
    with short_switches():
        for done, step in enumerate(steps):
            try:
                tell(Progress(step, done, len(steps), _left_s(took_ns, steps[done:]) if done else None))
                start_ns = clock.now_ns()
                monitor.tag = (step.mode, step.clip.query, step.round)
                turn = in_time(step, partial(_run_turn, stack, step, clock, recordings))
                turns.append(turn)
                turns_file.write(to_json(turn) + "\n")
                turns_file.flush()
                nothing_goes_on_after(turn)
                if step.round == WARM_UP_ROUND:
                    _stop_if_all_failed(step.mode, turns, steps)
                took_ns.setdefault(step.mode, []).append(clock.now_ns() - start_ns)
            except FirstsoundError as e:
                if steps[0].mode == step.mode:
                    raise
                problems.append(str(e))
                break
    return turns


@contextmanager
def short_switches() -> Iterator[None]:
    """Let Python's threads take turns quickly: with its own 5 ms, what is recognized keeps the microphone waiting.

    Measured over 12 speculative turns, p95 of the frames' lateness in the worst: 3.8 ms, and 1.3 ms with this.
    """
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)


def _run_turn(stack: Stack, step: Step, clock: Clock, recordings: Path) -> Turn:
    if step.mode == "stepped":
        return stepped.run_turn(stack, step.clip, step.round, step.wiring, clock)
    file = recordings / recording_name(step.clip.query, step.wiring, step.round)
    return live.run_turn(stack, step.clip, step.round, step.wiring, clock, partial(Recording.write, path=file))


def in_time(step: Step, run_turn: Callable[[], Turn]) -> Turn:
    """The turn, or one that says where it hangs: a stage in this process cannot be stopped, only left."""
    outcome: list[Turn | BaseException] = []

    def run() -> None:
        try:
            outcome.append(run_turn())
        except BaseException as e:  # noqa: BLE001 - raised in the thread that waits
            outcome.append(e)

    thread = threading.Thread(target=run, name="firstsound-turn", daemon=True)
    thread.start()
    thread.join(TURN_TIMEOUT_S)
    match outcome:
        case [Turn() as turn]:
            return turn
        case [Exception() as e]:
            raise e
        case [BaseException() as e]:
            raise FirstsoundError(f"{type(e).__name__} ended a turn of {step.clip.query}: {e}") from e
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - documented, whatever its name
    where = traceback.extract_stack(frame)[-1] if frame else "its end"
    return Draft(step.clip, step.round, step.wiring, step.mode).freeze(
        f"not over after {TURN_TIMEOUT_S:.0f} s: it hangs in {where}"
    )


def _stop_if_all_failed(mode: Mode, turns: Sequence[Turn], steps: Sequence[Step]) -> None:
    """Do not spend a quarter of an hour on what cannot work.

    Raises:
        FirstsoundError: the warm-up of a mode is over, and each of its turns has failed.
    """
    warm_up = [turn for turn in turns if turn.mode == mode]
    whole = len(warm_up) == sum((step.mode, step.round) == (mode, WARM_UP_ROUND) for step in steps)
    if whole and all(turn.error for turn in warm_up):
        raise FirstsoundError(
            f"every turn of the {mode} warm-up failed, so the rest was not run; the last, {warm_up[-1].name}: "
            f"{warm_up[-1].error}"
        )


def nothing_goes_on_after(turn: Turn) -> None:
    """Make sure that no thread of a turn is left, which would take its share of every turn that follows.

    Raises:
        FirstsoundError: one is.
    """
    # The microphone ends with its next frame, and takes nothing until then.
    ours = {"firstsound-memory", "firstsound-microphone"}
    left = {t.name for t in threading.enumerate() if t.name.startswith("firstsound-")} - ours
    if left:
        raise FirstsoundError(
            f"{turn.name}: {', '.join(sorted(left))} still works, and what follows would be measured beside it; "
            f"the turn ended with: {turn.error}"
        )


def _left_s(took_ns: Mapping[Mode, Sequence[int]], steps: Sequence[Step]) -> float:
    """How long the steps will take at their mode's pace so far; a mode yet to come takes at least its clips' length."""

    def turn_s(step: Step) -> float:
        took = took_ns.get(step.mode)
        return sum(took) / len(took) / NS_PER_S if took else len(step.clip.samples) / SAMPLE_RATE_HZ

    return sum(map(turn_s, steps))


def recording_name(query: str, wiring: Wiring, round_: int) -> str:
    """The file name of a live turn's recording."""
    return f"{query}-{wiring}-{'warm-up' if round_ == WARM_UP_ROUND else round_}.flac"
