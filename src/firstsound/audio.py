"""Load a recording as the stack hears it, and find the first audible sample of an answer."""

import io

import numpy as np
import soundfile
import soxr

from firstsound.errors import FirstsoundError
from firstsound.stages import SAMPLE_RATE_HZ, Float32Audio, Int16Audio

AUDIBLE_DBFS = -45.0
"""A 10 ms window with a mean-removed RMS above this is audible."""

_WINDOW_MS = 10
_UNKNOWN_SIZE = 2**31
"""What writes a WAV to a pipe declares a size like this, since it cannot know it."""
_INT16_SCALE = 32768
_FORMATS = frozenset({"WAV", "WAVEX", "FLAC"})
"""Those of which a file that was cut short is known by its length."""


def decode(data: bytes, name: str) -> tuple[Float32Audio, int]:
    """A recording as 16 kHz mono float32, shape (n,), and the sample rate in Hz at which it was stored.

    `data` is the content of a file in any rate, sample format and channel count that libsndfile reads; channels are
    averaged. `name` is how messages call it.

    Raises:
        FirstsoundError: the data is empty, cut short, or not audio.
    """
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if file.format not in _FORMATS:
                raise FirstsoundError(f"{name}: {file.format} cannot be checked for completeness; convert it to FLAC")
            expected, rate_hz = file.frames, file.samplerate
            samples = file.read(dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError, TypeError, ValueError, MemoryError) as e:
        told = str(e).partition(">: ")[2] or str(e)  # without the address of our buffer
        raise FirstsoundError(f"{name}: not a readable recording: {told} Convert it to FLAC or WAV") from e
    if len(samples) == 0:
        raise FirstsoundError(f"{name}: the recording holds no samples")
    # libsndfile answers a file that ends early with fewer samples, in silence; of a WAV it even expects no more.
    declared = 8 + int.from_bytes(data[4:8], "little")
    if data[:4] == b"RIFF" and len(data) < declared < _UNKNOWN_SIZE:
        raise FirstsoundError(f"{name}: cut short: {len(data)} of {declared} bytes are there")
    if len(samples) < expected:
        raise FirstsoundError(f"{name}: cut short: {len(samples)} of {expected} samples are there")
    mono = samples.mean(axis=1, dtype=np.float32)
    if not np.isfinite(mono).all():
        raise FirstsoundError(f"{name}: the recording holds samples that are not finite numbers")
    return to_rate(mono, rate_hz), rate_hz


def to_rate(samples: Float32Audio, rate_hz: int) -> Float32Audio:
    """Mono float32 samples, shape (n,), resampled from `rate_hz` to 16 kHz."""
    if rate_hz == SAMPLE_RATE_HZ:
        return samples
    resampled: Float32Audio = soxr.resample(samples, rate_hz, SAMPLE_RATE_HZ).astype(np.float32)
    return resampled


def to_int16(samples: Float32Audio) -> Int16Audio:
    """Float32 samples at full scale ±1 as 16-bit PCM; what is beyond full scale is clipped."""
    scaled = np.rint(samples * _INT16_SCALE)
    return np.clip(scaled, -_INT16_SCALE, _INT16_SCALE - 1).astype(np.int16)


def to_float32(pcm: Int16Audio) -> Float32Audio:
    """16-bit PCM as float32 samples at full scale ±1."""
    return pcm.astype(np.float32) / np.float32(_INT16_SCALE)


class Onset:
    """Finds the first audible window of a sound that comes piece by piece, wherever the pieces are cut."""

    def __init__(self) -> None:
        """Begin before the first sample, where windows are counted from."""
        self._open: Float32Audio = np.zeros(0, dtype=np.float32)
        self._passed_samples = 0
        self.at_samples: int | None = None
        """Where the first audible window begins; None as long as there was none."""

    def hear(self, samples: Float32Audio, rate_hz: int) -> None:
        """Hear the next samples: mono float32, shape (n,). A window is judged when all of it is there."""
        if self.at_samples is not None:
            return
        window = _window_samples(rate_hz)
        there = np.concatenate([self._open, samples])
        whole = len(there) // window * window
        silence = leading_silence_samples(there[:whole], rate_hz)
        if silence is not None:
            self.at_samples = self._passed_samples + silence
        self._open = there[whole:]
        self._passed_samples += whole

    def end(self, rate_hz: int) -> None:
        """Nothing more comes: what is left of the last window is judged as it is."""
        if self.at_samples is None and leading_silence_samples(self._open, rate_hz) is not None:
            self.at_samples = self._passed_samples


def _window_samples(rate_hz: int) -> int:
    return max(1, rate_hz * _WINDOW_MS // 1000)


def leading_silence_samples(samples: Float32Audio, rate_hz: int) -> int | None:
    """How many samples pass before the first audible 10 ms window, or None where none is audible.

    `samples` are mono float32, shape (n,). The last window may be shorter than 10 ms.
    """
    window = _window_samples(rate_hz)
    for start in range(0, len(samples), window):
        piece = samples[start : start + window].astype(np.float64)
        rms = float(np.sqrt(np.mean(np.square(piece - piece.mean()))))
        if rms > 10 ** (AUDIBLE_DBFS / 20):
            return start
    return None
