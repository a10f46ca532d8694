import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import threadpoolctl

from firstsound.limits import (
    THREAD_VARIABLES,
    Limits,
    MemoryBound,
    Throttling,
    oversized,
    pools,
    read_limits,
    set_thread_variables,
    throttled,
    tightest_memory,
)

GIB = 2**30
CPU1, MEMORY1, TOP2 = "sys/fs/cgroup/cpu", "sys/fs/cgroup/memory", "sys/fs/cgroup"
V1 = {
    "proc/self/mountinfo": (
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    ),
    "proc/self/cgroup": "4:memory:/a/b\n1:cpu:/a/b\n",
    f"{CPU1}/a/b/tasks": "",
    f"{MEMORY1}/a/b/tasks": "",
}
V2 = {
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "proc/self/cgroup": "0::/a/b\n",
    f"{TOP2}/cgroup.controllers": "cpu memory\n",
    f"{TOP2}/a/b/cgroup.procs": "",
}
HYBRID = V1 | {
    "proc/self/mountinfo": "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" + V1["proc/self/mountinfo"],
    "proc/self/cgroup": V1["proc/self/cgroup"] + "0::/\n",
    f"{TOP2}/unified/cgroup.controllers": "",
    f"{TOP2}/unified/cpu.max": "100000 100000\n",
}
NO_LIMIT_1 = "9223372036854771712\n"


