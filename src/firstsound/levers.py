"""What each lever is worth: the same clips with it and without, taking turns, and the paired difference in silence."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import jiwer
import numpy as np

from firstsound import corpus, limits, live, manifest, report, run, suite
from firstsound.budget import Guards
from firstsound.clock import NS_PER_MS, NS_PER_S, Clock, MonotonicClock, utc_stamp
from firstsound.cpu import cpu_time_ns
from firstsound.errors import FirstsoundError
from firstsound.manifest import Clip
from firstsound.percentile import nearest_rank, rank
from firstsound.signals import StoppedError, stopped_by_signals
from firstsound.stages import Setup, Stack, StackBuilder
from firstsound.text import words
from firstsound.turn import WARM_UP_ROUND, Turn, Wiring, perceived_of_ns
from firstsound.turnfile import to_json

REFERENCE = "speculative"
RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Condition:
    """One way to run a turn: a wiring, over a stack of which a lever may be off."""

    name: str
    wiring: Wiring
    change: Callable[[Stack], Stack] = lambda stack: stack


CONDITIONS = (
    Condition("batch", "batch"),
    Condition("serial", "serial"),
    Condition("overlapped", "overlapped"),
    Condition(
        "overlapped, recognized at the endpoint", "overlapped", lambda stack: replace(stack, new_transcription=None)
    ),
    Condition(REFERENCE, "speculative"),
    Condition(
        "speculative, the endpointer's own gap", "speculative", lambda stack: replace(stack, reads_complete=None)
    ),
    Condition("speculative, no prompt read ahead", "speculative", lambda stack: replace(stack, prefill=None)),
    Condition("speculative, silence before the answer", "speculative", lambda stack: replace(stack, lead_in_ms=None)),
)
"""The zero line first; after the reference, what it loses with each lever off."""
HESITANT = (CONDITIONS[4], CONDITIONS[5])


@dataclass(slots=True)
class Measured:
    """The turns of one condition, in the order of the clips, round by round, and what they cost."""

    condition: Condition
    turns: list[Turn] = field(default_factory=list)
    cpu_ns: list[int] = field(default_factory=list)
    """CPU time of this process and the stack's others while each turn ran."""

    def run(self, stack: Stack, clip: Clip, round_: int, clock: Clock) -> Turn:
        """Run one more turn."""
        begin_ns = cpu_time_ns(stack.pids())
        changed = self.condition.change(stack)
        step = run.Step("live", round_, self.condition.wiring, clip)
        turn = run.in_time(
            step, lambda: live.run_turn(changed, clip, round_, self.condition.wiring, clock, lambda _: None)
        )
        run.nothing_goes_on_after(turn)
        if round_ != WARM_UP_ROUND:
            self.turns.append(turn)
            self.cpu_ns.append(cpu_time_ns(stack.pids()) - begin_ns)
        return turn


