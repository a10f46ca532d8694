"""What must hold beside speed: the words were understood, the passage was found, nobody was cut off, sound came."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

import jiwer

from firstsound.budget import AtMost, Budget
from firstsound.clock import NS_PER_MS, NS_PER_S
from firstsound.manifest import Clip
from firstsound.percentile import nearest_rank
from firstsound.stages import SAMPLE_RATE_HZ
from firstsound.text import words
from firstsound.turn import Mode, Turn, Wiring

_ALWAYS = ("word_error_rate", "hit_at_1", "early_endpoints", "silent_answers")
GUARDS: dict[Mode, tuple[str, ...]] = {
    "stepped": _ALWAYS,
    "live": (
        *_ALWAYS,
        "frame_lateness_ms",
        "underruns",
        "answer_word_error_rate",
        "fragment_word_error_rate",
        "lost_answers",
        "joint_jump",
        "pace",
    ),
}
LOST_WORD_ERROR_RATE = 0.5


@dataclass(frozen=True, slots=True)
class Quality:
    """The guarded figures of one round of one mode and wiring; None where there was nothing to measure."""

    mode: Mode
    wiring: Wiring
    round: int
    word_error_rate: float
    """Over all clips of the round: edits per word of the true texts."""
    hit_at_1: float | None
    """Share of turns whose first passage is the expected one; None where no clip names its passage."""
    early_endpoints: int
    silent_answers: int
    frame_lateness_ms: float | None = None
    """Live: the 95th percentile of the lateness of the microphone's frames, in the turn where it is the largest."""
    underruns: int | None = None
    """Live: how often the loudspeaker had nothing to play in the middle of an answer."""
    answer_word_error_rate: float | None = None
    """Live: edits per word of the answers, in what the recognizer makes of their recordings."""
    fragment_word_error_rate: float | None = None
    """Live: the same of the answers' first fragments, against as many words from the beginning of what was heard."""
    lost_answers: int | None = None
    """Live: answers of which at least half the words were not understood."""
    told: Mapping[str, str] = field(default_factory=dict)
    """By guard, what a reader needs who asks which turns it was."""
    joint_jump: float | None = None
    """Live: the largest step between samples where a chunk begins or ends; full scale is 1."""
    pace: float | None = None
    """Live: how long the turns took, as a multiple of the length of their clips and spoken answers."""
    committed_words: int | None = None
    """Live: words on which two partial transcripts in a row agreed (Macháček et al. 2023, LocalAgreement-2)."""
    changed_words: int | None = None
    """Live: those of them that the final transcript has otherwise."""


def assess(clips: Sequence[Clip], turns: Sequence[Turn]) -> Quality:
    """The figures of one round of one mode and wiring, failed turns included.

    Raises:
        ValueError: there are no turns, or they are not all of one round, mode and wiring.
    """
    kinds = {(turn.mode, turn.wiring, turn.round) for turn in turns}
    if len(kinds) != 1:
        raise ValueError(f"the turns of one round, mode and wiring are assessed together, not of {sorted(kinds)}")
    (mode, wiring, round_) = kinds.pop()
    by_query: Mapping[str, Clip] = {clip.query: clip for clip in clips}
    references = [words(by_query[turn.query].text) for turn in turns]
    expected = [(by_query[turn.query].expected_passage, turn.passages) for turn in turns]
    hits = [passages[:1] == (passage,) for passage, passages in expected if passage is not None]
    return Quality(
        mode=mode,
        wiring=wiring,
        round=round_,
        word_error_rate=jiwer.wer(references, [words(turn.transcript) for turn in turns]),
        hit_at_1=sum(hits) / len(hits) if hits else None,
        early_endpoints=sum(
            turn.audio.endpoint is not None and turn.audio.endpoint < turn.audio.speech_end for turn in turns
        ),
        silent_answers=sum(not turn.answer.strip() or turn.wall.first_sound is None for turn in turns),
        told=_tell(by_query, turns),
        **(_assess_live(by_query, turns) if mode == "live" else {}),
    )


def _tell(by_query: Mapping[str, Clip], turns: Sequence[Turn]) -> dict[str, str]:
    told: dict[str, list[str]] = {}
    for turn in turns:
        clip = by_query[turn.query]
        if _word_error_rate([(words(clip.text), words(turn.transcript))]):
            told.setdefault("word_error_rate", []).append(f"{turn.query}: {turn.transcript!r} for {clip.text!r}")
        if clip.expected_passage is not None and turn.passages[:1] != (clip.expected_passage,):
            found = turn.passages[0] if turn.passages else "nothing"
            told.setdefault("hit_at_1", []).append(f"{turn.query}: {found} for {clip.expected_passage}")
        if turn.live and words(turn.answer) and (_heard_wrong(turn) or 0) >= LOST_WORD_ERROR_RATE:
            for guard in ("answer_word_error_rate", "lost_answers"):
                told.setdefault(guard, []).append(f"{turn.query}: heard {turn.live.heard!r} of {turn.answer!r}")
    return {guard: "; ".join(which) for guard, which in told.items()}


