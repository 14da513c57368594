"""A process that runs a range of inputs and reports their outcomes to the driver."""

from __future__ import annotations

import base64
import json
import mmap
import os
import struct
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layers import Input, made
from watch import Violation, Watch, limit_memory

_REPORT_EVERY = 500
PROGRESS = struct.Struct("<Q")


@dataclass(frozen=True)
class Stretch:
    """Inputs ``start`` to ``stop`` of a layer."""

    layer: str
    start: int
    stop: int


def run_stretch(stretch: Stretch, seed: int, watch: Watch, pipe: int, progress: mmap.mmap) -> None:
    """Run the inputs; write counts and violations to ``pipe`` as lines of JSON."""
    limit_memory()
    counts: Counter[str] = Counter()
    with os.fdopen(pipe, "w") as told:
        for number in range(stretch.start, stretch.stop):
            PROGRESS.pack_into(progress, 0, number)
            outcome, problem = run_one(stretch.layer, seed, number, watch)
            counts[outcome] += 1
            if problem is not None:
                _tell(told, violation=problem)
            if number + 1 == stretch.stop or (number + 1) % _REPORT_EVERY == 0:
                _tell(told, done=number + 1, counts=dict(counts))
                counts.clear()


def run_one(layer: str, seed: int, number: int, watch: Watch) -> tuple[str, dict[str, Any] | None]:
    """Return the outcome of one input, and its violation."""
    made_input = made(layer, seed, number)
    name = made_input.door.__name__
    try:
        with watch():
            outcome = made_input.run()
    except (Exception, Violation) as error:
        return f"{name}: violation", _described(error, made_input, layer, number)
    return f"{name}: {outcome}", None


def _described(error: BaseException, made_input: Input, layer: str, number: int) -> dict[str, Any]:
    traceback.clear_frames(error.__traceback__)  # they may hold all the memory there is
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f"{os.sep}fuzz{os.sep}" not in f.filename]
    last = ours[-1] if ours else frames[-1]
    return {
        "layer": layer,
        "number": number,
        "door": made_input.door.__name__,
        "error": f"{type(error).__name__}: {str(error)[:300]}",
        "place": f"{Path(last.filename).name}:{last.lineno} {last.name}",
        "trace": "".join(traceback.format_list(frames[-12:])),
        "data": base64.b64encode(made_input.data).decode(),
    }


def _tell(told: Any, **message: Any) -> None:
    told.write(json.dumps(message) + "\n")
    told.flush()
