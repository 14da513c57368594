"""Fuzzing of every operator that the default policy allows, from archive code.

python fuzz/operators.py --passes 4 --processes 2
python fuzz/operators.py --only 'sparse|indices' --passes 100
python fuzz/operators.py --reproduce 1234

A stretch makes some calls in one process: of one operator in turn, and of others drawn at random,
which are given what earlier calls gave or changed. All memory of tensors lies between guard pages
(``guard_pages.c``), where there is a C compiler. A finding is a signal, a write outside of a
tensor, a result that claims memory it does not have, or a call of more than ``--seconds`` of CPU.
The exit status is 0 without findings, 1 with some.
"""

from __future__ import annotations

import argparse
import io
import json
import mmap
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

_FOLDER: Final = Path(__file__).resolve().parent
sys.path.insert(0, str(_FOLDER.parent))

import torch  # noqa: E402
from operator_values import Arguments, NoValuesError, tensors_in  # noqa: E402

import tsarchive  # noqa: E402
from tests.support.registry_calls import archive_of, bindings, call_of, registry  # noqa: E402
from tsarchive.errors import ArchiveError  # noqa: E402
from tsarchive.ir.schema import FunctionSchema  # noqa: E402
from tsarchive.ir.types import Type  # noqa: E402
from tsarchive.operators.risks import row_of  # noqa: E402
from tsarchive.run.tensor_checks import validated  # noqa: E402

