from pathlib import Path

import pytest
import samples
import yaml

from firstsound import manifest
from firstsound.clock import AudioTime
from firstsound.errors import FirstsoundError

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
        room_tone_s = len(clip.samples) / 16_000 - clip.speech_end.ns / 1e9
        assert room_tone_s >= 1.5


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
