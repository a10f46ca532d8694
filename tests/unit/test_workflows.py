import re
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"
NAMES = ("gate", "nightly")


def load(name: str) -> dict[str, Any]:
    workflow: dict[str, Any] = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text("utf-8"))
    return workflow


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in load(name)["jobs"].values() for step in job["steps"]]


def labels(job: dict[str, Any]) -> list[str]:
    runs_on = job["runs-on"]
    return [runs_on] if isinstance(runs_on, str) else runs_on


def test_the_workflows_are_the_ones_checked_here() -> None:
    assert sorted(path.name for path in WORKFLOWS.iterdir()) == [f"{name}.yml" for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_actionlint_finds_nothing(name: str) -> None:
    # shellcheck and pyflakes are switched off: the result must not depend on what else a machine has.
    # nuc1 is our own runner, which actionlint cannot know.
    actionlint = Path(sysconfig.get_path("scripts")) / "actionlint"
    done = subprocess.run(
        [actionlint, "-shellcheck=", "-pyflakes=", '-ignore=label "nuc1" is unknown', WORKFLOWS / f"{name}.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_pinned_by_commit_and_name_their_version(name: str) -> None:
    used = re.findall(r"uses: *(.*)", (WORKFLOWS / f"{name}.yml").read_text("utf-8"))
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_permission_is_granted_beyond_reading_the_code(name: str) -> None:
    workflow = load(name)
    assert workflow["permissions"] == {}
    assert all(job.get("permissions", {}) in ({}, {"contents": "read"}) for job in workflow["jobs"].values())


@pytest.mark.parametrize("name", NAMES)
def test_the_checkout_leaves_no_credentials(name: str) -> None:
    checkouts = [step for step in steps(name) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("name", NAMES)
def test_every_job_has_a_time_limit(name: str) -> None:
    assert all(job["timeout-minutes"] <= 60 for job in load(name)["jobs"].values())


def test_the_gate_runs_on_hosted_machines_only() -> None:
    assert {label for job in load("gate")["jobs"].values() for label in labels(job)} == {"ubuntu-24.04"}


def test_the_nightly_runs_on_nuc1_and_never_for_pull_requests() -> None:
    nightly = load("nightly")
    # YAML 1.1 reads the key `on` as true.
    assert set(nightly[True]) == {"schedule", "workflow_dispatch"}  # type: ignore[index]
    assert [labels(job) for job in nightly["jobs"].values()] == [["self-hosted", "nuc1"]]


def test_the_nightly_never_measures_two_runs_at_once() -> None:
    assert load("nightly")["concurrency"] == {"group": "nuc1", "cancel-in-progress": False}


def test_the_gate_judges_the_shared_profile_and_the_nightly_the_strict_one() -> None:
    commands = {name: [step["run"] for step in steps(name) if "make bench" in step.get("run", "")] for name in NAMES}
    assert commands == {
        "gate": ['make bench ARGS="--budget-profile=shared --live-rounds=1"'],
        "nightly": ["make bench"],
    }


def test_compiled_wheels_are_cached_by_processor() -> None:
    caches = [
        step["with"] for step in steps("gate") if "~/.cache/firstsound-pip" in step.get("with", {}).get("path", "")
    ]
    assert caches
    assert all("steps.cpu.outputs.id" in cache[key] for cache in caches for key in ("key", "restore-keys"))


def test_the_required_job_needs_every_other_and_always_runs() -> None:
    jobs = load("gate")["jobs"]
    required = jobs.pop("gate")
    assert sorted(required["needs"]) == sorted(jobs)
    assert required["if"] == "${{ always() }}"


@pytest.mark.parametrize(
    ("results", "passes"),
    [
        ("success success success", True),
        ("success success failure", False),
        ("failure success success", False),
        ("success cancelled success", False),
        ("skipped skipped skipped", False),
    ],
)
def test_the_required_job_passes_only_if_all_succeeded(results: str, passes: bool) -> None:  # noqa: FBT001
    (step,) = load("gate")["jobs"]["gate"]["steps"]
    assert step["env"] == {"RESULTS": "${{ join(needs.*.result, ' ') }}"}
    # This is how GitHub starts a step that names no shell.
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-e", "-c", step["run"]],
        env={"RESULTS": results},
        capture_output=True,
        check=False,
    )
    assert (done.returncode == 0) is passes
