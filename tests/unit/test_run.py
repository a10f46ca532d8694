import io
from itertools import pairwise

import samples

from firstsound.clock import MonotonicClock
from firstsound.memory import MemoryMonitor
from firstsound.run import Progress, execute, schedule
from firstsound.turn import from_json


def test_every_wiring_meets_every_clip_in_every_round_and_they_take_turns() -> None:
    clips = [samples.clip(f"q{i:02}") for i in range(12)]
    steps = list(schedule(clips, ("serial", "overlapped"), 3))
    assert [step.wiring for step in steps] == ["serial", "overlapped"] * 48
    for wiring in ("serial", "overlapped"):
        for round_ in range(-1, 3):
            queries = [s.clip.query for s in steps if s.wiring == wiring and s.round == round_]
            assert sorted(queries) == [clip.query for clip in clips]


def test_no_query_follows_itself() -> None:
    for n in range(3, 13):
        clips = [samples.clip(f"q{i}") for i in range(n)]
        queries = [step.clip.query for step in schedule(clips, ("serial", "overlapped"), 2)]
        assert all(a != b for a, b in pairwise(queries))


def test_turns_are_written_as_they_end_and_progress_is_told_before() -> None:
    steps = list(schedule([samples.clip("q1"), samples.clip("q2")], ("serial", "overlapped"), 1))
    out = io.StringIO()
    told: list[tuple[Progress, int]] = []
    with MemoryMonitor(MonotonicClock()) as monitor:
        turns = execute(
            samples.stack(),
            steps,
            MonotonicClock(),
            monitor,
            out,
            lambda p: told.append((p, out.getvalue().count("\n"))),
        )
    assert [from_json(line) for line in out.getvalue().splitlines()] == turns
    assert [lines for _, lines in told] == [p.done for p, _ in told] == list(range(8))
    assert told[0][0].left_s is None
    assert told[-1][0].left_s is not None
