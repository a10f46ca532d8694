"""What the container allows this process: CPU quota, affinity, memory; and the size of every native thread pool.

A pool reads its variable when its library loads, so this module must come first and imports nothing that loads one.
"""

import math
import os
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import threadpoolctl

from firstsound.cgroup import find_hierarchy, read_count, read_table, read_text

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",  # the tokenizers of speech recognizers
)
"""The environment variables that size native thread pools."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What this process may use."""

    quota_cores: float | None
    """CPU time per wall time; None where there is no quota."""
    affinity_cores: int
    """The cores that the scheduler may choose from."""
    memory_limit_bytes: int | None
    """None where there is no limit but the machine's own."""
    cgroup_version: int | None
    """The version of the hierarchy that accounts for CPU time, or else for memory; None where neither is mounted."""

    @property
    def threads(self) -> int:
        """How many threads can run at once: whole cores of quota and affinity, at least 1.

        A quota of 1.5 cores gives 1: the second thread would be stopped for half of each period, and the first with it.
        """
        quota_cores = math.inf if self.quota_cores is None else self.quota_cores
        return max(1, math.floor(min(quota_cores, self.affinity_cores)))


def read_limits(root: Path = Path("/")) -> Limits:
    """The limits as they are now; `root` stands for `/`."""
    cpu = find_hierarchy("cpu", root)
    memory = tightest_memory(root)
    quotas = [_quota_cores(group, cpu.version) for group in cpu.upward()] if cpu else []
    accounting = cpu or find_hierarchy("memory", root)
    return Limits(
        quota_cores=min((quota for quota in quotas if quota is not None), default=None),
        affinity_cores=len(os.sched_getaffinity(0)),
        memory_limit_bytes=memory.limit_bytes if memory else None,
        cgroup_version=accounting.version if accounting else None,
    )


def _quota_cores(group: Path, version: int) -> float | None:
    names = ["cpu.max"] if version == 2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]  # noqa: PLR2004
    match [read_count(word) for name in names for word in read_text(group / name).split()]:
        case [int(quota_us), int(period_us)] if quota_us and period_us:
            return quota_us / period_us
    return None


@dataclass(frozen=True, slots=True)
class MemoryBound:
    """The group that bounds this process's memory."""

    group: Path
    limit_bytes: int


def tightest_memory(root: Path = Path("/")) -> MemoryBound | None:
    """The lowest memory limit from the process's group upward, and the group that has it; None where there is none."""
    memory = find_hierarchy("memory", root)
    if memory is None:
        return None
    name = "memory.limit_in_bytes" if memory.version == 1 else "memory.max"
    limits = [(read_count(read_text(group / name).strip()), group) for group in memory.upward()]
    bounds = [MemoryBound(group, limit_bytes) for limit_bytes, group in limits if limit_bytes is not None]
    return min(bounds, key=lambda bound: bound.limit_bytes, default=None)


@dataclass(frozen=True, slots=True)
class Throttling:
    """How often and how long the CPU quota stopped the process's groups, since each group began."""

    periods: int
    """Quota periods in which a group ran out of time."""
    throttled_ns: int
    """The time that groups were stopped; where a group and its parent were, both count."""

    def __sub__(self, earlier: "Throttling") -> "Throttling":
        """What came after `earlier`."""
        return Throttling(self.periods - earlier.periods, self.throttled_ns - earlier.throttled_ns)


def throttled(root: Path = Path("/")) -> Throttling | None:
    """The throttling up to now, or None where no group tells; `root` stands for `/`."""
    cpu = find_hierarchy("cpu", root)
    if cpu is None:
        return None
    name, unit_ns = ("throttled_time", 1) if cpu.version == 1 else ("throttled_usec", 1_000)
    # A parent's quota stops its children too, but only the parent counts it.
    tables = [read_table(group / "cpu.stat") for group in cpu.upward()]
    told = [table for table in tables if "nr_throttled" in table and name in table]
    if not told:
        return None
    return Throttling(sum(table["nr_throttled"] for table in told), sum(table[name] for table in told) * unit_ns)


def set_thread_variables(threads: int, environ: MutableMapping[str, str] = os.environ) -> None:
    """Size every native pool that loads from now on, here and in child processes, whatever was set before."""
    for name in THREAD_VARIABLES:
        environ[name] = str(threads)


class Pool(TypedDict):
    """A loaded native thread pool, JSON-ready."""

    library: str
    """The library's file name; a process may hold several builds of one library."""
    version: str | None
    threads: int | None
    """None where the library does not tell."""


def pools() -> list[Pool]:
    """The native thread pools that this process has loaded."""
    return [
        {"library": Path(pool["filepath"]).name, "version": pool["version"], "threads": pool["num_threads"]}
        for pool in threadpoolctl.threadpool_info()
    ]


def oversized(pools: Iterable[Pool], threads: int) -> list[str]:
    """A sentence for each pool that has more than `threads` threads."""
    settings = " ".join(f"{name}={threads}" for name in THREAD_VARIABLES)
    return [
        f"{pool['library']} has {pool['threads']} threads where the container allows {threads}, most likely because it "
        f"was loaded before its variable was set; start the run with {settings}"
        for pool in pools
        if pool["threads"] is not None and pool["threads"] > threads
    ]
