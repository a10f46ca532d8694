"""What the reader is told: the figures of known turns, where they lie, and what to shorten first."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import samples
from samples import TURN

from firstsound import budget, report
from firstsound.clock import NS_PER_MS as MS
from firstsound.clock import WallTime
from firstsound.memory import MemorySample
from firstsound.quality import assess
from firstsound.suite import Inputs, Results, Settings, faults
from firstsound.turn import WIRINGS_OF, Live, Mode, Span, Speculation, Turn, WallMarks, Wiring

MIB = 2**20
ROOT = Path(__file__).parents[2]
CLIPS = [samples.clip(f"q{i}") for i in range(4)]


def turn(query: str, wiring: Wiring, later_ms: int, mode: Mode = "stepped") -> Turn:
    """The known turn with its first sound, and what follows, `later_ms` later."""
    moved = {
        name: WallTime(getattr(TURN.wall, name).ns + later_ms * MS)
        for name in ("first_token", "first_fragment", "first_chunk", "first_sound", "answer_end", "audio_end")
    }
    live = Live(
        timed_first_sound=WallTime(moved["first_sound"].ns - 2 * MS),
        frame_lateness_ns=(MS,),
        backlog_ns=0,
        played=(Span(moved["first_chunk"], moved["audio_end"]),),
        joint_jump=0.01,
        heard=TURN.answer,
        took_ns=1_000 * MS,
        speculation=Speculation(3, 1, 7, 250 * MS, 2, 40 * MS) if wiring == "speculative" else None,
    )
    return replace(
        TURN,
        query=query,
        wiring=wiring,
        mode=mode,
        wall=replace(TURN.wall, **moved),
        live=live if mode == "live" else None,
    )


def results(turns: list[Turn], profile: str = "strict") -> Results:
    modes = {t.mode for t in turns}
    rounds: dict[Mode, int] = {"stepped": int("stepped" in modes), "live": int("live" in modes)}
    settings = Settings("mine", ROOT / "budgets.yaml", profile, Path("c"), Path("p"), rounds)
    inputs = Inputs(settings, budget.load(settings.budgets), CLIPS, ())
    quality = [
        assess(CLIPS, [t for t in turns if (t.mode, t.wiring) == (mode, wiring)])
        for mode in inputs.modes
        for wiring in inputs.wirings_of(mode)
    ]
    memory = [MemorySample(0, MS, {os.getpid(): 300 * MIB, -1: 200 * MIB}, (mode, "q0", 0)) for mode in inputs.modes]
    peaks = {os.getpid(): 400 * MIB, -1: 300 * MIB}
    return Results(inputs, turns, memory, peaks, [], None, {}, quality)


def both(*overlapped: Turn) -> list[Turn]:
    return [turn(clip.query, "serial", 600) for clip in CLIPS] + list(overlapped)


GOOD = both(*(turn(clip.query, "overlapped", 10 * i) for i, clip in enumerate(CLIPS)))


def told(of: Results) -> str:
    return report.terminal(of, 120)


def row(text: str, name: str) -> str:
    """The table's row of that name, with single spaces."""
    [line] = [line for line in text.splitlines() if line.startswith(f" {name}")]
    return " ".join(line.split())


def test_the_table_holds_the_percentiles_of_both_wirings() -> None:
    text = told(results(GOOD))
    # 931 ms and 0, 10, 20, 30 more; of four, p50 is the second and p95 the fourth.
    assert row(text, "perceived") == "perceived both 1950 1531.0 1531.0 419.0 within 941.0 961.0 989.0 within"
    assert "serial: n=4, p95 is rank 4, the slowest turn, 4 prefix; overlapped: n=4" in text
    assert "overlapped saves 590 ms of 1531 ms at the median; after the endpoint 941 ms become 351 ms, 2.7 t" in text


def test_the_median_and_the_slowest_turn_are_drawn_with_their_stages() -> None:
    text = told(results(GOOD))
    assert "median turn: q1, round 0, stepped overlapped: 941 ms (prefix prompt)" in text
    assert "slowest turn: q3, round 0, stepped overlapped: 961 ms (prefix prompt)" in text
    assert "(fragment 50, synthesis 65, lead_in 46)" in text


def test_what_is_within_and_over_and_only_reported_is_said_and_what_to_shorten() -> None:
    assert (
        "All stages keep their limits. Shorten first: endpoint, stepped overlapped, the longest with 590 ms; after"
        in (told(results(GOOD)))
    )
    slow = both(*(turn(clip.query, "overlapped", 400) for clip in CLIPS))
    text = told(results(slow))
    assert "Shorten first: first_token, stepped overlapped: p50 484 ms against 400 ms." in text
    expected = "first_token wall 400 684.0 684.0 -284.0 over (reported) 484.0 484.0 -84.0 OVER"
    assert row(text, "first_token") == expected
    spike = both(*(turn(clip.query, "overlapped", 400 * (clip.query == "q3")) for clip in CLIPS))
    assert "OVER" in told(results(spike))
    assert "OVER" not in told(results(spike, "shared"))


