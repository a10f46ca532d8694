"""Speech by Piper (piper-tts, GPL-3.0: an extra of its own)."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

try:
    import onnxruntime
    from piper import PiperConfig, PiperVoice, SynthesisConfig
except ImportError as e:
    from firstsound.errors import MissingExtraError

    raise MissingExtraError("piper-tts", "piper") from e

from firstsound.stages import AudioChunk

_SPEECH = SynthesisConfig(noise_w_scale=0.0)
"""The voice draws the length of each sound at random; the same words must take the same time in every run. Drawn, one
beginning in 15 also had 300 ms of silence before it."""


class PiperSynthesizer:
    """One voice; yields one chunk a sentence."""

    def __init__(self, model: Path, config: Path, threads: int) -> None:
        """Load the voice into a session with `threads` threads.

        `PiperVoice.load` has no option for threads, and ONNX Runtime takes no notice of OMP_NUM_THREADS, so the session
        is made here.

        Raises:
            onnxruntime.capi.onnxruntime_pybind11_state.Fail: the model cannot be loaded.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Every sentence has a shape of its own, so a pattern planned for one is memory kept for nothing.
        options.enable_mem_pattern = False
        # Waiting threads must not spin: the language model's server needs the same cores.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._voice = PiperVoice(session, PiperConfig.from_dict(json.loads(config.read_text(encoding="utf-8"))))
        self.threads: int = session.get_session_options().intra_op_num_threads

    def synthesize(self, text: str) -> Iterator[AudioChunk]:
        """Stream the sound of `text`, a chunk a sentence; nothing where there is nothing to say."""
        for chunk in self._voice.synthesize(text, _SPEECH):
            yield AudioChunk(np.asarray(chunk.audio_float_array, dtype=np.float32).reshape(-1), chunk.sample_rate)
