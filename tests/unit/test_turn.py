import json
import re
from dataclasses import replace
from typing import Any

import pytest

from firstsound.clock import AudioTime, WallTime
from firstsound.errors import FirstsoundError
from firstsound.turn import (
    AudioMarks,
    Turn,
    WallMarks,
    first_sound_parts_ns,
    from_json,
    perceived_of_ns,
    stages_ns,
    to_json,
)

MS = 1_000_000
LINE = {
    "version": 1,
    "query": "q01",
    "round": 0,
    "wiring": "overlapped",
    "mode": "stepped",
    "audio_marks_ns": {"speech_end": 2310 * MS, "endpoint": 2900 * MS},
    "wall_marks_ns": {
        "final": 95 * MS,
        "retrieved": 96 * MS,
        "first_token": 180 * MS,
        "first_fragment": 230 * MS,
        "first_chunk": 295 * MS,
        "first_sound": 341 * MS,
        "answer_end": 610 * MS,
        "audio_end": 900 * MS,
    },
    "transcript": "what time is it",
    "passages": ["p017"],
    "answer": "It is noon.",
    "fragments": ["It is", "noon."],
    "cache": "prefix",
    "error": None,
}
TURN = Turn(
    query="q01",
    round=0,
    wiring="overlapped",
    mode="stepped",
    audio=AudioMarks(AudioTime(2310 * MS), AudioTime(2900 * MS)),
    wall=WallMarks(
        final=WallTime(95 * MS),
        retrieved=WallTime(96 * MS),
        first_token=WallTime(180 * MS),
        first_fragment=WallTime(230 * MS),
        first_chunk=WallTime(295 * MS),
        first_sound=WallTime(341 * MS),
        answer_end=WallTime(610 * MS),
        audio_end=WallTime(900 * MS),
    ),
    transcript="what time is it",
    passages=("p017",),
    answer="It is noon.",
    fragments=("It is", "noon."),
    cache="prefix",
)


def test_stages() -> None:
    assert stages_ns(TURN) == {
        "endpoint": 590 * MS,
        "final": 95 * MS,
        "retrieval": 1 * MS,
        "first_token": 84 * MS,
        "first_sound": 161 * MS,
    }
    assert perceived_of_ns(TURN) == 931 * MS


def test_parts_of_first_sound() -> None:
    assert first_sound_parts_ns(TURN) == {"fragment": 50 * MS, "synthesis": 65 * MS, "lead_in": 46 * MS}


def test_a_line_of_turns_jsonl_is_as_documented() -> None:
    assert json.loads(to_json(TURN)) == LINE
    assert list(json.loads(to_json(TURN))) == list(LINE)
    assert from_json(json.dumps(LINE)) == TURN


def test_a_failed_turn_keeps_its_marks_and_says_why() -> None:
    wall = WallMarks(final=WallTime(95 * MS))
    turn = Turn("q01", 3, "serial", "stepped", TURN.audio, wall, error="retriever: no passage was found")
    assert from_json(to_json(turn)) == turn
    told = "q01, round 3, serial: mark retrieved was not reached (retriever: no passage was found)"
    with pytest.raises(ValueError, match=re.escape(told)):
        stages_ns(turn)
    with pytest.raises(ValueError, match="mark first_sound was not reached"):
        perceived_of_ns(turn)
    with pytest.raises(ValueError, match="mark first_token was not reached"):
        first_sound_parts_ns(turn)


@pytest.mark.parametrize("name", ["first_token", "first_fragment", "first_chunk", "first_sound"])
def test_each_part_of_first_sound_needs_its_marks(name: str) -> None:
    turn = replace(TURN, wall=replace(TURN.wall, **{name: None}), error="any")
    with pytest.raises(ValueError, match=f"mark {name} was not reached"):
        first_sound_parts_ns(turn)


