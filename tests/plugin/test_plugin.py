"""The suite as a user runs it: pytest, over a stack of ten lines from outside the package."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import samples
import soundfile

import firstsound.report  # noqa: F401 - loaded here once: pytester forgets what its runs import
from firstsound import loudspeaker
from firstsound.turn import perceived_of_ns
from firstsound.turnfile import from_json

ROOT = Path(__file__).parents[2]

STACK = """
from contextlib import contextmanager
from firstsound.adapters.fake import *
from firstsound.stages import Stack

@contextmanager
def build(setup):
    hears = FakeRecognizer("how do I brew coffee", Delay({final_ms}))
    writes = FakeLanguageModel(["Brew it", " with hot", " water."])
    yield Stack("mine", FakeEndpointer, hears, FakeRetriever(setup.passages), writes, FakeSynthesizer())
"""


def with_part(project: pytest.Pytester, part: str) -> None:
    """Give the stack a part of the project's own: a class derived from the fake whose place it takes."""
    name, fake = re.match(r"class (\w+)\((\w+)\)", part).groups()  # type: ignore[union-attr]
    project.makepyfile(mystack=STACK.format(final_ms=0).replace(f" {fake}(", f" {name}(") + "\n" + part)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Somebody's repository: their clips, their corpus, the two test functions, the budget."""
    shutil.copy(ROOT / "tests/budgets/test_budgets.py", pytester.path)
    shutil.copy(ROOT / "budgets.yaml", pytester.path)
    audio = pytester.path / "fixtures/audio"
    audio.mkdir(parents=True)
    samples.write_manifest(audio, *(samples.write_clip(audio, f"q{i}.wav") for i in range(4)))
    corpus = pytester.path / "fixtures/corpus"
    corpus.mkdir()
    rows = [json.dumps({"id": p.id, "text": p.text}) for p in samples.PASSAGES]
    (corpus / "passages.jsonl").write_text("\n".join(rows))
    pytester.makepyfile(mystack=STACK.format(final_ms=0))
    return pytester


def run(project: pytest.Pytester, *args: str, live_rounds: int = 0) -> pytest.RunResult:
    rounds = ("--rounds=2", f"--live-rounds={live_rounds}")
    # In this process, where everything is loaded; xdist starts its own.
    return project.runpytest_inprocess(
        "-p", "no:cacheprovider", "--stack", "mystack:build", *rounds, "--benchmark-json=out/r.json", *args
    )


def test_a_stack_within_its_budget_passes(project: pytest.Pytester) -> None:
    result = run(project)
    assert result.ret == 0
    result.assert_outcomes(passed=21)
    result.stdout.fnmatch_lines(
        ["*serial: n=8, p95 is rank 8, the slowest turn*", "*Shorten first: endpoint, stepped *"]
    )


def test_a_stack_over_its_budget_fails_and_names_the_line(project: pytest.Pytester) -> None:
    project.makepyfile(mystack=STACK.format(final_ms=200))
    result = run(project)
    assert result.ret == 1
    result.assert_outcomes(passed=20, failed=1)
    result.stdout.fnmatch_lines(
        [
            "final, stepped overlapped: p50 (rank 4 of n=8) is 20?.? ms, above the limit of 150 ms",
            "  slowest: q?, round ?*",
        ]
    )
    result.stdout.fnmatch_lines(["*Shorten first: final*"])


def test_the_shared_profile_reports_p95_and_binds_p50(project: pytest.Pytester) -> None:
    project.makepyfile(
        mystack=STACK.format(final_ms=0) + "import itertools\nTURNS = itertools.cycle([0, 0, 0, 0, 0, 0, 200, 200])\n"
        "class Rare(Delay):\n    def wait(self):\n        self.ms = next(TURNS)\n        super().wait()\n"
    )
    stack = (project.path / "mystack.py").read_text().replace("Delay(0)", "Rare()")
    (project.path / "mystack.py").write_text(stack)
    assert run(project, "--budget-profile=strict").ret == 1
    assert run(project, "--budget-profile=shared").ret == 0


