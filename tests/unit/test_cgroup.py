from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firstsound.cgroup import Hierarchy, find_hierarchy, read_count, read_table, read_text

V1_CPU = "33 31 0:30 {inside} /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
V1_CPUSET = "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
V1_NAMED = "41 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
V2 = "30 23 0:26 {inside} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V2_HYBRID = "42 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"


def grow(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def host(root: Path, mountinfo: str, cgroup: str, *folders: str) -> Path:
    for folder in folders:
        (root / "sys/fs/cgroup" / folder).mkdir(parents=True, exist_ok=True)
    return grow(root, {"proc/self/mountinfo": mountinfo, "proc/self/cgroup": cgroup})


@pytest.mark.parametrize(
    ("inside", "path", "folder", "group"),
    [
        pytest.param("/", "/", ".", ".", id="root"),
        pytest.param("/", "/a/b", "a/b", "a/b", id="nested"),
        pytest.param("/", "/a:b", "a:b", "a:b", id="colon in the name"),
        pytest.param("/", "/docker/1f", ".", ".", id="host's path, not there"),
        pytest.param("/docker/1f", "/docker/1f", ".", ".", id="container without a namespace"),
        pytest.param("/docker/1f", "/docker/1f/job", "job", "job", id="below a container without a namespace"),
        pytest.param("/docker/1f", "/docker/2e", "docker/2e", ".", id="beside what is mounted"),
        pytest.param("/", "/../a", "../a", ".", id="outside the namespace"),
        pytest.param("/..", "/", ".", ".", id="mounted from outside the namespace"),
        pytest.param("/", "/a (deleted)", "a", ".", id="deleted"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_group_is_found_or_else_the_mount(
    tmp_path: Path, *, version: int, inside: str, path: str, folder: str, group: str
) -> None:
    base = "cpu,cpuacct" if version == 1 else "."
    mountinfo = (V1_NAMED + V1_CPUSET + V1_CPU if version == 1 else V2).format(inside=inside)
    cgroup = f"9:name=systemd:/elsewhere\n5:cpuset:/\n4:cpu,cpuacct:{path}\n" if version == 1 else f"0::{path}\n"
    root = host(tmp_path, mountinfo, cgroup, f"{base}/{folder}")
    if version == 2:
        grow(root, {"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory\n"})
    top = root / "sys/fs/cgroup" / base
    assert find_hierarchy("cpu", root) == Hierarchy(version, top, top / group)


def test_hybrid_host_uses_the_hierarchy_that_has_the_controller(tmp_path: Path) -> None:
    root = host(
        tmp_path, V2_HYBRID + V1_CPU.format(inside="/"), "1:cpu,cpuacct:/a\n0::/b\n", "cpu,cpuacct/a", "unified/b"
    )
    grow(root, {"sys/fs/cgroup/unified/cgroup.controllers": "memory\n"})
    cpu, memory = find_hierarchy("cpu", root), find_hierarchy("memory", root)
    assert cpu is not None
    assert (cpu.version, cpu.group) == (1, root / "sys/fs/cgroup/cpu,cpuacct/a")
    assert memory is not None
    assert (memory.version, memory.group) == (2, root / "sys/fs/cgroup/unified/b")


@pytest.mark.parametrize("controllers", [None, "", "cpuset io\n"])
def test_version_2_mount_without_the_controller_does_not_count(tmp_path: Path, controllers: str | None) -> None:
    root = host(tmp_path, V2.format(inside="/"), "0::/\n", ".")
    if controllers is not None:
        grow(root, {"sys/fs/cgroup/cgroup.controllers": controllers})
    assert find_hierarchy("cpu", root) is None


def test_no_cgroup_at_all(tmp_path: Path) -> None:
    assert find_hierarchy("cpu", tmp_path) is None


def test_upward_goes_from_the_group_to_the_mount_and_no_further() -> None:
    top = Path("/sys/fs/cgroup")
    assert Hierarchy(2, top, top / "a/b").upward() == [top / "a/b", top / "a", top]
    assert Hierarchy(2, top, top).upward() == [top]


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("0", 0),
        ("4096", 4096),
        ("max", None),
        ("-1", None),
        ("", None),
        ("1.5", None),
        ("9223372036854771712", None),  # no limit, with pages of 4 KiB
        ("9223372036854710272", None),  # and of 64 KiB
        (str(2**62 - 1), 2**62 - 1),
        ("9" * 5000, None),
    ],
)
def test_read_count(word: str, number: int | None) -> None:
    assert read_count(word) == number


def test_read_table_leaves_out_what_it_cannot_read(tmp_path: Path) -> None:
    grow(tmp_path, {"stat": "a 1\nb -1\nc\n\nd x\ne 2 3\nf 4"})
    assert read_table(tmp_path / "stat") == {"a": 1, "f": 4}
    assert read_table(tmp_path / "missing") == {}


def test_stray_byte_hides_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "stat").write_bytes(b"a 1\n\xff 2\nf 4\n")
    table = read_table(tmp_path / "stat")
    assert (table["a"], table["f"]) == (1, 4)


def test_unreadable_text_is_empty(tmp_path: Path) -> None:
    assert read_text(tmp_path) == ""
    assert read_text(tmp_path / "a\0b") == ""


@example(mountinfo=b"1 2 3 / /\0 - cgroup2 x", cgroup=b"")
@example(mountinfo=b"1 2 3 / / - cgroup cpu", cgroup=b"1:cpu:/a\0b")
@example(mountinfo=b"1 2 3 / / - cgroup cpu", cgroup=b"1:cpu:/" + b"a" * 300)
@example(mountinfo=b"1 2 3 / / - cgroup cpu", cgroup=b"\xff:cpu:")
@given(mountinfo=st.binary(), cgroup=st.binary())
def test_malformed_files_never_raise(tmp_path_factory: pytest.TempPathFactory, mountinfo: bytes, cgroup: bytes) -> None:
    root = tmp_path_factory.getbasetemp() / "malformed"
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/mountinfo").write_bytes(mountinfo)
    (root / "proc/self/cgroup").write_bytes(cgroup)
    found = find_hierarchy("cpu", root)
    assert found is None or found.upward()[-1] == found.top
