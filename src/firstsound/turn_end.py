"""When the user is done: by the endpointer's word, or by what is understood, where a stack heeds that."""

from firstsound.recognition import Understood
from firstsound.stages import SAMPLE_RATE_HZ, Heard, Patience


class TurnEnd:
    """Decides over one clip, frame by frame."""

    def __init__(self, patience: Patience | None) -> None:
        """Without `patience`, the endpointer alone decides."""
        self._patience = patience
        self._silence_samples = 0
        self._said_samples = 0
        """How many of the recognizer's samples there were when the user was last heard to speak."""

    def decide(self, heard: Heard, frame_samples: int, given_samples: int, understood: Understood | None) -> bool:
        """Whether the turn ends with this frame, of which the endpointer has `heard` something.

        The recognizer was given `given_samples` up to this frame, and has `understood` something of them. What it has
        not understood up to the last word cannot shorten or lengthen the wait: then the endpointer decides.
        """
        if heard is Heard.SPEECH:
            self._silence_samples = 0
            self._said_samples = given_samples
            return False
        self._silence_samples += frame_samples
        if self._patience is not None and understood is not None and understood.samples > self._said_samples > 0:
            gap_ms = self._patience(understood.transcript, stable=understood.stable)
            if gap_ms is not None:
                return self._silence_samples * 1000 >= gap_ms * SAMPLE_RATE_HZ
        return heard is Heard.ENDPOINT