def test_what_is_written_agrees_with_itself(project: pytest.Pytester) -> None:
    assert run(project).ret == 0
    out = project.path / "out"
    document = json.loads((out / "r.json").read_text(), parse_constant=pytest.fail)
    turns = [from_json(line) for line in (out / "turns.jsonl").read_text().splitlines()]
    assert len(turns) == 4 * 3 * 2
    assert sum(turn.round == -1 for turn in turns) == 8
    lines = {(b["extra_info"]["budget"], b["extra_info"]["wiring"]): b for b in document["benchmarks"]}
    assert len(lines) == 13
    final = lines["final", "overlapped"]
    assert final["extra_info"]["n"] == 8
    assert sorted(final["stats"]["data"]) == pytest.approx(
        sorted(t.wall.final.ns / 1e9 for t in turns if t.wall.final and t.round >= 0 and t.wiring == "overlapped")
    )
    assert document["machine_info"]["firstsound"]["stack"] == "mine"
    assert {p.name for p in (out / "traces").iterdir()} == {
        f"q{i}-stepped-{wiring}.json" for i in range(4) for wiring in ("serial", "overlapped")
    }
    assert "| final | wall | 150 |" in (out / "summary.md").read_text()


@pytest.mark.parametrize(
    "args",
    [
        ("-k", "not final"),
        ("--deselect", "test_budgets.py::test_budget[stepped-overlapped-final]"),
        ("test_budgets.py::test_budget[stepped-overlapped-endpoint]",),
        ("--benchmark-skip",),
    ],
)
def test_a_line_that_is_not_judged_fails_the_run(project: pytest.Pytester, args: tuple[str, ...]) -> None:
    result = run(project, *args)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["firstsound: FAILED: not judged: *final, stepped overlapped*"])


def test_disabled_benchmarks_fail_the_run(project: pytest.Pytester) -> None:
    result = run(project, "--benchmark-disable")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*benchmarks are disabled*a budget cannot be judged*"])


LIVE_WIRINGS = ("serial", "overlapped", "speculative")
"""Those of the project's own budget."""
EXCUSE_ALL = """
import pytest
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.{mark})
"""
STUB_ALL = """
import pytest
class Stub:
    def check(self): pass
@pytest.fixture
def budget_line(): return Stub()
@pytest.fixture
def guard(): return Stub()
"""


@pytest.mark.parametrize(
    ("conftest", "args"),
    [
        ("", ("--benchmark-skip",)),
        (EXCUSE_ALL.format(mark="xfail"), ()),
        (STUB_ALL, ()),
    ],
)
def test_a_run_by_several_processes_fails_whatever_excuses_it(
    project: pytest.Pytester, conftest: str, args: tuple[str, ...]
) -> None:
    project.makeconftest(conftest)
    result = run(project, "-n", "1", *args)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*a budget cannot be judged by several processes: run it without xdist*"])


@pytest.mark.parametrize("args", [("--ignore=test_budgets.py",), ("--ignore=test_budgets.py", "--benchmark-skip")])
def test_a_run_of_all_tests_without_a_budget_line_fails_where_lines_are_required(
    project: pytest.Pytester, args: tuple[str, ...]
) -> None:
    project.makepyfile(test_other="def test_it(): pass")
    assert run(project, *args).ret == 0
    project.makeini("[pytest]\nfirstsound_required = true\ntestpaths = .\n")
    result = run(project, *args)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["firstsound: FAILED: no budget line was collected, and firstsound_required is set*"])
    # Who names a file wants that file.
    assert run(project, "test_other.py").ret == 0


@pytest.mark.parametrize("path", ["fixtures", "mystack.py/r.json"])
def test_a_path_that_cannot_be_written_is_one_message(project: pytest.Pytester, path: str) -> None:
    result = run(project, f"--benchmark-json={path}")
    assert result.ret != 0
    result.stdout.fnmatch_lines([f"*firstsound: --benchmark-json={path} cannot be written: *"])
    result.stdout.no_fnmatch_line("Traceback*")


def test_a_folder_that_cannot_be_made_is_one_message(project: pytest.Pytester) -> None:
    result = run(project, "--benchmark-json=/proc/none/r.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: firstsound: results cannot be written to /proc/none: *choose another folder*"])


