"""Everything between the command line and the verdicts: load the inputs, run the stack, hold the results."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from firstsound import budget, corpus, limits, manifest, memory, run, trace
from firstsound.budget import MEMORY_LINE, TIME_LINES, Sample, Verdict
from firstsound.clock import NS_PER_MS, NS_PER_S, Clock
from firstsound.errors import FirstsoundError
from firstsound.manifest import Clip
from firstsound.percentile import rank
from firstsound.quality import GUARDS, Quality, assess
from firstsound.stages import Passage, Setup, Stack, StackBuilder
from firstsound.turn import WARM_UP_ROUND, Turn, Wiring, perceived_of_ns, stages_ns

MEMORY_INTERVAL_S = 1.0
"""A sample of 700 MiB takes a core 20 to 50 ms, so they are kept apart; peaks come from the kernel's own mark."""
ALL_WIRINGS = "all"
"""The wiring of the memory line: the processes are the same for each."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says."""

    stack: str
    budgets: Path
    profile: str
    clips: Path
    corpus: Path
    rounds: int


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a run needs, loaded and checked."""

    settings: Settings
    budget: budget.Budget
    clips: Sequence[Clip]
    passages: Sequence[Passage]

    @property
    def wirings(self) -> tuple[Wiring, ...]:
        """The wirings to run, in the order of the budget."""
        return tuple(self.budget.wirings)

    @property
    def samples_a_line(self) -> int:
        """How many turns each wiring must bring."""
        return len(self.clips) * self.settings.rounds

    def lines(self) -> list[tuple[str, str]]:
        """Every (line, wiring) that a complete run judges."""
        return [(line, wiring) for line in TIME_LINES for wiring in self.wirings] + [(MEMORY_LINE, ALL_WIRINGS)]

    def guards(self) -> list[tuple[str, str]]:
        """Every (guard, wiring) that a complete run judges."""
        return [(guard, wiring) for guard in GUARDS for wiring in self.wirings]


@dataclass(frozen=True, slots=True)
class Results:
    """What a run brought."""

    inputs: Inputs
    turns: Sequence[Turn]
    memory_samples: Sequence[memory.MemorySample]
    peaks_bytes: Mapping[int, int]
    lost_pids: Sequence[int]
    container: memory.ContainerMemory | None
    facts: Mapping[str, Any]
    quality: Sequence[Quality] = field(default=())

    def measured(self, wiring: str) -> list[Turn]:
        """The turns of one wiring, without the warm-up."""
        return [turn for turn in self.turns if turn.wiring == wiring and turn.round != WARM_UP_ROUND]

    def failures(self, wiring: str) -> list[Turn]:
        """The measured turns of one wiring that failed."""
        return [turn for turn in self.measured(wiring) if turn.error is not None]

    def samples(self, line: str, wiring: str) -> list[Sample]:
        """The samples of one line, in ms, or bytes for memory; failed turns have none."""
        if line == MEMORY_LINE:
            return [
                Sample(s.tag[0] if s.tag else None, s.tag[1] if s.tag else None, s.total_bytes)
                for s in self.memory_samples
            ]
        turns = [turn for turn in self.measured(wiring) if turn.error is None]
        return [Sample(turn.query, turn.round, line_ms(turn, line)) for turn in turns]

    def verdict(self, line: str, wiring: str) -> Verdict:
        """The verdict of one line.

        Raises:
            ValueError: the line has no samples.
        """
        b = self.inputs.budget
        profile = b.profile(self.inputs.settings.profile)
        return budget.judge(b, profile, line, wiring, [s.value for s in self.samples(line, wiring)])

    @property
    def peak_bytes(self) -> int:
        """An upper bound of what all processes held at once: each one's own peak, added up."""
        return sum(self.peaks_bytes.values())


def line_ms(turn: Turn, line: str) -> float:
    """The value of one time line in one turn, in milliseconds."""
    return (perceived_of_ns(turn) if line == "perceived" else stages_ns(turn)[line]) / NS_PER_MS


