from dataclasses import replace
from typing import Any

import pytest
import samples

from firstsound.budget import Budget
from firstsound.clock import NS_PER_MS as MS
from firstsound.clock import AudioTime, MonotonicClock, WallTime
from firstsound.quality import Quality, assess, faults, word_changes
from firstsound.stepped import run_turn
from firstsound.turn import AudioMarks, Live, Partial, Span, Turn, WallMarks

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
    with pytest.raises(ValueError, match="one round, mode and wiring"):
        assess(CLIPS, [GOOD[0], replace(GOOD[1], round=1)])


def budget() -> Budget:
    lines = {name: {"clock": clock, "limit_ms": 1} for name, clock in (("endpoint", "audio"), ("perceived", "both"))}
    lines |= {name: {"clock": "wall", "limit_ms": 1} for name in ("final", "retrieval", "first_token", "first_sound")}
    return Budget.model_validate(
        {
            "version": 1,
            "lines": {**lines, "memory": {"limit_gib": 1}},
            "profiles": {"p": {"p50": "bind", "p95": "bind"}},
        }
    )


def test_a_broken_guard_is_told_with_round_and_limit() -> None:
    good = assess(CLIPS, GOOD)
    bad = replace(good, round=2, word_error_rate=0.16, hit_at_1=0.9, early_endpoints=1, silent_answers=1)
    told = {
        g: list(faults(budget(), g, [good, bad]))
        for g in ("word_error_rate", "hit_at_1", "early_endpoints", "silent_answers")
    }
    assert told["word_error_rate"] == ["word_error_rate, stepped overlapped, round 2: 0.16 is above the limit of 0.15"]
    assert told["hit_at_1"] == ["hit_at_1, stepped overlapped, round 2: 0.9 is below the least of 0.91"]
    assert len(told["early_endpoints"]) == len(told["silent_answers"]) == 1
    edge = replace(good, word_error_rate=0.15, hit_at_1=11 / 12)
    assert not [f for g in told for f in faults(budget(), g, [edge, replace(edge, hit_at_1=None)])]


SPAN = Span(WallTime(0), WallTime(1))


def live(turn: Turn, **facts: Any) -> Turn:  # noqa: ANN401 - whatever a live turn knows
    known = Live(
        timed_first_sound=turn.wall.first_sound,
        frame_lateness_ns=(MS,) * 20,
        backlog_ns=0,
        played=(SPAN,),
        joint_jump=0.01,
        heard=turn.answer,
        took_ns=1,
    )
    return replace(turn, mode="live", live=replace(known, **facts))


def test_live_turns_are_held_to_how_they_were_fed_played_and_heard() -> None:
    turns = [live(turn) for turn in GOOD]
    q = assess(CLIPS, turns)
    assert (q.frame_lateness_ms, q.underruns, q.answer_word_error_rate, q.joint_jump) == (1, 0, 0, 0.01)
    late = assess(CLIPS, [live(GOOD[0], frame_lateness_ns=(MS,) * 15 + (7 * MS,) * 5), *turns[1:]])
    assert late.frame_lateness_ms == 7
    gaps = assess(CLIPS, [live(GOOD[0], underruns_ns=(3, 4)), live(GOOD[1], underruns_ns=(5,)), *turns[2:]])
    assert gaps.underruns == 3
    half = " ".join(GOOD[0].answer.split()[:5])
    assert assess(CLIPS, [live(GOOD[0], heard=half), *turns[1:]]).answer_word_error_rate == 4 / 36
    assert assess(CLIPS, [live(GOOD[0], joint_jump=0.2), *turns[1:]]).joint_jump == 0.2


def test_the_pace_is_what_the_turns_took_of_their_clips_and_answers() -> None:
    second = WallTime(1_000 * MS)
    turns = [live(turn, took_ns=2_000 * MS, played=(Span(WallTime(0), second),)) for turn in GOOD]
    # Clips of 1.5 s and answers of 1 s.
    assert assess(CLIPS, turns).pace == pytest.approx(2 / 2.5)
    [told] = faults(budget(), "pace", [assess(CLIPS, [live(turn, took_ns=3_000 * MS) for turn in GOOD])])
    assert told == "pace, live overlapped, round 0: 2 is above the limit of 1.1"


