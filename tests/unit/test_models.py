from pathlib import Path

import pytest

from firstsound.adapters import models, requantized
from firstsound.adapters.models import ModelFile
from firstsound.errors import FirstsoundError, MissingExtraError

ALL = [*models.WHISPER_TINY_EN, models.SMOLLM2_135M_Q4_1, *models.JOE_MEDIUM]


@pytest.mark.real
@pytest.mark.parametrize("file", ALL, ids=lambda file: file.path)
def test_every_model_file_is_the_one_that_was_measured(file: ModelFile) -> None:
    assert file.verified().is_file()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "some_model"
    folder.mkdir()
    # Only looked up: importing it would fail.
    (folder / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


HELLO = ModelFile(
    "some_model", "some-model", "local", "m.bin", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
)


def test_a_model_is_found_without_importing_its_package(package: Path) -> None:
    (package / "m.bin").write_text("hello")
    assert HELLO.verified() == package / "m.bin"


def test_a_missing_or_altered_model_is_told_with_the_way_out(package: Path) -> None:
    with pytest.raises(FirstsoundError, match=r"m.bin: this model file is missing; reinstall some-model"):
        HELLO.verified()
    (package / "m.bin").write_text("hallo")
    with pytest.raises(
        FirstsoundError, match=r"m.bin: this model file was altered: its sha256 is d3751d.*reinstall some-model"
    ):
        HELLO.verified()


def test_a_missing_package_is_told_with_its_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'firstsound\[local\]'"):
        ModelFile("no_such_package", "no-such-package", "local", "m.bin", "0" * 64).locate()


@pytest.mark.real
def test_the_model_is_requantized_once_and_kept_with_its_hash(tmp_path: Path) -> None:
    made = requantized.q4_0(models.SMOLLM2_135M_Q4_1, tmp_path, threads=1)
    assert made.stat().st_size < models.SMOLLM2_135M_Q4_1.locate().stat().st_size
    assert made.with_suffix(".sha256").read_text() == models.sha256_of(made)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([made.name, made.with_suffix(".sha256").name])
    stamp = made.stat().st_mtime_ns
    assert requantized.q4_0(models.SMOLLM2_135M_Q4_1, tmp_path, threads=1).stat().st_mtime_ns == stamp
    with made.open("ab") as file:
        file.write(b"x")
    with pytest.raises(FirstsoundError, match="not the one that was made; delete it"):
        requantized.q4_0(models.SMOLLM2_135M_Q4_1, tmp_path, threads=1)


def test_what_is_no_model_is_not_requantized(package: Path, tmp_path: Path) -> None:
    (package / "m.bin").write_text("hello")
    cache = tmp_path / "cache"
    with pytest.raises(FirstsoundError, match=r"m.bin: could not be requantized"):
        requantized.q4_0(HELLO, cache, threads=1)
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_told_with_the_way_out(package: Path, tmp_path: Path) -> None:
    (package / "m.bin").write_text("hello")
    (tmp_path / "file").touch()
    with pytest.raises(FirstsoundError, match="set FIRSTSOUND_CACHE to another folder"):
        requantized.q4_0(HELLO, tmp_path / "file", threads=1)


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FIRSTSOUND_CACHE", raising=False)
    assert requantized.cache_folder() == tmp_path / "firstsound"
    monkeypatch.setenv("FIRSTSOUND_CACHE", "/somewhere")
    assert requantized.cache_folder() == Path("/somewhere")
