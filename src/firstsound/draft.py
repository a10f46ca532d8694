"""A turn while it runs: what has been reached so far, to be frozen when it is over or has failed."""

from dataclasses import dataclass

from firstsound.attempt import Attempt
from firstsound.clock import NS_PER_MS, NS_PER_S, AudioTime, WallTime
from firstsound.errors import StageError
from firstsound.manifest import Clip
from firstsound.stages import SAMPLE_RATE_HZ
from firstsound.turn import AudioMarks, Live, Mode, Turn, WallMarks, Wiring

ENOUGH_ROOM_TONE_S = 1.4
"""What a clip is asked to have after its speech, less a tenth of a second for the label."""


@dataclass(slots=True)
class Draft:
    """What a turn has brought so far."""

    clip: Clip
    round: int
    wiring: Wiring
    mode: Mode
    endpoint: AudioTime | None = None
    endpoint_ns: int = 0
    """The endpoint decision on the clock."""
    attempt: Attempt | None = None
    """The answer that the user hears."""
    floor_ns: int | None = None
    """For an answer that was begun before the endpoint: the moment on the clock at which it was known to be wanted."""
    first_sound: WallTime | None = None
    """What the recording says, in a turn that is heard."""
    live: Live | None = None

    def set_endpoint(self, samples: int, now_ns: int, *, spoken: bool) -> None:
        """Note the endpoint, `samples` into the clip and decided at `now_ns` on the clock.

        Raises:
            StageError: it comes before the end of speech, or nothing before it was taken for speech.
        """
        self.endpoint_ns = now_ns
        self.endpoint = AudioTime.from_samples(samples, SAMPLE_RATE_HZ)
        if self.endpoint < self.clip.speech_end:
            early_ms = (self.clip.speech_end - self.endpoint) / NS_PER_MS
            raise StageError(f"early endpoint: {early_ms:.0f} ms before the end of speech")
        if not spoken:
            raise StageError("an endpoint, but no frame before it was taken for speech")

    def without_endpoint(self, samples: int) -> StageError:
        """The error of a turn in which `samples` were heard, and no endpoint came."""
        heard_s, speech_end_s = samples / SAMPLE_RATE_HZ, self.clip.speech_end.ns / NS_PER_S
        return StageError(
            f"audio ended before an endpoint: {heard_s:.2f} s heard, speech ends at {speech_end_s:.2f} s; "
            + (
                "the clip needs more room tone"
                if heard_s - speech_end_s < ENOUGH_ROOM_TONE_S
                else "the room tone was long enough, so its noise passes for speech, or the endpointer never ends"
            )
        )

    def wall(self) -> dict[str, WallTime]:
        """The marks that the answer has reached, by name, as the stages' own timers have them."""
        return {} if self.attempt is None else self.attempt.wall(self.endpoint_ns, self.floor_ns)

    def freeze(self, error: str | None) -> Turn:
        """The turn as it stands; one without an error must be complete."""
        reached = self.wall()
        if self.mode == "live":
            reached.pop("first_sound", None)
            if self.first_sound is not None:
                reached["first_sound"] = self.first_sound
        try:
            return self._turn(WallMarks(**reached), error)
        except ValueError as e:
            # Marks that cannot be are kept in words: as numbers they would pass for a measurement.
            told = ", ".join(f"{name} {mark.ns} ns" for name, mark in reached.items())
            return self._turn(WallMarks(), f"{error or 'marks'}: {e} ({told})")

    def _turn(self, wall: WallMarks, error: str | None) -> Turn:
        attempt = self.attempt
        return Turn(
            query=self.clip.query,
            round=self.round,
            wiring=self.wiring,
            mode=self.mode,
            audio=AudioMarks(self.clip.speech_end, self.endpoint),
            wall=wall,
            transcript=attempt.transcript if attempt else "",
            passages=attempt.passages if attempt else (),
            answer=attempt.answer if attempt else "",
            fragments=tuple(attempt.fragments) if attempt else (),
            cache=attempt.cache if attempt else None,
            speech_start=self.clip.speech_start,
            live=self.live,
            error=error,
        )
