"""Turns as a Chrome trace: one process a turn, one thread a stage, so that what ran at the same time lies side by side.

Time is microseconds since the clip's first sample; marks of the wall clock are drawn after the endpoint. Perfetto and
the older trace viewer open it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firstsound.clock import NS_PER_US, AudioTime, WallTime, since_first_sample_ns
from firstsound.turn import WARM_UP_ROUND, Turn, marks_ns

EXACT_BELOW_NS = 10**15
"""Up to here (eleven days) nanoseconds survive as a JSON number of microseconds, without an exponent."""

_LANES = (
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
)
_PID_STEP = 100
"""Process ids are its multiples and thread ids follow theirs: Perfetto takes a thread with the id of any process for
that process's main thread."""


@dataclass(frozen=True, slots=True)
class _Bar:
    """A stage as it is drawn: from one mark to another."""

    lane: str
    name: str
    start: str
    end: str


_START = "speech_start"
# A viewer drops what overlaps on one lane: the bars of a lane must follow each other, mark by mark.
_BARS = (
    _Bar("user", "speech", _START, "speech_end"),
    _Bar("endpointer", "wait", "speech_end", "endpoint"),
    _Bar("recognizer", "final transcript", "endpoint", "final"),
    _Bar("retriever", "retrieval", "final", "retrieved"),
    _Bar("LLM", "LLM: to first token", "retrieved", "first_token"),
    _Bar("LLM", "LLM: answer", "first_token", "answer_end"),
    _Bar("TTS", "TTS: first chunk", "first_fragment", "first_chunk"),
    _Bar("TTS", "TTS: rest", "first_chunk", "audio_end"),
    _Bar("loudspeaker", "lead-in silence", "first_chunk", "first_sound"),
    _Bar("silence", "perceived silence", "speech_end", "first_sound"),
)


@dataclass(frozen=True, slots=True)
class _Event:
    """Something on a lane; a moment has no duration at all, a bar may have one of zero."""

    lane: str
    name: str
    at_ns: int
    duration_ns: int | None
    args: dict[str, Any]


def trace_events(turns: Sequence[Turn]) -> dict[str, Any]:
    """The trace of `turns`, which are all of one query, wiring and mode: an object in Chrome's Trace Event Format.

    A stage of which only one end was reached is drawn as a moment that names the missing mark.

    Raises:
        ValueError: there are no turns, or they do not belong together, or a mark is eleven days away.
    """
    kinds = {(turn.query, turn.wiring, turn.mode) for turn in turns}
    if len(kinds) != 1:
        raise ValueError(f"a trace shows turns of one query, wiring and mode, not of {sorted(kinds) or 'none'}")
    [(query, wiring, mode)] = kinds
    metadata: list[dict[str, Any]] = []
    drawn: list[tuple[int, _Event]] = []
    for i, turn in enumerate(turns):
        pid = _PID_STEP * (i + 1)
        events = _events(turn)
        metadata += _metadata(pid, i, turn, {event.lane for event in events})
        drawn += [(pid, event) for event in events]
    drawn.sort(key=lambda pair: (pair[1].at_ns, -(pair[1].duration_ns or 0)))
    return {
        "traceEvents": metadata + [_chrome(pid, event) for pid, event in drawn],
        "displayTimeUnit": "ms",
        "otherData": {"query": query, "wiring": wiring, "mode": mode, "origin": "the first sample of the clip"},
    }


