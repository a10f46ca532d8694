import json
import operator
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import any_wall_marks, audio_times, complete_turns, durations_ns, failed_turns, turns, wall_times

import firstsound.clock
from firstsound.clock import AudioTime, WallTime
from firstsound.errors import FirstsoundError
from firstsound.turn import (
    STAGES,
    AudioMarks,
    Turn,
    WallMarks,
    first_sound_parts_ns,
    perceived_of_ns,
    stages_ns,
)
from firstsound.turnfile import from_json, to_json

PRECEDE = {
    "final": set[str](),
    "retrieved": {"final"},
    "first_token": {"final", "retrieved"},
    "first_fragment": {"final", "retrieved", "first_token"},
    "first_chunk": {"final", "retrieved", "first_token", "first_fragment"},
    "first_sound": {"final", "retrieved", "first_token", "first_fragment", "first_chunk"},
    "answer_end": {"final", "retrieved", "first_token"},
    "audio_end": {"final", "retrieved", "first_token", "first_fragment", "first_chunk"},
}
"""For each mark, all that come before it in any turn."""

COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
Operator = Callable[[Any, Any], Any]


@given(complete_turns())
def test_the_stages_add_up_to_the_perceived_silence_with_no_residue(turn: Turn) -> None:
    stages = stages_ns(turn)
    assert tuple(stages) == STAGES
    assert sum(stages.values()) == perceived_of_ns(turn)
    assert min(stages.values()) >= 0


@given(complete_turns())
def test_the_parts_of_first_sound_add_up_to_it(turn: Turn) -> None:
    parts = first_sound_parts_ns(turn)
    assert sum(parts.values()) == stages_ns(turn)["first_sound"]
    # What the recording says may also be earlier than what the marks expected.
    assert all(ns >= 0 for name, ns in parts.items() if turn.live is None or name in {"fragment", "synthesis"})


@given(failed_turns())
def test_a_stage_that_was_not_reached_is_never_a_number(turn: Turn) -> None:
    needed = {"final", "retrieved", "first_token", "first_sound"}
    lacks = turn.audio.endpoint is None or any(getattr(turn.wall, name) is None for name in needed)
    if lacks:
        with pytest.raises(ValueError, match="was not reached"):
            stages_ns(turn)
    else:
        assert sum(stages_ns(turn).values()) == perceived_of_ns(turn)


@given(any_wall_marks())
@example(WallMarks(final=WallTime(2), first_token=WallTime(1)))
@example(WallMarks(retrieved=WallTime(2), answer_end=WallTime(1)))
@example(WallMarks(first_fragment=WallTime(2), audio_end=WallTime(1)))
def test_marks_are_in_order_or_there_is_no_turn(wall: WallMarks) -> None:
    ns = {f.name: mark.ns for f in fields(wall) if (mark := getattr(wall, f.name)) is not None}
    fine = min(ns.values(), default=0) >= 0 and all(
        ns[earlier] <= ns[later] for later in ns for earlier in PRECEDE[later] & ns.keys()
    )

    def turn() -> Turn:
        return Turn("q", 0, "serial", "stepped", AudioMarks(AudioTime(1), AudioTime(2)), wall, error="any")

    if fine:
        assert turn().wall == wall
    else:
        with pytest.raises(ValueError, match=r"comes before|before the endpoint decision"):
            turn()


@given(complete_turns(), st.sampled_from(sorted(PRECEDE)))
def test_a_mark_that_counts_from_no_endpoint_makes_no_turn(turn: Turn, name: str) -> None:
    only = WallMarks(**{name: getattr(turn.wall, name)})
    with pytest.raises(ValueError, match=f"mark {name} counts from the endpoint, but there was none"):
        replace(turn, audio=AudioMarks(turn.audio.speech_end), wall=only, error="any")


@given(complete_turns(), st.sampled_from(["endpoint", *PRECEDE]))
def test_a_turn_without_an_error_has_every_mark(turn: Turn, lost: str) -> None:
    audio, wall = turn.audio, turn.wall
    if lost == "endpoint":
        audio, wall = replace(audio, endpoint=None), WallMarks()
    else:
        wall = replace(wall, **{lost: None})
    with pytest.raises(ValueError, match=rf"needs .*\b{lost}\b"):
        replace(turn, audio=audio, wall=wall)
    assert replace(turn, audio=audio, wall=wall, error="any").error == "any"


@given(turns)
def test_json_brings_back_the_same_turn(turn: Turn) -> None:
    assert from_json(to_json(turn)) == turn


@given(turns)
@example(Turn("\u2028\x85\ud83d", 0, "serial", "stepped", AudioMarks(AudioTime(0)), error="\n\x0b\x1c"))
def test_json_is_one_line_that_any_file_takes(turn: Turn) -> None:
    line = to_json(turn)
    assert line.splitlines() == [line]
    assert line.encode("ascii")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.text(max_size=20) | json_values.map(json.dumps))
