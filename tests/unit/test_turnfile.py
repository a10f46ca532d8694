"""Turns as lines of JSON: the documented form, what survives it, and what is refused."""

import json
from dataclasses import replace
from typing import Any

import pytest
from samples import TURN

from firstsound.clock import NS_PER_MS as MS
from firstsound.clock import AudioTime, WallTime
from firstsound.errors import FirstsoundError
from firstsound.turn import AudioMarks, Live, Partial, Span, Turn, WallMarks
from firstsound.turnfile import from_json, to_json

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
SPAN = Span(WallTime(-300 * MS), WallTime(-200 * MS))
LIVE = Live(
    timed_first_sound=WallTime(340 * MS),
    frame_lateness_ns=(90_000, 1_200_000),
    backlog_ns=20 * MS,
    partials=(Partial(SPAN, "what time"),),
    played=(Span(WallTime(295 * MS), WallTime(900 * MS)),),
    underruns_ns=(),
    joint_jump=0.001,
    heard="It is noon.",
    took_ns=5_000 * MS,
)
LIVE_ROW = {
    "timed_first_sound_ns": 340 * MS,
    "frame_lateness_ns": [90_000, 1_200_000],
    "backlog_ns": 20 * MS,
    "partials_ns": [{"start": -300 * MS, "end": -200 * MS, "text": "what time"}],
    "played_ns": [{"start": 295 * MS, "end": 900 * MS}],
    "underruns_ns": [],
    "joint_jump": 0.001,
    "heard": "It is noon.",
    "took_ns": 5_000 * MS,
}


def test_a_line_of_turns_jsonl_is_as_documented() -> None:
    assert json.loads(to_json(TURN)) == LINE
    assert list(json.loads(to_json(TURN))) == list(LINE)
    assert from_json(json.dumps(LINE)) == TURN


def test_a_live_turn_says_what_only_it_knows() -> None:
    turn = replace(TURN, mode="live", live=LIVE)
    assert json.loads(to_json(turn))["live"] == LIVE_ROW
    assert from_json(to_json(turn)) == turn


def test_a_failed_turn_keeps_its_marks_and_says_why() -> None:
    wall = WallMarks(final=WallTime(95 * MS))
    turn = Turn("q01", 3, "serial", "live", TURN.audio, wall, live=Live(), error="retriever: no passage was found")
    assert from_json(to_json(turn)) == turn


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
        {"mode": "dead"},
        {"wiring": "parallel"},
        {"cache": "lukewarm"},
        {"live": {"joint_jump": float("inf")}},
        {"live": LIVE_ROW | {"heard": 3}},
        {"live": {name: value for name, value in LIVE_ROW.items() if name != "played_ns"}},
    ],
)
def test_a_line_that_is_no_turn_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(FirstsoundError, match="not a turn: "):
        from_json(json.dumps(LINE | change))


def test_a_line_that_was_cut_off_is_refused_and_shown() -> None:
    with pytest.raises(FirstsoundError, match=r"""^not a turn: .*'{"version": 1, "query": "q01"'$"""):
        from_json('{"version": 1, "query": "q01"')
