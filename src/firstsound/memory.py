"""How much memory the stack takes: the processes' share at one instant, their peaks, and the container's account."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from firstsound.cgroup import find_hierarchy, read_count, read_table, read_text
from firstsound.clock import Clock
from firstsound.errors import FirstsoundError
from firstsound.limits import tightest_memory


def pss_bytes(pid: int) -> int:
    """The process's proportional set size: its own pages, and its share of those that others map too.

    Summed over processes it counts each page once, which resident sizes do not.

    Raises:
        ProcessLookupError: the process is gone, or has ended and is not yet reaped.
        FirstsoundError: the kernel does not tell.
    """
    # The kernel walks the page tables for this, some 1.3 ms for 100 MB in small pages. psutil reads the same file and
    # takes as long; read here, a process that is gone differs from a kernel that does not tell.
    return _kib_field(pid, "smaps_rollup", "Pss:") * 1024


def peak_bytes(pid: int) -> int:
    """The highest resident size that the process has had (VmHWM); shared pages count in full.

    Raises:
        ProcessLookupError: the process is gone, or has ended and is not yet reaped.
        FirstsoundError: the kernel does not tell.
    """
    return _kib_field(pid, "status", "VmHWM:") * 1024


def _kib_field(pid: int, file: str, name: str) -> int:
    folder = Path(f"/proc/{pid}")
    try:
        lines = (folder / file).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        if folder.exists():
            raise FirstsoundError(f"{folder / file} is missing; measuring memory needs Linux 4.14 or later") from None
        raise ProcessLookupError(f"process {pid} is gone") from None
    for line in lines:
        if line.startswith(name):
            return int(line.split()[1])
    # Without memory of its own a process is a zombie.
    raise ProcessLookupError(f"process {pid} has ended")


@dataclass(frozen=True, slots=True)
class MemorySample:
    """The processes' memory at one instant."""

    at_ns: int
    """When the sample began, on the monitor's clock."""
    took_ns: int
    """How long it took: the processes were read within this time."""
    process_bytes: Mapping[int, int]
    """The proportional set size by pid, of the processes that were there."""
    tag: tuple[str, str, int] | None
    """What the run said was under way: mode, query and round."""

    @property
    def total_bytes(self) -> int:
        """The memory of all the processes together."""
        return sum(self.process_bytes.values())


class MemoryMonitor:
    """Samples the memory of this process and others from a thread, within a `with` statement.

    The first sample is taken on entering and the last on leaving. An error while sampling ends it, and is raised on
    leaving.
    """

    def __init__(self, clock: Clock, pids: Callable[[], Iterable[int]] = tuple, interval_s: float = 0.1) -> None:
        """Watch this process and those that `pids` names at each sample, with `interval_s` seconds between samples.

        `pids` is called from the monitor's thread.
        """
        self.samples: list[MemorySample] = []
        self.peaks: dict[int, int] = {}
        """The highest resident size in bytes by pid, as last seen; of processes that are gone too."""
        self.lost: list[int] = []
        """The processes that were gone when they were to be sampled, first lost first."""
        self.tag: tuple[str, str, int] | None = None
        """What is under way, for the samples to carry; set it at any time."""
        self._clock = clock
        self._pids = pids
        self._interval_s = interval_s
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="firstsound-memory", daemon=True)

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is None:
            return
        if failure is None:
            raise self._error
        # The run's own failure comes first; the monitor's is not lost.
        failure.add_note(f"The memory monitor failed too: {self._error!r}")

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._interval_s):
                self._sample()
            self._sample()
        except BaseException as error:  # noqa: BLE001 - raised on leaving the `with`
            self._error = error

    def _sample(self) -> None:
        # A lost process stays lost: its number may be another's by now.
        listed = [pid for pid in dict.fromkeys((os.getpid(), *self._pids())) if pid not in self.lost]
        tag = self.tag
        start_ns = self._clock.now_ns()
        process_bytes = {}
        for pid in listed:
            try:
                process_bytes[pid] = pss_bytes(pid)
            except ProcessLookupError:
                self.lost.append(pid)
        took_ns = self._clock.now_ns() - start_ns
        self.samples.append(MemorySample(start_ns, took_ns, process_bytes, tag))
        # A process that died and that `pids` no longer names is lost all the same.
        for pid in {*listed, *self.peaks} - {*self.lost}:
            try:
                self.peaks[pid] = peak_bytes(pid)
            except ProcessLookupError:
                self.lost.append(pid)


@dataclass(frozen=True, slots=True)
class ContainerMemory:
    """The kernel's account of the container's memory, with the page cache apart."""

    usage_bytes: int
    """All that is charged to the group, reclaimable or not."""
    anon_bytes: int
    """What the processes allocated."""
    file_bytes: int
    """Page cache that can be reclaimed: being full of it is no shortage."""
    shmem_bytes: int
    """Shared memory and tmpfs, which the kernel counts as cache and cannot reclaim."""
    limit_bytes: int | None
    oom_kills: int | None
    """Processes of this process's group that the kernel killed for want of memory; None where it does not count."""

    @property
    def unreclaimable_bytes(self) -> int:
        """What stays when the page cache goes: the figure to hold against the limit."""
        # The kernel updates the two figures apart from each other.
        return max(0, self.usage_bytes - self.file_bytes)


def container_memory(root: Path = Path("/")) -> ContainerMemory | None:
    """The account of the group that has the lowest limit, else of the process's own; None where the kernel keeps none.

    `root` stands for `/`.
    """
    memory = find_hierarchy("memory", root)
    if memory is None:
        return None
    bound = tightest_memory(root)
    group = bound.group if bound else memory.group
    stat = read_table(group / "memory.stat")
    # Version 1 has the group's own figures without `total_`, and those with its children only where it adds them up.
    v1 = memory.version == 1
    usage_bytes = read_count(read_text(group / ("memory.usage_in_bytes" if v1 else "memory.current")).strip())
    anon_bytes = stat.get("total_rss", stat.get("rss")) if v1 else stat.get("anon")
    cache_bytes = stat.get("total_cache", stat.get("cache")) if v1 else stat.get("file")
    if usage_bytes is None or anon_bytes is None or cache_bytes is None:
        return None
    # Kernels that do not tell shared memory apart leave it within the cache.
    shmem_bytes = stat.get("total_shmem", stat.get("shmem", 0))
    # A kill counts in the victim's group, whichever group's limit it was; version 2 counts it upward as well.
    events = read_table(memory.group / ("memory.oom_control" if v1 else "memory.events"))
    return ContainerMemory(
        usage_bytes=usage_bytes,
        anon_bytes=anon_bytes,
        file_bytes=max(0, cache_bytes - shmem_bytes),
        shmem_bytes=shmem_bytes,
        limit_bytes=bound.limit_bytes if bound else None,
        oom_kills=events.get("oom_kill"),
    )
