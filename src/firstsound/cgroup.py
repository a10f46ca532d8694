"""Where the kernel accounts for this process: its control group in each hierarchy, version 1 or 2.

Nothing here raises for what the kernel says or leaves out. A file that is missing, unreadable or malformed sets no
limit and gives no figure: hosts differ too much for a benchmark to refuse one for a file that it only reports.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_UNLIMITED = 2**62
"""Version 1 writes "no limit" as the largest page-aligned signed number, which depends on the page size."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The hierarchy that carries a controller, and this process's group in it."""

    version: int
    """1 or 2."""
    top: Path
    """Where it is mounted; in a container, mostly the container's own group."""
    group: Path
    """The process's group: `top` or a folder below."""

    def upward(self) -> list[Path]:
        """The process's group, its parent and so on up to `top`: a limit at any of them holds."""
        return [path for path in (self.group, *self.group.parents) if path.is_relative_to(self.top)]


def find_hierarchy(controller: str, root: Path = Path("/")) -> Hierarchy | None:
    """The hierarchy that carries `controller` ("cpu", "memory"), or None where none is mounted.

    `root` stands for `/`. The kernel binds a controller to one hierarchy, so on a hybrid host the first mount that has
    it is the only one: a version 2 mount does not list what a version 1 mount holds.
    """
    for line in read_text(root / "proc/self/mountinfo").splitlines():
        mount, _, kind = line.partition(" - ")
        match mount.split(), kind.split():
            case [_, _, _, inside, point, *_], ["cgroup", *_, options] if controller in options.split(","):
                version = 1
            case [_, _, _, inside, point, *_], ["cgroup2", *_]:
                if controller not in read_text(_under(root, point) / "cgroup.controllers").split():
                    continue
                version = 2
            case _:
                continue
        top = _under(root, point)
        return Hierarchy(version, top, _own_group(top, inside, _own_path(controller if version == 1 else "", root)))
    return None


def read_text(path: Path) -> str:
    """The text of a kernel file, or "" where it cannot be read."""
    # ValueError: a path out of a malformed mountinfo may hold a NUL.
    with contextlib.suppress(OSError, ValueError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def read_count(word: str) -> int | None:
    """The number that `word` says, or None where it sets no limit: "max", -1, version 1's huge number, or no number."""
    with contextlib.suppress(ValueError):
        number = int(word)
        if 0 <= number < _UNLIMITED:
            return number
    return None


def read_table(path: Path) -> dict[str, int]:
    """The `name number` lines of a kernel file; other lines are left out."""
    table = {}
    for line in read_text(path).splitlines():
        name, _, word = line.partition(" ")
        number = read_count(word)
        if number is not None:
            table[name] = number
    return table


def _under(root: Path, path: str) -> Path:
    return root / path.lstrip("/")


def _own_path(controller: str, root: Path) -> str:
    """The group's path as the kernel tells it; version 2 has the line without controllers, so `controller` is ""."""
    for line in read_text(root / "proc/self/cgroup").splitlines():
        match line.split(":", 2):
            case [_, controllers, path] if controller in controllers.split(","):
                return path
    return "/"


def _own_group(top: Path, inside: str, path: str) -> Path:
    """The folder of group `path`, where `top` shows the part of the hierarchy from `inside` on.

    In a container, `path` may be the host's, and lie above or beside what is mounted; `top` is then the container's
    group.
    """
    with contextlib.suppress(OSError, ValueError):
        below = PurePosixPath(path).relative_to(inside)
        if ".." not in below.parts and (top / below).is_dir():
            return top / below
    return top
