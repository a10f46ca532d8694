"""Streaming transcription by any recognizer of whole utterances: it hears again and again all that was said so far.

When to decode depends on the audio alone, never on the machine's speed, so a run can be repeated: a first time after
half a second, then whenever the utterance has grown by a quarter (the work stays in proportion to its length), and in
each pause: early, for those who want to answer ahead, once more when the last word is safe, and a third time where the
two differ. As long as nobody speaks after that, its transcript is the final one, and at the endpoint nothing is left to
do.
"""

from firstsound.hearing import joined
from firstsound.stages import SAMPLE_RATE_HZ, Float32Audio, Recognizer
from firstsound.text import words

FIRST_SAMPLES = SAMPLE_RATE_HZ // 2
GROWTH = 1.25
PAUSES_SAMPLES = tuple(SAMPLE_RATE_HZ * ms // 1000 for ms in (60, 220, 320))
"""Of non-speech. Before the second, the last word is at risk; after the third, the endpoint is near."""


class IncrementalTranscription:
    """One utterance; make a new one for the next."""

    def __init__(self, recognizer: Recognizer) -> None:
        """Let `recognizer` transcribe what there is each time."""
        self._recognizer = recognizer
        self._heard: list[tuple[Float32Audio, bool]] = []
        self._samples = 0
        self._decode_at = FIRST_SAMPLES
        self._silence_samples = 0
        self._pauses_left: tuple[int, ...] = ()
        """After how much silence this pause is still to be decoded."""
        self._text = ""

    def hear(self, samples: Float32Audio, *, speech: bool) -> str | None:
        """Hear the next 16 kHz mono float32 samples, shape (n,); the partial transcript if it was made anew."""
        self._heard.append((samples, speech))
        self._samples += len(samples)
        self._silence_samples = 0 if speech else self._silence_samples + len(samples)
        if speech:
            self._pauses_left = PAUSES_SAMPLES
        if self._pauses_left and self._silence_samples >= self._pauses_left[0]:
            self._decode_pause()
        elif speech and self._samples >= self._decode_at:
            self._decode()
        else:
            return None
        return self._text

    def finish(self) -> str:
        """The final transcript of all that was heard."""
        if self._pauses_left:
            self._decode()
        return self._text

    def _decode_pause(self) -> None:
        before, first = self._text, self._pauses_left == PAUSES_SAMPLES
        self._decode()
        # Heard twice alike in one pause, it is not decoded again.
        self._pauses_left = () if not first and words(before) == words(self._text) else self._pauses_left[1:]

    def _decode(self) -> None:
        self._text = self._recognizer.transcribe(joined(self._heard))
        self._decode_at = max(self._samples + FIRST_SAMPLES, round(self._samples * GROWTH))
