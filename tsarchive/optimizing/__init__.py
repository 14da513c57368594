"""Modules that answer sooner and give the same to rounding: frozen, folded, and packed.

Graphs change here for good, unlike in the runner, whose passes keep every bit. May import the IR,
the frontend, the runner, and the format that the result is an archive of.
"""

from __future__ import annotations

import copy
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import torch

from tsarchive.container import Container, NewRecord, write_container
from tsarchive.describing.text import plural
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.formats.base import LoadOptions, ZipFormat
from tsarchive.formats.torchscript.format import TORCHSCRIPT
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Block
from tsarchive.ir.rewriting import copy_of
from tsarchive.loading import load_opened
from tsarchive.policy import Guard
from tsarchive.renaming import renamed
from tsarchive.reports import Report
from tsarchive.run.calls_from_python import public_function
from tsarchive.run.modules import ArchiveModule
from tsarchive.saving import format_of_module, saved_records

from .freezing import frozen, simplify
from .graphs import SizesOf, unknown_sizes
from .inlining import Slot
from .layers import Tensors, fold_normalization, name_convolutions, remove_dropout, write_in_place
from .layouts import (
    have_one_order,
    is_blind,
    keep_order,
    loosen_views,
    put_channels_last,
)
from .lists import gather_lists
from .measuring import compared, times_of
from .packing import Packed, Samples, is_available, layers_of, pack
from .recurrence import find_recurrence
from .sizes import size_numbers
from .specializing import specialize
from .tuples import lower_tuples
from .writing import program_records

_FORWARD: Final = "forward"
_MARGIN: Final = 0.98
_SECONDS: Final = 0.2
_REPORT: Final = "tsarchive_optimization"


@dataclass(frozen=True, slots=True)
class Change:
    """What was done, or left, and how often."""

    what: str
    count: int


@dataclass(frozen=True, slots=True, repr=False)
class OptimizeReport(Report):
    """What :func:`optimize` did to a module, and what it brought.

    ``done`` are the changes, ``left`` what stays as it was with the reason. Of the example,
    ``seconds_before`` and ``seconds_after`` are the least times of a call, ``difference`` is how
    far results are apart; None without an example.

        >>> report = tsarchive.optimize_report(tsarchive.optimize(net))
        >>> [change.what for change in report.done][0]
        'call inlined'
    """

    _COLUMNS = "", "change", "count"

    done: tuple[Change, ...]
    left: tuple[Change, ...]
    seconds_before: float | None = None
    seconds_after: float | None = None
    difference: float | None = None

    @property
    def is_changed(self) -> bool:
        return bool(self.done)

    @property
    def ok(self) -> bool:
        """True: where results would differ, :func:`optimize` raises."""
        return True

    def _headline(self) -> str:
        return f"{plural(sum(change.count for change in self.done), 'change')}"

    def _rows(self) -> Sequence[Sequence[object]]:
        return [
            (what, change.what, change.count)
            for what, changes in (("done", self.done), ("left", self.left))
            for change in changes
        ]


@renamed(example="args")
def optimize(module: Any, *, args: Any = None) -> ArchiveModule:
    """Return a module that gives the same results in less time, for inference alone.

    ``module`` comes from :func:`tsarchive.load` of TorchScript or of a PT2 archive, or is a
    scripted or traced module of torch.jit. It is not changed. The result has its public methods, as
    ``torch.jit.freeze`` leaves ``forward``: weights are constants, and only attributes that a
    method sets or writes to stay attributes. It is saved like any other, and torch.jit loads the
    file.

    ``args`` holds the positional arguments of ``forward``, as a tuple, or is a single tensor. It
    decides which layers oneDNN computes: each is timed both ways and its results are compared,
    and so are those of the whole module in the end. Calls with other sizes give right results,
    too; layers over images take batches of them, of four dimensions.

    Results are equal to rounding: to within 1e-4 of the largest. No gradient reaches the weights,
    and none goes through layers of oneDNN. They take 32-bit floating point, also under autocast,
    which the result is not made for. A module with such layers can be copied and saved, but
    not pickled. What cannot be optimized stays as it is; ``tsarchive.optimize_report(result)``
    tells what was done.

    Raises CallError for a path, for a module in training mode, for one that has such layers
    already, and for a program of ExecuTorch; what ``save`` and ``load`` raise; what the module
    raises for the example, also UnsupportedError where it has what cannot be run.

        >>> faster = tsarchive.optimize(net)
        >>> torch.allclose(faster(x), net(x))
        True
    """
    if isinstance(module, str | os.PathLike):
        raise CallError("optimize takes a module, not a path", hint="Give tsarchive.load(path)")
    return optimized_for(module, _arguments(args), nullcontext())


