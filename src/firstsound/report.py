"""What a run tells its reader: the budget tables, both wirings side by side, two waterfalls, what to shorten first."""

import io
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from firstsound.budget import ALL_WIRINGS, BYTES_PER_GIB, CLOSURE_LINE, MEMORY_LINE, TIME_LINES, Line, Verdict
from firstsound.clock import NS_PER_MS, NS_PER_S
from firstsound.percentile import nearest_rank, rank
from firstsound.quality import Quality
from firstsound.suite import SUMMARY_TITLE, Results, clock_of, faults, telling
from firstsound.turn import (
    MODES,
    STAGES,
    Live,
    Mode,
    Turn,
    Wiring,
    closure_ns,
    first_sound_parts_ns,
    perceived_of_ns,
    stages_ns,
)

BAR_WIDTH = 48
MIN_WIDTH = 150
"""What the table of three wirings needs."""
FEW_SAMPLES = 20
"""Below this many, the 95th percentile is the slowest sample."""
_MIB = 2**20


def _bound_wiring(results: Results, mode: Mode) -> Wiring:
    """The wiring that must keep its budget; the last, which is the fastest, where there are several."""
    wirings = results.inputs.wirings_of(mode)
    bound = [wiring for wiring in wirings if results.inputs.budget.wirings[wiring] == "bind"]
    return (bound or wirings)[-1]


def _word(results: Results, verdict: Verdict | None) -> str:
    if verdict is None:
        return "NOT MEASURED"
    if verdict.breaks:
        return "OVER"
    if faults(results, verdict.line):
        return "FAILED"
    return "over (reported)" if verdict.exceeded else "within"


def _names(mode: Mode) -> list[str]:
    return [*TIME_LINES, *([CLOSURE_LINE] if mode == "live" else [])]


def _rows(results: Results, mode: Mode) -> tuple[list[str], list[list[str]]]:
    """The budget table of a mode: one row a line; for each wiring p50, p95 and verdict."""
    wirings = results.inputs.wirings_of(mode)
    header = ["line", "clock", "limit ms"]
    for wiring in wirings:
        header += [f"{wiring} p50", "p95", "margin", "verdict"]
    rows = []
    for name in _names(mode):
        p50_limit, p95_limit = results.inputs.budget.limits(name)
        row = [name, clock_of(name), f"{p50_limit:g}" if p50_limit == p95_limit else f"{p50_limit:g} / {p95_limit:g}"]
        for wiring in wirings:
            verdict = results.verdict(Line(name, mode, wiring))
            numbers = ["-"] * 3
            if verdict is not None:
                numbers = [f"{x:.1f}" for x in (verdict.p50.observed, verdict.p95.observed, verdict.margin)]
            row += [*numbers, _word(results, verdict)]
        rows.append(row)
    return header, rows


def _sample_note(results: Results, mode: Mode) -> str:
    """How many samples stand behind the percentiles."""
    notes = []
    for wiring in results.inputs.wirings_of(mode):
        n = len(results.completed(mode, wiring))
        failed = len(results.failures(mode, wiring))
        note = f"{wiring}: n={n}"
        if n:
            note += f", p95 is rank {rank(95, n)}"
            note += ", the slowest turn" if n < FEW_SAMPLES else ""
        prompts = Counter(turn.cache for turn in results.completed(mode, wiring))
        note += "".join(f", {count} {cache}" for cache, count in sorted(prompts.items(), key=str))
        notes.append(note + (f", {failed} FAILED" if failed else ""))
    return f"Profile {results.inputs.settings.profile}. Nearest rank; turns and their prompts: {'; '.join(notes)}."


def _saved(results: Results, mode: Mode) -> list[str]:
    """What the other wirings save against the serial one, at the median."""
    verdicts = {w: results.verdict(Line("perceived", mode, w)) for w in results.inputs.wirings_of(mode)}
    serial = verdicts.pop("serial", None)
    if serial is None:
        return []
    before_ms = _after_endpoint_ms(results, mode, "serial")
    lines = []
    for wiring, verdict in verdicts.items():
        if verdict is not None:
            after_ms = _after_endpoint_ms(results, mode, wiring)
            lines.append(
                f"{wiring} saves {serial.p50.observed - verdict.p50.observed:.0f} ms of {serial.p50.observed:.0f} ms "
                f"at the median; after the endpoint {before_ms:.0f} ms become {after_ms:.0f} ms, "
                f"{before_ms / max(after_ms, 0.001):.1f} times shorter."
            )
    return lines


