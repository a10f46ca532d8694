"""Recognition by Whisper tiny.en on CTranslate2 (faster-whisper), encoding only the frames at hand.

`WhisperModel.transcribe` pads every clip to 30 s and encodes all of it. Here the clip's own frames are encoded, and the
encoder states of the window's silent end, computed once, stand behind them. Without those the decoder does not see that
speech is over and says the sentence again (over 24 human recordings: a word error rate of 0.84 without, 0.07 with them
or with the whole 30 s).
"""

import os
from pathlib import Path

import numpy as np

try:
    import ctranslate2
    from faster_whisper import WhisperModel
    from faster_whisper.tokenizer import Tokenizer
except ImportError as e:
    from firstsound.errors import MissingExtraError

    raise MissingExtraError("faster-whisper", "local") from e

from firstsound.errors import StageError
from firstsound.stages import SAMPLE_RATE_HZ, Float32Audio

WINDOW_S = 30
"""Whisper's decoder was trained on this much; longer utterances are refused."""
TOKENS_PER_S = 8
"""A bound on how much is decoded: about twice as fast as people speak, so that a decoding loop ends."""
TOKENS_AT_LEAST = 8
LOOP_PENALTY = 1.1
"""What CTranslate2 divides the probability of a token by that it has already given, where decoding ran into its bound.
One human recording in 24 came out four times over without it."""
NO_SPEECH_PROBABILITY = 0.6
NO_SPEECH_LOG_PROBABILITY = -1.0
"""Whisper's own thresholds: silence, if the model thinks so and is unsure of the words (Radford et al. 2022, §4.5)."""

_KERNELS_KEPT = "8"
"""oneDNN compiles its kernels for each length of utterance and keeps 1,024 of them: after 300 utterances of 1 to 11 s
that was 180 MiB, with 8 it is nothing, and no slower. Read at the first use (oneDNN's guide, "Primitive Cache")."""
_FRAMES_PER_STATE = 2
_END_STATES = 25
"""The last half second of the window. Each state more is attended to at every token: 100 of them cost 20 ms a query,
and understand no better."""


class FasterWhisperRecognizer:
    """Decodes one utterance at a time: greedy, one temperature, English."""

    def __init__(self, model_folder: Path, threads: int, *, whole_window: bool = False) -> None:
        """Load the model from its folder, with a pool of `threads` threads.

        `whole_window` encodes 30 s whatever the utterance's length, as Whisper was trained to.

        Raises:
            RuntimeError: the folder holds no model that CTranslate2 can load.
        """
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _KERNELS_KEPT)
        self._model = WhisperModel(
            str(model_folder), device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True
        )
        self.threads = threads
        self._whole_window = whole_window
        self._tokenizer = Tokenizer(self._model.hf_tokenizer, False)  # noqa: FBT003 - not multilingual
        self._prompt = [*self._tokenizer.sot_sequence, self._tokenizer.no_timestamps]
        silence = np.zeros(WINDOW_S * SAMPLE_RATE_HZ, dtype=np.float32)
        self._window_end = self._encode(silence)[:, -_END_STATES:]

    def transcribe(self, samples: Float32Audio) -> str:
        """The text of 16 kHz mono float32 samples, shape (n,); "" where the model hears no speech.

        Raises:
            StageError: the samples are not float32 of one dimension, or the utterance is longer than 30 s.
        """
        if samples.dtype != np.float32 or samples.ndim != 1:
            raise StageError(f"expected 1-d float32 samples, got {samples.ndim}-d {samples.dtype}")
        duration_s = len(samples) / SAMPLE_RATE_HZ
        if duration_s > WINDOW_S:
            raise StageError(f"the utterance lasts {duration_s:.1f} s; Whisper takes {WINDOW_S} s at most")
        if self._whole_window:
            states = self._encode(np.pad(samples, (0, WINDOW_S * SAMPLE_RATE_HZ - len(samples))))
        else:
            states = np.concatenate([self._encode(samples), self._window_end], axis=1)
        most_tokens = TOKENS_AT_LEAST + round(duration_s * TOKENS_PER_S)
        result = self._decode(states, most_tokens)
        if len(result.sequences_ids[0]) == most_tokens:
            result = self._decode(states, most_tokens, repetition_penalty=LOOP_PENALTY)
        if result.no_speech_prob > NO_SPEECH_PROBABILITY and result.scores[0] < NO_SPEECH_LOG_PROBABILITY:
            return ""
        text: str = self._tokenizer.decode(result.sequences_ids[0])
        return text.strip()

    def _decode(
        self, states: Float32Audio, most_tokens: int, repetition_penalty: float = 1
    ) -> ctranslate2.models.WhisperGenerationResult:
        (result,) = self._model.model.generate(
            ctranslate2.StorageView.from_array(np.ascontiguousarray(states)),
            [self._prompt],
            beam_size=1,
            repetition_penalty=repetition_penalty,
            max_length=len(self._prompt) + most_tokens,
            return_scores=True,
            return_no_speech_prob=True,
        )
        return result

    def _encode(self, samples: Float32Audio) -> Float32Audio:
        """Encoder states of the samples, float32, shape (1, one state per 20 ms, width)."""
        features = self._model.feature_extractor(samples, padding=0)
        whole = features.shape[-1] // _FRAMES_PER_STATE * _FRAMES_PER_STATE
        return np.asarray(self._model.encode(features[:, :whole]), dtype=np.float32)