def test_failed_turns_are_told_and_counted() -> None:
    lost = replace(GOOD[-1], wall=WallMarks(), error="llm: gone")
    text = told(results([*GOOD[:-1], lost]))
    assert "overlapped: n=3, p95 is rank 3, the slowest turn, 3 prefix, 1 FAILED" in text
    assert "FAILED q3, round 0, stepped overlapped: llm: gone" in text
    nothing = [replace(t, wall=WallMarks(), error="llm: gone") for t in GOOD]
    text = told(results(nothing))
    assert text.count("NOT MEASURED") == 12
    assert "Nothing was measured." in text


def test_live_turns_have_a_table_of_their_own_and_both_modes_stand_side_by_side() -> None:
    live = [turn(clip.query, wiring, 100, "live") for clip in CLIPS for wiring in WIRINGS_OF["live"]]
    text = told(results([*GOOD, *live]))
    assert "the silence before the answer, stepped, in ms" in text
    assert "the silence before the answer, live, off the recordings, in ms" in text
    assert row(text, "closure") == "closure both 10 / 25" + " 2.0 2.0 8.0 within" * 3
    assert "frames late by 1 ms (p95 of the worst turn); loudspeaker: 0 underruns" in text
    assert "perceived 941 -> 1031 (+10 %)" in text
    assert "memory, live: p50 500 MiB" in text
    assert "speculation: 4 of 12 attempts discarded; wasted: 28 tokens, 1.0 s of CPU" in text


def test_memory_tells_the_peaks_and_what_is_left() -> None:
    text = told(results(GOOD))
    assert "memory, stepped: p50 500 MiB, p95 500 MiB (PSS, rank 1 of n=1), limit 2048 MiB: within" in text
    assert "Python 400 MiB, servers 300 MiB, together at most 700 MiB; 1348 MiB are left: room for 4 more" in text


@pytest.mark.parametrize("error", ["```\nescaped", "a | b"])
def test_the_job_page_is_not_broken_by_what_was_said(error: str) -> None:
    lost = replace(GOOD[-1], wall=WallMarks(), error=error)
    text = report.markdown(results([*GOOD[:-1], lost]))
    assert text.count("```") == 4
    assert "| perceived | both | 1950 |" in text


def test_a_machine_that_was_too_busy_gives_no_figures() -> None:
    live = [turn(clip.query, wiring, 100, "live") for clip in CLIPS for wiring in WIRINGS_OF["live"]]
    assert live[1].live is not None
    live[1] = replace(live[1], live=replace(live[1].live, frame_lateness_ns=(MS,) * 9 + (6 * MS,)))
    busy = results(live)
    text = told(busy)
    assert "TOO BUSY: the microphone's frames came more than 5 ms late in overlapped round 0 (6.0 ms)." in text
    assert row(text, "final").split().count("NOT") == 3
    assert "ms: " not in text.replace("in ms", "")
    for wiring in WIRINGS_OF["live"]:
        line = budget.Line("final", "live", wiring)
        assert busy.verdict(line) is None
        assert faults(busy, line)[-1] == f"{line}: nothing was measured: the machine was too busy to feed audio in time"
    assert "TOO BUSY" not in told(results(live[2:] + live[:1] + [replace(live[1], live=live[2].live)]))


def test_fewer_turns_than_asked_for_and_failed_ones_fail_their_lines() -> None:
    line = budget.Line("final", "stepped", "overlapped")
    assert faults(results(GOOD), line) == []
    assert faults(results(GOOD[:-1]), line) == ["final, stepped overlapped: 3 turns were run, 4 were asked for"]
    warm_up = replace(GOOD[-1], round=-1, wall=WallMarks(), error="llm: gone")
    [told] = faults(replace(results(GOOD), turns=[*GOOD, warm_up]), line)
    assert told.endswith("1 turns failed:\n  q3, warm-up, stepped overlapped: llm: gone")


def test_what_the_kernel_killed_and_peaks_above_the_limit_fail_memory() -> None:
    line = budget.Line("memory", "stepped", "all")
    assert faults(results(GOOD), line) == []
    [lost] = faults(replace(results(GOOD), lost_pids=[7]), line)
    assert "processes [7] ended during the run" in lost
    [peak] = faults(replace(results(GOOD), peaks_bytes={os.getpid(): 3 * 2**30}), line)
    assert "the peaks add up to 3221225472 bytes, above 2147483648" in peak