def test_names() -> None:
    assert TURN.name == "q01, round 0, overlapped"
    assert replace(TURN, round=-1).name == "q01, warm-up, overlapped"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"round": -2}, "round -2: rounds count from 0, and -1 is the warm-up"),
        ({"audio": AudioMarks(AudioTime(-1), AudioTime(5))}, "mark speech_end is -1 ns: before the first sample"),
        ({"audio": AudioMarks(AudioTime(1), AudioTime(-5))}, "mark endpoint is -5 ns: before the first sample"),
        ({"audio": AudioMarks(AudioTime(6), AudioTime(5))}, "an endpoint before the end of speech is an error"),
        ({"audio": AudioMarks(AudioTime(6))}, "mark final counts from the endpoint, but there was none"),
        ({"audio": AudioMarks(AudioTime(6)), "wall": WallMarks()}, "needs endpoint, final, retrieved, first_token"),
        ({"wall": replace(TURN.wall, final=WallTime(-1))}, "mark final is -1 ns: before the endpoint decision"),
        (
            {"wall": replace(TURN.wall, retrieved=WallTime(94))},
            r"mark retrieved \(94 ns\) comes before final \(95000000",
        ),
        ({"wall": replace(TURN.wall, audio_end=WallTime(294 * MS))}, "mark audio_end .* comes before first_chunk"),
        ({"wall": replace(TURN.wall, answer_end=WallTime(179 * MS))}, "mark answer_end .* comes before first_token"),
        ({"wall": replace(TURN.wall, first_sound=None)}, "a turn without an error needs first_sound$"),
        ({"transcript": "", "fragments": ()}, "a turn without an error needs transcript, fragments$"),
        ({"passages": (), "answer": "", "cache": None}, "a turn without an error needs passages, answer, cache$"),
    ],
)
def test_what_cannot_be_is_no_turn(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        replace(TURN, **change)


def test_a_gap_does_not_hide_the_order() -> None:
    wall = WallMarks(final=WallTime(95), first_token=WallTime(94))
    with pytest.raises(ValueError, match=r"mark first_token \(94 ns\) comes before final \(95 ns\)"):
        Turn("q01", 0, "serial", "stepped", TURN.audio, wall, error="any")


def test_speech_may_go_on_after_the_last_chunk_and_writing_after_the_first_sound() -> None:
    """Neither end is tied to the first sound: a chunk plays after it came, and the answer may be longer or shorter."""
    one_chunk = replace(TURN.wall, audio_end=TURN.wall.first_chunk, answer_end=TURN.wall.first_token)
    assert replace(TURN, wall=one_chunk).wall.first_sound == WallTime(341 * MS)


def test_an_endpoint_that_came_too_early_is_kept_with_its_error() -> None:
    turn = Turn("q", 0, "serial", "stepped", AudioMarks(AudioTime(6), AudioTime(5)), error="early endpoint")
    assert from_json(to_json(turn)).audio.endpoint == AudioTime(5)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_refused_by_name(version: object) -> None:
    with pytest.raises(FirstsoundError, match=f"turns of version {version!r} cannot be read; this firstsound writes 1"):
        from_json(json.dumps(LINE | {"version": version}))


@pytest.mark.parametrize(
    "change",
    [
        {"audio_marks_ns": {"speech_end": None, "endpoint": None}},
        {"audio_marks_ns": {"endpoint": 1}},
        {"audio_marks_ns": []},
        {"wall_marks_ns": {"final": 1.5}},
        {"wall_marks_ns": {"first_word": 1}},
        {"wall_marks_ns": dict.fromkeys(LINE["wall_marks_ns"], -1)},  # type: ignore[call-overload]
        {"passages": None},
        {"round": "first"},
        {"mood": "good"},
    ],
)
def test_a_line_that_is_no_turn_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(FirstsoundError, match="not a turn: "):
        from_json(json.dumps(LINE | change))


def test_a_line_that_was_cut_off_is_refused_and_shown() -> None:
    with pytest.raises(FirstsoundError, match=r"""^not a turn: .*'{"version": 1, "query": "q01"'$"""):
        from_json('{"version": 1, "query": "q01"')