@pytest.mark.parametrize("name", ["summary.md", "turns.jsonl"])
def test_a_file_of_somebody_elses_is_not_written_over(project: pytest.Pytester, name: str) -> None:
    (project.path / name).write_text("my own notes")
    result = run(project, "--benchmark-json=r.json")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [f"*{name} is not firstsound's, and would be written over; choose a folder of its own*"]
    )
    assert (project.path / name).read_text() == "my own notes"


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ('{"p": float("nan")}', "*Stack.facts goes into a JSON file, and cannot: *"),
        ('{"s": {1, 2}}', "*Stack.facts goes into a JSON file, and cannot: *not JSON serializable*"),
        *(
            (f'{{"threads": {{"onnxruntime": {n}}}}}', f"firstsound: FAILED: the stack's onnxruntime has {n} threads *")
            for n in (64, 0, -1)
        ),
        ('{"threads": [64]}', "firstsound: FAILED: Stack.facts: threads must be a mapping*"),
    ],
)
def test_what_a_stack_tells_of_itself_is_checked(project: pytest.Pytester, facts: str, told: str) -> None:
    stack = STACK.format(final_ms=0).replace("FakeSynthesizer())", f"FakeSynthesizer(), facts={facts})")
    project.makepyfile(mystack=stack)
    result = run(project)
    assert result.ret == 1
    result.stdout.fnmatch_lines([told])


def test_a_mode_in_which_nothing_binds_is_refused(project: pytest.Pytester) -> None:
    budget = project.path / "budgets.yaml"
    budget.write_text(budget.read_text().replace("overlapped: bind", "overlapped: report"))
    result = run(project)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*wirings: none of serial, overlapped is set to bind, so no stepped turn could fail*"])


def test_what_was_measured_in_one_mode_is_kept_when_the_next_cannot_be(project: pytest.Pytester) -> None:
    overlapped_only(project)
    project.makepyfile(
        mystack=live_stack(FakeSynthesizer="Tires()")
        + "class Tires(FakeSynthesizer):\n    asked = 0\n    def synthesize(self, text):\n"
        "        Tires.asked += 1\n        return super().synthesize(text) if Tires.asked <= 24 else ()\n"
    )
    result = run(project, live_rounds=1)
    assert result.ret == 1
    document = json.loads((project.path / "out/r.json").read_text())
    assert {b["extra_info"]["mode"] for b in document["benchmarks"]} == {"stepped", "live"}
    assert [b["extra_info"]["budget"] for b in document["benchmarks"] if b["extra_info"]["mode"] == "live"] == [
        "memory"
    ]
    result.stdout.fnmatch_lines(
        ["*underruns, live overlapped: 0 rounds were run, 1 were asked for*", "quality, overlapped: NOT MEASURED"]
    )


def test_sigterm_ends_the_run_and_the_stack_is_stopped(project: pytest.Pytester) -> None:
    project.makepyfile(
        mystack=STACK.format(final_ms=0).replace("    yield", "    open('up', 'w').close()\n    try:\n        yield")
        + "    finally:\n        open('down', 'w').close()\n"
    )
    slow = (project.path / "mystack.py").read_text().replace("Delay(0)", "Delay(1000)")
    (project.path / "mystack.py").write_text(slow)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--stack=mystack:build",
        "--live-rounds=0",
        "--benchmark-json=out/r.json",
    ]
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.PIPE) as process:
        while not (project.path / "up").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"stopped by SIGTERM" in out
    assert (project.path / "down").exists()


def test_a_failed_turn_fails_every_line_of_its_wiring_and_is_told(project: pytest.Pytester) -> None:
    stack = STACK.format(final_ms=0) + "    # "
    stack = stack.replace("FakeSynthesizer())", "Mute())") + (
        "\nclass Mute(FakeSynthesizer):\n    said = 0\n    def synthesize(self, text):\n        Mute.said += 1\n"
        "        yield from () if Mute.said == 20 else super().synthesize(text)\n"
    )
    project.makepyfile(mystack=stack)
    result = run(project)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*1 turns failed:*", "*synthesizer: no sound for*", "*FAILED q?, round *no sound*"])
    turns = [from_json(line) for line in (project.path / "out/turns.jsonl").read_text().splitlines()]
    assert sum(turn.error is not None for turn in turns) == 1


