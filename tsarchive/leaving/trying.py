"""Tries the ways out on a file: writes each into a temporary folder, runs it, compares results.

The code of a decompiled package runs in a process of its own, since no policy holds back Python.
"""

from __future__ import annotations

import copy
import inspect
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import torch
from torch.utils._pytree import tree_map_only

from tsarchive.archive import Archive
from tsarchive.archive import open as opened
from tsarchive.converting import Conversion, convert, to_exported_program
from tsarchive.decompiler import decompile
from tsarchive.decompiler.naming import identifier
from tsarchive.describing.text import shape
from tsarchive.errors import ArchiveError, CallError, UnsupportedError
from tsarchive.formats.executorch.modules.comparing import Comparison, compare_outputs
from tsarchive.formats.pt2.importer import sample_values
from tsarchive.formats.pt2.records import Records
from tsarchive.formats.registry import format_named
from tsarchive.formats.requests import Note
from tsarchive.formats.torchscript.traced_inputs import drawn_inputs
from tsarchive.loading import load
from tsarchive.lowering import outputs_of
from tsarchive.policy import Policy
from tsarchive.remote import located
from tsarchive.steps import Step, no_step

from .plan import CALL, InputsOrigin, LeavingPlan, Outcome, WayOut

_FORWARD: Final = "forward"
_RELATIVE: Final = 1e-4
_ABSOLUTE: Final = 1e-5
_ON_CPU: Final = (".pte", ".onnx")
_SCRATCH: Final = (".given", ".results", ".pyc")


def leave(
    f: str | os.PathLike[str],
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    model: str | None = None,
    map_location: str | torch.device | None = None,
    policy: Policy | None = None,
    only: Sequence[str] = (),
    seed: int = 0,
    step: Step | None = None,
) -> LeavingPlan:
    """Try the ways to leave the format of ``f``, and return what became of each.

    Each is written to a temporary folder and run once, in the mode that the file is in, from one
    seed of random numbers; results are compared with those of the file as :func:`tsarchive.load`
    gives it. They are ``equal`` to the bit, ``close`` up to an absolute difference of 1e-5 and a
    relative one of 1e-4, or they differ. Of ONNX and ExecuTorch, the traced program is compared
    with the file so, and the runtime with the program as :func:`tsarchive.convert` does: up to
    1e-4 and 1e-3, more for 16 bits; onnxruntime not at all where operators draw random numbers.

    ``args`` and ``kwargs`` are the arguments of the call. Without them, example inputs of a PT2
    archive serve, or random tensors of the sizes that torch.jit.trace left in the file; integers
    are below 10 there. A ``forward`` that needs none is called without. Where there are none, ways
    that need a call are not tried. ``only`` names the ways to try: ``decompile``, ``pt2``,
    ``torchscript``, ``onnx``, ``pte``, ``safetensors``. The other arguments are those of
    :func:`tsarchive.convert`.

    Raises CallError for an unknown way, one that does not lead out of a file of this kind, and for
    arguments that ``forward`` does not take; what :func:`tsarchive.load` raises for the file.

        >>> [way.command for way in tsarchive.leave("net.pt", args=(x,), only=["safetensors"]).ways]
        ['tsarchive convert net.pt net.safetensors']
    """
    step = step or no_step
    for name in only:
        if name not in _BY_NAME:
            known = ", ".join(_BY_NAME)
            raise CallError(f"no way out is called {name!r}", hint=f"There are: {known}")
    with opened(f) as archive:
        _require_model(archive)
        file, methods = os.fspath(located(f)), archive.tree().methods
        subject = _Subject(archive, file, model, map_location, policy, seed, methods)
        wanted = _wanted(subject, only)
        step("running the file")
        origin, call, problem = subject.call(args, kwargs)
        trial = _Trial(subject, call, origin, dynamic_shapes, problem)
        with tempfile.TemporaryDirectory(prefix="tsarchive-leave-") as folder:
            ways = tuple(trial.way(way, Path(folder), step) for way in wanted)
        return LeavingPlan(subject.file, archive.kind, origin, trial.arguments(), ways)