def grow(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def quota1(group: str, quota: str, period: str = "100000\n") -> dict[str, str]:
    return {f"{CPU1}/{group}/cpu.cfs_quota_us": quota, f"{CPU1}/{group}/cpu.cfs_period_us": period}


@pytest.mark.parametrize(
    ("files", "quota_cores", "memory_limit_bytes", "version"),
    [
        pytest.param({}, None, None, None, id="no cgroup at all"),
        pytest.param(V1, None, None, 1, id="v1 without limit files"),
        pytest.param(V1 | quota1("a/b", "-1\n"), None, None, 1, id="v1 -1"),
        pytest.param(V1 | quota1("a/b", "50000\n"), 0.5, None, 1, id="v1 half a core"),
        pytest.param(V1 | quota1("a/b", "150000\n"), 1.5, None, 1, id="v1 one core and a half"),
        pytest.param(V1 | quota1("a/b", "20000\n", "10000\n"), 2.0, None, 1, id="v1 its own period"),
        pytest.param(V1 | quota1("a/b", "300000\n") | quota1("a", "200000\n"), 2.0, None, 1, id="v1 tighter parent"),
        pytest.param(V1 | quota1("a/b", "-1\n") | quota1(".", "400000\n"), 4.0, None, 1, id="v1 limit at the mount"),
        pytest.param(V1 | quota1("a/b", "100000\n") | quota1("a", "-1\n"), 1.0, None, 1, id="v1 looser parent"),
        pytest.param(V1 | quota1("a/b", "100000\n", "0\n"), None, None, 1, id="v1 period of 0"),
        pytest.param(V1 | quota1("a/b", "0\n"), None, None, 1, id="v1 quota of 0"),
        pytest.param(V1 | quota1("a/b", "100000\n", ""), None, None, 1, id="v1 empty period"),
        pytest.param(V1 | {f"{CPU1}/a/b/cpu.cfs_quota_us": "100000\n"}, None, None, 1, id="v1 no period"),
        pytest.param(V1 | {f"{MEMORY1}/a/b/memory.limit_in_bytes": NO_LIMIT_1}, None, None, 1, id="v1 memory no limit"),
        pytest.param(
            V1 | {f"{MEMORY1}/a/b/memory.limit_in_bytes": NO_LIMIT_1, f"{MEMORY1}/memory.limit_in_bytes": f"{GIB}\n"},
            None,
            GIB,
            1,
            id="v1 memory limit at the mount",
        ),
        pytest.param(V2, None, None, 2, id="v2 without limit files"),
        pytest.param(V2 | {f"{TOP2}/a/b/cpu.max": "max 100000\n"}, None, None, 2, id="v2 max"),
        pytest.param(V2 | {f"{TOP2}/a/b/cpu.max": "50000 100000\n"}, 0.5, None, 2, id="v2 half a core"),
        pytest.param(V2 | {f"{TOP2}/a/b/cpu.max": "150000 100000\n"}, 1.5, None, 2, id="v2 one core and a half"),
        pytest.param(V2 | {f"{TOP2}/a/b/cpu.max": "200000 100000\n"}, 2.0, None, 2, id="v2 two cores"),
        pytest.param(
            V2 | {f"{TOP2}/a/b/cpu.max": "300000 100000\n", f"{TOP2}/a/cpu.max": "100000 50000\n"},
            2.0,
            None,
            2,
            id="v2 tighter parent",
        ),
        pytest.param(
            V2 | {f"{TOP2}/a/b/cpu.max": "max 100000\n", f"{TOP2}/cpu.max": "100000 100000\n"},
            1.0,
            None,
            2,
            id="v2 limit at the mount",
        ),
        pytest.param(V2 | {f"{TOP2}/a/b/cpu.max": ""}, None, None, 2, id="v2 empty"),
        pytest.param(V2 | {f"{TOP2}/a/b/cpu.max": "100000\n"}, None, None, 2, id="v2 no period"),
        pytest.param(V2 | {f"{TOP2}/a/b/cpu.max": "lots 100000\n"}, None, None, 2, id="v2 no number"),
        pytest.param(V2 | {f"{TOP2}/a/b/cpu.max": "100000 0\n"}, None, None, 2, id="v2 period of 0"),
        pytest.param(V2 | {f"{TOP2}/a/b/memory.max": "max\n"}, None, None, 2, id="v2 memory max"),
        pytest.param(
            V2 | {f"{TOP2}/a/b/memory.max": f"{4 * GIB}\n", f"{TOP2}/a/memory.max": f"{2 * GIB}\n"},
            None,
            2 * GIB,
            2,
            id="v2 memory tighter parent",
        ),
        pytest.param(V2 | {f"{TOP2}/a/b/memory.max": "plenty\n"}, None, None, 2, id="v2 memory no number"),
        pytest.param(HYBRID | quota1("a", "200000\n"), 2.0, None, 1, id="hybrid"),
    ],
)
def test_read_limits(
    tmp_path: Path,
    files: dict[str, str],
    quota_cores: float | None,
    memory_limit_bytes: int | None,
    version: int | None,
) -> None:
    limits = read_limits(grow(tmp_path, files))
    assert limits == Limits(quota_cores, len(os.sched_getaffinity(0)), memory_limit_bytes, version)


def test_memory_alone_tells_the_version(tmp_path: Path) -> None:
    mountinfo = V1["proc/self/mountinfo"].splitlines()[1]
    assert read_limits(grow(tmp_path, V1 | {"proc/self/mountinfo": mountinfo})).cgroup_version == 1


def test_affinity_is_the_masks_not_the_machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 7} if pid == 0 else {})
    assert read_limits(tmp_path).affinity_cores == 3


@pytest.mark.parametrize(
    ("quota_cores", "affinity_cores", "threads"),
    [(None, 8, 8), (0.5, 8, 1), (1.5, 8, 1), (1.99, 8, 1), (2.0, 8, 2), (2.5, 8, 2), (8.0, 2, 2), (None, 1, 1)],
)
def test_threads_are_whole_cores_of_both_and_at_least_one(
    quota_cores: float | None, affinity_cores: int, threads: int
) -> None:
    assert Limits(quota_cores, affinity_cores, None, None).threads == threads


