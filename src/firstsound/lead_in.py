"""Leave out the silence with which a synthesizer begins an answer."""

from collections.abc import Iterable, Iterator

import numpy as np

from firstsound.audio import Onset
from firstsound.stages import AudioChunk


def without_lead_in(chunks: Iterable[AudioChunk], keep_ms: int) -> Iterator[AudioChunk]:
    """The chunks, from `keep_ms` before the first audible window on, so that a soft onset stays.

    Silent chunks wait for the first that is audible: nothing could be heard of them. Where none is, all come unchanged.
    """
    rest = iter(chunks)
    onset = Onset()
    silent: list[AudioChunk] = []
    for chunk in rest:
        silent.append(chunk)
        if chunk.rate_hz != silent[0].rate_hz:
            break
        onset.hear(chunk.samples, chunk.rate_hz)
        if onset.at_samples is not None:
            whole = np.concatenate([each.samples for each in silent])
            begin = max(0, onset.at_samples - keep_ms * chunk.rate_hz // 1000)
            silent = [AudioChunk(whole[begin:], chunk.rate_hz)]
            break
    yield from silent
    yield from rest
