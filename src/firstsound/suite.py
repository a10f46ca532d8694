"""Everything between the command line and the verdicts: load the inputs, run the stack, hold the results."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from firstsound import budget, corpus, limits, manifest, memory, run, trace
from firstsound.budget import ALL_WIRINGS, CLOSURE_LINE, MEMORY_LINE, TIME_LINES, Held, Line, Sample, Verdict
from firstsound.clock import NS_PER_MS, NS_PER_S, Clock
from firstsound.errors import FirstsoundError
from firstsound.manifest import Clip
from firstsound.percentile import rank
from firstsound.quality import GUARDS, Quality, assess
from firstsound.stages import Passage, Setup, Stack, StackBuilder
from firstsound.turn import MODES, WARM_UP_ROUND, WIRINGS_OF, Mode, Turn, Wiring, closure_ns, perceived_of_ns, stages_ns

SUMMARY_TITLE = "### firstsound"
MEMORY_INTERVAL_S = 1.0
"""A sample of 700 MiB takes a core 20 to 50 ms, so they are kept apart; peaks come from the kernel's own mark."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says."""

    stack: str
    budgets: Path
    profile: str
    clips: Path
    corpus: Path
    rounds: Mapping[Mode, int]
    """Measured rounds a mode; 0 leaves it out."""


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

    def wirings_of(self, mode: Mode) -> list[Wiring]:
        """The wirings that run in a mode."""
        return [wiring for wiring in self.wirings if wiring in WIRINGS_OF[mode]]

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The modes to run, in their order."""
        return tuple(mode for mode in MODES if self.settings.rounds.get(mode, 0))

    def samples_a_line(self, mode: Mode) -> int:
        """How many turns each wiring must bring in a mode."""
        return len(self.clips) * self.settings.rounds[mode]

    def lines(self) -> list[Line]:
        """Every line that a complete run judges."""
        return [line for mode in self.modes for line in self.lines_of(mode)]

    def lines_of(self, mode: Mode) -> list[Line]:
        """Every line that a complete run judges in one mode."""
        names = [*TIME_LINES, *([CLOSURE_LINE] if mode == "live" else [])]
        lines = [Line(name, mode, wiring) for name in names for wiring in self.wirings_of(mode)]
        return [*lines, Line(MEMORY_LINE, mode, ALL_WIRINGS)]

    def guards(self) -> list[Line]:
        """Every guard that a complete run judges."""
        return [Line(g, mode, wiring) for mode in self.modes for g in GUARDS[mode] for wiring in self.wirings_of(mode)]


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
    quality: Sequence[Quality] = ()
    problems: Sequence[str] = ()
    """What fails the run beside its lines and guards."""

    def measured(self, mode: Mode, wiring: str) -> list[Turn]:
        """The turns of one mode and wiring, without the warm-up."""
        return [t for t in self.turns if (t.mode, t.wiring) == (mode, wiring) and t.round != WARM_UP_ROUND]

    def too_busy(self, mode: Mode) -> list[Quality]:
        """The rounds of a mode in which the machine was too busy to feed audio in time."""
        most_ms = self.inputs.budget.guards.frame_lateness_ms.max
        known = [(q, q.frame_lateness_ms) for q in self.quality if q.mode == mode]
        return [q for q, late_ms in known if late_ms is not None and late_ms > most_ms]

    def completed(self, mode: Mode, wiring: str) -> list[Turn]:
        """The measured turns of one mode and wiring that did not fail; none where the machine was too busy."""
        if self.too_busy(mode):
            return []
        return [turn for turn in self.measured(mode, wiring) if turn.error is None]

    def failures(self, mode: Mode, wiring: str) -> list[Turn]:
        """The turns of one mode and wiring that failed, those of the warm-up too: what follows one is not warm."""
        return [t for t in self.turns if (t.mode, t.wiring) == (mode, wiring) and t.error is not None]

    def memory_of(self, mode: Mode) -> list[memory.MemorySample]:
        """The memory samples taken while one mode ran; what was sampled before the first turn counts to the first."""
        return [s for s in self.memory_samples if (s.tag[0] if s.tag else self.inputs.modes[0]) == mode]

    def samples(self, line: Line) -> list[Sample]:
        """The samples of one line, in ms, or bytes for memory; failed turns have none."""
        if line.name == MEMORY_LINE:
            return [
                Sample(s.tag[1] if s.tag else None, s.tag[2] if s.tag else None, s.total_bytes)
                for s in self.memory_of(line.mode)
            ]
        turns = self.completed(line.mode, line.wiring)
        return [Sample(turn.query, turn.round, line_ms(turn, line.name)) for turn in turns]

    def verdict(self, line: Line) -> Verdict | None:
        """The verdict of one line; None where it has no samples."""
        values = [s.value for s in self.samples(line)]
        if not values:
            return None
        b = self.inputs.budget
        return budget.judge(b, b.profile(self.inputs.settings.profile), line, values)

    @property
    def peak_bytes(self) -> int:
        """An upper bound of what all processes held at once: each one's own peak, added up."""
        return sum(self.peaks_bytes.values())


