import io
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest
import samples

from firstsound import run, wiring
from firstsound.adapters.fake import FakeRetriever
from firstsound.clock import MonotonicClock
from firstsound.errors import FirstsoundError
from firstsound.memory import MemoryMonitor
from firstsound.run import Progress, Step, execute, schedule
from firstsound.stages import Passage
from firstsound.turn import MODES, WIRINGS, Mode, Turn, Wiring
from firstsound.turnfile import from_json


def test_every_wiring_meets_every_clip_in_every_round_and_they_take_turns() -> None:
    clips = [samples.clip(f"q{i:02}") for i in range(12)]
    steps = list(schedule(clips, ("serial", "overlapped"), {"stepped": 3}))
    assert [step.wiring for step in steps] == ["serial", "overlapped"] * 48
    for kind in ("serial", "overlapped"):
        for round_ in range(-1, 3):
            queries = [s.clip.query for s in steps if s.wiring == kind and s.round == round_]
            assert sorted(queries) == [clip.query for clip in clips]


@pytest.mark.parametrize("wirings", [("serial", "overlapped"), WIRINGS])
@pytest.mark.parametrize("mode", MODES)
def test_no_query_follows_itself(mode: Mode, wirings: tuple[Wiring, ...]) -> None:
    for n in range(len(wirings) + 1, 25):
        clips = [samples.clip(f"q{i}") for i in range(n)]
        queries = [step.clip.query for step in schedule(clips, wirings, {mode: 2})]
        assert all(a != b for a, b in pairwise(queries))


def test_live_turns_come_after_the_stepped_ones_with_one_warm_up_each() -> None:
    clips = [samples.clip(f"q{i}") for i in range(3)]
    steps = list(schedule(clips, ("serial", "overlapped"), {"live": 2, "stepped": 1}))
    assert [step.mode for step in steps] == ["stepped"] * 12 + ["live"] * 14
    live = [(step.round, step.wiring, step.clip.query) for step in steps[12:]]
    assert live[:4] == [(-1, "serial", "q2"), (-1, "overlapped", "q1"), (0, "serial", "q0"), (0, "overlapped", "q2")]
    assert sorted(live[2:]) == sorted(
        (r, w, f"q{i}") for r in (0, 1) for w in ("serial", "overlapped") for i in range(3)
    )


def test_a_mode_without_rounds_is_left_out() -> None:
    assert {step.mode for step in schedule([samples.clip()], ("serial",), {"stepped": 0, "live": 1})} == {"live"}


def test_turns_are_written_as_they_end_and_progress_is_told_before(tmp_path: Path) -> None:
    steps = list(schedule([samples.clip("q1"), samples.clip("q2")], ("serial", "overlapped"), {"stepped": 1}))
    out = io.StringIO()
    told: list[tuple[Progress, int]] = []
    with MemoryMonitor(MonotonicClock()) as monitor:
        turns = execute(
            samples.stack(),
            steps,
            MonotonicClock(),
            monitor,
            out,
            tmp_path,
            lambda p: told.append((p, out.getvalue().count("\n"))),
            [],
        )
    assert [from_json(line) for line in out.getvalue().splitlines()] == turns
    assert [lines for _, lines in told] == [p.done for p, _ in told] == list(range(8))
    assert told[0][0].left_s is None
    assert told[-1][0].left_s is not None


def test_a_mode_yet_to_come_is_expected_to_take_as_long_as_its_clips(tmp_path: Path) -> None:
    clips = [samples.clip("q1", 20, 1)]
    steps = list(schedule(clips, ("overlapped",), {"stepped": 1, "live": 1}))[:2]
    steps.append(Step("live", 0, "overlapped", clips[0]))
    left: list[float | None] = []

    def tell(progress: Progress) -> None:
        left.append(progress.left_s)
        if progress.step.mode == "live":
            raise InterruptedError

    with MemoryMonitor(MonotonicClock()) as monitor, pytest.raises(InterruptedError):
        execute(samples.stack(), steps, MonotonicClock(), monitor, io.StringIO(), tmp_path, tell, [])
    assert left[0] is None
    assert left[1:] == [pytest.approx(21, abs=1)] * 2


