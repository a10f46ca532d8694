"""When the user is done: by the endpointer's word, or by what is understood, where a stack can read that."""

from firstsound.recognition import Understood
from firstsound.stages import SAMPLE_RATE_HZ, Heard

SHORT_MS = 340
"""So much silence ends what reads complete: the recognizer hears it for the second time at 220 ms, and needs 40 to 120
ms for that."""
LONG_MS = 1000
"""So much silence ends what cannot be all: people look for a word for most of a second."""
MIN_SPEECH_MS = 120
"""So much speech in a row begins an utterance; a click is shorter, and what is understood of it is nobody's word."""


class TurnEnd:
    """Decides over one clip, frame by frame."""

    def __init__(self) -> None:
        """Begin before the first frame."""
        self._begun = False
        self._speech_samples = 0
        self._silence_samples = 0
        self._said_samples = 0
        """How many of the recognizer's samples there were when the user was last heard to speak."""

    def decide(self, heard: Heard, frame_samples: int, given_samples: int, understood: Understood | None) -> bool:
        """Whether the turn ends with this frame, of which the endpointer has `heard` something.

        The recognizer was given `given_samples` up to this frame, and has `understood` something of them. Where it has
        not understood all that was said, or something else each time, or nobody can tell whether that is all, the
        endpointer decides.
        """
        if heard is Heard.SPEECH:
            self._speech_samples += frame_samples
            self._silence_samples = 0
            self._said_samples = given_samples
            self._begun = self._begun or self._speech_samples * 1000 >= MIN_SPEECH_MS * SAMPLE_RATE_HZ
            return False
        self._speech_samples = 0
        self._silence_samples += frame_samples
        gap_ms = self._gap_ms(understood)
        if gap_ms is None:
            return heard is Heard.ENDPOINT
        over = self._silence_samples * 1000 >= gap_ms * SAMPLE_RATE_HZ
        # An endpointer with more patience than that is not hurried by what cannot be all.
        return over and (gap_ms == SHORT_MS or heard is Heard.ENDPOINT)

    def _gap_ms(self, understood: Understood | None) -> int | None:
        if not self._begun or understood is None or understood.samples <= self._said_samples:
            return None
        if understood.complete is False:
            return LONG_MS
        return SHORT_MS if understood.complete and understood.stable else None
