"""What the laws are tried on: every Hypothesis strategy of this suite."""

from dataclasses import fields, replace
from itertools import accumulate
from typing import get_args

from hypothesis import strategies as st

from firstsound.clock import AudioTime, WallTime
from firstsound.turn import AudioMarks, Cache, Live, Mode, Partial, Span, Turn, WallMarks, Wiring

HOUR_NS = 3_600 * 10**9

durations_ns = st.one_of(st.just(0), st.integers(0, 2_000), st.integers(0, 2 * 10**9), st.integers(0, HOUR_NS))
audio_times = st.builds(AudioTime, durations_ns)
wall_times = st.builds(WallTime, durations_ns)

# All of Unicode, halves of surrogate pairs included: nobody knows what a language model will write.
texts = st.text(st.characters(exclude_categories=()), max_size=12)
words = st.text(st.characters(exclude_categories=()), min_size=1, max_size=12)
rounds = st.integers(-1, 30)
wirings: st.SearchStrategy[Wiring] = st.sampled_from(get_args(Wiring))
modes: st.SearchStrategy[Mode] = st.sampled_from(get_args(Mode))
caches: st.SearchStrategy[Cache] = st.sampled_from(get_args(Cache))

percents = st.integers(1, 100)
finite = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 5), st.sampled_from([0.0, -0.0, 1.0]))
samples = st.lists(finite, min_size=1, max_size=60)
non_finite = st.sampled_from([float("nan"), float("inf"), float("-inf")])


@st.composite
def spoilt_samples(draw: st.DrawFn) -> list[float]:
    """Samples with at least one that is not finite, anywhere."""
    values = draw(samples)
    values.insert(draw(st.integers(0, len(values))), draw(non_finite))
    return values


@st.composite
def wall_marks(draw: st.DrawFn) -> WallMarks:
    """Every mark, in an order that can be."""
    chain = ("final", "retrieved", "first_token", "first_fragment", "first_chunk", "first_sound")
    gaps = draw(st.lists(durations_ns, min_size=len(chain), max_size=len(chain)))
    ns = dict(zip(chain, accumulate(gaps), strict=True))
    ns["answer_end"] = ns["first_token"] + draw(durations_ns)
    ns["audio_end"] = ns["first_chunk"] + draw(durations_ns)
    return WallMarks(**{name: WallTime(n) for name, n in ns.items()})


@st.composite
def any_wall_marks(draw: st.DrawFn) -> WallMarks:
    """Any marks in any order, reached or not; many of them cannot be."""
    return WallMarks(**{f.name: draw(st.none() | st.builds(WallTime, st.integers(-1, 6))) for f in fields(WallMarks)})


@st.composite
def sequences_of_spans(draw: st.DrawFn) -> tuple[Span, ...]:
    """Spans of which none begins before the one before it is over."""
    at, found = draw(st.integers(-HOUR_NS, HOUR_NS)), []
    for gap, length in draw(st.lists(st.tuples(durations_ns, durations_ns), min_size=1, max_size=4)):
        found.append(Span(WallTime(at + gap), WallTime(at + gap + length)))
        at += gap + length
    return tuple(found)


@st.composite
def lives(draw: st.DrawFn) -> Live:
    """What a complete live turn knows."""
    partials = tuple(Partial(span, draw(texts)) for span in draw(sequences_of_spans()))
    return Live(
        timed_first_sound=draw(wall_times),
        frame_lateness_ns=tuple(draw(st.lists(durations_ns, min_size=1, max_size=4))),
        backlog_ns=draw(durations_ns),
        partials=draw(st.sampled_from([(), partials])),
        played=draw(sequences_of_spans()),
        underruns_ns=tuple(draw(st.lists(durations_ns, max_size=2))),
        joint_jump=draw(st.floats(0, 2)),
        heard=draw(texts),
        took_ns=draw(st.none() | durations_ns),
    )


@st.composite
def complete_turns(draw: st.DrawFn) -> Turn:
    """Turns that reached everything."""
    speech_end, mode = draw(durations_ns), draw(modes)
    return Turn(
        query=draw(words),
        round=draw(rounds),
        wiring=draw(wirings),
        mode=mode,
        audio=AudioMarks(AudioTime(speech_end), AudioTime(speech_end + draw(durations_ns))),
        wall=draw(wall_marks()),
        transcript=draw(words),
        passages=tuple(draw(st.lists(words, min_size=1, max_size=3))),
        answer=draw(words),
        fragments=tuple(draw(st.lists(words, min_size=1, max_size=3))),
        cache=draw(caches),
        speech_start=draw(st.none() | st.builds(AudioTime, st.integers(0, speech_end))),
        live=draw(lives()) if mode == "live" else None,
    )


@st.composite
def failed_turns(draw: st.DrawFn) -> Turn:
    """Turns with an error: without an endpoint, with one that came too early, or without some of the later marks."""
    turn = draw(complete_turns())
    lost = draw(st.sets(st.sampled_from([f.name for f in fields(WallMarks)])))
    endpoint = draw(st.sampled_from([None, turn.audio.endpoint]) | audio_times)
    return replace(
        turn,
        audio=replace(turn.audio, endpoint=endpoint),
        wall=WallMarks() if endpoint is None else replace(turn.wall, **dict.fromkeys(lost)),
        transcript=draw(texts),
        passages=tuple(draw(st.lists(words, max_size=2))),
        answer=draw(texts),
        fragments=tuple(draw(st.lists(words, max_size=2))),
        cache=draw(st.none() | caches),
        live=draw(st.sampled_from([None, turn.live])),
        error=draw(texts),
    )


turns = st.one_of(complete_turns(), failed_turns())


@st.composite
def traced_turns(draw: st.DrawFn) -> list[Turn]:
    """Turns of one query and wiring, as one trace shows them."""
    some = draw(st.lists(turns, min_size=1, max_size=3))
    query, wiring, mode = draw(words), draw(wirings), some[0].mode
    return [replace(turn, query=query, wiring=wiring) for turn in some if turn.mode == mode]
