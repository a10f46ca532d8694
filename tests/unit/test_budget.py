from pathlib import Path
from typing import Any

import pytest
import yaml

from firstsound import budget
from firstsound.budget import Line
from firstsound.errors import FirstsoundError
from firstsound.turn import Wiring

ROOT = Path(__file__).parents[2]
MINIMAL = {
    "version": 1,
    "lines": {
        "endpoint": {"clock": "audio", "limit_ms": 700},
        "final": {"clock": "wall", "limit_ms": 150, "p95_limit_ms": 300},
        "retrieval": {"clock": "wall", "limit_ms": 100},
        "first_token": {"clock": "wall", "limit_ms": 400},
        "first_sound": {"clock": "wall", "limit_ms": 600},
        "perceived": {"clock": "both", "limit_ms": 1950},
        "memory": {"limit_gib": 2},
    },
    "profiles": {"strict": {"p50": "bind", "p95": "bind"}, "shared": {"p50": "bind", "p95": "report"}},
}


def load(tmp_path: Path, content: object) -> budget.Budget:
    path = tmp_path / "budgets.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return budget.load(path)


def changed(*keys: str, to: object) -> dict[str, object]:
    content: dict[str, object] = yaml.safe_load(yaml.safe_dump(MINIMAL))
    at: Any = content
    for key in keys[:-1]:
        at = at[key]
    if to is None:
        del at[keys[-1]]
    else:
        at[keys[-1]] = to
    return content


def test_the_projects_own_budget_loads() -> None:
    own = budget.load(ROOT / "budgets.yaml")
    assert own.limits("final") == (150, 150)
    assert own.limits("memory") == (2 * 2**30, 2 * 2**30)
    assert own.wirings == {"serial": "report", "overlapped": "bind", "speculative": "bind"}


def test_guards_and_wirings_have_the_same_defaults_as_the_projects_own(tmp_path: Path) -> None:
    own, bare = budget.load(ROOT / "budgets.yaml"), load(tmp_path, MINIMAL)
    assert bare.guards == own.guards
    assert bare.wirings == own.wirings
    assert bare.limits("final") == (150, 300)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "the file is empty"),
        ("lines: [", "not valid YAML"),
        ("version: 1\nversion: 1", "key 'version' is given twice"),
        ("!!python/object/apply:os.getcwd []", "not valid YAML"),
        ('version: !!int ""', "not valid YAML"),
        ("version: !!bool foo", "not valid YAML"),
        ("version: !!timestamp foo", "not valid YAML"),
        (changed("version", to=2), "version: Input should be 1"),
        (changed("lines", "final", to=None), "lines.final: is missing"),
        (changed("lines", "memory", to=None), "lines.memory: is missing"),
        (changed("lines", "final", "limit_ms", to=0), "lines.final.limit_ms"),
        (changed("lines", "final", "limit_ms", to=-1), "lines.final.limit_ms"),
        (changed("lines", "final", "limit_ms", to=float("nan")), "lines.final.limit_ms"),
        (changed("lines", "final", "limit_ms", to=float("inf")), "lines.final.limit_ms"),
        (changed("lines", "final", "limit_ms", to="150"), "lines.final.limit_ms"),
        (changed("lines", "final", "limit_ms", to=True), "lines.final.limit_ms"),
        (changed("lines", "final", "unit", to="ms"), "lines.final.unit: unknown key"),
        (changed("lines", "finale", to={"clock": "wall", "limit_ms": 1}), "lines.finale: unknown key"),
        (changed("lines", "final", "clock", to="audio"), "final is measured on clock 'wall'"),
        (changed("profiles", "strict", "p95", to="maybe"), "profiles.strict.p95"),
        (changed("wirings", to={"serial": "report"}), "none is set to bind"),
        (changed("wirings", to={"parallel": "bind"}), "wirings.parallel"),
        (changed("guards", to={"hit_at_1": {"min": 2}}), "guards.hit_at_1.min"),
    ],
)
def test_a_broken_budget_is_refused_by_name(tmp_path: Path, content: object, told: str) -> None:
    with pytest.raises(FirstsoundError, match=r"budgets\.yaml") as e:
        load(tmp_path, content)
    assert told in str(e.value)


def test_a_missing_budget_and_a_binary_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FirstsoundError, match="no such file"):
        budget.load(tmp_path / "budgets.yaml")
    (tmp_path / "budgets.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FirstsoundError, match="cannot be read"):
        budget.load(tmp_path / "budgets.yaml")


STRICT, SHARED = budget.Profile(p50="bind", p95="bind"), budget.Profile(p50="bind", p95="report")
SLOW_P95 = [100.0] * 18 + [500.0] * 2


@pytest.mark.parametrize(
    ("profile", "wiring", "values", "exceeded", "breaks"),
    [
        (STRICT, "overlapped", [150.0] * 20, [], []),
        (STRICT, "overlapped", [150.1] * 20, [50], [50]),
        (STRICT, "overlapped", SLOW_P95, [95], [95]),
        (SHARED, "overlapped", SLOW_P95, [95], []),
        (SHARED, "overlapped", [150.1] * 20, [50], [50]),
        (STRICT, "serial", [150.1] * 20, [50], []),
    ],
)
def test_a_verdict_binds_what_the_profile_and_the_wiring_say(
    tmp_path: Path,
    profile: budget.Profile,
    wiring: Wiring,
    values: list[float],
    exceeded: list[int],
    breaks: list[int],
) -> None:
    verdict = budget.judge(load(tmp_path, MINIMAL), profile, Line("final", "stepped", wiring), values)
    assert [e.percentile for e in verdict.exceeded] == exceeded
    assert [e.percentile for e in verdict.breaks] == breaks
    assert (verdict.n, verdict.p95.rank) == (20, 19)


@pytest.mark.parametrize("wiring", ["serial", "overlapped"])
def test_closure_binds_in_every_wiring_with_limits_of_its_own(tmp_path: Path, wiring: Wiring) -> None:
    def breaks(values: list[float]) -> list[int]:
        verdict = budget.judge(load(tmp_path, MINIMAL), STRICT, Line("closure", "live", wiring), values)
        return [held.percentile for held in verdict.breaks]

    assert breaks([10.0] * 18 + [25.0] * 2) == []
    assert breaks([10.1] * 20) == [50]
    assert breaks([0.0] * 18 + [25.1] * 2) == [95]


def test_memory_binds_in_every_profile(tmp_path: Path) -> None:
    verdict = budget.judge(load(tmp_path, MINIMAL), SHARED, Line("memory", "stepped", "all"), [3.0 * 2**30] * 20)
    assert [held.percentile for held in verdict.breaks] == [50, 95]


def test_the_margin_is_what_is_left_of_the_tighter_limit(tmp_path: Path) -> None:
    b = load(tmp_path, MINIMAL)
    assert budget.judge(b, STRICT, Line("final", "stepped", "overlapped"), [100.0] * 19 + [280.0]).margin == 50
    assert budget.judge(b, STRICT, Line("final", "stepped", "overlapped"), [100.0] * 10 + [310.0] * 10).margin == -10


def test_no_samples_are_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no samples"):
        budget.judge(load(tmp_path, MINIMAL), STRICT, Line("final", "stepped", "overlapped"), [])
