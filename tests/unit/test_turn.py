import re
from dataclasses import replace
from typing import Any

import pytest
from samples import TURN

from firstsound.clock import AudioTime, WallTime
from firstsound.turn import (
    AudioMarks,
    Live,
    Span,
    Turn,
    WallMarks,
    closure_ns,
    first_sound_parts_ns,
    perceived_of_ns,
    stages_ns,
)

MS = 1_000_000


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


def test_a_failed_turn_says_why_it_has_no_stages() -> None:
    wall = WallMarks(final=WallTime(95 * MS))
    turn = Turn("q01", 3, "serial", "stepped", TURN.audio, wall, error="retriever: no passage was found")
    told = "q01, round 3, stepped serial: mark retrieved was not reached (retriever: no passage was found)"
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
    assert TURN.name == "q01, round 0, stepped overlapped"
    assert replace(TURN, round=-1).name == "q01, warm-up, stepped overlapped"


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


LIVE = replace(
    TURN,
    mode="live",
    live=Live(
        timed_first_sound=WallTime(331 * MS),
        frame_lateness_ns=(1000, 0),
        backlog_ns=0,
        played=(Span(WallTime(295 * MS), WallTime(600 * MS)),),
        joint_jump=0.0,
    ),
)


def test_closure_is_what_the_recording_says_beyond_the_marks() -> None:
    assert closure_ns(LIVE) == 10 * MS
    assert first_sound_parts_ns(LIVE) == first_sound_parts_ns(TURN) | {"lead_in": 36 * MS, "lost": 10 * MS}
    assert LIVE.name == "q01, round 0, live overlapped"
    with pytest.raises(ValueError, match="mark timed_first_sound was not reached"):
        closure_ns(TURN)


@pytest.mark.parametrize("lost", ["timed_first_sound", "frame_lateness_ns", "played", "joint_jump"])
def test_a_live_turn_needs_what_only_it_knows(lost: str) -> None:
    live = replace(LIVE.live, **{lost: getattr(Live(), lost)})  # type: ignore[type-var]
    with pytest.raises(ValueError, match=f"a turn without an error needs {lost}$"):
        replace(LIVE, live=live)
    with pytest.raises(ValueError, match=r"needs timed_first_sound, frame_lateness_ns, played, joint_jump$"):
        replace(LIVE, live=None)