def line_ms(turn: Turn, name: str) -> float:
    """The value of one time line in one turn, in milliseconds."""
    match name:
        case "perceived":
            ns = perceived_of_ns(turn)
        case "closure":
            ns = abs(closure_ns(turn))
        case _:
            ns = stages_ns(turn)[name]
    return ns / NS_PER_MS


def load(settings: Settings) -> Inputs:
    """Read every input file.

    Raises:
        FirstsoundError: one of them is missing or wrong.
    """
    if min(settings.rounds.values()) < 0 or not any(settings.rounds.values()):
        told = ", ".join(f"{mode} {rounds}" for mode, rounds in settings.rounds.items())
        raise FirstsoundError(
            f"at least one measured round is needed in some mode, not {told}: see --rounds and --live-rounds"
        )
    b = budget.load(settings.budgets)
    b.profile(settings.profile)
    for mode in MODES:
        if settings.rounds.get(mode, 0) and not any(b.wirings.get(w) == "bind" for w in WIRINGS_OF[mode]):
            raise FirstsoundError(
                f"{settings.budgets}: wirings: none of {', '.join(WIRINGS_OF[mode])} is set to bind, so no {mode} turn "
                "could fail the run"
            )
    clips, passages = manifest.load(settings.clips), corpus.load(settings.corpus)
    known = {passage.id for passage in passages}
    for clip in clips:
        if clip.expected_passage is not None and clip.expected_passage not in known:
            raise FirstsoundError(
                f"{settings.clips}: {clip.query} expects passage {clip.expected_passage!r}, which is not in "
                f"{settings.corpus}"
            )
    return Inputs(settings, b, clips, passages)


def find_builder(name: str) -> StackBuilder:
    """The stack builder that `module:function` names.

    Raises:
        FirstsoundError: there is no such module or function.
    """
    module_name, colon, function = name.partition(":")
    if not colon:
        raise FirstsoundError(f"--stack {name}: must be module:function")
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
    steps = list(run.schedule(inputs.clips, inputs.wirings, inputs.settings.rounds))
    try:
        recordings = folder / "recordings"
        for each in (folder / "traces", *([recordings] if "live" in inputs.modes else [])):
            each.mkdir(parents=True, exist_ok=True)
        _clear(folder)
        turns_file = (folder / "turns.jsonl").open("w", encoding="utf-8")
    except OSError as e:
        raise FirstsoundError(
            f"{folder}: results cannot be written there: {e}; choose another folder with --benchmark-json=FOLDER/NAME"
        ) from e
    kills_before = _oom_kills()
    problems: list[str] = []
    facts: dict[str, Any] = {}
    try:
        with turns_file, _started(inputs, bounds) as stack:
            with memory.MemoryMonitor(clock, stack.pids, MEMORY_INTERVAL_S) as monitor:
                turns = run.execute(stack, steps, clock, monitor, turns_file, recordings, tell, problems)
            facts = _facts(inputs, stack, bounds)
            problems += limits.oversized(facts["pools"], bounds.threads)
            problems += _oversized(stack, bounds)
    except Exception as e:
        # What was measured is whole by now; only the stack did not stop as it should.
        if not facts:
            raise
        problems.append(f"the stack could not be stopped: {type(e).__name__}: {e}")
    if (kills := _oom_kills() - kills_before) > 0:
        problems.append(f"the kernel killed {kills} processes of this container for want of memory during the run")
    throttled_after = limits.throttled()
    if throttled_before is not None and throttled_after is not None:
        facts["throttled"] = asdict(throttled_after - throttled_before)
    rounds: dict[tuple[Mode, Wiring, int], list[Turn]] = {}
    for turn in turns:
        if turn.round != WARM_UP_ROUND:
            rounds.setdefault((turn.mode, turn.wiring, turn.round), []).append(turn)
    quality = [assess(inputs.clips, group) for group in rounds.values()]
    _write_traces(turns, folder / "traces")
    results = Results(
        inputs,
        turns,
        monitor.samples,
        dict(monitor.peaks),
        list(monitor.lost),
        memory.container_memory(),
        facts,
        quality,
        problems,
    )
    if "live" in inputs.modes:
        _keep_the_telling(results, recordings)
    return results