def test_a_slow_serial_wiring_is_only_reported(project: pytest.Pytester) -> None:
    with_part(
        project,
        "class Wordy(FakeSynthesizer):\n    def synthesize(self, text):\n"
        "        self.delay.ms = 700 if len(text.split()) > 4 else 0\n        yield from super().synthesize(text)\n",
    )
    result = run(project)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*first_sound *over (reported)*within*"])


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (lambda p: (p / "budgets.yaml").unlink(), "*budgets.yaml: no such file*"),
        (lambda p: (p / "budgets.yaml").write_text(""), "*budgets.yaml: the file is empty*"),
        (lambda p: (p / "fixtures/corpus/passages.jsonl").write_text("\n"), "*the corpus is empty*"),
        (lambda p: (p / "fixtures/audio/q1.wav").unlink(), "*q1.wav: the manifest names this recording*"),
        (lambda p: (p / "fixtures/audio/q1.wav").write_text("hello"), "*q1.wav: the manifest says sha256*"),
        (lambda p: (p / "mystack.py").write_text("def build(: pass"), "*--stack mystack:build: cannot be loaded*"),
    ],
)
def test_bad_input_is_one_message_and_a_failed_run(project: pytest.Pytester, break_it, told: str) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    break_it(project.path)
    result = run(project)
    assert result.ret != 0
    result.stdout.fnmatch_lines([told])
    result.stdout.no_fnmatch_line("Traceback*")


def test_unknown_profile_and_stack_are_told(project: pytest.Pytester) -> None:
    result = run(project, "--budget-profile=nope")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*no profile 'nope' in the budget; it has shared, strict*"])


def test_an_old_result_does_not_outlive_a_budget_that_cannot_be_read(project: pytest.Pytester) -> None:
    assert run(project).ret == 0
    (project.path / "budgets.yaml").write_text("version: 7\n")
    assert run(project).ret != 0
    assert not (project.path / "out/r.json").exists()


def test_recordings_of_somebody_elses_are_not_deleted(project: pytest.Pytester) -> None:
    theirs = project.path / "out/recordings/tv-serial-01.flac"
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    assert run(project).ret == 0
    assert theirs.exists()


def test_what_no_file_takes_does_not_end_the_report(project: pytest.Pytester) -> None:
    with_part(
        project,
        "class Chokes(FakeRetriever):\n    asked = 0\n    def search(self, query, k):\n        Chokes.asked += 1\n"
        "        if Chokes.asked < 10:\n            return super().search(query, k)\n"
        "        raise ValueError('cannot find \\ud83d')\n",
    )
    result = run(project)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["firstsound: FAILED: not kept: *"])
    assert "cannot find \\ud83d" in (project.path / "out/summary.md").read_text()


def test_an_old_result_does_not_pass_for_a_new_one(project: pytest.Pytester) -> None:
    out = project.path / "out"
    out.mkdir()
    (out / "r.json").write_text("old")
    project.makepyfile(mystack="raise RuntimeError('x')")
    assert run(project).ret != 0
    assert not (out / "r.json").exists()


def test_an_xfail_mark_excuses_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(mystack=STACK.format(final_ms=200))
    project.makeconftest(
        "import pytest\ndef pytest_collection_modifyitems(items):\n"
        "    for item in items:\n        item.add_marker(pytest.mark.xfail)\n"
    )
    result = run(project)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["firstsound: FAILED: not kept: final, stepped overlapped"])


def test_a_warm_up_turn_that_fails_fails_its_lines(project: pytest.Pytester) -> None:
    with_part(
        project,
        "class Late(FakeRetriever):\n    asked = 0\n    def search(self, query, k):\n"
        "        Late.asked += 1\n        return [] if Late.asked == 1 else super().search(query, k)\n",
    )
    result = run(project)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["  q?, warm-up, stepped serial: retriever: no passage was found"])


def test_files_of_an_earlier_run_are_not_left_beside_the_new_ones(project: pytest.Pytester) -> None:
    overlapped_only(project)
    project.makepyfile(mystack=live_stack())
    assert run(project, "--rounds=0", live_rounds=1).ret == 0
    out = project.path / "out"
    (out / "traces/mine.json").write_text("kept")
    assert run(project).ret == 0
    assert not list(out.glob("recordings/*"))
    assert not list(out.glob("traces/*-live-*"))
    assert (out / "traces/mine.json").exists()