def _require_model(archive: Archive) -> None:
    """Raise UnsupportedError for a file that no way leads out of."""
    found = format_named(archive.kind)
    if not found.has_code and not found.has_programs:
        raise UnsupportedError(
            f"there is no way out of a file of the kind {archive.kind}",
            hint="Leave the TorchScript or PT2 archive that it was made from",
        )


def _wanted(subject: _Subject, only: Sequence[str]) -> list[_Way]:
    """Return the ways to try. Raises CallError for one that is asked for and is none here."""
    fitting = [way for way in _WAYS if way.fits(subject)]
    names = [way.name for way in fitting]
    for name in only:
        if name not in names:
            raise CallError(
                f"{name!r} is no way out of a file of the kind {subject.archive.kind}",
                hint=f"There are: {', '.join(names)}",
            )
    return [way for way in fitting if not only or way.name in only]


_Arguments: TypeAlias = tuple[tuple[Any, ...], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Call:
    """Arguments, and what the file gives for them."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    expected: Sequence[Any]

    @property
    def integers(self) -> _Call:
        """The call with integers in the place of quantized tensors."""
        return _Call(*map(_as_integers, (self.args, self.kwargs, self.expected)))


@dataclass(frozen=True, slots=True)
class _Subject:
    """The file, and how it is loaded."""

    archive: Archive
    file: str
    model: str | None
    map_location: str | torch.device | None
    policy: Policy | None
    seed: int
    methods: tuple[str, ...]

    @property
    def has_programs(self) -> bool:
        return format_named(self.archive.kind).has_programs

    @property
    def has_code(self) -> bool:
        return format_named(self.archive.kind).has_code

    def call(
        self, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
    ) -> tuple[InputsOrigin, _Call | None, str | None]:
        """Run the file. Return the origin of the arguments, the call, and why there is none."""
        if args is not None or kwargs is not None:
            return "given", self._run(tuple(args or ()), dict(kwargs or {})), None
        sources: tuple[tuple[InputsOrigin, Callable[[], _Arguments | None]], ...]
        sources = ("stored", self._stored), ("drawn", self._drawn), ("needless", self._needless)
        for origin, known in sources:
            try:
                found = known()
                if found is not None:
                    return origin, self._run(*found), None
            except (ArchiveError, RuntimeError) as error:
                return "none", None, f"the inputs in the file do not serve: {_message(error)}"
        return "none", None, None

    def _stored(self) -> _Arguments | None:
        if not self.has_programs:
            return None
        records = Records(self.archive.container)
        return sample_values(records, self.model or records.models[0])

    def _drawn(self) -> _Arguments | None:
        generator = torch.Generator().manual_seed(self.seed)
        found = drawn_inputs(self.archive.container, generator)
        return None if found is None else (found, {})

    def _needless(self) -> _Arguments | None:
        if not self.has_code or _FORWARD not in self.methods:
            return None
        parameters = inspect.signature(self.loaded().forward).parameters.values()
        return ((), {}) if all(each.default is not each.empty for each in parameters) else None

    @property
    def wanted_call(self) -> str:
        """Say which arguments to give, and what they are."""
        signature = inspect.signature(self.loaded().forward)
        return f"Give them as args and kwargs: forward{signature}"

    def _run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Call:
        return _Call(args, kwargs, _outputs(self.loaded(), args, kwargs, self.seed))

    def loaded(self, device: str | None = None) -> Any:
        """Return the model of the file, on a device other than that asked for if one is given."""
        place = device or self.map_location
        return load(self.file, map_location=place, policy=self.policy, model=self.model)

    def losses(self, way: _Way) -> Iterator[str]:
        """Yield what this file has and the result of a way has not."""
        if not way.has_code:
            yield "the code: it has to be written again"
        if way.is_traced and not self.has_programs:
            yield "the other mode: it stays in training or evaluation, as the file is"
            yield "sizes that are not left open, and branches that these or Python values decide"
        methods = [name for name in self.methods if name != _FORWARD]
        if methods and (way.is_traced or not way.has_code):
            yield f"methods: {', '.join(methods)}"
        if self.archive.extra_files and not way.has_extra_files:
            yield f"extra files: {', '.join(self.archive.extra_files)}"


@dataclass(frozen=True, slots=True)
class _Trial:
    """The ways that are tried on one file, with one call."""

    subject: _Subject
    call: _Call | None
    origin: InputsOrigin
    dynamic_shapes: Any
    problem: str | None

    def arguments(self) -> tuple[str, ...]:
        if self.call is None:
            return ()
        named = [f"{name}={_shown(value)}" for name, value in self.call.kwargs.items()]
        return (*map(_shown, self.call.args), *named)

    def way(self, way: _Way, folder: Path, step: Callable[[str], None]) -> WayOut:
        """Try a way, and tell what became of it."""
        step(way.title)
        made = partial(
            WayOut, way.name, way.title, self._command(way), way.needs, way.keeps,
            tuple(self.subject.losses(way)),
        )  # fmt: skip
        missing = [name for name in way.packages if find_spec(name) is None]
        if missing:
            problem = f"not installed: {', '.join(missing)}"
            return made("untried", problem=problem, hint=f'pip install "tsarchive[{way.extra}]"')
        if self.call is None and way.is_traced and not self.subject.has_programs:
            if _FORWARD not in self.subject.methods:
                return made(
                    "fails", problem="there is no forward to trace",
                    hint="Save a module whose forward calls the method that is wanted",
                )  # fmt: skip
            if self.problem is not None:
                advice = "Give the arguments of a call"
                return made("untried", problem=self.problem, hint=advice)
            return made("untried", problem="it takes a call", hint=self.subject.wanted_call)
        begun = time.monotonic()
        target = folder / f"{way.name}_model{way.suffix}"
        try:
            comparison, notes = way.attempt(self, target)
        except Exception as error:  # whatever torch and the tools of a format raise
            line, hint = getattr(error, "origin", None), getattr(error, "hint", None)
            return made("fails", problem=_message(error), origin=line, hint=hint)
        seconds = round(time.monotonic() - begun, 2)
        facts = made(_outcome(comparison), seconds, _size(target))
        lost = (note.text for note in notes if note.kind == "file" or not note.is_checked)
        facts = replace(facts, loses=(*facts.loses, *lost))
        if comparison is None:
            return facts
        return replace(facts, max_difference=comparison.max_difference, problem=comparison.problem)

    def _command(self, way: _Way) -> str:
        file = shlex.quote(self.subject.file)
        stem = Path(urlsplit(self.subject.file).path).stem or "model"
        name = shlex.quote(f"{stem}{way.suffix}")
        if way.suffix == "":
            words = [f"tsarchive decompile {file} -o {identifier(stem)}_source"]
        else:
            words = [f"tsarchive convert {file} {name}"]
        if way.is_traced and not self.subject.has_programs:
            words.append(self._words())
        return " ".join((*words, *self._options(way)))

    def _options(self, way: _Way) -> Iterator[str]:
        """Yield the options of the command that say what is written."""
        subject = self.subject
        if not way.has_code:
            return
        if subject.model is not None and subject.has_programs:
            yield f"--model {shlex.quote(subject.model)}"
        if subject.map_location is not None and way.suffix not in _ON_CPU:
            yield f"--map-location {shlex.quote(str(subject.map_location))}"

    def _words(self) -> str:
        """Return the arguments of the call on a command line."""
        drawn = () if self.call is None or self.origin != "drawn" else self.call.args
        if drawn and all(isinstance(value, torch.Tensor) for value in drawn):
            return " ".join(f"--random {_shown(value)}" for value in drawn)
        return CALL

    def converted(self, target: Path) -> Conversion:
        """Convert the file to the format that the name of ``target`` says."""
        subject = self.subject
        shapes = {} if self._traced_call is None else {"dynamic_shapes": self.dynamic_shapes}
        return convert(
            subject.file, target, model=subject.model, policy=subject.policy,
            map_location=None if target.suffix in _ON_CPU else subject.map_location,
            **self._traced_arguments(), **shapes,
        )  # fmt: skip

    @property
    def _traced_call(self) -> _Call | None:
        """The call that a conversion traces; None of programs, which are traced."""
        return None if self.subject.has_programs else self.call

    def _traced_arguments(self) -> dict[str, Any]:
        call = self._traced_call
        return {} if call is None else {"args": call.args, "kwargs": call.kwargs}

    def lowered(self, target: Path) -> tuple[Comparison | None, Conversion, Sequence[Note]]:
        """Trace the file, compare, and convert the program that was traced.

        A conversion compares what it writes with the program, and not with the file.
        """
        call = self._traced_call
        if call is None:
            return None, self.converted(target), ()
        notes: list[Note] = []
        program = to_exported_program(
            self.subject.loaded("cpu"), call.args, call.kwargs, told=notes.append,
            dynamic_shapes=self.dynamic_shapes,
        )  # fmt: skip
        return (
            self.compared_traced(program.module()),
            convert(program, target, args=call.integers.args, kwargs=call.integers.kwargs),
            notes,
        )

    def compared(self, run: Callable[..., Any]) -> Comparison | None:
        """Compare what the result of a way gives for the call with what the file gives."""
        call = self.call
        if call is None:
            return None
        return self._comparison(run, call)

    def compared_traced(self, run: Callable[..., Any]) -> Comparison | None:
        """The same of what was traced, in which integers stand for quantized tensors."""
        return None if self.call is None else self._comparison(run, self.call.integers)

    def _comparison(self, run: Callable[..., Any], call: _Call) -> Comparison:
        found = _outputs(run, call.args, call.kwargs, self.subject.seed)
        return compare_outputs(found, call.expected, rtol=_RELATIVE, atol=_ABSOLUTE)


class _Made(NamedTuple):
    """How what a way made compares with the file, and what was told of it."""

    comparison: Comparison | None
    notes: Sequence[Note] = ()


def _as_package(trial: _Trial, target: Path) -> _Made:
    subject = trial.subject
    done = decompile(subject.file, target, map_location=subject.map_location, policy=subject.policy)
    notes = [Note("file", done.copied)] if done.copied else []
    return _Made(trial.compared(partial(_run_package, target, subject.seed)), notes)


def _as_program(trial: _Trial, target: Path) -> _Made:
    done = trial.converted(target)
    return _Made(trial.compared_traced(torch.export.load(target).module()), done.notes)


def _as_torchscript(trial: _Trial, target: Path) -> _Made:
    done = trial.converted(target)
    return _Made(trial.compared(load(target, policy=trial.subject.policy)), done.notes)


def _as_lowered(trial: _Trial, target: Path) -> _Made:
    """Convert; the conversion itself compares the results with those of the runtime."""
    traced, done, notes = trial.lowered(target)
    for agreement in done.agreements:
        if not getattr(agreement, "has_run", True):
            raise UnsupportedError(agreement.problem or "it does not run")
    found = [] if traced is None else [traced]
    found += [Comparison(each.max_difference, each.problem) for each in done.agreements]
    notes = [*notes, *done.notes]
    if not done.agreements:
        is_same = traced is None or traced.problem is None
        return _Made(None if is_same else traced, notes)
    apart = [each.max_difference for each in found if each.max_difference is not None]
    problems = [each.problem for each in found if each.problem is not None]
    return _Made(Comparison(max(apart, default=None), next(iter(problems), None)), notes)


def _as_weights(trial: _Trial, target: Path) -> _Made:
    return _Made(None, convert(trial.subject.file, target).notes)


_RUN_PACKAGE: Final = """
import importlib, sys
import torch
from torch.utils._pytree import tree_leaves

folder, name, given, results, seed = sys.argv[1:]
sys.path.insert(0, folder)
model = importlib.import_module(name).load()
args, kwargs = torch.load(given, weights_only=False)
torch.manual_seed(int(seed))
leaves = tree_leaves(model(*args, **kwargs))
leaves = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
plain = torch.Tensor, bool, int, float, complex, str, type(None)
torch.save([leaf if isinstance(leaf, plain) else type(leaf).__name__ for leaf in leaves], results)
"""


def _run_package(package: Path, seed: int, *args: Any, **kwargs: Any) -> list[Any]:
    """Call the model of a package in a process of its own."""
    given, results = (package.with_suffix(suffix) for suffix in (".given", ".results"))
    torch.save((args, kwargs), given)
    words = map(str, (package.parent, package.name, given, results, seed))
    command = [sys.executable, "-c", _RUN_PACKAGE, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
        raise UnsupportedError(f"the package cannot be run: {last}")
    found: list[Any] = torch.load(results, weights_only=True)
    return found


class _Way(NamedTuple):
    """A way, the packages that it takes here, and what the result has."""

    name: str
    title: str
    suffix: str
    attempt: Callable[[_Trial, Path], _Made]
    needs: str
    keeps: tuple[str, ...]
    extra: str = ""
    packages: tuple[str, ...] = ()
    has_code: bool = True
    is_traced: bool = False
    has_extra_files: bool = False

    def fits(self, subject: _Subject) -> bool:
        """Return whether a file of this kind can leave so."""
        if self.name == "decompile":
            return subject.has_code
        return self.name != ("pt2" if subject.has_programs else "torchscript")


_WEIGHTS: Final = "weights, under their names in the state_dict"
_WAYS: Final = (
    _Way("decompile", "Python source", "", _as_package, "torch",
         ("all methods, modes and sizes", _WEIGHTS, "code that people read, debug and change")),
    _Way("torchscript", "TorchScript archive", ".pt", _as_torchscript,
         "tsarchive, or a torch that has torch.jit", ("the graph", _WEIGHTS),
         has_extra_files=True),
    _Way("pt2", "torch.export program", ".pt2", _as_program, "torch",
         ("the graph of one call", _WEIGHTS), is_traced=True, has_extra_files=True),
    _Way("onnx", "ONNX model", ".onnx", _as_lowered, "onnxruntime, or another ONNX runtime",
         ("the graph of one call", "weights"), "onnx", ("onnx", "onnxscript", "onnxruntime"),
         is_traced=True),
    _Way("pte", "ExecuTorch program", ".pte", _as_lowered, "the ExecuTorch runtime",
         ("the graph of one call", "weights"), "executorch", ("executorch",), is_traced=True),
    _Way("safetensors", "weights and structure", ".safetensors", _as_weights, "safetensors",
         (_WEIGHTS, "the tree of modules, as JSON"), has_code=False),
)  # fmt: skip
_BY_NAME: Final = MappingProxyType({way.name: way for way in _WAYS})


def _outputs(
    run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], seed: int
) -> list[Any]:
    """Return the leaves of a result, from a seed of random numbers; arguments stay as they are."""
    given, named = copy.deepcopy((list(args), dict(kwargs)))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return outputs_of(run(*given, **named))


def _as_integers(values: Any) -> Any:
    return tree_map_only(
        torch.Tensor, lambda value: value.int_repr() if value.is_quantized else value, values
    )


def _outcome(comparison: Comparison | None) -> Outcome:
    if comparison is None:
        return "written"
    if comparison.problem is not None:
        return "differs"
    return "equal" if not comparison.max_difference else "close"


def _size(target: Path) -> int:
    """Return the bytes of a file, or of a folder; with the files beside it that share its name."""
    beside = target.parent.glob(f"{target.stem}*")
    files = [each for found in beside for each in (found, *found.rglob("*")) if each.is_file()]
    return sum(each.stat().st_size for each in files if each.suffix not in _SCRATCH)


def _message(error: Exception) -> str:
    if isinstance(error, ArchiveError):
        return error.message
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def _shown(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{shape(value.shape)}:{str(value.dtype).removeprefix('torch.')}"