def hung(step: Step, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Turn:
    """What is left in the file of a run whose retriever hangs."""

    class Hangs(FakeRetriever):
        def search(self, query: str, k: int) -> list[Passage]:  # noqa: ARG002
            released.wait(10)
            return []

    released = threading.Event()
    monkeypatch.setattr(run, "TURN_TIMEOUT_S", 1.0)
    out = io.StringIO()
    try:
        with MemoryMonitor(MonotonicClock()) as monitor, pytest.raises(FirstsoundError) as told:
            execute(
                samples.stack(retriever=Hangs([])), [step], MonotonicClock(), monitor, out, folder, lambda _: None, []
            )
    finally:
        released.set()
    assert "firstsound-turn still works, and what follows would be measured beside it" in str(told.value)
    return from_json(out.getvalue())


@pytest.mark.parametrize("mode", MODES)
def test_a_stage_that_hangs_ends_the_run_and_is_told_by_the_place_where_it_hangs(
    mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = hung(Step(mode, 0, "serial", samples.clip("q", 0.1, 0.6)), tmp_path, monkeypatch)
    assert turn.error is not None
    assert "not over after 1 s: it hangs in" in turn.error
    assert "in wait" in turn.error


def test_a_synthesizer_that_goes_on_after_its_turn_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthesizer = samples.HangingSynthesizer()
    monkeypatch.setattr(wiring, "SYNTHESIS_TIMEOUT_S", 0.05)
    stack = samples.stack(synthesizer=synthesizer)
    steps = [Step("stepped", 0, "overlapped", samples.clip(f"q{i}")) for i in range(2)]
    out = io.StringIO()
    try:
        with (
            MemoryMonitor(MonotonicClock()) as monitor,
            pytest.raises(FirstsoundError, match="firstsound-speaker"),
        ):
            execute(stack, steps, MonotonicClock(), monitor, out, tmp_path, lambda _: None, [])
    finally:
        synthesizer.released.set()
    assert out.getvalue().count("\n") == 1


def test_when_the_whole_warm_up_fails_the_rest_is_not_run(tmp_path: Path) -> None:
    clips = [samples.clip(f"q{i}") for i in range(2)]
    steps = list(schedule(clips, ("serial", "overlapped"), {"stepped": 1}))
    out = io.StringIO()
    stack = samples.stack(retriever=FakeRetriever([]))
    with (
        MemoryMonitor(MonotonicClock()) as monitor,
        pytest.raises(FirstsoundError, match="every turn of the step"),
    ):
        execute(stack, steps, MonotonicClock(), monitor, out, tmp_path, lambda _: None, [])
    assert out.getvalue().count("\n") == 4


def test_what_breaks_off_one_mode_does_not_lose_what_another_has_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthesizer = samples.HangingSynthesizer()
    monkeypatch.setattr(wiring, "SYNTHESIS_TIMEOUT_S", 0.05)
    stack = samples.stack(synthesizer=synthesizer)
    clip = samples.clip("q", 0.1, 0.6)
    steps = [Step("stepped", 0, "serial", clip), *(Step("live", i, "overlapped", clip) for i in range(2))]
    problems: list[str] = []

    def tell(progress: Progress) -> None:
        # Lets the first turn through, and holds the second up.
        (synthesizer.released.clear if progress.done else synthesizer.released.set)()

    try:
        with MemoryMonitor(MonotonicClock()) as monitor:
            turns = execute(stack, steps, MonotonicClock(), monitor, io.StringIO(), tmp_path, tell, problems)
    finally:
        synthesizer.released.set()
    assert [(turn.mode, turn.error is None) for turn in turns] == [("stepped", True), ("live", False)]
    assert len(problems) == 1
    assert "firstsound-speaker still works" in problems[0]


def test_a_mode_that_breaks_off_in_its_first_turn_does_not_lose_the_one_before(tmp_path: Path) -> None:
    clip = samples.clip("q", 0.1, 0.6)
    (tmp_path / "q-serial-0.flac").mkdir()
    steps = [Step("stepped", 0, "serial", clip), Step("live", 0, "serial", clip)]
    problems: list[str] = []
    with MemoryMonitor(MonotonicClock()) as monitor:
        turns = execute(
            samples.stack(), steps, MonotonicClock(), monitor, io.StringIO(), tmp_path, lambda _: None, problems
        )
    assert [turn.mode for turn in turns] == ["stepped"]
    assert "the recording cannot be written" in problems[0]


def test_pythons_threads_take_turns_quickly_in_a_run_and_as_before_after_it(tmp_path: Path) -> None:
    before_s, during_s = sys.getswitchinterval(), []
    with MemoryMonitor(MonotonicClock()) as monitor:
        execute(
            samples.stack(),
            [Step("stepped", 0, "serial", samples.clip())],
            MonotonicClock(),
            monitor,
            io.StringIO(),
            tmp_path,
            lambda _: during_s.append(sys.getswitchinterval()),
            [],
        )
    assert during_s == [run.SWITCH_INTERVAL_S]
    assert sys.getswitchinterval() == before_s
