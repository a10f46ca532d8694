from dataclasses import replace
from typing import Any

import pytest
import samples

from firstsound.budget import Budget
from firstsound.clock import AudioTime, MonotonicClock
from firstsound.quality import assess, faults, words
from firstsound.turn import AudioMarks, Turn, WallMarks
from firstsound.wiring import run_turn

CLIPS = [samples.clip(f"q{i}") for i in range(4)]
GOOD = [run_turn(samples.stack(), clip, 0, "overlapped", MonotonicClock()) for clip in CLIPS]


def failed(turn: Turn, **change: Any) -> Turn:  # noqa: ANN401 - whatever a turn has
    return replace(turn, wall=WallMarks(), error="x", **change)


def test_good_turns_have_nothing_wrong() -> None:
    q = assess(CLIPS, GOOD)
    assert (q.word_error_rate, q.hit_at_1, q.early_endpoints, q.silent_answers) == (0, 1, 0, 0)


def test_each_figure_counts_its_own_fault() -> None:
    wrong_words = replace(GOOD[0], transcript="how do I brew tea")
    assert assess(CLIPS, [wrong_words, *GOOD[1:]]).word_error_rate == pytest.approx(1 / 20)
    wrong_passage = replace(GOOD[0], passages=("p1", "p2"))
    assert assess(CLIPS, [wrong_passage, *GOOD[1:]]).hit_at_1 == 3 / 4
    early = failed(GOOD[0], audio=AudioMarks(AudioTime(10), AudioTime(9)))
    assert assess(CLIPS, [early, *GOOD[1:]]).early_endpoints == 1
    assert assess(CLIPS, [failed(GOOD[0]), *GOOD[1:]]).silent_answers == 1


def test_failed_turns_count_as_words_and_passages_that_were_missed() -> None:
    nothing = failed(GOOD[0], transcript="", passages=(), answer="")
    q = assess(CLIPS, [nothing, *GOOD[1:]])
    assert (q.word_error_rate, q.hit_at_1, q.silent_answers) == (5 / 20, 3 / 4, 1)


def test_without_expected_passages_there_is_no_hit_rate_and_no_fault() -> None:
    clips = [replace(clip, expected_passage=None) for clip in CLIPS]
    q = assess(clips, GOOD)
    assert q.hit_at_1 is None


def test_rounds_and_wirings_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="one round and wiring"):
        assess(CLIPS, [GOOD[0], replace(GOOD[1], round=1)])


def test_words_are_compared_without_case_and_punctuation() -> None:
    assert words("Don't, I SAID: 12-ounce!") == "don't i said 12 ounce"


def test_a_broken_guard_is_told_with_round_and_limit() -> None:
    lines = {name: {"clock": clock, "limit_ms": 1} for name, clock in (("endpoint", "audio"), ("perceived", "both"))}
    lines |= {name: {"clock": "wall", "limit_ms": 1} for name in ("final", "retrieval", "first_token", "first_sound")}
    budget = Budget.model_validate(
        {
            "version": 1,
            "lines": {**lines, "memory": {"limit_gib": 1}},
            "profiles": {"p": {"p50": "bind", "p95": "bind"}},
        }
    )
    good = assess(CLIPS, GOOD)
    bad = replace(good, round=2, word_error_rate=0.16, hit_at_1=0.9, early_endpoints=1, silent_answers=1)
    told = {
        g: list(faults(budget, g, [good, bad]))
        for g in ("word_error_rate", "hit_at_1", "early_endpoints", "silent_answers")
    }
    assert told["word_error_rate"] == ["word_error_rate, overlapped, round 2: 0.16 is above the limit of 0.15"]
    assert told["hit_at_1"] == ["hit_at_1, overlapped, round 2: 0.9 is below the least of 0.91"]
    assert len(told["early_endpoints"]) == len(told["silent_answers"]) == 1
    edge = replace(good, word_error_rate=0.15, hit_at_1=11 / 12)
    assert not [f for g in told for f in faults(budget, g, [edge, replace(edge, hit_at_1=None)])]
