"""One turn: the marks that were reached, the stages between them, and what was said.

Stages follow from marks by subtraction and are consecutive, so they add up to the perceived silence with no residue.
"""

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Literal, TypeVar, get_args

from firstsound.clock import AudioTime, WallTime, perceived_ns

Wiring = Literal["serial", "overlapped", "speculative", "batch"]
Mode = Literal["stepped", "live"]
Cache = Literal["cold", "prefix", "warm"]

WIRINGS: tuple[Wiring, ...] = get_args(Wiring)
MODES: tuple[Mode, ...] = get_args(Mode)
WIRINGS_OF: dict[Mode, tuple[Wiring, ...]] = {"stepped": ("serial", "overlapped"), "live": WIRINGS}
"""To answer ahead of the endpoint, a turn must take the time that it takes."""
STAGES = ("endpoint", "final", "retrieval", "first_token", "first_sound")
WARM_UP_ROUND = -1


@dataclass(frozen=True, slots=True)
class AudioMarks:
    """Marks on the audio clock; None where the turn did not get there."""

    speech_end: AudioTime
    endpoint: AudioTime | None = None


@dataclass(frozen=True, slots=True)
class WallMarks:
    """Marks on the wall clock, in the order in which a turn reaches them; None where it did not."""

    final: WallTime | None = None
    retrieved: WallTime | None = None
    first_token: WallTime | None = None
    first_fragment: WallTime | None = None
    first_chunk: WallTime | None = None
    first_sound: WallTime | None = None
    answer_end: WallTime | None = None
    audio_end: WallTime | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """From one moment to another on the wall clock; before the endpoint it is negative."""

    start: WallTime
    end: WallTime


@dataclass(frozen=True, slots=True)
class Partial:
    """A transcript that the recognizer gave while it listened, and when it worked on it."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Speculation:
    """What answering ahead of the endpoint came to."""

    attempts: int
    discarded: int
    """Attempts that were thrown away, since the user went on or the final transcript was another."""
    wasted_deltas: int
    """Pieces of text that the language model had written for those; tokens, with most servers."""
    wasted_cpu_ns: int
    """CPU time of this process and the stack's others while those ran; what else ran then is in it."""
    prefills: int = 0
    """How often the language model read a prompt ahead while the user spoke."""
    prefill_cpu_ns: int = 0
    """CPU time while it did, and while the passages for it were searched; counted as that of the attempts."""
    failed_prefills: int = 0


@dataclass(frozen=True, slots=True)
class Live:
    """What only a live turn knows."""

    timed_first_sound: WallTime | None = None
    """When the first audible sample was due by the stages' own marks; `WallMarks.first_sound` is off the recording."""
    frame_lateness_ns: tuple[int, ...] = ()
    """How late after its last sample the microphone delivered each frame."""
    backlog_ns: int | None = None
    """How much audio a streaming recognizer had not yet worked off at the endpoint; None where it does not stream."""
    partials: tuple[Partial, ...] = ()
    played: tuple[Span, ...] = ()
    """When each chunk of the answer was on the loudspeaker."""
    underruns_ns: tuple[int, ...] = ()
    """How long the loudspeaker had nothing to play in the middle of the answer, each time."""
    joint_jump: float | None = None
    """The largest step from one sample to the next where a chunk begins or ends; full scale is 1."""
    heard: str = ""
    """What the recognizer makes of the recorded answer."""
    speculation: Speculation | None = None
    took_ns: int | None = None
    """The whole turn, from the first thing made ready for it to the transcript of its recorded answer."""


