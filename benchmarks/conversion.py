"""The number of TorchScript archives that convert to torch.export programs: tsarchive and torch.

    python benchmarks/conversion.py [--json] [PATH ...]

Each archive is converted with `tsarchive.to_exported_program` and with torch's own
TS2EPConverter; both programs run on the inputs that they were converted with, and their results
are compared with those of torch.jit. Without paths: the corpus beside the repository and the
fixture archives. Archives are tried in a process of its own, which is started again if one of
them ends it; --timeout is in seconds and for each archive.
"""

import argparse
import copy
import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

import torch  # noqa: E402
from measured import measured  # noqa: E402
from torch.utils._pytree import tree_map_only  # noqa: E402

import tsarchive  # noqa: E402
from tests.support.comparing import equal  # noqa: E402
from tests.support.corpus_inputs import arguments_for  # noqa: E402

CORPUS = ROOT.parent / "shared" / "corpus"
TOLERANCE = 1e-4
SIDES = ("tsarchive", "specialized", "torch")
_MARK = b"row: "


def default_paths() -> list[Path]:
    paths = sorted((CORPUS / "torchscript").glob("*"))
    for folder in (CORPUS / "generated", ROOT / "fixtures" / "archives"):
        paths += sorted(path for path in folder.glob("*.pt") if not path.match("*.io.pt"))
    return paths


def inputs_of(path: Path, module: Any) -> tuple[Any, ...] | None:
    """Return the stored inputs of a fixture, else arguments that torch.jit accepts."""
    stored = path.with_suffix(".io.pt")
    if stored.exists():
        return _first_call(stored)
    found = arguments_for(path.name, module, "forward")
    return None if found is None else tuple(found)


def _first_call(path: Path) -> tuple[Any, ...] | None:
    """Return the first stored call of forward, preferring one with a tensor."""
    calls = torch.load(path, weights_only=False).get("forward", [])
    positional = [tuple(call["args"]) for call in calls if not call["kwargs"]]
    with_tensors = [
        call for call in positional if any(isinstance(value, torch.Tensor) for value in call)
    ]
    return next(iter(with_tensors or positional), None)


def same(one: Any, two: Any) -> bool:
    """Compare bitwise or up to rounding; programs return tuples where code returns lists."""
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        is_close = one.shape == two.shape and one.dtype == two.dtype and one.is_floating_point()
        return equal(one, two) or (
            is_close and torch.allclose(one, two, TOLERANCE, TOLERANCE, equal_nan=True)
        )
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    return equal(one, two)


def by_tsarchive(path: Path, inputs: tuple[Any, ...], *, specialize: bool = False) -> Any:
    model = tsarchive.load(path, map_location="cpu", policy=tsarchive.Policy.trusted())
    return tsarchive.to_exported_program(model, inputs, specialize=specialize)


def by_torch(path: Path, inputs: tuple[Any, ...]) -> Any:
    from torch._export.converter import TS2EPConverter

    return TS2EPConverter(torch.jit.load(path, map_location="cpu"), inputs).convert()


def outcome(convert: Callable[..., Any], path: Path, inputs: tuple[Any, ...], expected: Any) -> str:
    """Return "equal", or the reason for a failure."""
    torch.manual_seed(0)
    inputs_of_program, expected = as_integers(inputs), as_integers(expected)
    try:
        program = convert(path, copy.deepcopy(inputs))
    except Exception as error:
        return "not converted: " + shown(error)
    torch.manual_seed(0)
    try:
        found = program.module()(*copy.deepcopy(inputs_of_program))
    except Exception as error:
        return "does not run: " + shown(error)
    return "equal" if same(expected, found) else "other results"


def as_integers(values: Any) -> Any:
    """Return values as programs have them: integers in the place of quantized tensors."""
    return tree_map_only(
        torch.Tensor, lambda value: value.int_repr() if value.is_quantized else value, values
    )


def shown(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]


def examine(path: Path) -> dict[str, str]:
    """Return the row of one archive; ``skipped`` says why nothing was tried."""
    try:
        module = torch.jit.load(path, map_location="cpu")
    except RuntimeError as error:
        return {"skipped": "torch.jit does not load it: " + shown(error)}
    inputs = inputs_of(path, module) if "forward" in module._c._method_names() else None
    if inputs is None:
        return {"skipped": "no arguments are known that torch.jit takes"}
    torch.manual_seed(0)
    try:
        with torch.jit.optimized_execution(False):
            loaded = torch.jit.load(path, map_location="cpu")
            expected = loaded(*copy.deepcopy(inputs))
    except Exception as error:
        return {"skipped": "torch.jit does not run it: " + shown(error)}
    plain = outcome(by_tsarchive, path, inputs, expected)
    specialized = partial(by_tsarchive, specialize=True)
    is_refused = plain.startswith("not converted")
    return {
        "tsarchive": plain,
        "specialized": outcome(specialized, path, inputs, expected) if is_refused else plain,
        "torch": outcome(by_torch, path, inputs, expected),
    }


def examine_all(
    paths: list[Path], timeout: float, script: str = __file__, more: Sequence[str] = ()
) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield rows from worker processes, each of which continues until an archive crashes it.

    They run ``script`` with ``--here``, which calls :func:`examine_here`.
    """
    left = list(paths)
    options = ["--timeout", str(timeout), *more, "--here"]
    while left:
        command = [sys.executable, script, *options, *map(str, left)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            for line in child.stdout or ():
                if line.startswith(_MARK):
                    yield left.pop(0), json.loads(line[len(_MARK) :])
        if child.returncode and left:
            yield left.pop(0), {"skipped": f"the process ended with {child.returncode}"}


def examine_here(
    paths: list[Path], timeout: float, examine: Callable[[Path], dict[str, str]]
) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, _too_long)
    for path in paths:
        signal.setitimer(signal.ITIMER_REAL, timeout)
        try:
            row = examine(path)
        except TimeoutError:
            row = {"skipped": f"takes more than {timeout:g} seconds"}
        signal.setitimer(signal.ITIMER_REAL, 0)
        torch._dynamo.reset()
        sys.stdout.write(f"\n{_MARK.decode()}{json.dumps(row)}\n")
        sys.stdout.flush()


def _too_long(*_: Any) -> None:
    raise TimeoutError


def table(rows: dict[str, dict[str, str]]) -> str:
    tried = [row for row in rows.values() if "skipped" not in row]
    lines = ["| archives | tsarchive | where refused, specialized | torch |", "|---|---|---|---|"]
    lines.append(f"| tried | {' | '.join([str(len(tried))] * len(SIDES))} |")
    for label, wanted in (
        ("converted, results equal to torch.jit's", "equal"),
        ("converted, other results", "other results"),
        ("converted, does not run", "does not run"),
        ("not converted", "not converted"),
    ):
        counts = [sum(row[side].startswith(wanted) for row in tried) for side in SIDES]
        lines.append(f"| {label} | {' | '.join(map(str, counts))} |")
    lines.append(f"\nNot tried: {len(rows) - len(tried)}\n\n{measured()}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--json", action="store_true", help="print the reasons for each file")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        examine_here(options.paths, options.timeout, examine)
        return
    found = examine_all(options.paths or default_paths(), options.timeout)
    rows = {str(path): row for path, row in found}
    print(json.dumps(rows, indent=1) if options.json else table(rows))


if __name__ == "__main__":
    main()