def measure(
    stacks: Sequence[tuple[Stack, Condition]],
    clips: Sequence[Clip],
    rounds: int,
    clock: Clock,
    tell: Callable[[Condition, Turn], None],
) -> list[Measured]:
    """Run every condition over its stack on every clip, after one turn each that warms up.

    The conditions take turns, each from another place among the clips, so that no prompt follows its own like.
    """
    found = [Measured(condition) for _, condition in stacks]
    with run.short_switches():
        for (stack, condition), each in zip(stacks, found, strict=True):
            tell(condition, each.run(stack, clips[-1], WARM_UP_ROUND, clock))
        for round_ in range(rounds):
            for i in range(len(clips)):
                for c, ((stack, condition), each) in enumerate(zip(stacks, found, strict=True)):
                    place = (i + c * len(clips) // len(stacks)) % len(clips)
                    tell(condition, each.run(stack, clips[place], round_, clock))
    return found


def difference_ms(one: Measured, other: Measured) -> tuple[float, float, float, int] | None:
    """By how much `one` is longer than `other` in recorded silence, in ms, over the turns that both completed.

    The median (nearest rank) of the differences clip by clip and round by round, the ends of its 95 % interval
    (percentile bootstrap, Efron 1979), and how many pairs there are; None where there is no pair.
    """
    silences = [
        {(t.query, t.round): perceived_of_ns(t) / NS_PER_MS for t in each.turns if t.error is None}
        for each in (one, other)
    ]
    pairs = sorted(silences[0].keys() & silences[1].keys())
    if not pairs:
        return None
    found = np.array([silences[0][pair] - silences[1][pair] for pair in pairs])
    # A fixed seed: the same turns give the same interval.
    drawn = np.random.default_rng(0).choice(found, (RESAMPLES, len(found)))
    # By inverted_cdf, a percentile is of the nearest rank.
    medians = np.percentile(drawn, 50, axis=1, method="inverted_cdf")
    low, high = np.percentile(medians, [2.5, 97.5], method="inverted_cdf")
    return nearest_rank(found.tolist(), 50), float(low), float(high), len(pairs)


def table(found: Sequence[Measured], clips: Sequence[Clip]) -> list[str]:
    """One row a condition, in Markdown; the difference is to the condition called `REFERENCE`."""
    reference = next(each for each in found if each.condition.name == REFERENCE)
    texts = {clip.query: words(clip.text) for clip in clips}
    header = (
        "| condition | n | recorded silence p50, ms | p95, ms (rank) | difference to speculative, ms [95 %] "
        "| CPU a turn, s | word error rate | failed |"
    )
    return [header, "|---" * 8 + "|", *(_row(each, reference, texts) for each in found), "", _NOTE]


_NOTE = f"Nearest rank; below n = {report.FEW_SAMPLES}, p95 is the slowest turn."
LATE_MS = Guards().frame_lateness_ms.max
"""Beyond this (p95 of the microphone's frames in a turn), the machine was too busy to measure."""


def _row(each: Measured, reference: Measured, texts: Mapping[str, str]) -> str:
    whole = [turn for turn in each.turns if turn.error is None]
    cells = [each.condition.name, str(len(whole))]
    late_ms = [nearest_rank(t.live.frame_lateness_ns, 95) / NS_PER_MS for t in whole if t.live is not None]
    silences = [perceived_of_ns(turn) / NS_PER_MS for turn in whole]
    if not whole or max(late_ms) > LATE_MS:
        cells += ["TOO BUSY" if whole else "-", "-", "-"]
    else:
        p50, p95 = (nearest_rank(silences, p) for p in (50, 95))
        cells += [f"{p50:.0f}", f"{p95:.0f} ({rank(95, len(whole))})"]
        found = None if each is reference else difference_ms(each, reference)
        cells.append("-" if found is None else f"{found[0]:+.0f} [{found[1]:+.0f}, {found[2]:+.0f}]")
    cells.append(f"{sum(each.cpu_ns) / len(each.cpu_ns) / NS_PER_S:.2f}")
    heard = [words(turn.transcript) for turn in whole]
    cells.append(f"{jiwer.wer([texts[turn.query] for turn in whole], heard):.3f}" if whole else "-")
    return "| " + " | ".join([*cells, str(len(each.turns) - len(whole))]) + " |"


def hesitant_table(found: Sequence[Measured], clips: Sequence[Clip]) -> list[str]:
    """One row a clip, in Markdown: its recorded silence, or how it failed, under each condition."""
    rows = ["| clip | " + " | ".join(each.condition.name for each in found) + " |", "|---" * (len(found) + 1) + "|"]
    for clip in clips:
        told = [", ".join(_told(turn) for turn in each.turns if turn.query == clip.query) for each in found]
        rows.append(f"| {clip.query} | " + " | ".join(told) + " |")
    cut = [sum(_early(turn) for turn in each.turns) for each in found]
    counts = [f"{early} of {len(each.turns)}" for early, each in zip(cut, found, strict=True)]
    return [*rows, "| premature | " + " | ".join(counts) + " |"]


def _early(turn: Turn) -> bool:
    endpoint = turn.audio.endpoint
    return endpoint is not None and endpoint < turn.audio.speech_end


def _told(turn: Turn) -> str:
    if _early(turn):
        return "cut off"
    return f"{perceived_of_ns(turn) / NS_PER_MS:.0f} ms" if turn.error is None else f"failed: {turn.error:.40}"


def main(arguments: list[str]) -> int:
    """`python -m firstsound levers`: measure, and print the tables.

    They are written below `--out`, and so is every turn, by its condition.

    Returns the exit status: 1 if an input is wrong or a turn failed other than by an early endpoint on a hesitant clip.
    """
    parser = argparse.ArgumentParser(prog="python -m firstsound levers", description=__doc__)
    parser.add_argument("--stack", default="firstsound.adapters.local:stack", metavar="MODULE:FUNCTION")
    parser.add_argument("--clips", type=Path, default=Path("fixtures/audio/manifest.yaml"))
    parser.add_argument("--hesitant", type=Path, default=Path("fixtures/audio/hesitant.yaml"))
    parser.add_argument("--corpus", type=Path, default=Path("fixtures/corpus/passages.jsonl"))
    parser.add_argument("--rounds", type=int, default=1, help="rounds over all clips; of the hesitant ones, always one")
    parser.add_argument("--out", type=Path, default=Path("results") / f"{utc_stamp()}-levers")
    asked = parser.parse_args(arguments)
    try:
        with stopped_by_signals():
            return _run(asked)
    except FirstsoundError as e:
        sys.stderr.write(f"firstsound: {e}\n")
        return 1
    except StoppedError as e:
        sys.stderr.write(f"firstsound: {e}\n")
        return e.exit_status


def _run(asked: argparse.Namespace) -> int:
    builder = suite.find_builder(asked.stack)
    clips, hesitant, passages = manifest.load(asked.clips), manifest.load(asked.hesitant), corpus.load(asked.corpus)
    setup = Setup(passages, limits.read_limits().threads)
    clock = MonotonicClock()
    asked.out.mkdir(parents=True, exist_ok=True)

    def tell(condition: Condition, turn: Turn) -> None:
        file = asked.out / f"{re.sub('[^a-z0-9]+', '-', condition.name.lower())}.jsonl"
        with file.open("a", encoding="utf-8") as turns_file:
            turns_file.write(to_json(turn) + "\n")
        told = turn.error or f"{perceived_of_ns(turn) / NS_PER_MS:.0f} ms"
        sys.stderr.write(f"{condition.name}: {turn.name}: {told}\n")

    with builder(setup) as stack:
        reference = next(condition for condition in CONDITIONS if condition.name == REFERENCE)
        found = measure([(stack, condition) for condition in CONDITIONS], clips, asked.rounds, clock, tell)
        lines = ["### Levers", "", *table(found, clips)]
        for name, other in _variants(asked.stack).items():
            with other(setup) as another:
                both = [(stack, reference), (another, Condition(name, "speculative"))]
                lines += ["", *table(measured := measure(both, clips, asked.rounds, clock, tell), clips)]
                found += measured
        slow = measure([(stack, condition) for condition in HESITANT], hesitant, 1, clock, tell)
        lines += ["", "### Hesitant clips", "", *hesitant_table(slow, hesitant)]
    (asked.out / "levers.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join(lines) + f"\n\nResults: {asked.out}\n")
    failed = [turn for each in found for turn in each.turns if turn.error is not None]
    failed += [turn for each in slow for turn in each.turns if turn.error is not None and not _early(turn)]
    return 1 if failed else 0


def _variants(stack: str) -> Mapping[str, StackBuilder]:
    """The stacks that the module of `stack` wants compared with its own, by the name of what is different."""
    variants: Mapping[str, StackBuilder] = getattr(sys.modules[stack.partition(":")[0]], "VARIANTS", {})
    return variants