@pytest.mark.parametrize(
    ("stack", "told"),
    [
        ("def build(setup):\n    yield 1\n", "*must return a context manager*is @contextmanager missing?*"),
        (
            "from contextlib import nullcontext\ndef build(setup):\n    return nullcontext(7)\n",
            "*yields int, not a Stack*",
        ),
        ("def build(setup):\n    raise OSError('no model')\n", "*the run broke off: OSError: no model*"),
    ],
)
def test_a_builder_that_brings_no_stack_is_one_message(project: pytest.Pytester, stack: str, told: str) -> None:
    project.makepyfile(mystack=stack)
    result = run(project)
    assert result.ret != 0
    result.stdout.fnmatch_lines([told])
    result.stdout.no_fnmatch_line("*not judged*")


def test_the_traceback_of_a_stack_that_does_not_start_is_not_lost(
    project: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    project.makepyfile(mystack="def build(setup):\n    raise OSError('no model')\n")
    assert run(project).ret != 0
    assert "mystack.py" in capfd.readouterr().err


def test_a_passage_that_is_expected_and_not_there_is_told_before_anything_runs(project: pytest.Pytester) -> None:
    entry = samples.write_clip(project.path / "fixtures/audio", "q9.wav") | {"expected_passage": "p9"}
    samples.write_manifest(project.path / "fixtures/audio", entry)
    result = run(project)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*q9 expects passage 'p9', which is not in *passages.jsonl*"])


def test_a_guard_that_breaks_says_which_query_and_what_was_heard(project: pytest.Pytester) -> None:
    overlapped_only(project)
    project.makepyfile(mystack=live_stack().replace('["How do I", " brew coffee?"]', '["Brew it", " hot."]'))
    result = run(project, "--rounds=0", live_rounds=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["lost_answers, live overlapped, round 0: 4 *", "  q?: heard 'how do I brew coffee' of *"]
    )


def test_an_error_of_many_turns_is_told_once_a_line_and_with_its_place(project: pytest.Pytester) -> None:
    with_part(
        project,
        "class Late(FakeRetriever):\n    asked = 0\n    def search(self, query, k):\n"
        "        Late.asked += 1\n        return super().search(query, k) if Late.asked < 9 else 1 / 0\n",
    )
    result = run(project)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["  q0, round 0, stepped serial and 7 more: retriever: ZeroDivisionError: * (mystack.py:*"]
    )


def test_a_stack_that_does_not_stop_fails_the_run_and_nothing_is_lost(project: pytest.Pytester) -> None:
    project.makepyfile(mystack=STACK.format(final_ms=0) + "    raise OSError('still there')\n")
    result = run(project)
    assert result.ret == 1
    result.assert_outcomes(passed=21)
    result.stdout.fnmatch_lines(
        ["*perceived*", "firstsound: FAILED: the stack could not be stopped: OSError: still there"]
    )
    assert (project.path / "out/r.json").exists()
    assert list((project.path / "out/traces").iterdir())


def test_a_pytest_run_without_budgets_is_left_alone(project: pytest.Pytester) -> None:
    (project.path / "test_budgets.py").unlink()
    project.makepyfile(test_other="def test_it(): pass")
    result = run(project)
    assert result.ret == 0
    assert not (project.path / "out").exists()


HASTY = """
class Hasty(FakeEndpointer):
    def __init__(self):
        super().__init__(gap_ms=100)
"""


def live_stack(**parts: str) -> str:
    """A fake stack whose turns do not take long; name a part to put something else in its place."""
    # The fake recognizer hears the same in every recording, so the answer must be that.
    stack = STACK.replace('["Brew it", " with hot", " water."]', '["How do I", " brew coffee?"]')
    stack = stack.replace("FakeEndpointer,", "Hasty,").format(final_ms=0) + HASTY
    for old, new in parts.items():
        stack = stack.replace(f"{old}()", new)
    return stack


def overlapped_only(project: pytest.Pytester) -> None:
    """A budget of one wiring, where the others would only take time."""
    budget = (project.path / "budgets.yaml").read_text()
    for wiring in ("serial: report", "speculative: bind"):
        assert f"  {wiring}\n" in budget
        budget = budget.replace(f"  {wiring}\n", "")
    (project.path / "budgets.yaml").write_text(budget)


