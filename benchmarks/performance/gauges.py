"""Time and memory of a part of a process, as counted by the operating system."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Reading = dict[str, float]
_STATUS = Path("/proc/self/status")
_CLEAR_REFERENCES = Path("/proc/self/clear_refs")
_FORGET_THE_PEAK = "5"


def memory() -> Reading:
    """Return bytes: ``anonymous`` (of no file), ``resident`` (with mapped files), their
    ``peak``.
    """
    fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    names = {"anonymous": "RssAnon", "resident": "VmRSS", "peak": "VmHWM"}
    return {key: float(fields[name].split()[0]) * 1024 for key, name in names.items()}


@contextmanager
def gauged() -> Iterator[Reading]:
    """Measure wall-clock and CPU seconds, growth of memory in bytes, and its peak."""
    found: Reading = {}
    gc.collect()
    _CLEAR_REFERENCES.write_text(_FORGET_THE_PEAK)
    before = memory()
    wall, processor = time.perf_counter(), time.process_time()
    yield found
    found["wall"] = time.perf_counter() - wall
    found["cpu"] = time.process_time() - processor
    after = memory()
    found["anonymous"] = after["anonymous"] - before["anonymous"]
    found["peak"] = after["peak"] - before["resident"]


def repeated(call: Callable[[], Any], times: int) -> list[Reading]:
    """Return the seconds of each of many calls."""
    return [timed(call) for _ in range(times)]


def timed(call: Callable[[], Any]) -> Reading:
    wall, processor = time.perf_counter(), time.thread_time()
    call()
    return {"wall": time.perf_counter() - wall, "cpu": time.thread_time() - processor}


def tensor_peak(call: Callable[[], Any]) -> float:
    """Return the peak of tensor bytes during a call, as requested from torch's allocator.

    Unlike resident memory this does not depend on when the C library returns memory.
    """
    from torch.autograd import profiler

    with profiler.profile(profile_memory=True) as profile:
        result = call()
    events = [event for event in profile.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    held = most = 0
    for event in events:
        held += event.nbytes()
        most = max(most, held)
    del result
    return float(most)
