import os
import threading

import numpy as np
import pytest
from samples import SteppedClock

from firstsound.clock import NS_PER_MS as MS
from firstsound.microphone import PRIORITY, Microphone

PCM = np.arange(1_000, dtype=np.int16)


def test_each_frame_comes_when_its_last_sample_has_passed_and_a_partial_one_never() -> None:
    clock = SteppedClock()
    microphone = Microphone(PCM, 320, clock)
    with microphone.on() as frames:
        heard = list(frames)
    assert [frame.tolist() for frame in heard] == [PCM[i : i + 320].tolist() for i in (0, 320, 640)]
    # Nothing of what is yet to be said can be reached from a frame.
    assert not any(np.shares_memory(frame, PCM) for frame in heard)
    assert microphone.start_ns == 5_000 * MS
    assert clock.now == 5_060 * MS
    assert microphone.lateness_ns == [0, 0, 0]


def test_lateness_is_told_and_does_not_add_up() -> None:
    clock = SteppedClock(late_ns=3 * MS)
    microphone = Microphone(PCM, 320, clock)
    with microphone.on() as frames:
        list(frames)
    assert microphone.lateness_ns == [3 * MS] * 3
    assert clock.now == 5_063 * MS


def test_a_microphone_that_was_switched_off_delivers_no_more() -> None:
    class Switch(SteppedClock):
        def sleep_ns(self, duration_ns: int) -> None:
            super().sleep_ns(duration_ns)
            if self.now >= 5_040 * MS:
                microphone._stop.set()  # noqa: SLF001 - as leaving the `with` does

    microphone = Microphone(PCM, 320, Switch())
    with microphone.on() as frames:
        assert len(list(frames)) == 1


@pytest.mark.parametrize("allowed", [True, False])
def test_it_goes_before_others_where_that_is_allowed_and_delivers_in_any_case(
    monkeypatch: pytest.MonkeyPatch,
    allowed: bool,  # noqa: FBT001
) -> None:
    asked: list[tuple[int, int, int]] = []

    def setpriority(which: int, who: int, priority: int) -> None:
        asked.append((which, who, priority))
        if not allowed:
            raise PermissionError

    monkeypatch.setattr(os, "setpriority", setpriority)
    microphone = Microphone(PCM, 320, SteppedClock())
    with microphone.on() as frames:
        assert len(list(frames)) == 3
    [(which, who, priority)] = asked
    assert (which, priority) == (os.PRIO_PROCESS, PRIORITY)
    assert who != threading.get_native_id()
