"""The cost of a call's operators through torch's Python bindings, without a runner.

    python benchmarks/replaying.py [NETWORK:FORM ...]

Networks are those of ``benchmarks/performance``. A call of the loaded module is recorded, each
operator with its arguments; the record is played again, beside calls of the module and of what
torch.jit.load gives. The least seconds of the processor of many calls count, with one thread.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

import tsarchive

sys.path.insert(0, str(Path(__file__).with_name("performance")))
import models

USUAL = ("recurrent:traced", "mobilenet:traced", "decoder:scripted")
CALLS = 100
ROUNDS = 5


class Recorder(TorchFunctionMode):
    """Records the operator calls that pass through it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if getattr(function, "__name__", "") != "__get__":
            self.calls.append((function, args, kwargs or {}))
        return result

    def replay(self) -> None:
        for function, args, kwargs in self.calls:
            function(*args, **kwargs)


def least(call: Callable[[], Any]) -> float:
    """Return the milliseconds of the fastest call."""
    found = []
    for _ in range(CALLS):
        start = time.thread_time()
        call()
        found.append(time.thread_time() - start)
    return min(found) * 1e3


def measured(name: str, form: str, folder: Path) -> str:
    made = models.make(name, form, folder)
    arguments = tuple(torch.load(made["arguments"]))
    ours, theirs = tsarchive.load(made["path"]), torch.jit.load(made["path"])
    least(lambda: theirs(*arguments))  # torch.jit profiles its first calls
    least(lambda: ours(*arguments))
    with Recorder() as recorder:
        ours(*arguments)
    sides = (lambda: theirs(*arguments), recorder.replay, lambda: ours(*arguments))
    rounds = [[least(side) for side in sides] for _ in range(ROUNDS)]
    shown = " | ".join(f"{min(found):.2f} ms" for found in zip(*rounds, strict=True))
    return f"| {name}, {form}: {len(recorder.calls)} calls | {shown} |"


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    print("| network | torch.jit | operators alone, through the bindings | tsarchive |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for one in sys.argv[1:] or USUAL:
            name, _, form = one.partition(":")
            print(measured(name, form or "scripted", Path(folder)))


if __name__ == "__main__":
    main()