def optimized_for(
    module: Any, example: tuple[Any, ...] | None, calling: AbstractContextManager[Any]
) -> ArchiveModule:
    """Do what :func:`optimize` does; the first call of the module is made within ``calling``.

    This lets the caller tell errors of the module from others. All that this call raises is raised:
    what is not supported later leaves the module as it is.
    """
    source = _own_copy(module)
    # One that torch.jit.freeze made has no mode any more.
    if "training" in source.tsarchive_class.attributes and source.training:
        raise CallError(
            "the module is in training mode", hint="Call eval() on it, and optimize it then"
        )
    # First of all, so that an error is the model's own.
    with calling:
        expected = None if example is None else _result(source, example)
    try:
        optimized, report = _optimized(source, example, expected)
    except UnsupportedError as error:
        optimized, report = source, OptimizeReport((), (Change(f"all: {error.message}", 1),))
    object.__setattr__(optimized, _REPORT, report)
    return optimized


def optimize_report(module: ArchiveModule) -> OptimizeReport:
    """Return what :func:`optimize` did to a module. Raises CallError for another module.

    For example:

        >>> tsarchive.optimize_report(net)
        Traceback (most recent call last):
            ...
        tsarchive.errors.CallError: ...
    """
    report = getattr(module, _REPORT, None)
    if not isinstance(report, OptimizeReport):
        raise CallError("the module does not come from tsarchive.optimize")
    return report


@dataclass(frozen=True, slots=True)
class _Way:
    """What is done beside what is right for every call: the example tells whether it pays."""

    channels_last: bool = False
    specializes: bool = False


_PLAIN: Final = _Way()
_Made = tuple[ArchiveModule, OptimizeReport]


def _arguments(example: Any) -> tuple[Any, ...] | None:
    if example is None:
        return None
    return tuple(example) if isinstance(example, tuple | list) else (example,)


def _own_copy(module: Any) -> ArchiveModule:
    """Return a module of TorchScript that nobody else has."""
    found = format_of_module(module)
    guard = Guard()
    if isinstance(module, ArchiveModule):
        guard = module.tsarchive_classes.enforcement.guard
    if not isinstance(found, ZipFormat):
        raise CallError(f"a {found.kind} program is not optimized: it was planned as it is")
    if isinstance(module, ArchiveModule) and found.saved_kind != TORCHSCRIPT.kind:
        # A program has one graph, whatever mode it says that it is in.
        return _loaded(found.scripted_records(module), guard).eval()
    return _loaded(saved_records(module), guard)


def _loaded(records: Sequence[NewRecord], guard: Guard) -> ArchiveModule:
    stream = io.BytesIO()
    write_container(stream, records)
    stream.seek(0)
    return load_opened(Container.open(stream), LoadOptions(None, guard))


@dataclass(frozen=True, eq=False)
class _Work:
    """A module, its methods as graphs that are right for every call, and what an example gives.

    ``recurrent`` are the layers that code had written out. None are looked for where it is None.
    """

    source: ArchiveModule
    bodies: Mapping[Function, Block]
    done: Counter[str]
    left: Counter[str]
    example: tuple[Any, ...] | None
    expected: Any
    recurrent: Counter[str] | None = None
    tensors: Tensors = field(default_factory=dict)

    @property
    def forward(self) -> Function | None:
        return next((method for method in self.bodies if method.name == _FORWARD), None)


def _optimized(
    source: ArchiveModule, example: tuple[Any, ...] | None, expected: Any
) -> tuple[ArchiveModule, OptimizeReport]:
    plain = _prepared(source, example, expected)
    work = _with_recurrence(plain)
    made = _rewritten(work, _PLAIN)
    if made is None and work.recurrent:
        # Small errors of the first steps may grow with each that follows.
        for what, count in work.recurrent.items():
            plain.left[f"{what}: results are not equal"] += count
        work, made = plain, _rewritten(plain, _PLAIN)
    if made is None:
        raise UnsupportedError("results for the example are not equal to rounding")
    return _timed(_quicker(work, made), work)


def _prepared(source: ArchiveModule, example: tuple[Any, ...] | None, expected: Any) -> _Work:
    """Return the graphs of all public methods, with the changes that do not need an example."""
    methods = _public_methods(source)
    found, kept = frozen(source, methods)
    bodies = {method: each.graph for method, each in zip(methods, found, strict=True)}
    work = _Work(source, bodies, Counter(), Counter(), example, expected)
    work.done["call inlined"] += sum(each.calls for each in found)
    constants = {slot for each in found for slot in each.frozen.values()}
    work.done["attribute made constant"] += len(constants)
    work.left.update(_kept_attributes(kept))
    for graph in bodies.values():
        _prepare(graph, work)
    return work


def _public_methods(source: ArchiveModule) -> list[Function]:
    class_ = source.tsarchive_class
    methods = [method for name, method in class_.methods.items() if not name.startswith("_")]
    if not methods:
        raise UnsupportedError("the module has no public method")
    if class_.forward_hooks or class_.forward_pre_hooks:
        raise UnsupportedError("the module has hooks of its own")
    return methods


def _with_recurrence(work: _Work) -> _Work:
    """Return the graphs with recurrence that code has written out as layers."""
    bodies = {method: copy_of(graph) for method, graph in work.bodies.items()}
    found: Counter[str] = Counter()
    for graph in bodies.values():
        find_recurrence(graph, found)
    return replace(work, bodies=bodies, done=work.done + found, recurrent=found)


