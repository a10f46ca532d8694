import os
from pathlib import Path

from firstsound.cpu import cpu_time_ns

LINE = "{} (a (strange) name) S 1 2 3 4 5 6 7 8 9 10 {} {} 15 16"


def test_user_and_system_time_of_all_processes_are_added_up(tmp_path: Path) -> None:
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")
    for pid, user, system in ((os.getpid(), 100, 20), (7, 3, 4)):
        folder = tmp_path / f"proc/{pid}"
        folder.mkdir(parents=True)
        (folder / "stat").write_text(LINE.format(pid, user, system))
    assert cpu_time_ns((7, 7), tmp_path) == 127 * tick_ns
    assert cpu_time_ns((8,), tmp_path) == 120 * tick_ns


def test_work_takes_time() -> None:
    before_ns = cpu_time_ns()
    while cpu_time_ns() == before_ns:
        pass
    assert cpu_time_ns() > before_ns
