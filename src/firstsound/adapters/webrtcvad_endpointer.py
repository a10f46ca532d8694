"""Endpointing by WebRTC's voice activity detector (py-webrtcvad): an utterance ends with a gap of non-speech."""

try:
    import webrtcvad
except ImportError as e:
    from firstsound.errors import MissingExtraError

    raise MissingExtraError("webrtcvad", "local") from e

from firstsound.stages import SAMPLE_RATE_HZ, Heard, Int16Audio

FRAME_MS = 20
MODE = 3
"""The detector's most restrictive mode: it takes the least noise for speech."""
GAP_MS = 500
"""This much non-speech ends an utterance."""
MIN_SPEECH_MS = 120
"""This much speech in a row begins one; noise alone makes the detector report up to 100 ms."""


class WebrtcvadEndpointer:
    """Hears one clip; make a new one for the next, since the detector carries state from frame to frame."""

    frame_samples = SAMPLE_RATE_HZ * FRAME_MS // 1000

    def __init__(self) -> None:
        """Start before the first frame."""
        self._vad = webrtcvad.Vad(MODE)
        self._speech_ms = 0
        self._silence_ms = 0
        self._begun = False

    def hear(self, frame: Int16Audio) -> Heard:
        """Hear 20 ms of 16 kHz audio, int16, shape (320,); the endpoint is where speech was followed by the gap."""
        if self._vad.is_speech(frame.tobytes(), SAMPLE_RATE_HZ):
            self._speech_ms += FRAME_MS
            self._silence_ms = 0
            self._begun = self._begun or self._speech_ms >= MIN_SPEECH_MS
            return Heard.SPEECH
        self._speech_ms = 0
        self._silence_ms += FRAME_MS
        return Heard.ENDPOINT if self._begun and self._silence_ms >= GAP_MS else Heard.SILENCE
