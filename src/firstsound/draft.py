"""A turn while it runs: what has been reached so far, to be frozen when it is over or has failed."""

from collections.abc import Callable
from dataclasses import dataclass, field

from firstsound import audio
from firstsound.clock import NS_PER_MS, NS_PER_S, AudioTime, Stopwatch, WallTime
from firstsound.errors import StageError
from firstsound.manifest import Clip
from firstsound.stages import SAMPLE_RATE_HZ, AudioChunk
from firstsound.turn import AudioMarks, Cache, Live, Mode, Turn, WallMarks, Wiring

PRE_ROLL_MS = 300
"""The recognizer hears the clip from this long before the first frame that is taken for speech: detectors are late.
Over 24 human recordings, the word error rate is 0.07 with 300 ms, 0.09 with 100 ms and 0.08 with all that came before.
"""
PRE_ROLL_SAMPLES = PRE_ROLL_MS * SAMPLE_RATE_HZ // 1000


@dataclass(slots=True)
class Draft:
    """What a turn has brought so far."""

    clip: Clip
    round: int
    wiring: Wiring
    mode: Mode
    stopwatch: Stopwatch
    """Started at the endpoint decision."""
    play: Callable[[AudioChunk], None] = lambda _: None
    """Where the sound goes, in a turn that is heard."""
    endpoint: AudioTime | None = None
    wall: dict[str, WallTime] = field(default_factory=dict)
    transcript: str = ""
    passages: tuple[str, ...] = ()
    answer: str = ""
    fragments: list[str] = field(default_factory=list)
    cache: Cache | None = None
    live: Live | None = None
    _play_end_ns: int = 0

    def mark(self, name: str) -> WallTime:
        """Set the mark `name` to this moment and return it."""
        self.wall[name] = self.stopwatch.read()
        return self.wall[name]

    def set_endpoint(self, samples: int, *, spoken: bool) -> None:
        """Note the endpoint, `samples` into the clip.

        Raises:
            StageError: it comes before the end of speech, or nothing before it was taken for speech.
        """
        self.endpoint = AudioTime.from_samples(samples, SAMPLE_RATE_HZ)
        if self.endpoint < self.clip.speech_end:
            early_ms = (self.clip.speech_end - self.endpoint) / NS_PER_MS
            raise StageError(f"early endpoint: {early_ms:.0f} ms before the end of speech")
        if not spoken:
            raise StageError("an endpoint, but no frame before it was taken for speech")

    def without_endpoint(self, samples: int) -> StageError:
        """The error of a turn in which `samples` were heard, and no endpoint came."""
        return StageError(
            f"audio ended before an endpoint: {samples / SAMPLE_RATE_HZ:.2f} s heard, speech ends at "
            f"{self.clip.speech_end.ns / NS_PER_S:.2f} s; the clip needs more room tone, or its noise passes for speech"
        )

    def receive(self, chunk: AudioChunk, received: WallTime) -> None:
        """Play a chunk; its first audible sample is due right after the chunks before it, if there is none yet."""
        self.play(chunk)
        start_ns = max(received.ns, self._play_end_ns)
        self._play_end_ns = start_ns + len(chunk.samples) * NS_PER_S // chunk.rate_hz
        if "first_sound" not in self.wall:
            silence = audio.leading_silence_samples(chunk.samples, chunk.rate_hz)
            if silence is not None:
                self.wall["first_sound"] = WallTime(start_ns + silence * NS_PER_S // chunk.rate_hz)

    def freeze(self, error: str | None) -> Turn:
        """The turn as it stands; one without an error must be complete."""

        def turn(wall: WallMarks, error: str | None) -> Turn:
            return Turn(
                query=self.clip.query,
                round=self.round,
                wiring=self.wiring,
                mode=self.mode,
                audio=AudioMarks(self.clip.speech_end, self.endpoint),
                wall=wall,
                transcript=self.transcript,
                passages=self.passages,
                answer=self.answer,
                fragments=tuple(self.fragments),
                cache=self.cache,
                live=self.live,
                error=error,
            )

        try:
            return turn(WallMarks(**self.wall), error)
        except ValueError as e:
            # Marks that cannot be are kept in words: as numbers they would pass for a measurement.
            told = ", ".join(f"{name} {mark.ns} ns" for name, mark in self.wall.items())
            return turn(WallMarks(), f"{error or 'marks'}: {e} ({told})")