_PATHS = (
    ("final", "retrieved", "first_token", "first_fragment", "first_chunk", "first_sound"),
    ("final", "retrieved", "first_token", "first_fragment", "first_chunk", "audio_end"),
    ("final", "retrieved", "first_token", "answer_end"),
)
"""Along each path the marks that were reached never go back in time."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One recording in and one spoken answer out, or the story of how far it came.

    A turn without an error has every mark; one with an error may lack any.

    Raises:
        ValueError: marks are negative, out of order or without an endpoint to count from, or a turn without an error
            lacks something.
    """

    query: str
    round: int
    """0-based; -1 is the warm-up."""
    wiring: Wiring
    mode: Mode
    audio: AudioMarks
    wall: WallMarks = WallMarks()
    transcript: str = ""
    passages: tuple[str, ...] = ()
    """Ids of the retrieved passages, best first."""
    answer: str = ""
    fragments: tuple[str, ...] = ()
    cache: Cache | None = None
    speech_start: AudioTime | None = None
    """The first sample of the user's speech, from the label; None in turns that were written without it."""
    live: Live | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if self.round < WARM_UP_ROUND:
            raise ValueError(f"round {self.round}: rounds count from 0, and {WARM_UP_ROUND} is the warm-up")
        self._check_marks()
        if self.error is None:
            self._check_complete()

    def _check_marks(self) -> None:
        for name, ns in marks_ns(self.audio).items():
            if ns is not None and ns < 0:
                raise ValueError(f"mark {name} is {ns} ns: before the first sample")
        if self.speech_start is not None and self.speech_start > self.audio.speech_end:
            raise ValueError("speech starts after its end")
        wall = {name: ns for name, ns in marks_ns(self.wall).items() if ns is not None}
        for name, ns in wall.items():
            if ns < 0:
                raise ValueError(f"mark {name} is {ns} ns: before the endpoint decision")
            if self.audio.endpoint is None:
                raise ValueError(f"mark {name} counts from the endpoint, but there was none")
        for path in _PATHS:
            for earlier, later in pairwise(name for name in path if name in wall):
                if wall[later] < wall[earlier]:
                    raise ValueError(f"mark {later} ({wall[later]} ns) comes before {earlier} ({wall[earlier]} ns)")

    def _check_complete(self) -> None:
        missing = [name for name, ns in (marks_ns(self.audio) | marks_ns(self.wall)).items() if ns is None]
        missing += [
            name for name in ("transcript", "passages", "answer", "fragments", "cache") if not getattr(self, name)
        ]
        if self.mode == "live":
            live = self.live or Live()
            missing += [
                name
                for name in ("timed_first_sound", "frame_lateness_ns", "played", "joint_jump")
                if getattr(live, name) in {None, ()}
            ]
        if missing:
            raise ValueError(f"a turn without an error needs {', '.join(missing)}")
        if self.audio.endpoint is not None and self.audio.endpoint < self.audio.speech_end:
            raise ValueError("an endpoint before the end of speech is an error, not a sample")

    @property
    def name(self) -> str:
        """How messages call this turn."""
        where = "warm-up" if self.round == WARM_UP_ROUND else f"round {self.round}"
        return f"{self.query}, {where}, {self.mode} {self.wiring}"


T = TypeVar("T")


def _reached(mark: T | None, name: str, turn: Turn) -> T:
    if mark is None:
        raise ValueError(f"{turn.name}: mark {name} was not reached ({turn.error})")
    return mark


def stages_ns(turn: Turn) -> dict[str, int]:
    """The five stages in nanoseconds, in their order; each but `endpoint` (audio clock) on the wall clock.

    Raises:
        ValueError: a mark that a stage needs was not reached.
    """
    endpoint = _reached(turn.audio.endpoint, "endpoint", turn)
    final = _reached(turn.wall.final, "final", turn)
    retrieved = _reached(turn.wall.retrieved, "retrieved", turn)
    first_token = _reached(turn.wall.first_token, "first_token", turn)
    first_sound = _reached(turn.wall.first_sound, "first_sound", turn)
    return {
        "endpoint": endpoint - turn.audio.speech_end,
        "final": final - WallTime(0),
        "retrieval": retrieved - final,
        "first_token": first_token - retrieved,
        "first_sound": first_sound - first_token,
    }


def perceived_of_ns(turn: Turn) -> int:
    """The silence that the user felt in this turn, in nanoseconds.

    Raises:
        ValueError: the endpoint or the first sound was not reached.
    """
    endpoint = _reached(turn.audio.endpoint, "endpoint", turn)
    first_sound = _reached(turn.wall.first_sound, "first_sound", turn)
    return perceived_ns(turn.audio.speech_end, endpoint, first_sound)


def first_sound_parts_ns(turn: Turn) -> dict[str, int]:
    """What `first_sound` is made of, in nanoseconds: waiting for a fragment, its synthesis, its leading silence.

    In a live turn there is a fourth part, what was lost where no mark looks: its closure.

    Raises:
        ValueError: a mark that a part needs was not reached.
    """
    first_token = _reached(turn.wall.first_token, "first_token", turn)
    first_fragment = _reached(turn.wall.first_fragment, "first_fragment", turn)
    first_chunk = _reached(turn.wall.first_chunk, "first_chunk", turn)
    first_sound = _reached(turn.wall.first_sound, "first_sound", turn)
    lost_ns = 0 if turn.live is None else closure_ns(turn)
    parts = {
        "fragment": first_fragment - first_token,
        "synthesis": first_chunk - first_fragment,
        "lead_in": first_sound - first_chunk - lost_ns,
    }
    return parts if turn.live is None else parts | {"lost": lost_ns}


def closure_ns(turn: Turn) -> int:
    """By how much the recorded silence of a live turn is longer than the sum of its marks, in nanoseconds.

    Raises:
        ValueError: the turn was not live, or did not come to its first sound.
    """
    timed = None if turn.live is None else turn.live.timed_first_sound
    return _reached(turn.wall.first_sound, "first_sound", turn) - _reached(timed, "timed_first_sound", turn)


def marks_ns(marks: AudioMarks | WallMarks) -> dict[str, int | None]:
    """The marks by name, each in nanoseconds on its own clock; None where it was not reached."""
    values = {f.name: getattr(marks, f.name) for f in fields(marks)}
    return {name: None if mark is None else mark.ns for name, mark in values.items()}
