"""What a run tells its reader: the budget table, both wirings side by side, two waterfalls, what to shorten first."""

import io
import os
from collections.abc import Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from firstsound.budget import BYTES_PER_GIB, MEMORY_LINE, TIME_LINES, Verdict
from firstsound.clock import NS_PER_MS
from firstsound.percentile import rank
from firstsound.suite import ALL_WIRINGS, Results
from firstsound.turn import STAGES, Turn, first_sound_parts_ns, perceived_of_ns, stages_ns

BAR_WIDTH = 48
FEW_SAMPLES = 20
"""Below this many, the 95th percentile is the slowest sample."""
_MIB = 2**20


def _bound_wiring(results: Results) -> str:
    return next(wiring for wiring, force in results.inputs.budget.wirings.items() if force == "bind")


def _verdict(results: Results, line: str, wiring: str) -> Verdict | None:
    return results.verdict(line, wiring) if results.samples(line, wiring) else None


def _word(verdict: Verdict | None) -> str:
    if verdict is None:
        return "NOT MEASURED"
    if verdict.breaks:
        return "OVER"
    return "within" if verdict.within else "over (reported)"


def _rows(results: Results) -> tuple[list[str], list[list[str]]]:
    """The budget table: one row a line; for each wiring p50, p95 and verdict."""
    wirings = results.inputs.wirings
    header = ["line", "clock", "limit ms"]
    for wiring in wirings:
        header += [f"{wiring} p50", "p95", "margin", "verdict"]
    rows = []
    for line, clock in TIME_LINES.items():
        p50_limit, p95_limit = results.inputs.budget.limits(line)
        row = [line, clock, f"{p50_limit:g}" if p50_limit == p95_limit else f"{p50_limit:g} / {p95_limit:g}"]
        for wiring in wirings:
            verdict = _verdict(results, line, wiring)
            numbers = ["-"] * 3 if verdict is None else [f"{x:.1f}" for x in (verdict.p50, verdict.p95, verdict.margin)]
            row += [*numbers, _word(verdict)]
        rows.append(row)
    return header, rows


def _sample_note(results: Results) -> str:
    """How many samples stand behind the percentiles."""
    notes = []
    for wiring in results.inputs.wirings:
        n = len(results.samples("perceived", wiring))
        failed = len(results.failures(wiring))
        note = f"{wiring}: n={n}"
        if n:
            note += f", p95 is rank {rank(95, n)}"
            note += ", the slowest turn" if n < FEW_SAMPLES else ""
        notes.append(note + (f", {failed} FAILED" if failed else ""))
    return f"Profile {results.inputs.settings.profile}. Nearest rank; {'; '.join(notes)}."


def _saved(results: Results) -> str | None:
    """What the overlapped wiring saves against the serial one, at the median."""
    serial, overlapped = (_verdict(results, "perceived", w) for w in ("serial", "overlapped"))
    if serial is None or overlapped is None:
        return None
    after = {w: _median(results, w) for w in ("serial", "overlapped")}
    return (
        f"Overlapping saves {serial.p50 - overlapped.p50:.0f} ms of {serial.p50:.0f} ms at the median; after the "
        f"endpoint {after['serial']:.0f} ms become {after['overlapped']:.0f} ms, "
        f"{after['serial'] / max(after['overlapped'], 0.001):.1f} times shorter."
    )


def _median(results: Results, wiring: str) -> float:
    """The median of what follows the endpoint, in ms."""
    done = sorted(turn.wall.first_sound.ns for turn in results.measured(wiring) if turn.wall.first_sound is not None)
    return done[rank(50, len(done)) - 1] / NS_PER_MS


def _memory(results: Results) -> list[str]:
    verdict = _verdict(results, MEMORY_LINE, ALL_WIRINGS)
    if verdict is None:
        return ["memory: NOT MEASURED"]
    headroom = verdict.limit - results.peak_bytes
    python = results.peaks_bytes[os.getpid()]
    servers = [peak for pid, peak in results.peaks_bytes.items() if pid != os.getpid()]
    servers_bytes = sum(servers)
    lines = [
        (
            f"memory: p50 {verdict.p50 / _MIB:.0f} MiB, p95 {verdict.p95 / _MIB:.0f} MiB (PSS, rank {verdict.p95_rank} "
            f"of n={verdict.n}), limit {verdict.limit / _MIB:.0f} MiB: {_word(verdict)}"
        ),
        (
            f"  peaks (VmHWM): Python {python / _MIB:.0f} MiB, servers {servers_bytes / _MIB:.0f} MiB, together at "
            f"most {results.peak_bytes / _MIB:.0f} MiB; {headroom / _MIB:.0f} MiB are left: "
            f"{_room(headroom, servers_bytes)}"
        ),
    ]
    if (c := results.container) is not None:
        limit = "none" if c.limit_bytes is None else f"{c.limit_bytes / BYTES_PER_GIB:.1f} GiB"
        lines.append(
            f"  container: {c.usage_bytes / _MIB:.0f} MiB in use, of which {c.file_bytes / _MIB:.0f} MiB file cache "
            f"that can be reclaimed; its own limit: {limit}; OOM kills: {c.oom_kills}"
        )
    return lines