def _prepare(graph: Block, work: _Work) -> None:
    remove_dropout(graph, work.done)
    name_convolutions(graph)
    fold_normalization(graph, work.done, work.left, work.tensors)
    simplify(graph)
    size_numbers(graph, work.done)
    lower_tuples(graph)
    gather_lists(graph)


def _quicker(work: _Work, made: _Made) -> _Made:
    """Return the module as it is quickest: which ways pay depends on the example."""
    if work.example is None:
        return made
    way = _PLAIN
    for more in (replace(way, channels_last=True), replace(way, specializes=True)):
        tried = replace(more, channels_last=more.channels_last or way.channels_last)
        other = _rewritten(work, tried)
        if other is not None and _pays(made, other, work.example):
            made, way = other, tried
    return made


def _timed(made: _Made, work: _Work) -> _Made:
    """Add to the report what the module brings for the example."""
    if work.example is None:
        return made
    optimized, report = made
    before, after = _times(work.source, optimized, work.example)
    return optimized, replace(report, seconds_before=before, seconds_after=after)


def _pays(made: _Made, other: _Made, example: tuple[Any, ...]) -> bool:
    before, after = _times(made[0], other[0], example)
    return after < before * _MARGIN


def _rewritten(work: _Work, way: _Way) -> _Made | None:
    """Return the module with graphs of its own; None where it does not give the same."""
    done, left = Counter(work.done), Counter(work.left)
    bodies = {method: copy_of(graph) for method, graph in work.bodies.items()}
    forward = work.forward
    sizes_of: SizesOf = unknown_sizes
    if way.specializes and forward is not None and work.example is not None:
        special = specialize(
            bodies[forward], forward, work.example, done, is_recurrent=work.recurrent is not None
        )
        if special is None:
            return None
        bodies[forward], sizes_of = special
    if way.channels_last:
        changed = [m for m, g in bodies.items() if put_channels_last(g, done, work.tensors)]
        if forward not in changed:
            return None
    packed = _packed(work, bodies, sizes_of, done, left)
    for graph in bodies.values():
        write_in_place(graph, done)
        if way.channels_last or any(layer.numbers is not None for layer in packed):
            loosen_views(graph)
            keep_order(graph)
        simplify(graph)
    guard = work.source.tsarchive_classes.enforcement.guard
    optimized = _loaded(program_records(work.source, bodies, packed), guard)
    return _checked(work, optimized, way, OptimizeReport(_changes(done), _changes(left)))


def _packed(
    work: _Work,
    bodies: Mapping[Function, Block],
    sizes_of: SizesOf,
    done: Counter[str],
    left: Counter[str],
) -> list[Packed]:
    """Let oneDNN compute layers; return their weights."""
    if not is_available():
        return []
    forward, samples = work.forward, None
    if work.example is not None and forward is not None:
        samples = _samples(work.source, forward, bodies[forward], work.example)
    return [
        layer
        for graph in bodies.values()
        for layer in pack(
            graph, samples, done, left, takes_images=is_blind(graph), sizes_of=sizes_of
        )
    ]


def _kept_attributes(kept: frozenset[Slot]) -> Iterator[str]:
    for slot in sorted(kept, key=lambda slot: slot.name):
        yield f"attribute {slot.name}, which code changes"


def _changes(counted: Counter[str]) -> tuple[Change, ...]:
    return tuple(Change(what, count) for what, count in counted.items() if count)


def _samples(
    source: ArchiveModule, method: Function, graph: Block, example: tuple[Any, ...]
) -> Mapping[int, torch.Tensor]:
    """Run the graph for the example; return what its layers are given."""
    function = Function(method.qualified_name, method.schema, lambda: graph)
    run = public_function(function, source.tsarchive_classes.compiler, is_method=True)
    samples = Samples(layer.weight for _, layer in layers_of(graph))
    with torch.no_grad(), torch.random.fork_rng(devices=()), samples:
        run(copy.deepcopy(source), *copy.deepcopy(example))
    return samples.inputs


def _checked(
    work: _Work, optimized: ArchiveModule, way: _Way, report: OptimizeReport
) -> _Made | None:
    """Compare results for the example; None where they differ."""
    if work.example is None:
        return optimized, report
    result = _result(optimized, work.example)
    found = compared(work.expected, result)
    if not found.agree or (way.channels_last and not have_one_order(work.expected, result)):
        return None
    return optimized, replace(report, difference=found.difference)


def _result(module: ArchiveModule, example: tuple[Any, ...]) -> Any:
    """Return what a copy of a module gives, which is the same each time."""
    with torch.no_grad(), torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        return copy.deepcopy(module)(*copy.deepcopy(example))


def _times(
    source: ArchiveModule, optimized: ArchiveModule, example: tuple[Any, ...]
) -> list[float]:
    with torch.no_grad(), torch.random.fork_rng(devices=()):
        calls = [
            partial(copy.deepcopy(module), *copy.deepcopy(example))
            for module in (source, optimized)
        ]
        return times_of(*calls, seconds=_SECONDS)