def dumps(trace: dict[str, Any]) -> str:
    """The trace as strict JSON.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(trace, allow_nan=False)


def _events(turn: Turn) -> list[_Event]:
    marks = marks_ns(turn.audio) | marks_ns(turn.wall)
    at = _axis_ns(turn)
    said = _said(turn)
    events = []
    for bar in _BARS:
        ends = [name for name in (bar.start, bar.end) if name in at]
        args: dict[str, Any] = {"marks_ns": {name: marks[name] for name in ends if name in marks}}
        args |= said.get(bar.name, {})
        match ends:
            case [start, end] if at[start] <= at[end]:
                length = at[end] - at[start]
                events.append(_Event(bar.lane, bar.name, at[start], length, {"ns": length} | args))
            case [start, end]:
                length = at[start] - at[end]
                name = f"{bar.name}: {end} before {start}"
                events.append(_Event(bar.lane, name, at[end], length, {"ns": -length} | args))
            case [only]:
                missing = bar.end if only == bar.start else bar.start
                events.append(_Event(bar.lane, f"{bar.name}: no {missing}", at[only], None, args))
    events += _live_events(turn)
    if "first_sound" in at:
        args = {"marks_ns": {"first_sound": marks["first_sound"]}}
        events.append(_Event("loudspeaker", "first sound", at["first_sound"], None, args))
    if turn.error is not None:
        last_ns = max([*at.values(), *(event.at_ns + (event.duration_ns or 0) for event in events)])
        events.append(_Event("error", "error", last_ns, None, {"error": turn.error}))
    return events


def _live_events(turn: Turn) -> list[_Event]:
    """What only a live turn has: its partial transcripts, and what was on the loudspeaker when."""
    if turn.live is None or turn.audio.endpoint is None:
        return []
    events = []
    for partial in turn.live.partials:
        start, end = (_on_axis_ns(turn.audio.endpoint, at) for at in (partial.span.start, partial.span.end))
        args: dict[str, Any] = {"ns": end - start, "transcript": partial.text}
        events.append(_Event("partials", "partial transcript", start, end - start, args))
    for span in turn.live.played:
        start, end = (_on_axis_ns(turn.audio.endpoint, at) for at in (span.start, span.end))
        events.append(_Event("playback", "answer is heard", start, end - start, {"ns": end - start}))
    if (timed := turn.live.timed_first_sound) is not None:
        at_ns = _on_axis_ns(turn.audio.endpoint, timed)
        events.append(_Event("loudspeaker", "first sound by the marks", at_ns, None, {"ns": timed.ns}))
    return events


def _on_axis_ns(endpoint: AudioTime, moment: WallTime) -> int:
    """A moment on the trace's axis; what an endpointer that lags behind let happen before the clip is drawn at 0."""
    return max(0, since_first_sample_ns(endpoint, moment))


def _axis_ns(turn: Turn) -> dict[str, int]:
    """The marks that were reached and the beginning of speech, all on the trace's axis; without its label, from 0."""
    at = {_START: 0 if turn.speech_start is None else turn.speech_start.ns, "speech_end": turn.audio.speech_end.ns}
    endpoint = turn.audio.endpoint
    if endpoint is not None:
        at["endpoint"] = endpoint.ns
        wall = marks_ns(turn.wall)
        at |= {name: since_first_sample_ns(endpoint, WallTime(ns)) for name, ns in wall.items() if ns is not None}
    last = max(at, key=at.__getitem__)
    if at[last] >= EXACT_BELOW_NS:
        raise ValueError(
            f"{turn.name}: mark {last} is {at[last]} ns after the first sample, beyond what a trace can show"
        )
    return at


def _said(turn: Turn) -> dict[str, dict[str, Any]]:
    """What a bar tells besides its marks."""
    return {
        "final transcript": {"transcript": turn.transcript},
        "retrieval": {"passages": list(turn.passages)},
        "LLM: to first token": {"cache": turn.cache},
        "LLM: answer": {"answer": turn.answer},
        "TTS: first chunk": {"fragments": list(turn.fragments[:1])},
        "TTS: rest": {"fragments": list(turn.fragments[1:])},
    }


def _metadata(pid: int, index: int, turn: Turn, lanes: set[str]) -> list[dict[str, Any]]:
    """The events that name a turn and its lanes and put them in order."""
    which = "warm-up" if turn.round == WARM_UP_ROUND else f"round {turn.round}"
    events: list[dict[str, Any]] = [
        {
            "ph": "M",
            "name": "process_name",
            "pid": pid,
            "args": {"name": f"{turn.query} {turn.mode} {turn.wiring}, {which}"},
        },
        {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": index}},
    ]
    for i, lane in enumerate(_LANES):
        if lane in lanes:
            tid = _tid(pid, lane)
            events += [
                {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": lane}},
                {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": i}},
            ]
    return events


def _tid(pid: int, lane: str) -> int:
    return pid + 1 + _LANES.index(lane)


def _chrome(pid: int, event: _Event) -> dict[str, Any]:
    """The event as Chrome writes it: a complete event, or an instant one."""
    where = {"name": event.name, "pid": pid, "tid": _tid(pid, event.lane), "ts": event.at_ns / NS_PER_US}
    if event.duration_ns is None:
        return {"ph": "i", "s": "t", **where, "args": event.args}
    return {"ph": "X", **where, "dur": event.duration_ns / NS_PER_US, "args": event.args}
