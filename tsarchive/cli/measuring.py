"""Loading and calling a model in a process of its own, with the clock running.

The processes of ``tsarchive demo`` read one request (JSON) from stdin and write one reply to
stdout; whatever else writes to stdout, such as a model that prints, goes to stderr.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from tsarchive.cli.failures import Failure, describe, failure
from tsarchive.cli.imports import import_all
from tsarchive.errors import ArchiveError

Load = Callable[[str], Any]
Save = Callable[[Any, str], None]


class Request(TypedDict):
    """``inputs`` and ``outputs`` are torch.save files; the model is saved to ``first_save``,
    what is loaded from there to ``second_save``. Without these two nothing is saved. ``imports``
    name libraries to import before anything else."""

    file: str
    inputs: str
    outputs: str
    first_save: str | None
    second_save: str | None
    imports: Sequence[str]


class Reply(TypedDict):
    """``first_call_seconds`` includes whatever compiles at the first call."""

    load_seconds: float
    first_call_seconds: float
    second_call_seconds: float


def serve(load: Load, save: Save, prepare: Callable[[], None] = lambda: None) -> None:
    """Answer the request on stdin with ``{"reply": ...}`` or ``{"error": ...}``.

    ``prepare`` is called when libraries have been imported.
    """
    stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request: Request = json.load(sys.stdin)
    answer: dict[str, Reply | Failure]
    try:
        import_all(request["imports"])
        prepare()
        answer = {"reply": measure(request, load, save)}
    # Both sides are on trial here: whatever one of them raises is a result.
    except Exception as error:
        answer = {"error": _failure(error)}
    with stdout:
        json.dump(answer, stdout)


def _failure(error: Exception) -> Failure:
    if isinstance(error, (ArchiveError, OSError)):
        return describe(error)
    lines = str(error).strip().splitlines()
    return failure(type(error).__name__, lines[-1] if lines else "no message")


def measure(request: Request, load: Load, save: Save) -> Reply:
    """Load, call twice in one thread, keep the output of the first call, save."""
    import torch

    from tsarchive.cli.values import plain

    torch.set_num_threads(1)
    inputs = torch.load(request["inputs"], weights_only=True)
    model, load_seconds = _timed(lambda: load(request["file"]))
    output, first = call(model, inputs)
    torch.save(plain(output), request["outputs"])
    _, second = call(model, inputs)
    if request["first_save"] and request["second_save"]:
        # Calls may change a model, so what was called is not what is saved.
        save(load(request["file"]), request["first_save"])
        save(load(request["first_save"]), request["second_save"])
    return Reply(load_seconds=load_seconds, first_call_seconds=first, second_call_seconds=second)


def call(model: Any, inputs: dict[str, Any]) -> tuple[Any, float]:
    """Call with a copy of the inputs and random operators seeded."""
    import torch

    args, kwargs = copy.deepcopy((inputs["args"], inputs["kwargs"]))
    torch.manual_seed(0)
    return _timed(lambda: model(*args, **kwargs))


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = run()
    return result, time.perf_counter() - started