_CALLS: Final = 24
_PLAIN: Final = (int, float, complex, str, type(None), torch.device)
_ROOM: Final = 1 << 30
_SHOWN: Final = 3000  # so that a line of JSON is written to a pipe atomically
_TOLD: Final = "guard_pages: "
_GUARDED: Final = "TSARCHIVE_GUARD_PAGES"
# Operators that wait forever, print their arguments, or repeat them a given number of times.
_LEFT_OUT: Final = re.compile(
    r"aten::(wait|warn|_print)|prim::(Print|RaiseException|TimePoint)|aten::mul_?[.](\w+_)?(t|str)"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """An operator call with a forbidden effect."""

    stretch: int
    problem: str
    call: str


@dataclass(frozen=True, slots=True)
class Target:
    """One overload, with one binding of its type variables."""

    schema: FunctionSchema
    types: list[Type]
    function: Any

    @property
    def takes_tensors(self) -> bool:
        return "Tensor" in str(self.types)


def targets(only: str) -> list[Target]:
    """Return every overload that the default policy allows, as a method of a loaded archive."""
    found = []
    for schema in registry():
        is_out = row_of(schema.full_name).is_refused or _LEFT_OUT.fullmatch(schema.full_name)
        if is_out or schema.is_vararg or not re.search(only, schema.full_name):
            continue
        for types in bindings(schema):
            function = _function(schema, types)
            if function is not None:
                found.append(Target(schema, types, function))
    return found


def _function(schema: FunctionSchema, types: list[Type]) -> Any:
    try:
        module = tsarchive.load(io.BytesIO(archive_of(call_of(schema, types))))
        assert type(module).tsarchive_class.methods["f"].graph.returns
    except (ArchiveError, RuntimeError, NotImplementedError):
        return None
    return module.f


class Stretch:
    """Calls that share their tensors, reproducible by seed and number."""

    def __init__(self, options: argparse.Namespace, number: int, found: list[Target]) -> None:
        self._arguments = Arguments(f"{options.seed} {number}")
        self._random = self._arguments.random
        self._seconds = options.seconds
        self._target = found[number % len(found)]
        self._others = [target for target in found if target.takes_tensors] or found

    def run(self, shown: mmap.mmap) -> Iterator[str | None]:
        """Make the calls; yield the problem with the result of each, or None."""
        torch.manual_seed(0)
        for _ in range(_CALLS):
            is_turn = self._random.random() < 0.5
            target = self._target if is_turn else self._random.choice(self._others)
            yield self._call(target, shown)

    def _call(self, target: Target, shown: mmap.mmap) -> str | None:
        try:
            given = self._arguments.draw(target.schema, target.types)
        except (NoValuesError, RuntimeError, ValueError, TypeError, MemoryError):
            return None
        _show(shown, f"{target.schema.full_name}({', '.join(map(_text, given))})")
        signal.setitimer(signal.ITIMER_PROF, self._seconds)
        try:
            result = target.function(*given)
        except Exception:  # any error is a valid outcome
            result = None
        problem = next(filter(None, map(_fault, tensors_in([result, given]))), None)
        self._arguments.keep(result)
        return problem


def _fault(tensor: torch.Tensor) -> str | None:
    """Return the inconsistency between a tensor and its memory."""
    if tensor.is_meta or tensor.is_nested:
        return None
    if tensor.layout is not torch.strided:
        try:
            validated(tensor)
        except RuntimeError as error:
            return f"a sparse tensor of other indices: {error}"
        return None
    if any(size < 0 for size in tensor.size()):
        return f"a tensor of sizes {list(tensor.size())}"
    steps = zip(tensor.size(), tensor.stride(), strict=True)
    last = tensor.storage_offset() + sum((size - 1) * step for size, step in steps)
    room = tensor.untyped_storage().nbytes() // tensor.element_size()
    packed = 4 if tensor.dtype in (torch.quint4x2, torch.quint2x4) else 1
    is_fine = not tensor.numel() or last < room * packed
    return None if is_fine else f"a tensor up to {last} in memory of {room} elements"


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor_text(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value)[:80] if isinstance(value, _PLAIN) else type(value).__name__


def _tensor_text(tensor: torch.Tensor) -> str:
    text = f"{str(tensor.dtype)[6:]}{list(tensor.shape)}"
    if tensor.layout is not torch.strided:
        return f"{text} {str(tensor.layout)[6:]}"
    if not tensor.is_contiguous():
        text += f" strides {list(tensor.stride())}"
    # A list of an empty tensor may be as long as its first size.
    is_short = not (tensor.is_meta or tensor.is_quantized or tensor.is_nested) and (
        0 < tensor.numel() <= 8
    )
    if not is_short:
        return text + (" meta" if tensor.is_meta else "")
    return f"{text} {tensor.tolist()}"


def _show(shown: mmap.mmap, text: str) -> None:
    """Write the call to shared memory, where it survives a crash of the process."""
    data = text.encode("ascii", "backslashreplace")[: _SHOWN - 1] + b"\0"
    shown[: len(data)] = data


def _shown(shown: mmap.mmap) -> str:
    return shown[:].partition(b"\0")[0].decode()


def child(options: argparse.Namespace, found: list[Target], numbers: range) -> Finding | None:
    """Run stretches in a process of their own, up to the first finding."""
    shown, at = mmap.mmap(-1, _SHOWN), mmap.mmap(-1, 8)
    process = os.fork()
    if process == 0:
        os.ftruncate(options.messages, 0)
        try:
            problem = _run(options, found, numbers, shown, at)
        except BaseException as error:
            problem = f"beside the call: {error!r}"
        os.write(2, f"{_TOLD}{problem}\n".encode())
        os._exit(3 if problem else 0)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if status == 0:
        return None
    name = signal.Signals(-status).name if status < 0 else ""
    number = int.from_bytes(at[:], "little")
    return Finding(number, f"{name} {_told(options.messages)}".strip(), _shown(shown))


def _told(messages: int) -> str:
    """Return messages of the process or its guard pages, without torch's warnings."""
    text = os.pread(messages, os.fstat(messages).st_size, 0).decode(errors="replace")
    told = [line.partition(_TOLD)[2] for line in text.splitlines() if _TOLD in line]
    return " ".join(told)


def _run(
    options: argparse.Namespace,
    found: list[Target],
    numbers: range,
    shown: mmap.mmap,
    at: mmap.mmap,
) -> str:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(options.messages, 2)  # where guard pages report writes
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM, used + _ROOM))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in numbers:
        at[:] = number.to_bytes(8, "little")
        for problem in Stretch(options, number, found).run(shown):
            if problem:
                return problem
    return ""


