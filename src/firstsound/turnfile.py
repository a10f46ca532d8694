"""Turns as lines of JSON (turns.jsonl), from which every figure of a run can be computed again."""

import json
from dataclasses import asdict
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from firstsound.clock import AudioTime, WallTime
from firstsound.errors import FirstsoundError
from firstsound.turn import AudioMarks, Cache, Live, Mode, Partial, Span, Speculation, Turn, WallMarks, Wiring, marks_ns

VERSION: Final = 1
_Ns = int | None
_Text = InstanceOf[str]
"""Any string: pydantic's own refuses half a surrogate pair, which a model may well write."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class _AudioMarks(_Strict):
    speech_end: int
    endpoint: _Ns


class _WallMarks(_Strict):
    final: _Ns
    retrieved: _Ns
    first_token: _Ns
    first_fragment: _Ns
    first_chunk: _Ns
    first_sound: _Ns
    answer_end: _Ns
    audio_end: _Ns


class _Span(_Strict):
    start: int
    end: int


class _Partial(_Span):
    text: _Text


class _Speculation(_Strict):
    attempts: int
    discarded: int
    wasted_deltas: int
    wasted_cpu_ns: int
    prefills: int = 0
    prefill_cpu_ns: int = 0
    failed_prefills: int = 0


class _Live(_Strict):
    timed_first_sound_ns: _Ns
    frame_lateness_ns: list[int]
    backlog_ns: _Ns
    partials_ns: list[_Partial]
    played_ns: list[_Span]
    underruns_ns: list[int]
    joint_jump: float | None
    heard: _Text
    took_ns: _Ns = None
    speculation: _Speculation | None = Field(default=None, exclude_if=lambda value: value is None)


class _Row(_Strict):
    version: Literal[1]
    query: _Text
    round: int
    wiring: Wiring
    mode: Mode
    audio_marks_ns: _AudioMarks
    wall_marks_ns: _WallMarks
    transcript: _Text
    passages: list[_Text]
    answer: _Text
    fragments: list[_Text]
    cache: Cache | None
    speech_start_ns: int | None = Field(default=None, exclude_if=lambda value: value is None)
    live: _Live | None = Field(default=None, exclude_if=lambda live: live is None)
    error: _Text | None


def to_json(turn: Turn) -> str:
    """One line of turns.jsonl, without the newline."""
    row = _Row(
        version=VERSION,
        query=turn.query,
        round=turn.round,
        wiring=turn.wiring,
        mode=turn.mode,
        audio_marks_ns=_AudioMarks.model_validate(marks_ns(turn.audio)),
        wall_marks_ns=_WallMarks.model_validate(marks_ns(turn.wall)),
        transcript=turn.transcript,
        passages=list(turn.passages),
        answer=turn.answer,
        fragments=list(turn.fragments),
        cache=turn.cache,
        speech_start_ns=None if turn.speech_start is None else turn.speech_start.ns,
        live=None if turn.live is None else _live_row(turn.live),
        error=turn.error,
    )
    # ASCII: an answer may hold half a surrogate pair, which no file takes, or a character at which a reader cuts lines.
    return json.dumps(row.model_dump(), allow_nan=False)


def from_json(line: str) -> Turn:
    """The turn of one line of turns.jsonl.

    Raises:
        FirstsoundError: the line is not JSON, has another version, or is not a valid turn.
    """
    try:
        values: Any = json.loads(line)
        if isinstance(values, dict) and values.get("version", VERSION) != VERSION:
            raise FirstsoundError(
                f"turns of version {values['version']!r} cannot be read; this firstsound writes {VERSION}"
            )
        row = _Row.model_validate(values)
        return Turn(
            query=row.query,
            round=row.round,
            wiring=row.wiring,
            mode=row.mode,
            audio=AudioMarks(AudioTime(row.audio_marks_ns.speech_end), _audio(row.audio_marks_ns.endpoint)),
            wall=WallMarks(**{name: _wall(ns) for name, ns in row.wall_marks_ns.model_dump().items()}),
            transcript=row.transcript,
            passages=tuple(row.passages),
            answer=row.answer,
            fragments=tuple(row.fragments),
            cache=row.cache,
            speech_start=_audio(row.speech_start_ns),
            live=None if row.live is None else _live(row.live),
            error=row.error,
        )
    except ValidationError as e:
        told = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in e.errors())
        raise FirstsoundError(f"not a turn: {told}: {line[:120]!r}") from e
    except ValueError as e:
        raise FirstsoundError(f"not a turn: {e}: {line[:120]!r}") from e


def _live_row(live: Live) -> _Live:
    return _Live(
        timed_first_sound_ns=None if live.timed_first_sound is None else live.timed_first_sound.ns,
        frame_lateness_ns=list(live.frame_lateness_ns),
        backlog_ns=live.backlog_ns,
        partials_ns=[_Partial(start=p.span.start.ns, end=p.span.end.ns, text=p.text) for p in live.partials],
        played_ns=[_Span(start=span.start.ns, end=span.end.ns) for span in live.played],
        underruns_ns=list(live.underruns_ns),
        joint_jump=live.joint_jump,
        heard=live.heard,
        took_ns=live.took_ns,
        speculation=None if live.speculation is None else _Speculation(**asdict(live.speculation)),
    )


def _live(row: _Live) -> Live:
    return Live(
        timed_first_sound=_wall(row.timed_first_sound_ns),
        frame_lateness_ns=tuple(row.frame_lateness_ns),
        backlog_ns=row.backlog_ns,
        partials=tuple(Partial(_span(p), p.text) for p in row.partials_ns),
        played=tuple(_span(span) for span in row.played_ns),
        underruns_ns=tuple(row.underruns_ns),
        joint_jump=row.joint_jump,
        heard=row.heard,
        took_ns=row.took_ns,
        speculation=None if row.speculation is None else Speculation(**row.speculation.model_dump()),
    )


def _span(row: _Span) -> Span:
    return Span(WallTime(row.start), WallTime(row.end))


def _audio(ns: int | None) -> AudioTime | None:
    return None if ns is None else AudioTime(ns)


def _wall(ns: int | None) -> WallTime | None:
    return None if ns is None else WallTime(ns)
