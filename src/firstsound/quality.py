"""What must hold beside speed: the words were understood, the passage was found, nobody was cut off, sound came."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import jiwer

from firstsound.budget import AtMost, Budget
from firstsound.manifest import Clip
from firstsound.turn import Turn, Wiring

GUARDS = ("word_error_rate", "hit_at_1", "early_endpoints", "silent_answers")


@dataclass(frozen=True, slots=True)
class Quality:
    """The guarded figures of one round of one wiring."""

    wiring: Wiring
    round: int
    word_error_rate: float
    """Over all clips of the round: edits per word of the true texts."""
    hit_at_1: float | None
    """Share of turns whose first passage is the expected one; None where no clip names its passage."""
    early_endpoints: int
    silent_answers: int


def words(text: str) -> str:
    """The text as it is compared: lower case, letters, digits and apostrophes only."""
    return " ".join(re.findall(r"[a-z0-9']+", text.lower()))


def assess(clips: Sequence[Clip], turns: Sequence[Turn]) -> Quality:
    """The figures of one round of one wiring, failed turns included.

    Raises:
        ValueError: there are no turns, or they are not all of one round and wiring.
    """
    kinds = {(turn.wiring, turn.round) for turn in turns}
    if len(kinds) != 1:
        raise ValueError(f"the turns of one round and wiring are assessed together, not of {sorted(kinds)}")
    (wiring, round_) = kinds.pop()
    by_query: Mapping[str, Clip] = {clip.query: clip for clip in clips}
    references = [words(by_query[turn.query].text) for turn in turns]
    expected = [(by_query[turn.query].expected_passage, turn.passages) for turn in turns]
    hits = [passages[:1] == (passage,) for passage, passages in expected if passage is not None]
    return Quality(
        wiring=wiring,
        round=round_,
        word_error_rate=jiwer.wer(references, [words(turn.transcript) for turn in turns]),
        hit_at_1=sum(hits) / len(hits) if hits else None,
        early_endpoints=sum(
            turn.audio.endpoint is not None and turn.audio.endpoint < turn.audio.speech_end for turn in turns
        ),
        silent_answers=sum(not turn.answer.strip() or turn.wall.first_sound is None for turn in turns),
    )


def faults(budget: Budget, guard: str, rounds: Sequence[Quality]) -> Iterator[str]:
    """A sentence for each round in which the guard does not hold."""
    bound = getattr(budget.guards, guard)
    for quality in rounds:
        value = getattr(quality, guard)
        where = f"{guard}, {quality.wiring}, round {quality.round}"
        if value is None:
            continue
        if isinstance(bound, AtMost):
            if value > bound.max:
                yield f"{where}: {value:.3g} is above the limit of {bound.max:g}"
        elif value < bound.min:
            yield f"{where}: {value:.3g} is below the least of {bound.min:g}"
