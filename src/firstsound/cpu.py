"""How much CPU time processes have used."""

import os
from collections.abc import Iterable
from pathlib import Path

from firstsound.clock import NS_PER_S


def cpu_time_ns(pids: Iterable[int] = (), root: Path = Path("/")) -> int:
    """CPU time of this process and of `pids` so far, user and system, in nanoseconds (to the kernel's tick: 10 ms).

    A process that is gone counts nothing. `root` stands for `/`.
    """
    tick_ns = NS_PER_S // os.sysconf("SC_CLK_TCK")
    return sum(_ticks(pid, root) for pid in dict.fromkeys((os.getpid(), *pids))) * tick_ns


def _ticks(pid: int, root: Path) -> int:
    try:
        stat = (root / f"proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    # The second field is the name, which may hold spaces and brackets; utime and stime are the 14th and 15th (proc(5)).
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
