import io

import numpy as np
import pytest
import samples
import soundfile

from firstsound import audio
from firstsound.errors import FirstsoundError
from firstsound.stages import Float32Audio


def encoded(rate_hz: int = 16_000, kind: str = "WAV", subtype: str = "PCM_16", channels: int = 1) -> bytes:
    out = io.BytesIO()
    mono = samples.spoken(rate_hz=rate_hz)
    soundfile.write(out, np.repeat(mono[:, None], channels, axis=1), rate_hz, format=kind, subtype=subtype)
    return out.getvalue()


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 44_100, 48_000])
@pytest.mark.parametrize(
    ("kind", "subtype"),
    [("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("FLAC", "PCM_16"), ("FLAC", "PCM_24")],
)
def test_any_rate_and_format_becomes_16_khz_mono_float32(rate_hz: int, kind: str, subtype: str) -> None:
    heard, stored_hz = audio.decode(encoded(rate_hz, kind, subtype), "clip")
    assert stored_hz == rate_hz
    assert heard.dtype == np.float32
    assert heard.ndim == 1
    assert len(heard) == pytest.approx(24_000, abs=2)
    assert np.abs(heard[:8000]).max() == pytest.approx(0.3, abs=0.03)
    assert np.abs(heard[9000:]).max() < 0.02


def test_an_odd_length_at_another_rate_loads() -> None:
    out = io.BytesIO()
    soundfile.write(out, np.zeros(int(1.003 * 44_100)), 44_100, format="WAV")
    assert len(audio.decode(out.getvalue(), "clip")[0]) == pytest.approx(16_048, abs=1)


def test_stereo_is_averaged() -> None:
    heard, _ = audio.decode(encoded(channels=2), "clip")
    assert np.allclose(heard, audio.decode(encoded(), "clip")[0], atol=1e-4)


def test_a_wav_that_went_through_a_pipe_and_knows_no_size_loads() -> None:
    data = bytearray(encoded())
    for size in (slice(4, 8), slice(40, 44)):
        data[size] = b"\xff\xff\xff\xff"
    assert len(audio.decode(bytes(data), "clip")[0]) == 24_000


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not a readable recording: Format not recognised. Convert it to FLAC or WAV"),
        (b"hello, this is text", "not a readable recording: Format not recognised. Convert it to FLAC or WAV"),
        (encoded()[:20], "not a readable recording"),
        (encoded(kind="FLAC")[:2000], "clip: "),
        (encoded()[:44], "holds no samples"),
        (encoded()[: len(encoded()) // 2], "cut short"),
        (encoded(subtype="FLOAT")[:-2], "cut short"),
    ],
)
def test_what_is_no_recording_is_refused_by_name(data: bytes, told: str) -> None:
    with pytest.raises(FirstsoundError, match=r"^clip: ") as e:
        audio.decode(data, "clip")
    assert told in str(e.value)


def test_samples_that_are_not_numbers_are_refused() -> None:
    out = io.BytesIO()
    soundfile.write(out, np.array([0.0, np.nan, 0.1]), 16_000, format="WAV", subtype="FLOAT")
    with pytest.raises(FirstsoundError, match="not finite"):
        audio.decode(out.getvalue(), "clip")


def test_pcm_is_clipped_not_wrapped() -> None:
    pcm = audio.to_int16(np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0], dtype=np.float32))
    assert pcm.tolist() == [-32768, -32768, 0, 16384, 32767, 32767]


def tone(rate_hz: int, seconds: float, amplitude: float = 0.3) -> Float32Audio:
    t = np.arange(int(rate_hz * seconds)) / rate_hz
    return (amplitude * np.sin(2 * np.pi * 440 * t)).astype(np.float32)


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 48_000])
def test_leading_silence_counts_up_to_the_tone(rate_hz: int) -> None:
    silence = np.zeros(rate_hz * 120 // 1000, dtype=np.float32)
    found = audio.leading_silence_samples(np.concatenate([silence, tone(rate_hz, 0.1)]), rate_hz)
    assert found is not None
    assert found / rate_hz == pytest.approx(0.120, abs=0.010)


def test_sound_at_once_has_no_leading_silence() -> None:
    assert audio.leading_silence_samples(tone(16_000, 0.1), 16_000) == 0


def test_audible_is_above_minus_45_dbfs_without_the_mean() -> None:
    # A sine of amplitude a has an RMS of a / sqrt(2): -45 dBFS is 0.00562, so 0.00795.
    assert audio.leading_silence_samples(tone(16_000, 0.1, 0.0082), 16_000) == 0
    assert audio.leading_silence_samples(tone(16_000, 0.1, 0.0077), 16_000) is None
    assert audio.leading_silence_samples(np.full(1600, 0.5, dtype=np.float32), 16_000) is None
    assert audio.leading_silence_samples(np.zeros(0, dtype=np.float32), 16_000) is None


@pytest.mark.parametrize("size", [1, 7, 220, 221, 480, 100_000])
@pytest.mark.parametrize("silence", [0, 1, 132, 2_205])
@pytest.mark.parametrize("length", [100, 4_410])
def test_the_onset_is_where_it_is_wherever_the_sound_is_cut(size: int, silence: int, length: int) -> None:
    """A soft beginning, whose windows are audible or not by where they lie."""
    rise = np.linspace(0, 0.05, length) * np.sin(2 * np.pi * 120 / 22_050 * np.arange(length))
    whole = np.concatenate([np.zeros(silence), rise]).astype(np.float32)
    onset = audio.Onset()
    for i in range(0, len(whole), size):
        onset.hear(whole[i : i + size], 22_050)
    onset.end(22_050)
    assert onset.at_samples == audio.leading_silence_samples(whole, 22_050)
    assert onset.at_samples is not None


def test_silence_has_no_onset() -> None:
    onset = audio.Onset()
    onset.hear(np.zeros(1_000, dtype=np.float32), 16_000)
    onset.end(16_000)
    assert onset.at_samples is None


@pytest.mark.parametrize("kind", ["AIFF", "AU", "W64", "OGG"])
def test_a_format_whose_loss_cannot_be_seen_is_refused(kind: str) -> None:
    with pytest.raises(FirstsoundError, match=f"clip: {kind} cannot be checked for completeness"):
        audio.decode(encoded(kind=kind, subtype="VORBIS" if kind == "OGG" else "PCM_16"), "clip")
