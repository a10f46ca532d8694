from pathlib import Path

import numpy as np
import pytest
import samples
import soundfile
import yaml

from firstsound import manifest
from firstsound.clock import AudioTime
from firstsound.errors import FirstsoundError
from firstsound.manifest import Clip
from firstsound.stages import Float32Audio

ROOT = Path(__file__).parents[2]


def test_the_projects_own_clips_load_and_are_as_varied_as_they_should_be() -> None:
    path = ROOT / "fixtures/audio/manifest.yaml"
    clips = manifest.load(path)
    assert len(clips) == 12
    assert len({clip.expected_passage for clip in clips}) == 12
    made = [entry["made"] for entry in yaml.safe_load(path.read_text())["clips"]]
    assert len({m["voice"] for m in made}) >= 4
    assert sum(300 <= (m["pause_ms"] or 0) <= 450 for m in made) >= 2
    for clip in clips:
        assert (len(clip.samples) - end(clip)) / 16_000 >= 1.5
        assert 2 <= (end(clip) - begin(clip)) / 16_000 <= 6
    files = [soundfile.info(path.parent / f"{clip.query}.flac") for clip in clips]
    assert {(f.format, f.subtype, f.samplerate, f.channels) for f in files} == {("FLAC", "PCM_16", 16_000, 1)}


def begin(clip: Clip) -> int:
    return clip.speech_start.ns * 16_000 // 10**9


def end(clip: Clip) -> int:
    return clip.speech_end.ns * 16_000 // 10**9


def level_db(samples: Float32Audio) -> float:
    return float(10 * np.log10(np.mean(np.square(samples.astype(np.float64)))))


def test_the_clips_that_are_to_be_hard_are() -> None:
    """As their sound says, not as their recipes do."""
    clips = {clip.query: clip for clip in manifest.load(ROOT / "fixtures/audio/manifest.yaml")}
    speech = {name: clip.samples[begin(clip) : end(clip)] for name, clip in clips.items()}
    after = {name: clip.samples[end(clip) + 1_600 :] for name, clip in clips.items()}
    # Quiet.
    assert 20 * np.log10(np.abs(speech["q08"]).max()) == pytest.approx(-30, abs=1)
    # Steady noise.
    assert level_db(speech["q09"]) - level_db(after["q09"]) == pytest.approx(15, abs=0.5)
    assert level_db(after["q09"][:8_000]) == pytest.approx(level_db(after["q09"][-8_000:]), abs=1)
    # Trails off: the last half second against what was before, which in no other clip is so much louder.
    falls = {name: level_db(samples[:-8_000]) - level_db(samples[-8_000:]) for name, samples in speech.items()}
    assert max(falls, key=falls.__getitem__) == "q10"
    # A breath after the end: a burst far above the room tone.
    bursts = {name: loudest_20_ms_db(samples) - level_db(samples[-8_000:]) for name, samples in after.items()}
    assert [name for name, burst in bursts.items() if burst > 15] == ["q11"]
    # A pause inside.
    quiet_ms = {name: longest_quiet_ms(samples) for name, samples in speech.items()}
    assert [name for name, ms in quiet_ms.items() if 290 <= ms <= 450] == ["q04", "q07"]


def loudest_20_ms_db(samples: Float32Audio) -> float:
    return max(level_db(samples[i : i + 320]) for i in range(0, len(samples) - 320, 320))


def longest_quiet_ms(speech: Float32Audio) -> int:
    """For how long the speech stays 35 dB below its peak, counted in windows of 10 ms."""
    quiet = longest = 0
    for i in range(0, len(speech) - 160, 160):
        loud = np.abs(speech[i : i + 160]).max() > np.abs(speech).max() * 10 ** (-35 / 20)
        quiet = 0 if loud else quiet + 10
        longest = max(longest, quiet)
    return longest


def test_a_clip_is_resampled_and_its_label_follows_its_own_rate(tmp_path: Path) -> None:
    (clip,) = manifest.load(samples.write_manifest(tmp_path, samples.write_clip(tmp_path, rate_hz=48_000)))
    assert clip.query == "q01"
    assert clip.speech_end == AudioTime.from_samples(23_999, 48_000)
    assert len(clip.samples) == pytest.approx(24_000, abs=2)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"file": "gone.wav"}, "gone.wav: the manifest names this recording, but it cannot be read"),
        ({"sha256": "0" * 64}, "q01.wav: the manifest says sha256 000"),
        ({"sha256": "x"}, "clips.0.sha256"),
        ({"speech_end_sample": 24_000}, "q01.wav: speech_end_sample 24000 is beyond the clip, which ends at 1.500 s"),
        ({"speech_end_sample": -1}, "clips.0.speech_end_sample"),
        ({"speech_end_sample": 1.5}, "clips.0.speech_end_sample"),
        ({"speech_start_sample": 8_000}, "speech_start_sample must come before"),
        ({"sample_rate_hz": 8_000}, "q01.wav: the manifest says 8000 Hz but the file has 16000 Hz"),
        ({"file": "../q01.wav"}, "leaves the manifest's folder"),
        ({"file": "/etc/passwd"}, "leaves the manifest's folder"),
        ({"text": ""}, "clips.0.text"),
        ({"speaker": "me"}, "clips.0.speaker: unknown key"),
    ],
)
def test_a_wrong_entry_is_refused_by_name(tmp_path: Path, change: dict[str, object], told: str) -> None:
    entry = samples.write_clip(tmp_path)
    with pytest.raises(FirstsoundError) as e:
        manifest.load(samples.write_manifest(tmp_path, {**entry, **change}))
    assert told in str(e.value)


def test_two_clips_of_one_name_and_no_clips_are_refused(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    one = samples.write_clip(tmp_path)
    other = {**samples.write_clip(tmp_path / "more"), "file": "more/q01.wav"}
    with pytest.raises(FirstsoundError, match="more than one clip is called q01"):
        manifest.load(samples.write_manifest(tmp_path, one, other))
    with pytest.raises(FirstsoundError, match="clips: List should have at least 1 item"):
        manifest.load(samples.write_manifest(tmp_path))