def _room(headroom_bytes: float, server_bytes: int) -> str:
    """Whether one more model of this size would fit."""
    if not server_bytes:
        return "no server was measured"
    more = int(headroom_bytes // server_bytes)
    return f"room for {more} more servers of this size" if more > 0 else "no room for another server of this size"


def _quality(results: Results) -> list[str]:
    lines = []
    for wiring in results.inputs.wirings:
        rounds = [q for q in results.quality if q.wiring == wiring]
        hits = [q.hit_at_1 for q in rounds if q.hit_at_1 is not None]
        hit = f"hit@1 at least {min(hits):.3f}" if hits else "hit@1 not measured (no clip names its passage)"
        lines.append(
            f"quality, {wiring}: word error rate at most {max(q.word_error_rate for q in rounds):.3f} a round, {hit}, "
            f"{sum(q.early_endpoints for q in rounds)} early endpoints, "
            f"{sum(q.silent_answers for q in rounds)} silent answers"
        )
    return lines


def _failures(results: Results) -> list[str]:
    return [f"FAILED {turn.name}: {turn.error}" for turn in results.turns if turn.error is not None]


def _shorten(results: Results) -> str:
    """The stage to shorten first, in the wiring that binds: the one most over its limit, else the longest."""
    wiring = _bound_wiring(results)
    verdicts = [v for stage in STAGES if (v := _verdict(results, stage, wiring)) is not None]
    if not verdicts:
        return "Nothing was measured."
    over = [v for v in verdicts if v.exceeded]
    if over:
        worst = max(over, key=lambda v: max(e.observed / e.limit for e in v.exceeded))
        e = max(worst.exceeded, key=lambda e: e.observed / e.limit)
        return f"Shorten first: {worst.line} ({wiring}): p{e.percentile} {e.observed:.0f} ms against {e.limit:.0f} ms."
    longest = max(verdicts, key=lambda v: v.p50)
    text = (
        f"All stages keep their limits. Shorten first: {longest.line} ({wiring}), the longest with {longest.p50:.0f} ms"
    )
    wall = max((v for v in verdicts if TIME_LINES[v.line] == "wall"), key=lambda v: v.p50, default=longest)
    return text + ("." if wall is longest else f"; after the endpoint: {wall.line} with {wall.p50:.0f} ms.")


def _waterfalls(results: Results) -> list[str]:
    """The median and the slowest turn of the binding wiring, drawn to one scale."""
    wiring = _bound_wiring(results)
    turns = sorted((t for t in results.measured(wiring) if t.error is None), key=perceived_of_ns)
    if not turns:
        return []
    slowest_ns = perceived_of_ns(turns[-1])
    lines = []
    for title, turn in (("median", turns[rank(50, len(turns)) - 1]), ("slowest", turns[-1])):
        lines.append(f"{title} turn: {turn.name}: {perceived_of_ns(turn) / NS_PER_MS:.0f} ms ({turn.cache} prompt)")
        lines += _bars(turn, slowest_ns)
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
    """The report as text of at most `width` columns, where the table allows."""
    header, rows = _rows(results)
    title = "firstsound: the silence before the answer, in ms"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in header:
        justify: Literal["left", "right"] = "left" if name in {"line", "clock", "verdict"} else "right"
        table.add_column(name.replace(" ", "\n"), justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out = io.StringIO()
    console = Console(file=out, width=max(width, 120), highlight=False, markup=False, emoji=False)
    console.print(table)
    for line in _story(results):
        console.print(Text(line), soft_wrap=True)
    return out.getvalue()


def _story(results: Results) -> list[str]:
    saved = _saved(results)
    return [
        _sample_note(results),
        *([saved] if saved else []),
        *_memory(results),
        *_quality(results),
        *_waterfalls(results),
        _shorten(results),
        *_failures(results),
    ]


def markdown(results: Results) -> str:
    """The report for a job page."""
    header, rows = _rows(results)
    lines: Sequence[str] = [
        "### firstsound",
        "",
        *("| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)),
        "",
        "```text",
        # A fence inside what was transcribed must not end this one.
        *(line.replace("```", "'''") for line in _story(results)),
        "```",
        "",
    ]
    return "\n".join(lines)
