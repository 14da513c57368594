"""Runs decompiled packages in a process of its own: FOLDER NAME....

Prints one JSON document: for each name what differs from torch.jit, and which modules of ours
were imported.
"""

from __future__ import annotations

import copy
import enum
import importlib
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fixtures.modules import all_cases
from tests.support.comparing import equal
from tests.support.corpus_inputs import arguments_for, call

SEED = 3
STATE_METHODS = {"__getstate__", "__setstate__"}


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[str, Any]:
    torch.manual_seed(SEED)
    try:
        return "result", function(*copy.deepcopy(arguments))
    except Exception as error:
        return "error", error


def raised_name(error: Exception) -> str | None:
    """The class that an archive's own raise statement named; assertions are RuntimeErrors."""
    if not isinstance(error, torch.jit.Error):
        return None
    name, _, text = str(error).rstrip().splitlines()[-1].partition(": ")
    is_assertion = text.startswith("AssertionError:")
    return "AssertionError" if is_assertion else name.partition(":")[0].rpartition(".")[2]


def own(value: Any, package: str) -> Any:
    """Enum members of the package in the place of those of the original program."""
    if not isinstance(value, enum.Enum):
        return value
    for name, module in sys.modules.items():
        found = vars(module).get(type(value).__name__) if name.startswith(package) else None
        if isinstance(found, type) and issubclass(found, enum.Enum):
            return found[value.name]
    return value


def differences_of_case(case: Any, package: Any) -> Iterator[str]:
    saved = io.BytesIO()
    torch.jit.save(case.build(), saved)
    saved.seek(0)
    theirs, ours = torch.jit.load(saved), package.load()
    if list(theirs.state_dict()) != list(ours.state_dict()):
        yield "the keys of the state dicts differ"
    calls = [("forward", case.inputs), *case.methods.items(), ("forward", case.failing)]
    for name, inputs in calls:
        for arguments in inputs:
            their, our = (getattr(m, name) if name != "forward" else m for m in (theirs, ours))
            expected = outcome(their, arguments)
            found = outcome(our, tuple(own(value, package.__name__) for value in arguments))
            yield from compared(name, expected, found)


def compared(name: str, expected: tuple[str, Any], found: tuple[str, Any]) -> Iterator[str]:
    if expected[0] != found[0] or (expected[0] == "result" and not equal(expected[1], found[1])):
        yield f"{name}: {expected[1]!r} and {found[1]!r}"
    elif expected[0] == "error":
        named = raised_name(expected[1])
        if named is not None and named != type(found[1]).__name__:
            yield f"{name} raises {type(found[1]).__name__}, not {named}"


def differences_of_archive(path: str, package: Any) -> Iterator[str]:
    probe = torch.jit.load(path, map_location="cpu")
    if list(probe.state_dict()) != list(package.load().state_dict()):
        yield "the keys of the state dicts differ"
    name = path.rpartition("/")[2]
    for method in probe._c._method_names():
        arguments = None if method in STATE_METHODS else arguments_for(name, probe, method)
        if arguments is None:
            continue
        expected = call(torch.jit.load(path, map_location="cpu"), method, arguments)
        if isinstance(expected, torch.nn.Module | torch.ScriptObject):
            continue
        found = call(package.load(), method, arguments)
        if not equal(expected, found):
            with torch.jit.optimized_execution(False):
                plain = call(torch.jit.load(path, map_location="cpu"), method, arguments)
            if not close(plain, found):
                yield f"the results of {method} differ"


def close(one: Any, two: Any) -> bool:
    """Equal, or with gradient formulas whose last bits differ."""
    try:
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12, equal_nan=True)
    except (AssertionError, TypeError):
        return equal(one, two)
    return True


def main(folder: str, names: list[str]) -> None:
    sys.path.insert(0, folder)
    cases = {case.name: case for case in all_cases()}
    found: dict[str, list[str]] = {}
    for given in names:
        name, _, path = given.partition("=")
        try:
            package = importlib.import_module(name)
            check = differences_of_archive(path, package) if path else None
            found[name] = list(check or differences_of_case(cases[name], package))
        except Exception as error:
            found[name] = [f"{type(error).__name__}: {error}"]
    ours = [name for name in ("tsarchive", "safetensors") if name in sys.modules]
    print("\n" + json.dumps({"differences": found, "imported": ours}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    main(sys.argv[1], sys.argv[2:])
