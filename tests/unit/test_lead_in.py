import numpy as np
import pytest

from firstsound.lead_in import without_lead_in
from firstsound.stages import AudioChunk

RATE_HZ = 16_000
TONE = (0.3 * np.sin(np.arange(1_600))).astype(np.float32)


def chunks(*pieces: np.ndarray) -> list[AudioChunk]:
    return [AudioChunk(piece.astype(np.float32), RATE_HZ) for piece in pieces]


def joined(given: list[AudioChunk]) -> list[float]:
    return [float(sample) for chunk in given for sample in chunk.samples]


@pytest.mark.parametrize("size", [1, 100, 160, 1_000, 10_000])
def test_of_the_silence_only_what_is_asked_for_is_left_wherever_chunks_are_cut(size: int) -> None:
    whole = np.concatenate([np.zeros(1_600), TONE, np.zeros(800)]).astype(np.float32)
    cut = chunks(*(whole[i : i + size] for i in range(0, len(whole), size)))
    left = joined(list(without_lead_in(cut, keep_ms=20)))
    assert left == [0.0] * 320 + joined(chunks(TONE, np.zeros(800)))


def test_a_soft_onset_stays() -> None:
    soft = 0.001 * np.sin(np.arange(320))
    left = joined(list(without_lead_in(chunks(np.concatenate([np.zeros(1_600), soft, TONE])), keep_ms=20)))
    assert left == joined(chunks(soft, TONE))


def test_less_silence_than_may_be_left_is_left_and_silence_alone_too() -> None:
    short = chunks(np.concatenate([np.zeros(160), TONE]), TONE)
    assert joined(list(without_lead_in(short, keep_ms=20))) == joined(short)
    silent = chunks(np.zeros(500), np.zeros(500))
    assert list(without_lead_in(silent, keep_ms=20)) == silent
    assert list(without_lead_in([], keep_ms=20)) == []


def test_a_chunk_at_another_rate_is_left_to_those_who_refuse_it() -> None:
    mixed = [*chunks(np.zeros(500)), AudioChunk(TONE, 8_000)]
    assert list(without_lead_in(mixed, keep_ms=20)) == mixed
