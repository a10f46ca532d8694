import json
import re
from collections import defaultdict
from dataclasses import fields, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import complete_turns, traced_turns, turns, words

from firstsound.clock import AudioTime, WallTime
from firstsound.trace import EXACT_BELOW_NS, dumps, trace_events
from firstsound.turn import AudioMarks, Live, Turn, WallMarks

ENDS = {
    "speech": ("", "speech_end"),
    "wait": ("speech_end", "endpoint"),
    "final transcript": ("endpoint", "final"),
    "retrieval": ("final", "retrieved"),
    "LLM: to first token": ("retrieved", "first_token"),
    "LLM: answer": ("first_token", "answer_end"),
    "TTS: first chunk": ("first_fragment", "first_chunk"),
    "TTS: rest": ("first_chunk", "audio_end"),
    "lead-in silence": ("first_chunk", "first_sound"),
    "perceived silence": ("speech_end", "first_sound"),
}
"""The marks at which each bar begins and ends."""

LANES = [
    "user",
    "endpointer",
    "partials",
    "recognizer",
    "retriever",
    "LLM",
    "TTS",
    "loudspeaker",
    "playback",
    "silence",
    "error",
]


LIVE = {"partial transcript", "answer is heard", "first sound by the marks"}
"""What only live turns show."""


def read(text: str) -> dict[str, Any]:
    """Strict JSON, each number exactly as it is written."""

    def refuse(token: str) -> None:
        raise AssertionError(token)

    doc: dict[str, Any] = json.loads(text, parse_float=Decimal, parse_constant=refuse)
    return doc


def ns(us: Decimal) -> int:
    exact = us * 1000
    assert exact == int(exact), f"{us} µs is no whole number of nanoseconds"
    return int(exact)