@example("[" * 100)
@example("null")
def test_a_line_that_is_no_turn_is_refused(line: str) -> None:
    with pytest.raises(FirstsoundError, match="not a turn"):
        from_json(line)


@given(complete_turns(), st.data())
def test_a_turn_that_lacks_a_key_is_refused(turn: Turn, data: st.DataObject) -> None:
    row = json.loads(to_json(turn))
    del row[data.draw(st.sampled_from(sorted(row.keys() - {"error", "live", "speech_start_ns"})))]
    with pytest.raises(FirstsoundError, match="not a turn"):
        from_json(json.dumps(row))


no_marks = st.booleans() | st.floats() | st.text(max_size=3) | st.integers(max_value=-1) | st.lists(st.integers())


@given(turns, st.sampled_from(["speech_end", "endpoint", *PRECEDE]), no_marks)
def test_a_mark_that_is_no_whole_number_is_refused(turn: Turn, name: str, value: object) -> None:
    row = json.loads(to_json(turn))
    row["wall_marks_ns" if name in PRECEDE else "audio_marks_ns"][name] = value
    with pytest.raises(FirstsoundError, match="not a turn"):
        from_json(json.dumps(row))


@given(turns)
def test_a_turn_without_an_end_of_speech_is_refused(turn: Turn) -> None:
    row = json.loads(to_json(turn))
    row["audio_marks_ns"]["speech_end"] = None
    with pytest.raises(FirstsoundError, match="not a turn"):
        from_json(json.dumps(row))


@pytest.mark.parametrize("mix", [operator.add, operator.sub, *COMPARISONS])
@given(audio=audio_times, wall=wall_times)
def test_the_two_clocks_refuse_to_mix(mix: Operator, audio: AudioTime, wall: WallTime) -> None:
    for left, right in ((audio, wall), (wall, audio)):
        with pytest.raises(TypeError):
            mix(left, right)


@pytest.mark.parametrize("mix", [operator.add, operator.sub, *COMPARISONS])
@given(time=audio_times | wall_times, number=durations_ns)
def test_a_bare_number_is_on_neither_clock(mix: Operator, time: AudioTime | WallTime, number: int) -> None:
    for left, right in ((time, number), (number, time)):
        with pytest.raises(TypeError):
            mix(left, right)


@pytest.mark.parametrize("compare", [operator.sub, *COMPARISONS])
@pytest.mark.parametrize("clock", [AudioTime, WallTime])
@given(a=durations_ns, b=durations_ns)
@example(a=1, b=1)
@example(a=1, b=2)
@example(a=2, b=1)
def test_on_one_clock_instants_compare_as_their_nanoseconds(
    compare: Operator, clock: type[AudioTime | WallTime], a: int, b: int
) -> None:
    assert compare(clock(a), clock(b)) == compare(a, b)
    assert (hash(clock(a)) == hash(clock(b))) == (a == b)


def mypy(code: str, folder: Path) -> list[tuple[int, str]]:
    """Line and error code of everything that mypy has to say about a snippet."""
    snippet = folder / "snippet.py"
    snippet.write_text(code, encoding="utf-8")
    # The sources as they are imported here; installed ones are found by mypy itself.
    sources = Path(firstsound.clock.__file__).parents[1]
    path = {} if sources.name == "site-packages" else {"MYPYPATH": str(sources)}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder / 'cache'}", str(snippet)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=path,
        timeout=120,
    )
    found = re.findall(r"^snippet\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    summary = f"Found {len(found)} error" if found else "Success: no issues found"
    assert summary in done.stdout, done.stdout + done.stderr
    return [(int(line), kind) for line, kind in found]


PRELUDE = """\
from firstsound.clock import AudioTime, WallTime
a, b = AudioTime(1), AudioTime(2)
w, v = WallTime(1), WallTime(2)
"""
SIGNS = ("+", "-", "<", "<=", ">", ">=", "==", "!=")


def test_the_type_checker_refuses_to_mix_them(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is in the dependency group `lint`")
    mixes = [f"{left} {sign} {right}" for sign in SIGNS for left, right in (("a", "w"), ("w", "a"))]
    said = mypy(PRELUDE + "\n".join(f"print({mix})" for mix in mixes) + "\nx: AudioTime = w\n", tmp_path)
    first = PRELUDE.count("\n") + 1
    expected = [(first + i, "operator") for i in range(len(mixes))] + [(first + len(mixes), "assignment")]
    assert said == expected


def test_the_type_checker_takes_what_is_on_one_clock(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is in the dependency group `lint`")
    pairs = [f"{left} {sign} {right}" for sign in SIGNS[1:] for left, right in (("a", "b"), ("w", "v"))]
    assert mypy(PRELUDE + "\n".join(f"print({pair})" for pair in pairs) + "\n", tmp_path) == []