def test_what_a_live_round_did_not_measure_is_no_zero_and_fails() -> None:
    q = assess(CLIPS, [failed(turn, mode="live", answer="") for turn in GOOD])
    assert (q.frame_lateness_ms, q.answer_word_error_rate, q.joint_jump) == (None, None, None)
    for guard in ("frame_lateness_ms", "answer_word_error_rate", "fragment_word_error_rate", "joint_jump", "pace"):
        assert list(faults(budget(), guard, [q])) == [f"{guard}, live overlapped, round 0: nothing was measured"]


def test_a_lost_answer_is_not_made_up_for_by_the_others() -> None:
    lost = assess(CLIPS, [live(GOOD[0], heard="Brew it"), *(live(turn) for turn in GOOD[1:])])
    assert (lost.answer_word_error_rate, lost.lost_answers, lost.fragment_word_error_rate) == (7 / 36, 1, 1 / 12)
    [told] = faults(budget(), "lost_answers", [lost])
    assert told.startswith("lost_answers, live overlapped, round 0: 1 is above the limit of 0")
    assert told.endswith(f"q0: heard 'Brew it' of {GOOD[0].answer!r}")
    headless = assess(CLIPS, [live(turn, heard="Do not " + turn.answer) for turn in GOOD])
    assert headless.fragment_word_error_rate is not None
    assert headless.fragment_word_error_rate > 0.3


def test_an_answer_that_was_written_and_not_heard_counts_as_lost_words() -> None:
    q = assess(CLIPS, [failed(live(GOOD[0]), live=None), *(live(turn) for turn in GOOD[1:])])
    assert q.answer_word_error_rate == 1 / 4


def test_a_machine_that_is_too_busy_says_so() -> None:
    q = replace(assess(CLIPS, [live(turn) for turn in GOOD]), frame_lateness_ms=5.1, underruns=1, joint_jump=0.11)
    [told] = faults(budget(), "frame_lateness_ms", [q])
    assert told.startswith("frame_lateness_ms, live overlapped, round 0: 5.1 is above the limit of 5; this machine was")
    assert len(list(faults(budget(), "underruns", [q]))) == len(list(faults(budget(), "joint_jump", [q]))) == 1


@pytest.mark.parametrize(
    ("partials", "final", "expected"),
    [
        ([], "how do I", (0, 0)),
        (["how do I"], "how do I", (0, 0)),
        (["how do", "how do I", "how do I brew"], "How do I brew?", (3, 0)),
        (["how do", "how do I", "how to I"], "how to I brew", (2, 1)),
        (["Now do", "now do I"], "how do I", (2, 1)),
        (["how do I", "how do I"], "how", (3, 2)),
        (["tea or", "coffee or", "coffee or tea"], "coffee or tea", (2, 0)),
        (["do I brew", "do I brew"], "how do I brew", (3, 0)),
    ],
)
def test_a_word_is_committed_once_by_two_partials_that_agree(
    partials: list[str], final: str, expected: tuple[int, int]
) -> None:
    assert word_changes(partials, final) == expected


def test_a_turn_without_a_transcript_has_not_changed_its_words() -> None:
    partials = (Partial(SPAN, "how do I"), Partial(SPAN, "how do I"))
    q = assess(CLIPS, [failed(live(turn, partials=partials), transcript="") for turn in GOOD])
    assert (q.committed_words, q.changed_words) == (0, 0)


def test_the_words_that_changed_are_counted_over_the_round() -> None:
    partials = (Partial(SPAN, "how do I"), Partial(SPAN, "how do I brew tea"), Partial(SPAN, "how do I brew tea"))
    q: Quality = assess(CLIPS, [live(turn, partials=partials) for turn in GOOD])
    assert (q.committed_words, q.changed_words) == (20, 4)