def _after_endpoint_ms(results: Results, mode: Mode, wiring: Wiring) -> float:
    """The median of what follows the endpoint."""
    marks = [turn.wall.first_sound for turn in results.completed(mode, wiring)]
    return nearest_rank([mark.ns for mark in marks if mark is not None], 50) / NS_PER_MS


def _memory(results: Results) -> list[str]:
    verdicts = {mode: results.verdict(Line(MEMORY_LINE, mode, ALL_WIRINGS)) for mode in results.inputs.modes}
    lines = []
    for mode, verdict in verdicts.items():
        if verdict is None:
            lines.append(f"memory, {mode}: NOT MEASURED")
        else:
            p50, p95 = verdict.p50, verdict.p95
            lines.append(
                f"memory, {mode}: p50 {p50.observed / _MIB:.0f} MiB, p95 {p95.observed / _MIB:.0f} MiB (PSS, rank "
                f"{p95.rank} of n={verdict.n}), limit {p50.limit / _MIB:.0f} MiB: {_word(results, verdict)}"
            )
    python = results.peaks_bytes[os.getpid()]
    servers_bytes = sum(peak for pid, peak in results.peaks_bytes.items() if pid != os.getpid())
    headroom = results.inputs.budget.limits(MEMORY_LINE)[0] - results.peak_bytes
    lines.append(
        f"  peaks (VmHWM): Python {python / _MIB:.0f} MiB, servers {servers_bytes / _MIB:.0f} MiB, together at "
        f"most {results.peak_bytes / _MIB:.0f} MiB; {headroom / _MIB:.0f} MiB are left: "
        f"{_room(headroom, servers_bytes)}"
    )
    if (c := results.container) is not None:
        limit = "none" if c.limit_bytes is None else f"{c.limit_bytes / BYTES_PER_GIB:.1f} GiB"
        lines.append(
            f"  container: {c.unreclaimable_bytes / _MIB:.0f} MiB in use and {c.file_bytes / _MIB:.0f} MiB of file "
            f"cache that can be reclaimed; its own limit: {limit}"
        )
    return lines