def test_tightest_memory_names_the_group_that_has_the_limit(tmp_path: Path) -> None:
    files = {f"{TOP2}/a/b/memory.max": f"{4 * GIB}\n", f"{TOP2}/a/memory.max": f"{2 * GIB}\n"}
    assert tightest_memory(grow(tmp_path, V2 | files)) == MemoryBound(tmp_path / TOP2 / "a", 2 * GIB)


STAT1 = "nr_periods 9\nnr_throttled 3\nthrottled_time 5000000\n"
STAT2 = "usage_usec 77\nnr_periods 9\nnr_throttled 3\nthrottled_usec 5000\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, None, id="no cgroup at all"),
        pytest.param(V1, None, id="v1 no file"),
        pytest.param(V1 | {f"{CPU1}/a/b/cpu.stat": STAT1}, Throttling(3, 5_000_000), id="v1"),
        pytest.param(V2 | {f"{TOP2}/a/b/cpu.stat": STAT2}, Throttling(3, 5_000_000), id="v2"),
        pytest.param(V2 | {f"{TOP2}/cpu.stat": "usage_usec 77\n"}, None, id="v2 root group"),
        pytest.param(
            V2 | {f"{TOP2}/a/b/cpu.stat": STAT2, f"{TOP2}/a/cpu.stat": "nr_throttled 1\nthrottled_usec 1\n"},
            Throttling(4, 5_001_000),
            id="v2 parent's quota",
        ),
    ],
)
def test_throttled(tmp_path: Path, files: dict[str, str], expected: Throttling | None) -> None:
    assert throttled(grow(tmp_path, files)) == expected


def test_throttling_between_two_readings() -> None:
    assert Throttling(7, 900) - Throttling(3, 500) == Throttling(4, 400)


def test_set_thread_variables_overrules_what_was_set() -> None:
    environ = {"OMP_NUM_THREADS": "64", "HOME": "/home"}
    set_thread_variables(2, environ)
    assert environ == {"HOME": "/home"} | dict.fromkeys(THREAD_VARIABLES, "2")


def loaded(monkeypatch: pytest.MonkeyPatch, *counts: int | None) -> None:
    pools = [
        {"filepath": f"/lib/libpool{number}.so.1", "prefix": "libpool", "version": "0.3", "num_threads": count}
        for number, count in enumerate(counts)
    ]
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: pools)


def test_pools_within_the_limit_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(monkeypatch, 2, 1, None)
    assert pools() == [
        {"library": "libpool0.so.1", "version": "0.3", "threads": 2},
        {"library": "libpool1.so.1", "version": "0.3", "threads": 1},
        {"library": "libpool2.so.1", "version": "0.3", "threads": None},
    ]
    assert oversized(pools(), 2) == []


def test_pool_over_the_limit_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(monkeypatch, 2, 8)
    [told] = oversized(pools(), 2)
    assert re.search(r"libpool1\.so\.1 has 8 threads .* allows 2, .* OMP_NUM_THREADS=2", told)


NUMPY_RUN = """
from firstsound.limits import oversized, pools, set_thread_variables
import sys
assert "numpy" not in sys.modules
set_thread_variables({threads})
import numpy
counts = [pool["threads"] for pool in pools() if "blas" in pool["library"]]
assert counts == [{threads}], counts
sys.exit("; ".join(oversized(pools(), {allowed})) or 0)
"""


def run_numpy(threads: int, allowed: int) -> "subprocess.CompletedProcess[str]":
    environ = {name: text for name, text in os.environ.items() if name not in THREAD_VARIABLES}
    script = NUMPY_RUN.format(threads=threads, allowed=allowed)
    return subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=False)


def test_numpys_pool_takes_the_size_that_was_set() -> None:
    run = run_numpy(threads=1, allowed=1)
    assert run.returncode == 0, run.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="OpenBLAS makes no more threads than there are cores")
def test_numpys_pool_set_too_large_is_an_error() -> None:
    run = run_numpy(threads=2, allowed=1)
    assert run.returncode != 0
    assert "has 2 threads where the container allows 1" in run.stderr