def test_live_turns_are_lines_of_their_own_and_their_recordings_are_kept(project: pytest.Pytester) -> None:
    project.makepyfile(mystack=live_stack())
    result = run(project, "--rounds=0", live_rounds=1)
    assert result.ret == 0
    result.assert_outcomes(passed=55)
    result.stdout.fnmatch_lines(
        [
            "*live, off the recordings, in ms*",
            "*closure *10 / 25*within*within*within*",
            "*microphone: frames late by*loudspeaker: 0 underruns*",
            "*recognizer: backlog at the endpoint not measured: it does not stream; 0 of 0 committed words*",
        ]
    )
    out = project.path / "out"
    document = json.loads((out / "r.json").read_text(), parse_constant=pytest.fail)
    assert {b["extra_info"]["mode"] for b in document["benchmarks"]} == {"live"}
    turns = [from_json(line) for line in (out / "turns.jsonl").read_text().splitlines()]
    assert [turn.round for turn in turns] == [-1] * 3 + [0] * 12
    kept = {path.name for path in (out / "recordings").iterdir()}
    for wiring in LIVE_WIRINGS:
        measured = sorted(perceived_of_ns(t) for t in turns if t.wiring == wiring and t.round == 0)
        named = [t for t in turns if f"{t.query}-{t.wiring}-{t.round}.flac" in kept and t.wiring == wiring]
        assert sorted(perceived_of_ns(t) for t in named) == [measured[1], measured[3]]
        for turn in named:
            pcm, rate_hz = soundfile.read(out / "recordings" / f"{turn.query}-{wiring}-0.flac", dtype="int16")
            onset_ns = int(np.flatnonzero(np.abs(pcm[:, 1]) > 100)[0]) * 10**9 // rate_hz
            assert onset_ns - turn.audio.speech_end.ns == pytest.approx(perceived_of_ns(turn), abs=10**6)
    assert {path.name for path in (out / "traces").iterdir()} == {
        f"q{i}-live-{wiring}.json" for i in range(4) for wiring in LIVE_WIRINGS
    }


def test_a_hidden_delay_before_the_loudspeaker_fails_closure_by_name(project: pytest.Pytester) -> None:
    hidden = """
import firstsound.loudspeaker
from firstsound.clock import MonotonicClock
play = firstsound.loudspeaker.Loudspeaker.play

def late(self, chunk):
    if not self.playing:
        MonotonicClock().sleep_ns(150_000_000)
    play(self, chunk)

firstsound.loudspeaker.Loudspeaker.play = late
"""
    overlapped_only(project)
    project.makepyfile(mystack=live_stack() + hidden)
    played = loudspeaker.Loudspeaker.play
    try:
        result = run(project, "--rounds=0", live_rounds=1)
    finally:
        loudspeaker.Loudspeaker.play = played  # type: ignore[method-assign]
    assert result.ret == 1
    result.assert_outcomes(passed=18, failed=1)
    result.stdout.fnmatch_lines(["closure, live overlapped: p50 (rank 2 of n=4) is 15?.? ms, above the limit of 10 ms"])


def test_a_wiring_of_which_every_turn_failed_is_one_message_a_line(project: pytest.Pytester) -> None:
    with_part(
        project,
        "class Mute(FakeSynthesizer):\n    def synthesize(self, text):\n"
        "        return super().synthesize(text) if len(text.split()) > 3 else ()\n",
    )
    result = run(project)
    assert result.ret == 1
    result.assert_outcomes(passed=14, failed=7)
    result.stdout.fnmatch_lines(["final, stepped overlapped: 12 turns failed:", "*nothing was measured"])


def test_both_modes_are_told_side_by_side(project: pytest.Pytester) -> None:
    overlapped_only(project)
    project.makepyfile(mystack=live_stack())
    result = run(project, live_rounds=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["stepped -> live, p50 in ms:", "  overlapped: endpoint 1?? -> 1?? (+0 %), final *"])


def test_no_rounds_at_all_are_refused(project: pytest.Pytester) -> None:
    result = run(project, "--rounds=0")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*at least one measured round is needed in some mode, not stepped 0, live 0*"])
