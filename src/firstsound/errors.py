"""The errors that firstsound raises on purpose: each message says what is wrong, where, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb


class FirstsoundError(Exception):
    """The run cannot go on: an input, a file or a setting is wrong."""


class StageError(FirstsoundError):
    """A stage did not do its part; this turn fails and the run goes on."""


class CancelledError(StageError):
    """Nobody wants this answer any more."""


class MissingExtraError(FirstsoundError):
    """A backend's package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        """Name the package and the extra of firstsound that brings it."""
        super().__init__(f"{package} is not installed; install it with: pip install 'firstsound[{extra}]'")


@contextmanager
def in_stage(name: str) -> Iterator[None]:
    """Tell of any failure inside as that stage's.

    Raises:
        CancelledError: it was raised inside; that is no failure.
        StageError: something else was raised inside, be it what ends a program; but not what the user's Ctrl-C raises.
    """
    try:
        yield
    except (CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except StageError as e:
        raise StageError(f"{name}: {e}") from e
    except BaseException as e:
        place = extract_tb(e.__traceback__)[-1]
        raise StageError(
            f"{name}: {type(e).__name__}: {e} ({Path(place.filename).name}:{place.lineno}, in {place.name})"
        ) from e
