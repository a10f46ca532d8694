import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from firstsound import memory
from firstsound.clock import MonotonicClock
from firstsound.errors import FirstsoundError
from firstsound.memory import ContainerMemory, MemoryMonitor, MemorySample, container_memory, peak_bytes, pss_bytes

MIB = 2**20
NEVER_S = 3600.0
"""An interval that leaves the first and the last sample only."""

ECHO = "import sys\nprint(flush=True)\nsys.stdin.read()"
MAP = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    pages = sum(view[at] for at in range(0, len(view), 4096))
print(flush=True)
sys.stdin.read()
"""
SPIKE = """
import sys, time
print(flush=True)
sys.stdin.readline()
block = b"x" * (200 * 2**20)
time.sleep(0.05)
del block
print(flush=True)
sys.stdin.read()
"""


class TickClock:
    """A clock that moves on by one nanosecond each time it is read."""

    def __init__(self) -> None:
        self._ns = 0

    def now_ns(self) -> int:
        self._ns += 1
        return self._ns

    def sleep_ns(self, duration_ns: int) -> None:
        raise NotImplementedError


@contextmanager
def child(script: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        wait_for_line(process)
        try:
            yield process
        finally:
            process.kill()


def wait_for_line(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "\n"


def end(process: "subprocess.Popen[str]", *, reap: bool) -> None:
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    if reap:
        process.wait()


def grow(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_two_processes_that_map_one_file_count_it_once(tmp_path: Path) -> None:
    shared = tmp_path / "model.bin"
    shared.write_bytes(b"x" * (100 * MIB))
    with child(MAP, str(shared)) as first, child(MAP, str(shared)) as second:
        pids = (first.pid, second.pid)
        with MemoryMonitor(MonotonicClock(), lambda: pids, NEVER_S) as monitor:
            pass
        shares = [pss_bytes(pid) for pid in pids]
    assert all(monitor.peaks[pid] > 100 * MIB for pid in pids)
    assert 100 * MIB < sum(shares) < 150 * MIB
    sampled = monitor.samples[-1].process_bytes
    assert 100 * MIB < sum(sampled[pid] for pid in pids) < 150 * MIB


def test_spike_between_samples_is_seen_in_the_peak() -> None:
    with child(SPIKE) as process:
        with MemoryMonitor(MonotonicClock(), lambda: [process.pid], NEVER_S) as monitor:
            before_bytes = monitor.peaks[process.pid]
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            wait_for_line(process)
        assert peak_bytes(process.pid) == monitor.peaks[process.pid]
    assert before_bytes < 100 * MIB
    assert max(sample.process_bytes[process.pid] for sample in monitor.samples) < 100 * MIB
    assert monitor.peaks[process.pid] > 200 * MIB


def test_samples_hold_this_process_and_the_others_at_once() -> None:
    with child(ECHO) as process, MemoryMonitor(TickClock(), lambda: [process.pid, os.getpid()], NEVER_S) as monitor:
        pass
    assert [(sample.at_ns, sample.took_ns) for sample in monitor.samples] == [(1, 1), (3, 1)]
    for sample in monitor.samples:
        assert list(sample.process_bytes) == [os.getpid(), process.pid]
        assert min(sample.process_bytes.values()) > MIB
        assert sample.total_bytes == sum(sample.process_bytes.values())
    assert monitor.peaks.keys() == {os.getpid(), process.pid}
    assert monitor.lost == []


def test_total_is_the_sum() -> None:
    assert MemorySample(0, 1, {7: 100, 8: 20}, None).total_bytes == 120


def test_samples_carry_the_tag_that_was_set() -> None:
    reached = threading.Semaphore(0)

    def pids() -> list[int]:
        reached.release()
        return []

    with MemoryMonitor(MonotonicClock(), pids, interval_s=0.001) as monitor:
        for tag in (("live", "q01", 0), ("live", "q02", 0)):
            monitor.tag = tag
            # The first may be of a sample that had begun.
            assert reached.acquire(timeout=10)
            assert reached.acquire(timeout=10)
            assert reached.acquire(timeout=10)
        monitor.tag = None
    tags = [sample.tag for sample in monitor.samples]
    assert list(dict.fromkeys(tags)) == [None, ("live", "q01", 0), ("live", "q02", 0)]
    assert tags[-1] is None
    starts_ns = [sample.at_ns for sample in monitor.samples]
    assert starts_ns == sorted(starts_ns)


@pytest.mark.parametrize("reap", [True, False], ids=["reaped", "zombie"])
@pytest.mark.parametrize("listed", [True, False], ids=["still listed", "no longer listed"])
def test_process_that_dies_is_lost_and_its_peak_is_kept(*, reap: bool, listed: bool) -> None:
    with child(ECHO) as process:
        pids = [process.pid]
        with MemoryMonitor(MonotonicClock(), lambda: pids, NEVER_S) as monitor:
            assert monitor.lost == []
            peak_before_bytes = monitor.peaks[process.pid]
            end(process, reap=reap)
            if not listed:
                pids.clear()
    assert monitor.lost == [process.pid]
    assert monitor.samples[0].process_bytes.keys() == {os.getpid(), process.pid}
    assert monitor.samples[-1].process_bytes.keys() == {os.getpid()}
    assert monitor.peaks[process.pid] == peak_before_bytes > MIB


def test_process_that_lives_but_is_no_longer_listed_is_not_lost() -> None:
    with child(ECHO) as process:
        pids = [process.pid]
        with MemoryMonitor(MonotonicClock(), lambda: pids, NEVER_S) as monitor:
            pids.clear()
    assert monitor.lost == []
    assert monitor.samples[-1].process_bytes.keys() == {os.getpid()}


def test_lost_process_is_listed_once_and_not_sampled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    alive = pss_bytes

    def reused(pid: int) -> int:
        if pid == os.getpid() or monitor.lost:
            return alive(os.getpid())
        raise ProcessLookupError

    monkeypatch.setattr(memory, "pss_bytes", reused)
    monitor = MemoryMonitor(MonotonicClock(), lambda: [os.getpid(), 2**30], NEVER_S)
    with monitor:
        pass
    assert monitor.lost == [2**30]
    assert all(sample.process_bytes.keys() == {os.getpid()} for sample in monitor.samples)


class Scripted:
    """Names no process, and fails at one call."""

    def __init__(self, fail_at: int) -> None:
        self._fail_at = fail_at
        self.calls = 0
        self.failed = threading.Event()

    def __call__(self) -> list[int]:
        self.calls += 1
        if self.calls == self._fail_at:
            self.failed.set()
            raise OSError("no list of processes")
        return []


def test_error_in_the_thread_is_raised_on_leaving() -> None:
    pids = Scripted(fail_at=2)
    with (
        pytest.raises(OSError, match="no list of processes"),
        MemoryMonitor(MonotonicClock(), pids, interval_s=0.001) as monitor,
    ):
        assert pids.failed.wait(10)
    assert pids.calls == 2
    assert len(monitor.samples) == 1


def test_error_in_the_last_sample_is_raised_on_leaving() -> None:
    with pytest.raises(OSError, match="no list"), MemoryMonitor(MonotonicClock(), Scripted(fail_at=2), NEVER_S):
        pass


def test_error_in_the_first_sample_is_raised_on_entering() -> None:
    entered = False
    with pytest.raises(OSError, match="no list"), MemoryMonitor(MonotonicClock(), Scripted(fail_at=1), NEVER_S):
        entered = True
    assert not entered


def test_error_in_the_thread_does_not_hide_the_runs_own() -> None:
    with pytest.raises(KeyError) as caught, MemoryMonitor(MonotonicClock(), Scripted(fail_at=2), NEVER_S):
        raise KeyError("the run's")
    assert caught.value.__notes__ == ["The memory monitor failed too: OSError('no list of processes')"]


def test_runs_own_error_passes_through() -> None:
    with pytest.raises(KeyError) as caught, MemoryMonitor(MonotonicClock(), interval_s=NEVER_S):
        raise KeyError("the run's")
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("read", [pss_bytes, peak_bytes])
@pytest.mark.parametrize("reap", [True, False], ids=["reaped", "zombie"])
def test_process_that_is_gone_has_no_figure(read: Callable[[int], int], *, reap: bool) -> None:
    with child(ECHO) as process:
        end(process, reap=reap)
        with pytest.raises(ProcessLookupError):
            read(process.pid)


def test_kernel_that_does_not_tell_is_an_error_not_a_lost_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path, **_: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    with pytest.raises(FirstsoundError, match=r"smaps_rollup is missing"):
        pss_bytes(os.getpid())


V1_FILES = {
    "proc/self/mountinfo": "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    "proc/self/cgroup": "4:memory:/a/b\n",
    "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes": "1000\n",
    "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/a/b/memory.stat": "cache 1\nrss 2\nshmem 0\ntotal_cache 400\ntotal_rss 500\ntotal_shmem 30\n",
    "sys/fs/cgroup/memory/a/b/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
}
V2_FILES = {
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "proc/self/cgroup": "0::/a/b\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    "sys/fs/cgroup/a/b/memory.current": "1000\n",
    "sys/fs/cgroup/a/b/memory.max": "max\n",
    "sys/fs/cgroup/a/b/memory.stat": "anon 500\nfile 400\nkernel 50\nshmem 30\n",
    "sys/fs/cgroup/a/b/memory.events": "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\n",
}
V2_PARENT = {
    "sys/fs/cgroup/a/memory.max": "9000\n",
    "sys/fs/cgroup/a/memory.current": "8000\n",
    "sys/fs/cgroup/a/memory.stat": "anon 6000\nfile 1500\nshmem 0\n",
    "sys/fs/cgroup/a/memory.events": "oom_kill 7\n",
}
V1_STAT = "sys/fs/cgroup/memory/a/b/memory.stat"
V2_STAT = "sys/fs/cgroup/a/b/memory.stat"
ACCOUNT = ContainerMemory(1000, 500, 370, 30, None, 2)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, None, id="no cgroup at all"),
        pytest.param(V1_FILES, ACCOUNT, id="v1"),
        pytest.param(V2_FILES, ACCOUNT, id="v2"),
        pytest.param(
            V1_FILES | {V1_STAT: "cache 400\nrss 500\nshmem 30\n"}, ACCOUNT, id="v1 without the children's figures"
        ),
        pytest.param(
            V1_FILES | {"sys/fs/cgroup/memory/memory.limit_in_bytes": "2000\n"},
            None,
            id="v1 bounded by a group that is mute",
        ),
        pytest.param(
            V1_FILES | {"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "2000\n"},
            ContainerMemory(1000, 500, 370, 30, 2000, 2),
            id="v1 limit",
        ),
        pytest.param(V2_FILES | V2_PARENT, ContainerMemory(8000, 6000, 1500, 0, 9000, 2), id="v2 parent has the limit"),
        pytest.param(
            V2_FILES | {V2_STAT: "anon 500\nfile 400\n"}, ContainerMemory(1000, 500, 400, 0, None, 2), id="v2 no shmem"
        ),
        pytest.param(
            V2_FILES | {"sys/fs/cgroup/a/b/memory.events": ""},
            ContainerMemory(1000, 500, 370, 30, None, None),
            id="v2 no events",
        ),
        pytest.param(V2_FILES | {V2_STAT: "anon 500\n"}, None, id="v2 no file"),
        pytest.param(V2_FILES | {V2_STAT: "file 400\n"}, None, id="v2 no anon"),
        pytest.param(V2_FILES | {"sys/fs/cgroup/a/b/memory.current": "?\n"}, None, id="v2 malformed usage"),
    ],
)
def test_container_memory(tmp_path: Path, files: dict[str, str], expected: ContainerMemory | None) -> None:
    assert container_memory(grow(tmp_path, files)) == expected


@pytest.mark.parametrize(("usage_bytes", "file_bytes", "expected"), [(1000, 400, 600), (1000, 1001, 0)])
def test_unreclaimable_is_usage_without_the_page_cache(usage_bytes: int, file_bytes: int, expected: int) -> None:
    assert ContainerMemory(usage_bytes, 500, file_bytes, 0, None, 0).unreclaimable_bytes == expected
