"""The recording of a live turn, which is the judge of its silence: the user on the left, the answer on the right."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr

from firstsound import audio
from firstsound.clock import NS_PER_S
from firstsound.errors import FirstsoundError
from firstsound.stages import SAMPLE_RATE_HZ, Float32Audio, Int16Audio


@dataclass(frozen=True, slots=True)
class Recording:
    """Both sides on one time line that begins with the clip's first sample."""

    pcm: Int16Audio
    """int16, shape (n, 2): user, answer."""
    rate_hz: int

    @property
    def answer(self) -> Int16Audio:
        """The right channel: int16, shape (n,)."""
        right: Int16Audio = self.pcm[:, 1]
        return right

    def first_sound_ns(self, begin: int) -> int | None:
        """When the first audible 10 ms of the answer begin, since the first sample; None where nothing is audible.

        The windows are counted from sample `begin`, where the answer's first chunk was put on.
        """
        silence = audio.leading_silence_samples(audio.to_float32(self.answer[begin:]), self.rate_hz)
        return None if silence is None else (begin + silence) * NS_PER_S // self.rate_hz

    def write(self, path: Path) -> None:
        """Write it as a FLAC file.

        Raises:
            FirstsoundError: the file cannot be written.
        """
        file = io.BytesIO()
        soundfile.write(file, self.pcm, self.rate_hz, format="FLAC", subtype="PCM_16")
        try:
            path.write_bytes(file.getvalue())
        except OSError as e:
            raise FirstsoundError(f"{path}: the recording cannot be written: {e}") from e


def record(user: Float32Audio, answer: Float32Audio, rate_hz: int) -> Recording:
    """Lay the user's clip (16 kHz) and the answer (`rate_hz`), both mono float32 from the same moment on, side by side.

    The recording has the answer's rate, so that its samples are the ones that were played; the longer side decides on
    the length.
    """
    left = user if rate_hz == SAMPLE_RATE_HZ else soxr.resample(user, SAMPLE_RATE_HZ, rate_hz)
    pcm = np.zeros((max(len(left), len(answer)), 2), dtype=np.int16)
    pcm[: len(left), 0] = audio.to_int16(left)
    pcm[: len(answer), 1] = audio.to_int16(answer)
    return Recording(pcm, rate_hz)