def by_turn(doc: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The events of each turn without those that only name things."""
    events = defaultdict(list)
    order = {e["pid"]: e["args"]["sort_index"] for e in doc["traceEvents"] if e["name"] == "process_sort_index"}
    for e in doc["traceEvents"]:
        if e["ph"] != "M":
            events[e["pid"]].append(e)
    return [events[pid] for pid in sorted(order, key=order.__getitem__)]


def points(event: dict[str, Any]) -> dict[str, int]:
    """The marks that an event's place in the picture tells, in nanoseconds since the first sample."""
    start, length = ns(event["ts"]), ns(event.get("dur", Decimal(0)))
    name, _, remark = event["name"].rpartition(": ")
    if event["ph"] == "i":
        if event["name"] == "error":
            return {}
        if event["name"] == "first sound":
            return {"first_sound": start}
        [only] = set(ENDS[name]) - {remark.removeprefix("no ")}
        return {only: start}
    if " before " in remark:
        first, last = remark.split(" before ")
        assert (last, first) == ENDS[name]
    else:
        first, last = ENDS[event["name"]]
    return {first: start, last: start + length}


def marks_of(events: list[dict[str, Any]]) -> tuple[int, AudioMarks, WallMarks]:
    """The marks of a turn from its picture alone; where two events show one mark, they must agree."""
    found: dict[str, int] = {}
    for event in events:
        if event["name"] in LIVE:
            continue
        for name, at in points(event).items():
            assert found.setdefault(name, at) == at
    speech_start = found.pop("")
    speech_end = AudioTime(found.pop("speech_end"))
    endpoint = found.pop("endpoint", None)
    if endpoint is None:
        assert not found
        return speech_start, AudioMarks(speech_end), WallMarks()
    wall = {name: WallTime(at - endpoint) for name, at in found.items()}
    return speech_start, AudioMarks(speech_end, AudioTime(endpoint)), WallMarks(**wall)


@given(traced_turns())
def test_every_mark_can_be_read_back_from_the_picture_to_the_nanosecond(turns: list[Turn]) -> None:
    shown = by_turn(read(dumps(trace_events(turns))))
    assert [marks_of(events) for events in shown] == [
        (turn.speech_start.ns if turn.speech_start else 0, turn.audio, turn.wall) for turn in turns
    ]


@given(traced_turns())
def test_every_mark_is_told_on_its_own_clock(turns: list[Turn]) -> None:
    shown = by_turn(read(dumps(trace_events(turns))))
    for turn, events in zip(turns, shown, strict=True):
        told: dict[str, int] = {}
        for event in events:
            told |= event["args"].get("marks_ns", {})
        marks = [(f.name, getattr(half, f.name)) for half in (turn.audio, turn.wall) for f in fields(half)]
        assert told == {name: mark.ns for name, mark in marks if mark is not None}


@given(complete_turns())
def test_a_complete_turn_has_every_bar_once_and_tells_what_was_said(turn: Turn) -> None:
    [shown] = by_turn(read(dumps(trace_events([turn]))))
    events = [e for e in shown if e["name"] not in LIVE]
    bars = {e["name"]: e for e in events if e["ph"] == "X"}
    assert [e["name"] for e in events if e["ph"] == "i"] == ["first sound"]
    assert bars.keys() == ENDS.keys()
    assert len(events) == len(ENDS) + 1
    assert all(bar["args"]["ns"] == ns(bar["dur"]) for bar in bars.values())
    args = {name: bar["args"] for name, bar in bars.items()}
    assert args["final transcript"]["transcript"] == turn.transcript
    assert args["retrieval"]["passages"] == list(turn.passages)
    assert args["LLM: to first token"]["cache"] == turn.cache
    assert args["LLM: answer"]["answer"] == turn.answer
    assert (*args["TTS: first chunk"]["fragments"], *args["TTS: rest"]["fragments"]) == turn.fragments


@given(complete_turns())
def test_a_live_turn_shows_its_partials_what_was_heard_and_what_the_marks_expected(turn: Turn) -> None:
    [shown] = by_turn(read(dumps(trace_events([turn]))))
    assert turn.audio.endpoint is not None
    origin = turn.audio.endpoint.ns
    live = turn.live or Live()
    spans = [("partial transcript", partial.span) for partial in live.partials]
    spans += [("answer is heard", span) for span in live.played]
    expected = [(name, max(0, origin + span.start.ns), max(0, origin + span.end.ns)) for name, span in spans]
    if live.timed_first_sound is not None:
        at = origin + live.timed_first_sound.ns
        expected.append(("first sound by the marks", at, at))
    events = [(e["name"], ns(e["ts"]), ns(e["ts"] + e.get("dur", Decimal(0)))) for e in shown if e["name"] in LIVE]
    assert sorted(events) == sorted(expected)
    told = [e["args"]["transcript"] for e in shown if e["name"] == "partial transcript"]
    assert sorted(told) == sorted(partial.text for partial in live.partials)


@given(traced_turns())
def test_an_error_is_shown_where_the_turn_broke_off(turns: list[Turn]) -> None:
    shown = by_turn(read(dumps(trace_events(turns))))
    for turn, events in zip(turns, shown, strict=True):
        errors = [e for e in events if e["name"] == "error"]
        assert [e["args"]["error"] for e in errors] == ([] if turn.error is None else [turn.error])
        for error in errors:
            assert error["ph"] == "i"
            assert error["ts"] == max(e["ts"] + e.get("dur", 0) for e in events)


@given(traced_turns())
def test_names_come_first_and_then_time_goes_on(turns: list[Turn]) -> None:
    events = read(dumps(trace_events(turns)))["traceEvents"]
    kinds = [e["ph"] == "M" for e in events]
    assert kinds == sorted(kinds, reverse=True)
    order = [(e["ts"], -e.get("dur", 0)) for e in events if e["ph"] != "M"]
    assert order == sorted(order)
    assert all(ts >= 0 >= minus_dur for ts, minus_dur in order)


@given(traced_turns())
def test_bars_of_one_thread_nest_or_do_not_touch(turns: list[Turn]) -> None:
    lanes = defaultdict(list)
    for e in read(dumps(trace_events(turns)))["traceEvents"]:
        if e["ph"] == "X":
            lanes[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    for bars in lanes.values():
        for i, (start, end) in enumerate(bars):
            for later_start, later_end in bars[i + 1 :]:
                assert later_start >= end or (start <= later_start and later_end <= end)


@given(traced_turns())
def test_every_thread_is_one_stage_of_one_turn_and_has_its_name(turns: list[Turn]) -> None:
    events = read(dumps(trace_events(turns)))["traceEvents"]
    processes = [e["pid"] for e in events if e["name"] == "process_name"]
    threads = {e["tid"]: (e["pid"], e["args"]["name"]) for e in events if e["name"] == "thread_name"}
    assert len(set(processes)) == len(processes) == len(turns)
    assert len(threads) == len(set(threads.values())) == sum(e["name"] == "thread_name" for e in events)
    assert not threads.keys() & set(processes)
    assert 0 not in threads.keys() | set(processes)
    for e in events:
        if e["ph"] != "M":
            pid, lane = threads[e["tid"]]
            assert pid == e["pid"]
            assert e["ph"] == "i" or not e["name"].startswith(("LLM", "TTS")) or e["name"].startswith(lane)
    for pid in processes:
        sort_index = {
            threads[e["tid"]][1]: e["args"]["sort_index"]
            for e in events
            if e["name"] == "thread_sort_index" and e["pid"] == pid
        }
        assert sorted(sort_index, key=sort_index.__getitem__) == [lane for lane in LANES if lane in sort_index]
        assert len(set(sort_index.values())) == len(sort_index) == sum(of == pid for of, _ in threads.values())


@given(st.integers(0, EXACT_BELOW_NS - 1) | st.integers(0, 10**6))
def test_microseconds_are_plain_decimals_and_exact(mark: int) -> None:
    turn = Turn("q", 0, "serial", "stepped", AudioMarks(AudioTime(mark)), error="any")
    numbers: list[str] = []
    json.loads(dumps(trace_events([turn])), parse_float=numbers.append)
    assert all(re.fullmatch(r"\d+\.\d{1,3}", number) for number in numbers)
    assert {Decimal(number) for number in numbers} == {Decimal(0), Decimal(mark) / 1000}


@given(complete_turns(), st.integers(EXACT_BELOW_NS, 10**30))
def test_what_microseconds_cannot_hold_is_refused(turn: Turn, far: int) -> None:
    assert turn.audio.endpoint is not None
    late = replace(turn, wall=replace(turn.wall, audio_end=WallTime(far)))
    with pytest.raises(ValueError, match="beyond"):
        trace_events([late])


@given(traced_turns())
def test_json_is_ascii_and_brings_back_the_same_trace(turns: list[Turn]) -> None:
    trace = trace_events(turns)
    assert json.loads(dumps(trace).encode("ascii")) == trace


@given(turns, words)
def test_turns_that_do_not_belong_together_make_no_trace(turn: Turn, query: str) -> None:
    others = [replace(turn, wiring="serial" if turn.wiring == "overlapped" else "overlapped")]
    others += [replace(turn, query=query)] if query != turn.query else []
    for other in others:
        with pytest.raises(ValueError, match="one query, wiring and mode"):
            trace_events([turn, other])


@given(traced_turns())
def test_each_turn_is_drawn_alike_alone_and_in_company(turns: list[Turn]) -> None:
    def picture(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{k: v for k, v in e.items() if k not in {"pid", "tid"}} for e in events]

    together = by_turn(trace_events(turns))
    assert [picture(events) for events in together] == [picture(by_turn(trace_events([t]))[0]) for t in turns]


@given(complete_turns())
def test_the_bars_of_the_answer_join_without_a_gap(turn: Turn) -> None:
    [events] = by_turn(read(dumps(trace_events([turn]))))
    bars = {e["name"]: e for e in events if e["ph"] == "X"}
    path = ["speech", "wait", "final transcript", "retrieval", "LLM: to first token", "LLM: answer"]
    for a, b in pairwise(path):
        assert bars[a]["ts"] + bars[a]["dur"] == bars[b]["ts"]
    assert bars["TTS: first chunk"]["ts"] + bars["TTS: first chunk"]["dur"] == bars["TTS: rest"]["ts"]