def load(settings: Settings) -> Inputs:
    """Read every input file.

    Raises:
        FirstsoundError: one of them is missing or wrong.
    """
    if settings.rounds < 1:
        raise FirstsoundError(f"at least one measured round is needed, not {settings.rounds}")
    b = budget.load(settings.budgets)
    b.profile(settings.profile)
    return Inputs(settings, b, manifest.load(settings.clips), corpus.load(settings.corpus))


def find_builder(name: str) -> StackBuilder:
    """The stack builder that `module:function` names.

    Raises:
        FirstsoundError: there is no such module or function.
    """
    module_name, _, function = name.partition(":")
    try:
        builder: StackBuilder = getattr(import_module(module_name), function)
    except Exception as e:  # anybody's module, which may fail in any way
        raise FirstsoundError(f"--stack {name}: cannot be loaded as module:function: {type(e).__name__}: {e}") from e
    return builder


def execute(inputs: Inputs, clock: Clock, folder: Path, tell: Callable[[run.Progress], None]) -> Results:
    """Start the stack, run all turns, stop it; turns.jsonl and traces are written below `folder`.

    Raises:
        FirstsoundError: the stack does not start, a thread pool is too large, or the folder cannot be written.
    """
    bounds = limits.read_limits()
    throttled_before = limits.throttled()
    builder = find_builder(inputs.settings.stack)
    steps = list(run.schedule(inputs.clips, inputs.wirings, inputs.settings.rounds))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        turns_file = (folder / "turns.jsonl").open("w", encoding="utf-8")
    except OSError as e:
        raise FirstsoundError(f"{folder}: results cannot be written there: {e}") from e
    with turns_file, builder(Setup(inputs.passages, bounds.threads)) as stack:
        with memory.MemoryMonitor(clock, stack.pids, MEMORY_INTERVAL_S) as monitor:
            turns = run.execute(stack, steps, clock, monitor, turns_file, tell)
        pools = limits.check_pools(bounds.threads)
        facts = _facts(inputs, stack, bounds, pools)
    throttled_after = limits.throttled()
    if throttled_before is not None and throttled_after is not None:
        facts["throttled"] = asdict(throttled_after - throttled_before)
    quality = [
        assess(inputs.clips, [turn for turn in turns if (turn.round, turn.wiring) == (round_, wiring)])
        for round_ in range(inputs.settings.rounds)
        for wiring in inputs.wirings
    ]
    _write_traces(turns, folder / "traces")
    return Results(
        inputs,
        turns,
        monitor.samples,
        dict(monitor.peaks),
        list(monitor.lost),
        memory.container_memory(),
        facts,
        quality,
    )


def _write_traces(turns: Sequence[Turn], folder: Path) -> None:
    """One trace a query and wiring, with its measured rounds beneath each other."""
    folder.mkdir(exist_ok=True)
    groups: dict[tuple[str, str], list[Turn]] = {}
    for turn in turns:
        if turn.round != WARM_UP_ROUND:
            groups.setdefault((turn.query, turn.wiring), []).append(turn)
    for (query, wiring), group in groups.items():
        (folder / f"{query}-{wiring}.json").write_text(trace.dumps(trace.trace_events(group)), encoding="utf-8")


