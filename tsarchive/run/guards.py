"""Guards before operators that models need and that trust their arguments.

Each was found by calling it with arguments of the right types and wrong sizes, strides or values:
without the check it reads or writes outside of its tensors, or ends the process. An operator is
guarded in all of its overloads.

The storage of a tensor in the memory plan of a program begins and ends where its place in the plan
does, and cannot grow. An operator writes to it through another tensor over the same memory: one
without elements, which takes the sizes of the result, or one of the same sizes for an operator
that changes what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, Final

import torch
from torch import Tensor

from tsarchive.errors import ScriptError
from tsarchive.ir.schema import FunctionSchema

from .checks import CHECKS, Check, plain, require, room_of
from .layer_checks import SAVED_ARGUMENTS, SAVES_RESULTS, for_saving, with_own_indices
from .packed import BIASES, READS_MEMORY, kept, with_own_scales
from .tensor_checks import (
    INDICES,
    INDICES_OF,
    SPARSE_MAKERS,
    WITH_SPARE,
    check_lists,
    check_rounding,
    validated,
    with_indices,
    with_spare,
)

_MARK: Final = "tsarchive_planned"
_FIXED: Final = "fixed"
_BOUNDED: Final = "bounded"


def fixed_out(slot: Tensor) -> Tensor:
    """A tensor over the same memory; the slot keeps its sizes if an operator resizes it."""
    return _marked(slot.detach(), _FIXED)


def bounded_out(slot: Tensor) -> Tensor:
    """A tensor without elements over the same memory, which can grow within it."""
    return _marked(slot.as_strided((0,), (1,)), _BOUNDED)


def _marked(made: Tensor, kind: str) -> Tensor:
    setattr(made, _MARK, kind)
    return made


def is_planned_out(value: Any) -> bool:
    """Return whether an operator may write to a value, or to each in a list, and resize it."""
    if isinstance(value, list):
        return all(map(is_planned_out, value))
    return hasattr(value, _MARK)


def resize(slot: Tensor, size: Sequence[int], strides: Sequence[int] | None = None) -> None:
    """Give a slot other sizes; strides are those of a contiguous tensor unless given.

    Raises ScriptError where its sizes are fixed, or it has not the memory for so many elements.
    """
    wanted = tuple(strides_of(size, range(len(size))) if strides is None else strides)
    if tuple(slot.size()) == tuple(size) and (strides is None or slot.stride() == wanted):
        return
    if getattr(slot, _MARK, None) == _FIXED or len(size) != slot.dim():
        raise _misfit(size, f"sizes are {list(slot.size())}, and may not change")
    room = _room(slot)
    if min(size, default=0) < 0 or prod(size) > room:
        raise _misfit(size, f"bound is {room:,} elements")
    with torch.no_grad():
        slot.set_(slot.untyped_storage(), slot.storage_offset(), tuple(size), wanted)


def _room(slot: Tensor) -> int:
    """Return the number of elements that a slot has memory for."""
    return room_of(slot) - int(slot.storage_offset())


def _misfit(size: Sequence[int], why: str) -> ScriptError:
    return ScriptError(f"a result of size {list(size)} does not fit: the {why}")


def store(slot: Tensor, value: Tensor, order: Sequence[int] | None = None) -> Tensor:
    """Copy a result into a slot, which takes its sizes; elements become those of its type."""
    resize(slot, value.size(), None if order is None else strides_of(value.size(), order))
    return slot.copy_(value)


def strides_of(size: Sequence[int], order: Sequence[int]) -> list[int]:
    """Strides of a tensor without gaps whose dimensions are in this order, the outermost first.

    Raises ScriptError unless ``order`` names each dimension once.
    """
    if sorted(order) != list(range(len(size))):
        raise ScriptError(f"{list(order)} is no order of {len(size)} dimensions")
    strides: list[int] = [0] * len(size)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(size[dim], 1)
    return strides


def adopt(slot: Tensor, written: Any, is_fixed: bool) -> None:
    """Give a slot the sizes of the tensor that an operator wrote into its memory.

    Raises ScriptError where it may not: sizes that are fixed, or another number of dimensions.
    """
    is_same = written.size() == slot.size()
    if is_fixed and not is_same:
        raise _misfit(written.size(), f"sizes are {list(slot.size())}, and may not change")
    if is_same and written.stride() == slot.stride() and written.data_ptr() == slot.data_ptr():
        return
    if is_fixed or written.data_ptr() != slot.data_ptr():
        store(slot, written.clone())
    elif written.dim() != slot.dim():
        raise _misfit(written.size(), f"tensor has {slot.dim()} dimensions")
    else:
        slot.set_(written)


Run = Callable[..., Any]
Copy = Callable[[Tensor], Tensor]

_COPIED_RESULTS: Final[Mapping[str, Copy]] = {
    **dict.fromkeys(INDICES_OF, torch.clone),
    "quantized::embedding_bag_unpack": with_own_scales,
}


def guarded(schema: FunctionSchema, run: Run) -> Run:
    """``run`` behind what has to hold before it; ``run`` itself where nothing has to."""
    name = schema.name
    if name in _COPIED_RESULTS:
        run = _passing(_COPIED_RESULTS[name], run)
    if name in SAVES_RESULTS:
        run = _passing(with_own_indices, run)
    if name in SAVED_ARGUMENTS:
        saved, flags = SAVED_ARGUMENTS[name]
        run = _with_copies(schema, saved, for_saving, run, flags)
    if name in SPARSE_MAKERS:
        run = _passing(validated, _with_copies(schema, INDICES, torch.clone, run))
    elif any(argument.name == "layout" for argument in schema.arguments):
        run = _passing(with_indices, run)
    if name in BIASES:
        run = _with_copies(schema, BIASES[name], kept, run)
    if name in WITH_SPARE:
        run = with_spare(run)
    if name in READS_MEMORY:
        run = _with_plain(run)
    outs = [argument.name for argument in schema.arguments if argument.is_out]
    if outs:
        run = _with_plain_outs(outs, run)
    check = CHECKS.get(name) or CHECKS.get(schema.full_name)
    if any(argument.name == "rounding_mode" for argument in schema.arguments):
        check = check_rounding
    if name.startswith("aten::_foreach_"):
        check = check_lists
    return run if check is None else _behind(schema, check, run)


def _behind(schema: FunctionSchema, check: Check, run: Run) -> Run:
    names = [argument.name for argument in schema.arguments]
    defaults = {a.name: a.default for a in schema.arguments if a.has_default}

    count = len(names)

    def checked(*args: Any, **kwargs: Any) -> Any:
        if len(args) == count:
            check(**dict(zip(names, args, strict=True)))
            return run(*args)
        check(**{**defaults, **dict(zip(names, args, strict=False)), **kwargs})
        return run(*args, **kwargs)

    return checked


def _with_plain_outs(names: Sequence[str], run: Run) -> Run:
    """Kernels write to ``out`` as if it were dense and contiguous.

    A tensor that has gaps gets what is written afterwards; so does one whose memory cannot grow,
    which torch would give sizes that it has no memory for. Those of memory plans are made for this.
    """

    def run_out(*args: Any, **kwargs: Any) -> Any:
        if all(is_planned_out(kwargs.get(name)) for name in names):
            try:
                return run(*args, **kwargs)
            except RuntimeError as error:
                if "storage that is not resizable" not in str(error):
                    raise
                outs = [out for name in names for out in _tensors(kwargs[name])]
                rooms = ", ".join(f"{_room(out):,}" for out in outs)
                message = f"a result does not fit: the bound is {rooms} elements"
                raise ScriptError(message) from error
        inputs = [*args, *(value for name, value in kwargs.items() if name not in names)]
        are_plain = not any(tensor.is_quantized for value in inputs for tensor in _tensors(value))
        require(are_plain, "a quantized tensor beside the out of an operator")
        given = {name: _tensors(kwargs.get(name)) for name in names}
        made = {name: [_writable(tensor) for tensor in tensors] for name, tensors in given.items()}
        replaced = {
            name: made[name] if isinstance(kwargs[name], list) else made[name][0]
            for name in names
            if made[name]
        }
        with _shapes_kept([tensor for tensors in made.values() for tensor in tensors]):
            result = run(*args, **{**kwargs, **replaced})
        pairs = [pair for name in names for pair in zip(given[name], made[name], strict=True)]
        return _written(pairs, result)

    return run_out


@contextmanager
def _shapes_kept(outs: Sequence[Tensor]) -> Iterator[None]:
    """Restore the shapes of outs after an error: torch changes them before it has the memory.

    It takes negative sizes as well, where the product of all is zero.
    """
    before = [(out.size(), out.stride(), out.storage_offset()) for out in outs]
    try:
        yield
        is_sound = all(size >= 0 for out in outs for size in out.size())
        require(is_sound, "an out was given a negative size")
    except Exception:
        with torch.no_grad():
            for out, shape in zip(outs, before, strict=True):
                out.as_strided_(*shape)
        raise


def _writable(out: Tensor) -> Tensor:
    is_dense = out.layout is torch.strided and not out.is_quantized
    require(is_dense, "the out of an operator is sparse or quantized")
    made = plain(out)
    is_fixed = made is out and not out.untyped_storage().resizable()
    return out.clone() if is_fixed else made


def _tensors(value: Any) -> list[Tensor]:
    found = value if isinstance(value, list) else [value]
    return [item for item in found if isinstance(item, Tensor)]


def _written(pairs: Sequence[tuple[Tensor, Tensor]], result: Any) -> Any:
    """``result``, where each tensor that was written to is replaced by the one that was given."""
    for given, made in pairs:
        if given is not made:
            require(given.size() == made.size(), "the memory of an out cannot grow")
            given.copy_(made)
    if isinstance(result, (tuple, list)):
        return type(result)(_written(pairs, item) for item in result)
    return next((given for given, made in pairs if made is result), result)


def _with_plain(run: Run) -> Run:
    def run_plain(*args: Any, **kwargs: Any) -> Any:
        return run(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})

    return run_plain


def _with_copies(
    schema: FunctionSchema, copied: frozenset[str], copy: Copy, run: Run, flags: Sequence[str] = ()
) -> Run:
    """Return ``run`` on copies of the tensors that are given for the arguments ``copied``.

    With ``flags``, only calls that set one of these arguments need the copies.
    """
    names = [argument.name for argument in schema.arguments]
    places = [names.index(flag) for flag in flags if flag in names]

    def passed(name: str, value: Any) -> Any:
        return copy(value) if name in copied and isinstance(value, Tensor) else value

    def run_on_copies(*args: Any, **kwargs: Any) -> Any:
        if flags and not kwargs:
            if not any([args[place] for place in places if place < len(args)]):
                return run(*args)
        elif flags:
            named = {**dict(zip(names, args, strict=False)), **kwargs}
            if not any(map(named.get, flags)):
                return run(*args, **kwargs)
        given = map(passed, names, args)
        return run(*given, **{name: passed(name, value) for name, value in kwargs.items()})

    return run_on_copies


def _passing(then: Callable[[Any], Any], run: Run) -> Run:
    """``run`` with its result passed through ``then``."""

    def run_and_pass(*args: Any, **kwargs: Any) -> Any:
        return then(run(*args, **kwargs))

    return run_and_pass
