"""The pytest plugin: options, one test item a budget line, and the gate that no line escapes.

A test that asks for the fixture `budget_line` or `guard` is run once a line and wiring of budgets.yaml. The first of
them runs the whole suite; the others read its results.
"""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from firstsound import limits
from firstsound.clock import MonotonicClock, utc_stamp
from firstsound.errors import FirstsoundError
from firstsound.signals import StoppedError, stopped_by_signals

if TYPE_CHECKING:
    from firstsound.budget import Line
    from firstsound.run import Progress
    from firstsound.suite import Inputs, Results

_FIXTURES = ("budget_line", "guard")
_NO_XDIST = "a budget cannot be judged by several processes: run it without xdist (-n 0)"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add firstsound's options."""
    group = parser.getgroup("firstsound")
    group.addoption(
        "--stack",
        default="firstsound.adapters.local:stack",
        metavar="MODULE:FUNCTION",
        help="the voice stack to measure: a context manager that takes a Setup and yields a Stack. "
        "Default: the local one",
    )
    group.addoption("--budgets", type=Path, metavar="FILE", help="the budget. Default: budgets.yaml in the root folder")
    group.addoption(
        "--budget-profile", default="strict", metavar="NAME", help="the profile that says what binds. Default: strict"
    )
    group.addoption(
        "--clips",
        type=Path,
        metavar="MANIFEST",
        help="the manifest of the recordings. Default: fixtures/audio/manifest.yaml in the root folder",
    )
    group.addoption(
        "--corpus",
        type=Path,
        metavar="FILE",
        help="the passages to search. Default: fixtures/corpus/passages.jsonl in the root folder",
    )
    parser.addini(
        "firstsound_required",
        "fail a pytest run over `testpaths` in which no budget line is collected",
        type="bool",
        default=False,
    )
    group.addoption(
        "--rounds",
        type=int,
        default=3,
        metavar="N",
        help="measured stepped rounds over all clips, after the warm-up; 0 leaves them out. Default: 3",
    )
    group.addoption(
        "--live-rounds",
        type=int,
        default=2,
        metavar="N",
        help="measured live rounds over all clips, at the pace of speech; 0 leaves them out. Default: 2",
    )


@pytest.hookimpl(trylast=True)
def pytest_load_initial_conftests() -> None:
    """Size the native thread pools before anything loads them: they read these variables once, on loading."""
    limits.set_thread_variables(limits.read_limits().threads)


def pytest_configure(config: pytest.Config) -> None:
    """Start the session's state."""
    config.stash[_GATE] = _Gate(config)
    config.pluginmanager.register(config.stash[_GATE], "firstsound-gate")


class _ReplayTimer:
    """A timer for pytest-benchmark under which a round takes what was measured for a sample."""

    def __init__(self) -> None:
        self._readings: Iterator[float] = iter(())

    def load(self, durations_s: list[float]) -> None:
        self._readings = iter([reading for duration in durations_s for reading in (0.0, duration)])

    def __call__(self) -> float:
        return next(self._readings)


