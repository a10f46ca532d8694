import json
from dataclasses import replace
from pathlib import Path

import pytest
import samples
from samples import TURN

from firstsound import levers
from firstsound.clock import NS_PER_MS as MS
from firstsound.clock import AudioTime, MonotonicClock, WallTime
from firstsound.levers import CONDITIONS, Condition, Measured, difference_ms, hesitant_table, measure, table
from firstsound.turn import Live, Span, Turn, WallMarks

CLIPS = [samples.clip(f"q{i}", 0.1, 0.6) for i in range(4)]


def turn(query: str, later_ms: int, round_: int = 0) -> Turn:
    first_sound = WallTime(TURN.wall.first_sound.ns + later_ms * MS)  # type: ignore[union-attr]
    span = Span(first_sound, WallTime(first_sound.ns + MS))
    known = Live(timed_first_sound=first_sound, frame_lateness_ns=(0,), played=(span,), joint_jump=0.0)
    wall = replace(TURN.wall, first_sound=first_sound)
    return replace(TURN, query=query, round=round_, mode="live", transcript=samples.TEXT, wall=wall, live=known)


def measured(name: str, *later_ms: int) -> Measured:
    turns = [turn(f"q{i}", later) for i, later in enumerate(later_ms)]
    return Measured(Condition(name, "speculative"), turns, [2_000 * MS] * len(turns))


def test_the_difference_is_paired_clip_by_clip() -> None:
    # The clips differ by far more than the lever is worth.
    with_it, without = measured("speculative", 0, 300, 600, 900), measured("off", 20, 310, 630, 920)
    assert difference_ms(without, with_it) == (20, 10, 30, 4)
    assert difference_ms(without, with_it) == difference_ms(without, with_it)


def test_what_one_of_them_did_not_complete_is_no_pair() -> None:
    one, other = measured("a", 0, 100), measured("b", 5, 105)
    one.turns[0] = replace(one.turns[0], wall=WallMarks(), error="llm: gone")
    assert difference_ms(other, one) == (5, 5, 5, 1)
    one.turns[1] = replace(one.turns[1], wall=WallMarks(), error="llm: gone")
    assert difference_ms(other, one) is None


def test_the_table_holds_each_condition_against_the_reference() -> None:
    off = measured("off", 20, 320, 620, 920)
    off.turns[3] = replace(off.turns[3], wall=WallMarks(), error="llm: gone")
    rows = table([measured("speculative", 0, 300, 600, 900), off], CLIPS)
    # 590 ms to the endpoint and 341 to the first sound; the second of four, and the last.
    assert rows[2] == "| speculative | 4 | 1231 | 1831 (4) | - | 2.00 | 0.000 | 0 |"
    assert rows[3] == "| off | 3 | 1251 | 1551 (3) | +20 [+20, +20] | 2.00 | 0.000 | 1 |"
    assert rows[-1] == "Nearest rank; below n = 20, p95 is the slowest turn."


def test_a_condition_that_was_not_fed_in_time_or_never_completed_has_no_figures() -> None:
    late, lost = measured("late", 0), measured("lost", 0)
    assert late.turns[0].live is not None
    late.turns[0] = replace(late.turns[0], live=replace(late.turns[0].live, frame_lateness_ns=(6 * MS,)))
    lost.turns[0] = replace(lost.turns[0], wall=WallMarks(), error="llm: gone")
    rows = table([measured("speculative", 0), late, lost], CLIPS)
    assert rows[3] == "| late | 1 | TOO BUSY | - | - | 2.00 | 0.000 | 0 |"
    assert rows[4] == "| lost | 0 | - | - | - | 2.00 | - | 1 |"


def test_hesitant_clips_are_told_one_by_one() -> None:
    early = measured("fixed", 0, 0)
    early.turns[1] = replace(
        early.turns[1], audio=replace(TURN.audio, endpoint=AudioTime(5)), wall=WallMarks(), error="endpointer: early"
    )
    assert hesitant_table([measured("adaptive", 0, 100), early], CLIPS[:2])[2:] == [
        "| q0 | 931 ms | 931 ms |",
        "| q1 | 1031 ms | cut off |",
        "| premature | 0 of 2 | 1 of 2 |",
    ]


def test_conditions_take_turns_and_no_prompt_follows_its_like() -> None:
    told: list[Turn] = []
    stack = samples.stack()
    pair = [(stack, Condition("serial", "serial")), (stack, Condition("speculative", "speculative"))]
    found = measure(pair, CLIPS, 1, MonotonicClock(), lambda _, turn: told.append(turn))
    assert [(t.wiring, t.query, t.round) for t in told[:4]] == [
        ("serial", "q3", -1),
        ("speculative", "q3", -1),
        ("serial", "q0", 0),
        ("speculative", "q2", 0),
    ]
    for each in found:
        assert sorted(t.query for t in each.turns) == ["q0", "q1", "q2", "q3"]
        assert all(t.error is None for t in each.turns)
        assert len(each.cpu_ns) == 4


def test_each_lever_is_off_in_its_own_condition_only() -> None:
    stack = replace(samples.stack(), reads_complete=bool, prefill=print, lead_in_ms=10)
    changed = [
        [name for name in stack.__slots__ if getattr(condition.change(stack), name) != getattr(stack, name)]
        for condition in CONDITIONS
    ]
    assert changed == [[], [], [], ["new_transcription"], [], ["reads_complete"], ["prefill"], ["lead_in_ms"]]
    assert {condition.wiring for condition in levers.HESITANT} == {"speculative"}
    assert [condition.change(stack).reads_complete for condition in levers.HESITANT] == [bool, None]


def test_the_command_writes_its_tables_and_every_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "passages.jsonl").write_text('{"id": "p2", "text": "Brew it hot"}\n')
    manifest = samples.write_manifest(tmp_path, samples.write_clip(tmp_path))
    (tmp_path / "leverstack.py").write_text(
        "from contextlib import contextmanager\nimport samples\n"
        "@contextmanager\ndef build(setup):\n    yield samples.stack()\n"
        "VARIANTS = {'speculative, mine': build}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(levers, "CONDITIONS", (CONDITIONS[4],))
    monkeypatch.setattr(levers, "HESITANT", (CONDITIONS[4],))
    out = tmp_path / "out"
    options = [f"--clips={manifest}", f"--hesitant={manifest}", f"--corpus={tmp_path / 'passages.jsonl'}"]
    assert levers.main(["--stack=leverstack:build", *options, f"--out={out}"]) == 0
    written = (out / "levers.md").read_text()
    assert written in capsys.readouterr().out + "\n"
    assert "| speculative, mine | 1 |" in written
    assert "| premature | 0 of 1 |" in written
    lines = {file.stem: file.read_text().splitlines() for file in out.glob("*.jsonl")}
    rounds = {name: [json.loads(line)["round"] for line in of_it] for name, of_it in lines.items()}
    # The reference, then it beside the variant, then the hesitant clip; each warmed up.
    assert rounds == {"speculative": [-1, 0, -1, 0, -1, 0], "speculative-mine": [-1, 0]}
    assert levers.main(["--stack=leverstack:build", "--clips=none.yaml", *options[1:]]) == 1
    assert "none.yaml: no such file" in capsys.readouterr().err