def _heard_wrong(turn: Turn) -> float | None:
    return _word_error_rate([(words(turn.answer), words(turn.live.heard if turn.live else ""))])


def _assess_live(by_query: Mapping[str, Clip], turns: Sequence[Turn]) -> dict[str, Any]:
    lives = [turn.live for turn in turns if turn.live is not None]
    lateness_ns = [nearest_rank(live.frame_lateness_ns, 95) for live in lives if live.frame_lateness_ns]
    # An answer that was never spoken counts as words that were not heard.
    answers = [(words(turn.answer), words(turn.live.heard if turn.live else "")) for turn in turns]
    answers = [(said, heard) for said, heard in answers if said]
    fragments = [(words(turn.fragments[0]), turn.live) for turn in turns if turn.live and turn.fragments]
    heads = [(said, " ".join(words(live.heard).split()[: len(said.split())])) for said, live in fragments if said]
    jumps = [live.joint_jump for live in lives if live.joint_jump is not None]
    changes = [
        word_changes([partial.text for partial in turn.live.partials], turn.transcript)
        for turn in turns
        if turn.live and turn.transcript
    ]
    return {
        "frame_lateness_ms": max(lateness_ns) / NS_PER_MS if lateness_ns else None,
        "underruns": sum(len(live.underruns_ns) for live in lives),
        "answer_word_error_rate": _word_error_rate(answers),
        "fragment_word_error_rate": _word_error_rate(heads),
        "lost_answers": sum((_word_error_rate([pair]) or 0) >= LOST_WORD_ERROR_RATE for pair in answers),
        "joint_jump": max(jumps, default=None),
        "pace": _pace(by_query, turns),
        "committed_words": sum(committed for committed, _ in changes),
        "changed_words": sum(changed for _, changed in changes),
    }


def _pace(by_query: Mapping[str, Clip], turns: Sequence[Turn]) -> float | None:
    timed = [(turn, turn.live, turn.live.took_ns) for turn in turns if turn.live is not None]
    took_ns = [ns for _, _, ns in timed if ns is not None]
    if not took_ns:
        return None
    asked_ns = sum(len(by_query[turn.query].samples) * NS_PER_S // SAMPLE_RATE_HZ for turn, _, _ in timed)
    return sum(took_ns) / (asked_ns + sum(span.end - span.start for _, live, _ in timed for span in live.played))


def _word_error_rate(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Edits per word of what was said, in what was heard; None of nothing."""
    if not pairs:
        return None
    rate: float = jiwer.wer([said for said, _ in pairs], [heard for _, heard in pairs])
    return rate


def word_changes(partials: Sequence[str], final: str) -> tuple[int, int]:
    """How many words two partial transcripts in a row agreed on, from the beginning, and how many of these changed.

    A word is committed once, by the first two partials that agree on it and on all before it.
    """
    committed: list[str] = []
    for earlier, later in pairwise(words(text).split() for text in partials):
        agreed = 0
        while agreed < min(len(earlier), len(later)) and earlier[agreed] == later[agreed]:
            agreed += 1
        committed += later[len(committed) : agreed]
    same = SequenceMatcher(None, committed, words(final).split(), autojunk=False).get_matching_blocks()
    return len(committed), len(committed) - sum(block.size for block in same)


def faults(budget: Budget, guard: str, rounds: Sequence[Quality]) -> Iterator[str]:
    """A sentence for each round in which the guard does not hold."""
    bound = getattr(budget.guards, guard)
    for quality in rounds:
        value = getattr(quality, guard)
        where = f"{guard}, {quality.mode} {quality.wiring}, round {quality.round}"
        if value is None:
            if guard != "hit_at_1":
                yield f"{where}: nothing was measured"
        elif isinstance(bound, AtMost):
            if not value <= bound.max:
                yield f"{where}: {value:.3g} is above the limit of {bound.max:g}{_which(quality, guard)}"
        elif not value >= bound.min:
            yield f"{where}: {value:.3g} is below the least of {bound.min:g}{_which(quality, guard)}"


def _which(quality: Quality, guard: str) -> str:
    which = f"\n  {quality.told[guard]}" if guard in quality.told else ""
    return _MEANS.get(guard, "") + which


_MEANS = {
    "answer_word_error_rate": "; the stack's own recognizer is the judge: can it understand the synthesizer's voice?",
    "frame_lateness_ms": "; this machine was too busy to feed audio in time, and the round's figures tell nothing",
}
