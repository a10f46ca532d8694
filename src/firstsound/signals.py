"""Signals that ask for the end of a run: its processes must be stopped before it goes."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class StoppedError(BaseException):
    """A signal asked for the end; not an Exception, since a stack may swallow those."""

    def __init__(self, which: int) -> None:
        """Name the signal by its number."""
        super().__init__(f"stopped by {signal.Signals(which).name}")
        self.exit_status = 128 + which
        """As a shell has it."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end what is inside as Ctrl-C does.

    Raises:
        StoppedError: one came.
    """

    def stop(which: int, _: object) -> None:
        raise StoppedError(which)

    ours = threading.current_thread() is threading.main_thread()
    before = {which: signal.signal(which, stop) for which in (signal.SIGTERM, signal.SIGHUP)} if ours else {}
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