def _room(headroom_bytes: float, server_bytes: int) -> str:
    """Whether one more model of this size would fit."""
    if not server_bytes:
        return "no server was measured"
    more = int(headroom_bytes // server_bytes)
    return f"room for {more} more servers of this size" if more > 0 else "no room for another server of this size"


def _quality(results: Results, mode: Mode) -> list[str]:
    lines = []
    for wiring in results.inputs.wirings_of(mode):
        rounds = [q for q in results.quality if (q.mode, q.wiring) == (mode, wiring)]
        if not rounds:
            lines.append(f"quality, {wiring}: NOT MEASURED")
            continue
        hits = [q.hit_at_1 for q in rounds if q.hit_at_1 is not None]
        hit = f"hit@1 at least {min(hits):.3f}" if hits else "hit@1 not measured (no clip names its passage)"
        lines.append(
            f"quality, {wiring}: word error rate at most {max(q.word_error_rate for q in rounds):.3f} a round, {hit}, "
            f"{sum(q.early_endpoints for q in rounds)} early endpoints, "
            f"{sum(q.silent_answers for q in rounds)} silent answers"
        )
        if mode == "live":
            lines += _heard(results, wiring, rounds)
    return lines


def _heard(results: Results, wiring: Wiring, rounds: Sequence[Quality]) -> list[str]:
    """How well the live turns were fed, played and understood."""
    lives = [turn.live for turn in results.measured("live", wiring) if turn.live is not None]
    backlogs_ms = [live.backlog_ns / NS_PER_MS for live in lives if live.backlog_ns is not None]
    backlog = (
        f"p50 {nearest_rank(backlogs_ms, 50):.0f} ms, at most {max(backlogs_ms):.0f} ms"
        if backlogs_ms
        else "not measured: it does not stream"
    )
    committed = sum(q.committed_words or 0 for q in rounds)
    changed = sum(q.changed_words or 0 for q in rounds)
    devices = (
        f"  microphone: frames late by {_worst(q.frame_lateness_ms for q in rounds)} ms (p95 of the worst turn); "
        f"loudspeaker: {sum(q.underruns or 0 for q in rounds)} underruns, largest step at a joint "
        f"{_worst(q.joint_jump for q in rounds)} of full scale; "
        f"the turns took {_worst(q.pace for q in rounds)} times the length of their clips and answers"
    )
    understanding = (
        f"  recognizer: backlog at the endpoint {backlog}; {changed} of {committed} committed words changed; recorded "
        f"answers understood with a word error rate of {_worst(q.answer_word_error_rate for q in rounds)}, their first "
        f"fragments with {_worst(q.fragment_word_error_rate for q in rounds)}; "
        f"{sum(q.lost_answers or 0 for q in rounds)} lost"
    )
    return [devices, understanding, *_speculated(lives)]


def _speculated(lives: Sequence[Live]) -> list[str]:
    """What answering ahead came to, where it was done."""
    known = [live.speculation for live in lives if live.speculation is not None]
    if not known:
        return []
    if not any(s.attempts for s in known):
        return ["  speculation: NONE: the stack gave no partial transcript in a pause (new_transcription)"]
    discarded, attempts = sum(s.discarded for s in known), sum(s.attempts for s in known)
    tokens, cpu_s = sum(s.wasted_deltas for s in known), sum(s.wasted_cpu_ns for s in known) / NS_PER_S
    told = (
        f"  speculation: {discarded} of {attempts} attempts discarded; wasted: {tokens} tokens, {cpu_s:.1f} s of CPU; "
        f"{sum(s.prefills for s in known)} prompts read ahead, {sum(s.prefill_cpu_ns for s in known) / NS_PER_S:.1f} s"
        + (f", {failed} FAILED" if (failed := sum(s.failed_prefills for s in known)) else "")
    )
    return [told]


def _worst(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{max(known):.3g}" if known else "NOT MEASURED"


def _modes_compared(results: Results) -> list[str]:
    """Each stage's median stepped and live, side by side."""
    if len(results.inputs.modes) < len(MODES):
        return []
    lines = ["stepped -> live, p50 in ms:"]
    for wiring in results.inputs.wirings_of("stepped"):
        told = []
        for name in TIME_LINES:
            stepped, live = (results.verdict(Line(name, mode, wiring)) for mode in MODES)
            if stepped is None or live is None:
                told.append(f"{name} not measured")
                continue
            before, after = stepped.p50.observed, live.p50.observed
            # A share of next to nothing tells nothing.
            change = f" ({100 * (after / before - 1):+.0f} %)" if before >= 1 else ""
            told.append(f"{name} {before:.0f} -> {after:.0f}{change}")
        lines.append(f"  {wiring}: {', '.join(told)}")
    return lines


def _failures(results: Results) -> list[str]:
    return [f"FAILED {turn.name}: {turn.error}" for turn in results.turns if turn.error is not None]


def _shorten(results: Results, mode: Mode) -> str:
    """The stage to shorten first, in the wiring that binds: the one most over its limit, else the longest."""
    wiring = _bound_wiring(results, mode)
    verdicts = [v for stage in STAGES if (v := results.verdict(Line(stage, mode, wiring))) is not None]
    if not verdicts:
        return "Nothing was measured."
    over = [held for v in verdicts for held in v.exceeded]
    if over:
        held = max(over, key=lambda held: held.observed / held.limit)
        worst = next(v.line for v in verdicts if held in v.exceeded)
        return f"Shorten first: {worst}: p{held.percentile} {held.observed:.0f} ms against {held.limit:.0f} ms."
    longest = max(verdicts, key=lambda v: v.p50.observed)
    text = (
        f"All stages keep their limits. Shorten first: {longest.line}, the longest with {longest.p50.observed:.0f} ms"
    )
    after = max((v for v in verdicts if clock_of(v.line.name) == "wall"), key=lambda v: v.p50.observed, default=longest)
    return text + (
        "." if after is longest else f"; after the endpoint: {after.line.name} with {after.p50.observed:.0f} ms."
    )


def _waterfalls(results: Results, mode: Mode) -> list[str]:
    """The median and the slowest turn of the binding wiring, drawn to one scale."""
    turns = telling(results, mode, _bound_wiring(results, mode))
    lines = []
    for title, turn in turns.items():
        lines.append(f"{title} turn: {turn.name}: {perceived_of_ns(turn) / NS_PER_MS:.0f} ms ({turn.cache} prompt)")
        lines += _bars(turn, perceived_of_ns(turns["slowest"]))
    return lines


def _bars(turn: Turn, scale_ns: int) -> list[str]:
    lines = []
    start_ns = 0
    for stage, ns in stages_ns(turn).items():
        left = round(start_ns / scale_ns * BAR_WIDTH)
        width = max(round(ns / scale_ns * BAR_WIDTH), 1)
        parts = ""
        if stage == "first_sound":
            told = ", ".join(f"{part} {p / NS_PER_MS:.0f}" for part, p in first_sound_parts_ns(turn).items())
            parts = f" ({told})"
        bar = f"{' ' * left}{'█' * width}".ljust(BAR_WIDTH + 1)
        lines.append(f"  {stage:<12}{bar}{ns / NS_PER_MS:7.1f} ms{parts}")
        start_ns += ns
    return lines


def terminal(results: Results, width: int) -> str:
    """The report as text of at most `width` columns, where the tables allow."""
    out = io.StringIO()
    console = Console(file=out, width=max(width, MIN_WIDTH), highlight=False, markup=False, emoji=False)
    for mode in results.inputs.modes:
        header, rows = _rows(results, mode)
        title = f"firstsound: the silence before the answer, {_MODE_TITLES[mode]}, in ms"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for name in header:
            justify: Literal["left", "right"] = "left" if name in {"line", "clock", "verdict"} else "right"
            table.add_column(name.replace(" ", "\n"), justify=justify, no_wrap=True)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        for line in _too_busy(results, mode):
            console.print(Text(line), soft_wrap=True)
        console.print(table)
        for line in _story(results, mode):
            console.print(Text(line), soft_wrap=True)
        console.print()
    for line in _epilogue(results):
        console.print(Text(line), soft_wrap=True)
    return out.getvalue()


_MODE_TITLES: dict[Mode, str] = {"stepped": "stepped", "live": "live, off the recordings"}


def _story(results: Results, mode: Mode) -> list[str]:
    return [
        _sample_note(results, mode),
        *_saved(results, mode),
        *_quality(results, mode),
        *_waterfalls(results, mode),
        _shorten(results, mode),
    ]


def _too_busy(results: Results, mode: Mode) -> list[str]:
    """What stands in place of the figures of a mode that was not fed in time."""
    rounds = results.too_busy(mode)
    if not rounds:
        return []
    most_ms = results.inputs.budget.guards.frame_lateness_ms.max
    where = ", ".join(f"{q.wiring} round {q.round} ({q.frame_lateness_ms:.1f} ms)" for q in rounds)
    told = (
        f"TOO BUSY: the microphone's frames came more than {most_ms:g} ms late in {where}. What a machine measures "
        "that cannot feed audio in time is no figure, so none is given: run it again when the machine is free."
    )
    return [told]


def _epilogue(results: Results) -> list[str]:
    return [*_modes_compared(results), *_memory(results), *_failures(results)]


def markdown(results: Results) -> str:
    """The report for a job page."""
    lines = [SUMMARY_TITLE, ""]
    for mode in results.inputs.modes:
        header, rows = _rows(results, mode)
        lines += [f"#### {_MODE_TITLES[mode]}", "", *_too_busy(results, mode), ""]
        lines += ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]
        lines += _fenced(_story(results, mode))
    if "live" in results.inputs.modes:
        lines += _silences(results)
    return "\n".join([*lines, *_fenced(_epilogue(results))])


def _silences(results: Results) -> list[str]:
    """The recorded silence of every live turn against the sum of its marks, in ms, a row a turn."""
    rows = [
        (turn.query, turn.round, turn.wiring, perceived_of_ns(turn), closure_ns(turn))
        for wiring in results.inputs.wirings_of("live")
        for turn in results.completed("live", wiring)
    ]
    cells = [
        f"| {query} | {round_} | {wiring} | {silence / NS_PER_MS:.1f} | {(silence - lost) / NS_PER_MS:.1f} | "
        f"{lost / NS_PER_MS:+.2f} |"
        for query, round_, wiring, silence, lost in rows
    ]
    head = ["| query | round | wiring | recorded silence, ms | sum of the marks, ms | closure, ms |", "|---" * 6 + "|"]
    title = f"The recorded silence against the sum of the marks, {len(rows)} live turns"
    return ["", f"<details><summary>{title}</summary>", "", *head, *cells, "", "</details>", ""]


def _fenced(lines: Sequence[str]) -> list[str]:
    # A fence inside what was transcribed must not end this one.
    return ["", "```text", *(line.replace("```", "'''") for line in lines), "```", ""]