@contextmanager
def _started(inputs: Inputs, bounds: limits.Limits) -> Iterator[Stack]:
    """The stack, until it is stopped on leaving.

    Raises:
        FirstsoundError: the builder cannot be found, or brings no stack.
    """
    name = inputs.settings.stack
    starting: object = find_builder(name)(Setup(inputs.passages, bounds.threads))
    if not isinstance(starting, AbstractContextManager):
        raise FirstsoundError(
            f"--stack {name}: must return a context manager that yields a Stack, not {type(starting).__name__}; is "
            "@contextmanager missing?"
        )
    with starting as stack:
        if not isinstance(stack, Stack):
            raise FirstsoundError(f"--stack {name}: yields {type(stack).__name__}, not a Stack")
        try:
            json.dumps(dict(stack.facts), allow_nan=False)
        except (TypeError, ValueError) as e:
            raise FirstsoundError(f"--stack {name}: Stack.facts goes into a JSON file, and cannot: {e}") from e
        yield stack


def _oversized(stack: Stack, bounds: limits.Limits) -> list[str]:
    """A sentence for each thread count that the stack itself tells, and that is beyond what the container allows."""
    told = stack.facts.get("threads", {})
    if not isinstance(told, Mapping):
        return [f"Stack.facts: threads must be a mapping of names to counts, not {told!r:.60}"]
    return [
        f"the stack's {name} has {threads} threads where the container allows 1 to {bounds.threads}; size it by "
        "Setup.threads"
        for name, threads in told.items()
        # 0 and -1 are what unsized pools say.
        if type(threads) is not int or not 1 <= threads <= bounds.threads
    ]


def _clear(folder: Path) -> None:
    """Delete what an earlier run has written: it must not pass for this one's if this one breaks off.

    Raises:
        FirstsoundError: another file has the name that one of ours must have.
    """
    for name, beginning in (("summary.md", SUMMARY_TITLE), ("turns.jsonl", '{"version": ')):
        file = folder / name
        said = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        if said and not said.startswith(beginning):
            raise FirstsoundError(
                f"{file} is not firstsound's, and would be written over; choose a folder of its own with "
                "--benchmark-json=FOLDER/NAME"
            )
    if not (folder / "turns.jsonl").exists():
        return
    conditions = [(mode, wiring) for mode in MODES for wiring in WIRINGS_OF[mode]]
    patterns = [f"traces/*-{mode}-{wiring}.json" for mode, wiring in conditions]
    patterns += [f"recordings/*-{wiring}-*.flac" for mode, wiring in conditions if mode == "live"]
    for pattern in (*patterns, "summary.md", "turns.jsonl"):
        for old in folder.glob(pattern):
            old.unlink()


def _oom_kills() -> int:
    container = memory.container_memory()
    return 0 if container is None else container.oom_kills or 0


def telling(results: Results, mode: Mode, wiring: str) -> dict[str, Turn]:
    """The median and the slowest turn of one mode and wiring; nothing where none was completed."""
    turns = sorted(results.completed(mode, wiring), key=perceived_of_ns)
    return {"median": turns[rank(50, len(turns)) - 1], "slowest": turns[-1]} if turns else {}


def _keep_the_telling(results: Results, recordings: Path) -> None:
    """Delete the recordings that nobody will ask for: all but the median's, the slowest's and those of failed turns."""
    turns = [turn for turn in results.turns if turn.mode == "live" and turn.error is not None]
    for wiring in results.inputs.wirings_of("live"):
        turns += telling(results, "live", wiring).values()
    kept = {run.recording_name(turn.query, turn.wiring, turn.round) for turn in turns}
    for turn in results.turns:
        name = run.recording_name(turn.query, turn.wiring, turn.round)
        if turn.mode == "live" and name not in kept:
            (recordings / name).unlink(missing_ok=True)


def _write_traces(turns: Sequence[Turn], folder: Path) -> None:
    """One trace a query, mode and wiring, with its measured rounds beneath each other."""
    groups: dict[tuple[str, Mode, Wiring], list[Turn]] = {}
    for turn in turns:
        if turn.round != WARM_UP_ROUND:
            groups.setdefault((turn.query, turn.mode, turn.wiring), []).append(turn)
    for (query, mode, wiring), group in groups.items():
        text = trace.dumps(trace.trace_events(group))
        (folder / f"{query}-{mode}-{wiring}.json").write_text(text, encoding="utf-8")


