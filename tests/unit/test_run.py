import io
from itertools import pairwise
from pathlib import Path

import pytest
import samples

from firstsound.clock import MonotonicClock
from firstsound.memory import MemoryMonitor
from firstsound.run import Progress, Step, execute, schedule
from firstsound.turnfile import from_json


def test_every_wiring_meets_every_clip_in_every_round_and_they_take_turns() -> None:
    clips = [samples.clip(f"q{i:02}") for i in range(12)]
    steps = list(schedule(clips, ("serial", "overlapped"), {"stepped": 3}))
    assert [step.wiring for step in steps] == ["serial", "overlapped"] * 48
    for wiring in ("serial", "overlapped"):
        for round_ in range(-1, 3):
            queries = [s.clip.query for s in steps if s.wiring == wiring and s.round == round_]
            assert sorted(queries) == [clip.query for clip in clips]


def test_no_query_follows_itself() -> None:
    for n in range(3, 13):
        clips = [samples.clip(f"q{i}") for i in range(n)]
        queries = [step.clip.query for step in schedule(clips, ("serial", "overlapped"), {"stepped": 2})]
        assert all(a != b for a, b in pairwise(queries))


def test_live_turns_come_after_the_stepped_ones_with_one_warm_up_each() -> None:
    clips = [samples.clip(f"q{i}") for i in range(3)]
    steps = list(schedule(clips, ("serial", "overlapped"), {"live": 2, "stepped": 1}))
    assert [step.mode for step in steps] == ["stepped"] * 12 + ["live"] * 14
    live = [(step.round, step.wiring, step.clip.query) for step in steps[12:]]
    assert live[:4] == [(-1, "serial", "q0"), (-1, "overlapped", "q0"), (0, "serial", "q0"), (0, "overlapped", "q2")]
    assert sorted(live[2:]) == sorted(
        (r, w, f"q{i}") for r in (0, 1) for w in ("serial", "overlapped") for i in range(3)
    )


def test_a_mode_without_rounds_is_left_out() -> None:
    assert {step.mode for step in schedule([samples.clip()], ("serial",), {"stepped": 0, "live": 1})} == {"live"}


def test_turns_are_written_as_they_end_and_progress_is_told_before() -> None:
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
            Path(),
            lambda p: told.append((p, out.getvalue().count("\n"))),
        )
    assert [from_json(line) for line in out.getvalue().splitlines()] == turns
    assert [lines for _, lines in told] == [p.done for p, _ in told] == list(range(8))
    assert told[0][0].left_s is None
    assert told[-1][0].left_s is not None


def test_a_mode_yet_to_come_is_expected_to_take_as_long_as_its_clips() -> None:
    clips = [samples.clip("q1", 20, 1)]
    steps = list(schedule(clips, ("overlapped",), {"stepped": 1, "live": 1}))[:2]
    steps.append(Step("live", 0, "overlapped", clips[0]))
    left: list[float | None] = []

    def tell(progress: Progress) -> None:
        left.append(progress.left_s)
        if progress.step.mode == "live":
            raise InterruptedError

    with MemoryMonitor(MonotonicClock()) as monitor, pytest.raises(InterruptedError):
        execute(samples.stack(), steps, MonotonicClock(), monitor, io.StringIO(), Path(), tell)
    assert left[0] is None
    assert left[1:] == [pytest.approx(21, abs=1)] * 2