class _Gate:
    """One session's run: what must be judged, what was, and what came of it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._inputs: Inputs | None = None
        self._results: Results | None = None
        self._collected = False
        self._judged: dict[Line, bool] = {}
        """What was judged, and whether it held."""
        self._broke_off = False
        self.complaint: str | None = None
        self.json_path: Path | None = None

    def _unlink(self, json_path: Path) -> None:
        """What an earlier run left must not pass for this one's if this one breaks off."""
        try:
            json_path.unlink(missing_ok=True)
        except OSError as e:
            raise FirstsoundError(f"--benchmark-json={json_path} cannot be written: {e}") from e

    @property
    def folder(self) -> Path:
        """Where this run writes: beside the benchmark JSON."""
        if self.json_path is None:
            raise RuntimeError("nothing was collected that writes results")
        return self.json_path.parent

    def inputs(self) -> "Inputs":
        """The input files, read once."""
        if self._inputs is None:
            # Here and not at the top: these modules load numpy, whose pool must find its size set.
            from firstsound import suite  # noqa: PLC0415

            option, root = self._config.getoption, self._config.rootpath
            # As `python -m pytest` does: the user's stack lies beside their tests.
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            settings = suite.Settings(
                stack=option("--stack"),
                budgets=option("--budgets") or root / "budgets.yaml",
                profile=option("--budget-profile"),
                clips=option("--clips") or root / "fixtures/audio/manifest.yaml",
                corpus=option("--corpus") or root / "fixtures/corpus/passages.jsonl",
                rounds={"stepped": option("--rounds"), "live": option("--live-rounds")},
            )
            try:
                if option("benchmark_json") and not option("collectonly"):
                    self._unlink(Path(option("benchmark_json")))
                self._inputs = suite.load(settings)
            except FirstsoundError as e:
                # This error is told in its own words; any other in a traceback through pytest.
                raise pytest.Collector.CollectError(f"firstsound: {e}") from e
        return self._inputs

    def results(self) -> "Results":
        """The run's results; the first call runs it."""
        if self._results is None:
            from firstsound import suite  # noqa: PLC0415

            capture = self._config.pluginmanager.getplugin("capturemanager")
            uncaptured = capture.global_and_fixture_disabled() if capture else nullcontext()
            try:
                with uncaptured, _Teller() as tell, _traceback_of_what_breaks_off(), stopped_by_signals():
                    self._results = suite.execute(self.inputs(), MonotonicClock(), self.folder, tell)
            except FirstsoundError as e:
                self._break_off()
                # Every line would fail with the same words; once is enough.
                pytest.exit(f"firstsound: {e}", returncode=pytest.ExitCode.TESTS_FAILED)
            except StoppedError as e:
                self._break_off()
                pytest.exit(f"firstsound: {e}", returncode=e.exit_status)
            except KeyboardInterrupt:
                self._break_off()
                raise
            except BaseException as e:  # noqa: BLE001 - a stack is anybody's code
                self._break_off()
                pytest.exit(
                    f"firstsound: the run broke off: {type(e).__name__}: {e}", returncode=pytest.ExitCode.TESTS_FAILED
                )
        return self._results

    def _break_off(self) -> None:
        self._broke_off = True
        # It would only say, in a warning, that there is nothing to save.
        self._config._benchmarksession.json = None  # type: ignore[attr-defined] # noqa: SLF001 - it has no setter

    def judge(self, what: "Line", faults: list[str]) -> None:
        """Note that a line or guard was judged, and fail its test if it does not hold."""
        self._judged[what] = not faults
        if faults:
            pytest.fail("\n".join(faults), pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Before anything is deselected: is this a run of the budget suite?"""
        self._collected = any(name in getattr(item, "fixturenames", ()) for item in items for name in _FIXTURES)
        if hasattr(self._config, "workeroutput"):
            # The session that prints and exits collects nothing itself.
            self._config.workeroutput["firstsound"] = self._collected
        if self._collected and not self._config.option.collectonly:
            if self._config.option.benchmark_json is None:
                self._config._benchmarksession.json = self._config.option.benchmark_json = (  # type: ignore[attr-defined] # noqa: SLF001 - it has no setter
                    self._config.rootpath / "results" / utc_stamp() / "results.json"
                )
            self.json_path = Path(self._config.option.benchmark_json)
            try:
                self.json_path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as e:
                raise pytest.UsageError(
                    f"firstsound: results cannot be written to {self.json_path.parent}: {e}; choose another folder "
                    "with --benchmark-json=FOLDER/NAME"
                ) from e

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 - xdist's own type
        """Hear from one of xdist's processes what it collected."""
        if getattr(node, "workeroutput", {}).get("firstsound"):
            self.complaint = _NO_XDIST

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the session if a line of the budget was not judged, or not kept: an xfail mark excuses nothing."""
        if self._config.option.collectonly or hasattr(self._config, "workerinput"):
            return
        if self.complaint:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
            return
        if not self._collected:
            required = self._config.getini("firstsound_required")
            if required and self._config.args_source is not pytest.Config.ArgsSource.ARGS:
                self.complaint = "no budget line was collected, and firstsound_required is set: run the whole suite"
                session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
            return
        self.complaint = self._complain()
        if self.complaint and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _complain(self) -> str | None:
        """Why the run fails, whatever became of its test items; None where it does not, or has broken off."""
        if self._broke_off:
            return None
        inputs = self.inputs()
        missing = [line for line in inputs.lines() + inputs.guards() if line not in self._judged]
        if missing:
            return (
                f"not judged: {'; '.join(map(str, missing))}. A budget is kept only if every line is judged: run the "
                "whole suite, with benchmarks enabled, without -k, -n or node ids."
            )
        over = [line for line, held in self._judged.items() if not held]
        told = [f"not kept: {'; '.join(map(str, over))}"] if over else []
        if self._results is not None:
            told += self._results.problems
        return ". ".join(told) or None

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the report after everything else, so that it is what the reader sees."""
        if self._results is not None:
            from firstsound import report  # noqa: PLC0415

            width = terminalreporter._tw.fullwidth  # noqa: SLF001 - the width that pytest itself writes to
            terminalreporter.write_line("")
            terminalreporter.write_line(report.terminal(self._results, width))
            terminalreporter.write_line(f"Results: {self.folder}")
            # An answer may hold half a surrogate pair, which no file takes.
            (self.folder / "summary.md").write_text(
                report.markdown(self._results), encoding="utf-8", errors="backslashreplace"
            )
        if self.complaint:
            terminalreporter.write_line(f"firstsound: FAILED: {self.complaint}", red=True)

    def pytest_benchmark_update_machine_info(self, machine_info: dict[str, Any]) -> None:
        """Write what the figures were measured on into the benchmark JSON."""
        if self._results is not None:
            machine_info["firstsound"] = dict(self._results.facts)

    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        """Write the guarded figures into the benchmark JSON."""
        if self._results is not None:
            from dataclasses import asdict  # noqa: PLC0415

            output_json["firstsound"] = {"version": 1, "quality": [asdict(q) for q in self._results.quality]}


@contextmanager
def _traceback_of_what_breaks_off() -> Iterator[None]:
    """Print it while pytest does not capture: on the way out it keeps the words only."""
    try:
        yield
    except FirstsoundError:
        raise
    except Exception:
        traceback.print_exc()
        raise


_GATE = pytest.StashKey[_Gate]()


class _Teller:
    """Progress on the terminal: one line that is written over, or one line a round where there is no terminal."""

    def __init__(self) -> None:
        self._out = sys.stderr
        self._rewrites = self._out.isatty()
        self._round: tuple[str, int] | None = None

    def __enter__(self) -> Self:
        self._out.write("\nfirstsound: starting the stack\n")
        self._out.flush()
        return self

    def __exit__(self, *_: object) -> None:
        if self._rewrites:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def __call__(self, progress: "Progress") -> None:
        step = progress.step
        round_ = "warm-up" if step.round < 0 else f"round {step.round + 1}"
        left = "" if progress.left_s is None else f", {progress.left_s:.0f} s left"
        count = f"{progress.done + 1}/{progress.total}{left}"
        text = f"firstsound: {step.mode}, {round_}, {step.clip.query}, {step.wiring} ({count})"
        if self._rewrites:
            self._out.write(f"\r\x1b[K{text}")
        elif (step.mode, step.round) != self._round:
            self._out.write(f"{text}\n")
        self._round = step.mode, step.round
        self._out.flush()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `budget_line` or `guard` once for each of them."""
    gate = metafunc.config.stash[_GATE]
    if "budget_line" in metafunc.fixturenames:
        lines = [pytest.param(line, id=line.id, marks=_marks(line)) for line in gate.inputs().lines()]
        metafunc.parametrize("budget_line", lines, indirect=True)
    if "guard" in metafunc.fixturenames:
        guards = [pytest.param(guard, id=guard.id) for guard in gate.inputs().guards()]
        metafunc.parametrize("guard", guards, indirect=True)


def _marks(line: "Line") -> list[pytest.MarkDecorator]:
    return [
        pytest.mark.benchmark(group=_group(line), timer=_ReplayTimer()),
        # A line of which nothing was measured fails in words of its own.
        pytest.mark.filterwarnings("ignore:Benchmark fixture was not used at all"),
    ]


def _group(line: "Line") -> str:
    from firstsound import budget, suite  # noqa: PLC0415

    if line.name == budget.MEMORY_LINE:
        return f"{line.name}, {line.mode} (time a sample took)"
    return f"{line.name}, {line.mode} ({suite.clock_of(line.name)} clock)"


@pytest.fixture
def budget_line(request: pytest.FixtureRequest, benchmark: Any) -> "BudgetLine":  # noqa: ANN401 - untyped
    """One line of the budget in one mode and wiring; call its `check()`."""
    return BudgetLine(request, benchmark)


@pytest.fixture
def guard(request: pytest.FixtureRequest) -> "Guard":
    """One guard in one mode and wiring; call its `check()`."""
    return Guard(request)


def _require_benchmarks(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        pytest.fail(_NO_XDIST, pytrace=False)
    if config._benchmarksession.disabled:  # type: ignore[attr-defined] # noqa: SLF001 - no getter
        pytest.fail(
            "benchmarks are disabled (--benchmark-disable): a budget cannot be judged without them", pytrace=False
        )


class BudgetLine:
    """One line of the budget in one mode and wiring."""

    def __init__(self, request: pytest.FixtureRequest, benchmark: Any) -> None:  # noqa: ANN401
        """Made by the fixture."""
        self._config = request.config
        self._gate = request.config.stash[_GATE]
        self._node = request.node
        self._benchmark = benchmark
        self.line: Line = request.param

    def check(self) -> None:
        """Put the line's samples into the benchmark table and JSON, and fail if the line does not hold."""
        from firstsound import suite  # noqa: PLC0415

        # Where nothing is measured, the line fails in words of its own.
        self._benchmark.skipped = True
        _require_benchmarks(self._config)
        results = self._gate.results()
        verdict = results.verdict(self.line)
        if verdict is not None:
            durations_s = suite.durations_s(results, self.line)
            self._node.get_closest_marker("benchmark").kwargs["timer"].load(durations_s)
            self._benchmark.pedantic(lambda: None, rounds=len(durations_s))
            self._benchmark.extra_info.update(suite.extra_info(results, self.line, verdict))
        self._gate.judge(self.line, suite.faults(results, self.line))


class Guard:
    """One guard in one mode and wiring."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        """Made by the fixture."""
        self._config = request.config
        self._gate = request.config.stash[_GATE]
        self.line: Line = request.param

    def check(self) -> None:
        """Fail if the guard does not hold in any round."""
        from firstsound import quality  # noqa: PLC0415

        _require_benchmarks(self._config)
        results = self._gate.results()
        rounds = [q for q in results.quality if (q.mode, q.wiring) == (self.line.mode, self.line.wiring)]
        faults = list(quality.faults(results.inputs.budget, self.line.name, rounds))
        wanted = results.inputs.settings.rounds[self.line.mode]
        if len(rounds) < wanted:
            faults.append(f"{self.line}: {len(rounds)} rounds were run, {wanted} were asked for")
        self._gate.judge(self.line, faults)