def _facts(inputs: Inputs, stack: Stack, bounds: limits.Limits) -> dict[str, Any]:
    """What the figures were measured on and with, ready for JSON."""
    return {
        "stack": stack.name,
        "profile": inputs.settings.profile,
        "rounds": dict(inputs.settings.rounds),
        "cpu_model": _cpu_model(),
        "quota_cores": bounds.quota_cores,
        "affinity_cores": bounds.affinity_cores,
        "threads": bounds.threads,
        "memory_limit_bytes": bounds.memory_limit_bytes,
        "cgroup_version": bounds.cgroup_version,
        "pools": limits.pools(),
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


def extra_info(results: Results, line: Line, verdict: Verdict) -> dict[str, Any]:
    """What the benchmark JSON says of one line beside its samples' durations."""
    is_memory = line.name == MEMORY_LINE
    info: dict[str, Any] = {
        "budget": line.name,
        "wiring": line.wiring,
        "mode": line.mode,
        "clock": "wall" if is_memory else clock_of(line.name),
        "unit": "bytes" if is_memory else "ms",
        "n": verdict.n,
        "p50": verdict.p50.observed,
        "p95": verdict.p95.observed,
        "p95_rank": verdict.p95.rank,
        "limit": verdict.p50.limit,
        "p95_limit": verdict.p95.limit,
        "verdict": "over" if verdict.exceeded else "within",
        "breaks": [held.percentile for held in verdict.breaks],
        "samples": [asdict(sample) for sample in results.samples(line)],
    }
    if is_memory:
        info["peaks_bytes"] = {str(pid): peak for pid, peak in results.peaks_bytes.items()}
        info["peak_bytes"] = results.peak_bytes
        info["headroom_bytes"] = round(verdict.p50.limit) - results.peak_bytes
        info["container"] = None if results.container is None else asdict(results.container)
    return info


def clock_of(name: str) -> budget.Clock:
    """The clock of a line in time."""
    return "both" if name == CLOSURE_LINE else TIME_LINES[name]


def durations_s(results: Results, line: Line) -> list[float]:
    """What the benchmark's own table holds: the samples in seconds; for memory, how long each sample took."""
    if line.name == MEMORY_LINE:
        return [s.took_ns / NS_PER_S for s in results.memory_of(line.mode)]
    return [s.value / 1000 for s in results.samples(line)]


def faults(results: Results, line: Line) -> list[str]:
    """Why a line fails the run, a paragraph each; nothing where it holds."""
    found: list[str] = []
    if line.name == MEMORY_LINE:
        if results.lost_pids:
            found.append(
                f"{line}: processes {list(results.lost_pids)} ended during the run: their memory is not counted"
            )
        limit = results.inputs.budget.limits(line.name)[0]
        if results.peak_bytes > limit:
            found.append(f"{line}: the peaks add up to {results.peak_bytes} bytes, above {limit:.0f}")
    else:
        wanted = results.inputs.samples_a_line(line.mode)
        failed = results.failures(line.mode, line.wiring)
        if failed:
            told = "\n".join(_grouped(failed))
            found.append(f"{line}: {len(failed)} turns failed:\n{told}")
        measured = len(results.measured(line.mode, line.wiring))
        if measured < wanted:
            found.append(f"{line}: {measured} turns were run, {wanted} were asked for")
    verdict = results.verdict(line)
    if verdict is None:
        why = ": the machine was too busy to feed audio in time" if results.too_busy(line.mode) else ""
        found.append(f"{line}: nothing was measured{why}")
        return found
    return found + [_told(results, verdict, held) for held in verdict.breaks]


def _grouped(failed: Sequence[Turn]) -> list[str]:
    """Each error once, with the turns that it befell."""
    befell: dict[str | None, list[Turn]] = {}
    for turn in failed:
        befell.setdefault(turn.error, []).append(turn)
    return [
        f"  {turns[0].name}{f' and {len(turns) - 1} more' if len(turns) > 1 else ''}: {error}"
        for error, turns in befell.items()
    ]


def _told(results: Results, verdict: Verdict, held: Held) -> str:
    """A broken limit, with what the reader needs to act on it."""
    line = verdict.line
    unit, scale = ("MiB", 2**20) if line.name == MEMORY_LINE else ("ms", 1)
    text = (
        f"{line}: p{held.percentile} (rank {held.rank} of n={verdict.n}) is "
        f"{held.observed / scale:.1f} {unit}, above the limit of {held.limit / scale:.0f} {unit}"
    )
    if line.name == MEMORY_LINE:
        return text
    slowest = max(results.completed(line.mode, line.wiring), key=lambda turn: line_ms(turn, line.name))
    split = ", ".join(f"{stage} {ns / NS_PER_MS:.0f}" for stage, ns in stages_ns(slowest).items())
    return f"{text}\n  slowest: {slowest.name}: {split} ms"
