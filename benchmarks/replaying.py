"""The cost of a call's operators through torch's Python bindings, without a runner.

    python benchmarks/replaying.py [NETWORK:FORM ...]

Networks are those of ``benchmarks/performance``. A call of the loaded module is recorded, each
operator with its arguments, and written as one function without branches: operators take what
earlier ones gave, and each result is freed after its last use. That function runs beside the module
and what torch.jit.load gives. The least seconds of the processor of many calls count, with one
thread.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TSARCHIVE_CACHE"] = "0"

import torch
from torch.overrides import TorchFunctionMode

import tsarchive

sys.path.insert(0, str(Path(__file__).with_name("performance")))
import models
from measured import measured as when

USUAL = (
    "mobilenet:scripted", "mobilenet:traced", "efficientnet:scripted", "densenet:traced",
    "encoder:scripted", "language_model:traced", "recurrent:scripted", "decoder:scripted",
)  # fmt: skip
CALLS = 12
ROUNDS = 20
_RESULT = re.compile(r"\br\d+(?:_\d+)?\b")


class Recorder(TorchFunctionMode):
    """Writes the operator calls that pass through it as lines of Python."""

    def __init__(self, inputs: list[torch.Tensor]) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {}
        self.parameters = [f"a{i}" for i in range(len(inputs))]
        self._names = dict(zip(map(id, inputs), self.parameters, strict=True))
        self._kept: list[Any] = [*inputs]  # so that no other object gets the id of one

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        # Lists are written before the call, which may give them to code that changes them.
        texts = [self._text(arg) for arg in args]
        texts += [f"{name}={self._text(value)}" for name, value in kwargs.items()]
        result = function(*args, **kwargs)
        if getattr(function, "__name__", "") != "__get__":
            called = f"{self._constant(function)}({', '.join(texts)})"
            self.lines.append(self._assigned(result) + called)
        return result

    def _text(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return self._names.get(id(value)) or self._constant(value)
        if type(value) in (list, tuple) and any(isinstance(v, torch.Tensor) for v in value):
            return f"[{', '.join(map(self._text, value))}]"
        if value is None or type(value) in (bool, int):
            return repr(value)
        return self._constant(list(value) if type(value) is list else value)

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.namespace)}"
        self.namespace[name] = value
        if isinstance(value, torch.Tensor):
            self._names[id(value)] = name
        return name

    def _assigned(self, result: Any) -> str:
        """Return the targets of a call: none where it gives what it was given, or no tensors."""
        at = len(self.lines)
        if isinstance(result, torch.Tensor):
            return "" if id(result) in self._names else f"{self._named(result, f'r{at}')} = "
        if isinstance(result, tuple | list) and result and isinstance(result[0], torch.Tensor):
            return "".join(f"{self._named(t, f'r{at}_{i}')}, " for i, t in enumerate(result)) + "= "
        return ""

    def _named(self, tensor: torch.Tensor, name: str) -> str:
        self._kept.append(tensor)
        self._names[id(tensor)] = name
        return name

    def function(self) -> Callable[..., Any]:
        """Return what was recorded as one function, and let go of its results."""
        last = {name: i for i, line in enumerate(self.lines) for name in _RESULT.findall(line)}
        body = [f"def replay({', '.join(self.parameters)}):"]
        for i, line in enumerate(self.lines):
            done = [name for name, at in last.items() if at == i]
            body.append(f" {line}" + (f"; del {', '.join(done)}" if done else ""))
        exec("\n".join(body), self.namespace)
        self._kept.clear()
        replay: Callable[..., Any] = self.namespace["replay"]
        return replay


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
    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    ours, theirs = tsarchive.load(made["path"]), torch.jit.load(made["path"])
    least(lambda: theirs(*arguments))  # torch.jit profiles its first calls
    least(lambda: ours(*arguments))
    with Recorder(tensors) as recorder:
        ours(*arguments)
    replay = recorder.function()
    sides = (lambda: theirs(*arguments), lambda: replay(*tensors), lambda: ours(*arguments))
    rounds = [[least(side) for side in sides] for _ in range(ROUNDS)]
    jit, alone, mine = (min(found) for found in zip(*rounds, strict=True))
    calls = len(recorder.lines)
    return (
        f"| {name}, {form}: {calls} calls | {jit:.2f} ms | {alone:.2f} ms ({alone / jit:.2f}) "
        f"| {mine:.2f} ms ({mine / jit:.2f}) |"
    )


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    print(when())
    print()
    print("| network | torch.jit | operators alone, through the bindings | tsarchive |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for one in sys.argv[1:] or USUAL:
            name, _, form = one.partition(":")
            print(measured(name, form or "scripted", Path(folder)), flush=True)


if __name__ == "__main__":
    main()
