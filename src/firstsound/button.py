"""The user's own word for the end: a button that is let go of when the last sample has been said."""

from firstsound.clock import NS_PER_S
from firstsound.manifest import Clip
from firstsound.stages import SAMPLE_RATE_HZ, Heard, Int16Audio

FRAME_MS = 20


class Button:
    """An endpointer that knows, since it is the user: the turn ends with the frame that holds the last of their speech.

    Nobody lets go that exactly. What is measured with it is a lower bound for a button, and all before it is heard.
    """

    frame_samples = SAMPLE_RATE_HZ * FRAME_MS // 1000

    def __init__(self, clip: Clip) -> None:
        """Held down from the clip's first sample."""
        self._last_sample = clip.speech_end.ns * SAMPLE_RATE_HZ // NS_PER_S
        self._heard_samples = 0

    def hear(self, frame: Int16Audio) -> Heard:
        """Hear one frame, int16, shape (320,)."""
        self._heard_samples += len(frame)
        return Heard.ENDPOINT if self._heard_samples > self._last_sample else Heard.SPEECH
