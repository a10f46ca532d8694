"""The written budget, and the verdict of samples against it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from firstsound import yamlfile
from firstsound.errors import FirstsoundError
from firstsound.percentile import nearest_rank, rank
from firstsound.turn import STAGES, Mode, Wiring

Clock = Literal["audio", "wall", "both"]
Force = Literal["bind", "report"]
Limit = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]

TIME_LINES: dict[str, Clock] = {**dict.fromkeys(STAGES, "wall"), "endpoint": "audio", "perceived": "both"}
"""The lines in time, each with the clock it is measured on."""
CLOSURE_LINE = "closure"
"""By how much the recorded silence and the sum of the marks differ: whether the suite itself is right."""
MEMORY_LINE = "memory"
ALL_WIRINGS: Final = "all"
"""The wiring of the memory line: the processes are the same for each."""
BYTES_PER_GIB = 2**30


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TimeLine(_Strict):
    """A limit in milliseconds; `p95_limit_ms` gives the 95th percentile one of its own."""

    clock: Clock
    limit_ms: Limit
    p95_limit_ms: Limit | None = None

    @property
    def limits(self) -> tuple[float, float]:
        """The limits of p50 and p95, in milliseconds."""
        return self.limit_ms, self.limit_ms if self.p95_limit_ms is None else self.p95_limit_ms


class MemoryLine(_Strict):
    """A limit in GiB for the Python process and the servers together."""

    limit_gib: Annotated[Limit, Field(lt=2**20)]

    @property
    def limits(self) -> tuple[float, float]:
        """The limits of p50 and p95, in bytes."""
        limit_bytes = round(self.limit_gib * BYTES_PER_GIB)
        return limit_bytes, limit_bytes


class Lines(_Strict):
    """One limit a line; none may be missing."""

    endpoint: TimeLine
    final: TimeLine
    retrieval: TimeLine
    first_token: TimeLine
    first_sound: TimeLine
    perceived: TimeLine
    memory: MemoryLine
    closure: TimeLine = TimeLine(clock="both", limit_ms=10, p95_limit_ms=25)

    @model_validator(mode="after")
    def _clocks_are_the_lines_own(self) -> Self:
        for name, clock in (TIME_LINES | {CLOSURE_LINE: "both"}).items():
            if getattr(self, name).clock != clock:
                raise ValueError(f"{name} is measured on clock {clock!r}, not {getattr(self, name).clock!r}")
        return self


class AtMost(_Strict):
    """A guard that a figure must not exceed."""

    max: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


class AtLeast(_Strict):
    """A guard that a share must reach."""

    min: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]


class Guards(_Strict):
    """What must hold beside speed, in each round."""

    word_error_rate: AtMost = AtMost(max=0.15)
    hit_at_1: AtLeast = AtLeast(min=0.91)
    early_endpoints: AtMost = AtMost(max=0)
    silent_answers: AtMost = AtMost(max=0)
    frame_lateness_ms: AtMost = AtMost(max=5)
    underruns: AtMost = AtMost(max=0)
    answer_word_error_rate: AtMost = AtMost(max=0.3)
    fragment_word_error_rate: AtMost = AtMost(max=0.3)
    lost_answers: AtMost = AtMost(max=0)
    joint_jump: AtMost = AtMost(max=0.1)
    pace: AtMost = AtMost(max=1.1)


class Profile(_Strict):
    """Which percentiles bind; the rest are reported."""

    p50: Force
    p95: Force

    @model_validator(mode="after")
    def _something_binds(self) -> Self:
        if "bind" not in (self.p50, self.p95):
            raise ValueError("neither p50 nor p95 is set to bind, so no line could fail")
        return self


def _default_wirings() -> dict[Wiring, Force]:
    return {"serial": "report", "overlapped": "bind", "speculative": "bind"}


class Budget(_Strict):
    """The whole of budgets.yaml."""

    version: Literal[1]
    lines: Lines
    guards: Guards = Guards()
    wirings: dict[Wiring, Force] = Field(default_factory=_default_wirings, min_length=1)
    profiles: dict[str, Profile] = Field(min_length=1)

    @model_validator(mode="after")
    def _some_wiring_binds(self) -> Self:
        if "bind" not in self.wirings.values():
            raise ValueError("wirings: none is set to bind, so no run could fail")
        return self

    def limits(self, line: str) -> tuple[float, float]:
        """The limits of p50 and p95 of one line, in milliseconds, or in bytes for memory."""
        limits: tuple[float, float] = getattr(self.lines, line).limits
        return limits

    def profile(self, name: str) -> Profile:
        """The profile called `name`.

        Raises:
            FirstsoundError: there is none.
        """
        if name not in self.profiles:
            raise FirstsoundError(f"no profile {name!r} in the budget; it has {', '.join(sorted(self.profiles))}")
        return self.profiles[name]


def load(path: Path) -> Budget:
    """Read budgets.yaml.

    Raises:
        FirstsoundError: the file is missing, broken, of another version or incomplete; the message names each fault.
    """
    return yamlfile.load(path, Budget, "; name another with --budgets=FILE")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the budget, in one mode and wiring."""

    name: str
    mode: Mode
    wiring: Wiring | Literal["all"]

    def __str__(self) -> str:
        return f"{self.name}, {self.mode} {self.wiring}"

    @property
    def id(self) -> str:
        """How pytest calls it."""
        return f"{self.mode}-{self.wiring}-{self.name}"


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured value of a line, in its unit (ms, or bytes for memory)."""

    query: str | None
    round: int | None
    value: float


@dataclass(frozen=True, slots=True)
class Held:
    """A percentile of a line held against its limit, both in the line's unit."""

    percentile: int
    rank: int
    observed: float
    limit: float
    binds: bool

    @property
    def over(self) -> bool:
        """Whether the limit is exceeded, binding or not."""
        return self.observed > self.limit


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a line's samples stand against its limits."""

    line: Line
    n: int
    p50: Held
    p95: Held

    @property
    def exceeded(self) -> tuple[Held, ...]:
        """The percentiles that are over their limits, whatever the profile binds."""
        return tuple(held for held in (self.p50, self.p95) if held.over)

    @property
    def breaks(self) -> tuple[Held, ...]:
        """What fails the run."""
        return tuple(held for held in self.exceeded if held.binds)

    @property
    def margin(self) -> float:
        """What is left of the tighter limit, in the line's unit; negative when over."""
        return min(held.limit - held.observed for held in (self.p50, self.p95))


def judge(budget: Budget, profile: Profile, line: Line, values: Sequence[float]) -> Verdict:
    """Hold the values of one line (ms, or bytes for memory) against the budget.

    Memory binds whatever the profile says: a neighbour's load cannot make a process larger. Closure binds in every
    wiring: it judges the suite, not the wiring.

    Raises:
        ValueError: there are no values, or one is not finite.
    """
    if line.name == MEMORY_LINE:
        force: tuple[Force, Force] = ("bind", "bind")
    elif line.name == CLOSURE_LINE or (line.wiring, "bind") in budget.wirings.items():
        force = (profile.p50, profile.p95)
    else:
        force = ("report", "report")
    p50, p95 = (
        Held(p, rank(p, len(values)), nearest_rank(values, p), limit, binds=f == "bind")
        for p, limit, f in zip((50, 95), budget.limits(line.name), force, strict=True)
    )
    return Verdict(line, len(values), p50, p95)