def _facts(inputs: Inputs, stack: Stack, bounds: limits.Limits, pools: Sequence[Any]) -> dict[str, Any]:
    """What the figures were measured on and with, ready for JSON."""
    return {
        "stack": stack.name,
        "profile": inputs.settings.profile,
        "rounds": inputs.settings.rounds,
        "cpu_model": _cpu_model(),
        "quota_cores": bounds.quota_cores,
        "affinity_cores": bounds.affinity_cores,
        "threads": bounds.threads,
        "memory_limit_bytes": bounds.memory_limit_bytes,
        "cgroup_version": bounds.cgroup_version,
        "pools": list(pools),
        "stack_facts": dict(stack.facts),
        "versions": {name: version(name) for name in ("firstsound", "numpy", "pytest-benchmark")},
        "clips": {clip.query: clip.sha256 for clip in inputs.clips},
        "git_commit": _git_commit(inputs.settings.budgets.parent),
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def _git_commit(folder: Path) -> str | None:
    """The commit that was measured; None outside a repository."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - the user's own git
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def extra_info(results: Results, line: str, wiring: str) -> dict[str, Any]:
    """What the benchmark JSON says of one line beside its samples' durations."""
    verdict = results.verdict(line, wiring)
    is_memory = line == MEMORY_LINE
    info: dict[str, Any] = {
        "budget": line,
        "wiring": wiring,
        "mode": "stepped",
        "clock": "wall" if is_memory else TIME_LINES[line],
        "unit": "bytes" if is_memory else "ms",
        "n": verdict.n,
        "p50": verdict.p50,
        "p95": verdict.p95,
        "p95_rank": verdict.p95_rank,
        "limit": verdict.limit,
        "p95_limit": verdict.p95_limit,
        "verdict": "within" if verdict.within else "over",
        "binds": [e.percentile for e in verdict.breaks],
        "samples": [asdict(sample) for sample in results.samples(line, wiring)],
    }
    if is_memory:
        info["peaks_bytes"] = {str(pid): peak for pid, peak in results.peaks_bytes.items()}
        info["peak_bytes"] = results.peak_bytes
        info["headroom_bytes"] = round(verdict.limit) - results.peak_bytes
        info["container"] = None if results.container is None else asdict(results.container)
    return info


def durations_s(results: Results, line: str, wiring: str) -> list[float]:
    """What the benchmark's own table holds: the samples in seconds; for memory, how long each sample took."""
    if line == MEMORY_LINE:
        return [s.took_ns / NS_PER_S for s in results.memory_samples]
    return [s.value / 1000 for s in results.samples(line, wiring)]


def faults(results: Results, line: str, wiring: str) -> list[str]:
    """Why a line fails the run, a paragraph each; nothing where it holds."""
    wanted = results.inputs.samples_a_line
    found: list[str] = []
    if line == MEMORY_LINE:
        if results.lost_pids:
            found.append(
                f"memory: processes {list(results.lost_pids)} ended during the run: their memory is not counted"
            )
        limit = results.inputs.budget.limits(line)[0]
        if results.peak_bytes > limit:
            found.append(f"memory: the peaks add up to {results.peak_bytes} bytes, above {limit:.0f}")
    else:
        failed = results.failures(wiring)
        if failed:
            told = "\n".join(f"  {turn.name}: {turn.error}" for turn in failed)
            found.append(f"{line}, {wiring}: {len(failed)} of {wanted} turns failed:\n{told}")
        measured = len(results.measured(wiring))
        if measured < wanted:
            found.append(f"{line}, {wiring}: {measured} turns were run, {wanted} were asked for")
    if not results.samples(line, wiring):
        found.append(f"{line}, {wiring}: nothing was measured")
        return found
    verdict = results.verdict(line, wiring)
    found += [_told(results, verdict, e) for e in verdict.breaks]
    return found


def _told(results: Results, verdict: Verdict, exceeded: budget.Exceeded) -> str:
    """A broken limit, with what the reader needs to act on it."""
    r = rank(exceeded.percentile, verdict.n)
    unit, scale = ("MiB", 2**20) if verdict.line == MEMORY_LINE else ("ms", 1)
    text = (
        f"{verdict.line}, {verdict.wiring}: p{exceeded.percentile} (rank {r} of n={verdict.n}) is "
        f"{exceeded.observed / scale:.1f} {unit}, above the limit of {exceeded.limit / scale:.0f} {unit}"
    )
    if verdict.line == MEMORY_LINE:
        return text
    turns = [turn for turn in results.measured(verdict.wiring) if turn.error is None]
    slowest = max(turns, key=lambda turn: line_ms(turn, verdict.line))
    split = ", ".join(f"{stage} {ns / NS_PER_MS:.0f}" for stage, ns in stages_ns(slowest).items())
    return f"{text}\n  slowest: {slowest.name}: {split} ms"