def work(options: argparse.Namespace, part: int) -> int:
    """Run every stretch of one of the processes; report findings as lines of JSON.

    Returns the number of calls.
    """
    os.environ["TORCH_SHOW_CPP_STACKTRACES"] = "0"
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = targets(options.only)
    stop = len(found) * options.passes
    number, last = stop * part // options.processes, stop * (part + 1) // options.processes
    count = last - number
    with tempfile.TemporaryFile("a+b") as messages:
        options.messages = messages.fileno()
        while number < last:
            finding = child(options, found, range(number, last))
            if finding is None:
                break
            print(json.dumps(asdict(finding)), flush=True)
            number = finding.stretch + 1
    print(json.dumps({"overloads": len(found), "calls": count * _CALLS}), flush=True)
    return count


def reproduce(options: argparse.Namespace) -> int:
    """Make the calls of one stretch in this process, and print each."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    shown = mmap.mmap(-1, _SHOWN)
    calls = Stretch(options, options.reproduce, targets(options.only))
    original = globals()["_show"]

    def tell(buffer: mmap.mmap, text: str) -> None:
        print(text, flush=True)
        original(buffer, text)

    globals()["_show"] = tell
    problems = [problem for problem in calls.run(shown) if problem]
    print("\n".join(problems) or "no finding")
    return 1 if problems else 0


def guarded_environment(folder: str) -> dict[str, str]:
    """Return this environment, with guard pages around every allocation of torch if possible."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        print("no C compiler: reads and writes beyond tensors are not seen", file=sys.stderr)
        return {**os.environ, _GUARDED: "0"}
    library = f"{folder}/guard_pages.so"
    source = _FOLDER / "guard_pages.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return {**os.environ, _GUARDED: "1", "LD_PRELOAD": library}


def drive(options: argparse.Namespace) -> int:
    """Run all processes, each with guard pages of one kind, and report their findings."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        environment = guarded_environment(folder)
        receiving, sending = os.pipe()
        running = [_start(part, environment, sending) for part in range(options.processes)]
        os.close(sending)
        told = list(_heard(receiving))
        statuses = [process.wait() for process in running]
    findings = [one for one in told if "problem" in one]
    sums = [one for one in told if "calls" in one]
    calls = sum(one["calls"] for one in sums)
    overloads = max((one["overloads"] for one in sums), default=0)
    seconds = time.monotonic() - started
    print(f"{calls} calls of {overloads} overloads in {seconds:.0f} s: {len(findings)} findings")
    if options.json:
        options.json.write_text(json.dumps({"calls": calls, "findings": findings}, indent=1) + "\n")
    return 1 if findings or any(statuses) else 0


def _start(part: int, environment: dict[str, str], sending: int) -> subprocess.Popen[bytes]:
    front = {"GUARD_FRONT": "1"} if part % 2 else {}
    command = [sys.executable, __file__, *sys.argv[1:], "--part", str(part)]
    return subprocess.Popen(command, env={**environment, **front}, stdout=sending)


def _heard(receiving: int) -> Iterator[dict[str, Any]]:
    """Yield the reports of the processes by line; findings are shown as they arrive."""
    with os.fdopen(receiving) as lines:
        for line in lines:
            one = json.loads(line)
            if "problem" in one:
                print(f"{one['stretch']}: {one['problem']}\n    {one['call']}", flush=True)
            yield one


def main() -> int:
    os.environ["TSARCHIVE_CACHE"] = "0"  # inputs are not to be remembered, nor files opened
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--passes", type=int, default=1, help="stretches for each overload")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU that one call may take")
    parser.add_argument("--only", default="", help="overloads whose names match")
    parser.add_argument("--json", type=Path, help="file for the findings")
    parser.add_argument("--reproduce", type=int, metavar="STRETCH", help="make its calls here")
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part is not None:
        work(options, options.part)
        return 0
    if options.reproduce is None:
        return drive(options)
    if _GUARDED in os.environ:
        return reproduce(options)
    with tempfile.TemporaryDirectory() as folder:
        environment = guarded_environment(folder)
        return subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
