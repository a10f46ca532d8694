"""The language model in Q4_0, made once from the shipped Q4_1 and kept in a cache folder beside its hash.

llama.cpp repacks Q4_0 at load time for wide integer instructions, which Q4_1 cannot use: the prompt is read about three
times as fast, for the same text.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from firstsound.adapters.models import ModelFile, sha256_of
from firstsound.errors import FirstsoundError

TIMEOUT_S = 300

# In a process of its own, so that the library's memory is not counted as the suite's.
_SCRIPT = """
import sys, llama_cpp
p = llama_cpp.llama_model_quantize_default_params()
p.ftype, p.allow_requantize, p.nthread = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, True, int(sys.argv[3])
sys.exit(llama_cpp.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), p))
"""


def cache_folder() -> Path:
    """Where derived models are kept: $FIRSTSOUND_CACHE, or `firstsound` in the user's cache folder."""
    if chosen := os.environ.get("FIRSTSOUND_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firstsound"


def q4_0(source: ModelFile, folder: Path, threads: int) -> Path:
    """The Q4_0 form of `source`, made if it is not in `folder` yet.

    The file is written aside and renamed, so that a run that is interrupted, or a second one, leaves no half file.

    Raises:
        FirstsoundError: the source is missing or altered, the library refuses it, the folder cannot be written, or the
            kept file is not the one that was made.
    """
    kept = folder / f"{Path(source.path).stem}-{source.sha256[:12]}-q4_0.gguf"
    stamp = kept.with_suffix(".sha256")
    if kept.is_file() and stamp.is_file():
        if sha256_of(kept) != stamp.read_text().strip():
            raise FirstsoundError(f"{kept}: this file is not the one that was made; delete it, and it is made again")
        return kept
    original = source.verified()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            made = Path(aside) / kept.name
            done = subprocess.run(  # noqa: S603 - our own interpreter and script
                [sys.executable, "-c", _SCRIPT, str(original), str(made), str(threads)],
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            if done.returncode != 0 or not made.is_file():
                told = done.stderr.decode(errors="replace").strip()[-500:]
                raise FirstsoundError(f"{original}: could not be requantized (exit {done.returncode}): {told}")
            new_stamp = Path(aside) / stamp.name
            new_stamp.write_text(sha256_of(made))
            made.replace(kept)
            new_stamp.replace(stamp)
    except subprocess.TimeoutExpired as e:
        raise FirstsoundError(f"{original}: requantizing takes longer than {TIMEOUT_S} s; is this machine busy?") from e
    except OSError as e:
        raise FirstsoundError(
            f"{folder}: cannot keep the requantized model there: {e}; set FIRSTSOUND_CACHE to another folder"
        ) from e
    return kept
