"""Whether a module of an archive and an object of a library do the same on drawn inputs.

Both get the same tensors, inputs and random numbers, in training and in evaluation. Their results,
their buffers, what they write to their inputs, what they return of them and how many random
numbers they draw must be equal to the bit. What the module of the archive takes, the object must
take; it may take more, as traced code stands for the inputs of the trace alone.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from tsarchive.errors import ArchiveError
from tsarchive.ir.schema import Argument
from tsarchive.run.modules import ArchiveModule

from .evidence import Evidence, tensors_of
from .inputs import Arguments, Drawing, Form, is_tensors

_SEED: Final = 7
_ENOUGH: Final = 10
_LEAST: Final = 2
_MOST_TRIES: Final = 1200
_MOST_REFUSED: Final = 24
_MOST_OPTIONAL: Final = 6


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a call did; ``result`` is None where it was ``refused``."""

    refused: bool
    result: Any
    given: Arguments
    buffers: dict[str, torch.Tensor]
    random: torch.Tensor


class Trial:
    """One module and the object that may stand for it, with tensors of their own."""

    def __init__(self, module: ArchiveModule, built: nn.Module, evidence: Evidence) -> None:
        self._module = _own_copy(module)
        self._built = with_tensors_of(_own_copy(module), built)
        self._evidence = evidence
        self._buffers = {path: tensor.clone() for path, tensor in module.named_buffers()}

    def difference(self) -> str | None:
        """Say in words what the two do differently; None where they do the same."""
        for arguments in _entries(self._module):
            found = self._difference_of(arguments)
            if found is not None:
                return found
        return None

    def _difference_of(self, arguments: Sequence[Argument]) -> str | None:
        wanted = [argument for argument in arguments if not argument.has_default]
        if not all(is_tensors(argument.type) for argument in wanted):
            shown = next(a.name for a in wanted if not is_tensors(a.type))
            return f"its input {shown!r} is no tensor"
        drawing = Drawing(arguments, self._evidence, _dtype_of(self._module))
        taken = 0
        for given in self._taken(drawing):
            if taken >= _ENOUGH:
                break
            taken += 1
            found = self._difference_with_optional(drawing, given)
            if found is not None:
                return found
        return None if taken >= _LEAST else "no inputs were found that it takes"

    def _taken(self, drawing: Drawing) -> Iterator[Arguments]:
        """Yield inputs that the object takes; those it refuses, the archive must refuse."""
        refused = 0
        for forms in itertools.islice(_varied(drawing), _MOST_TRIES):
            given = drawing.drawn(forms)
            if not self._run(self._built, given, is_training=False).refused:
                yield given
            elif refused < _MOST_REFUSED:
                refused += 1
                if not self._run(self._module, given, is_training=False).refused:
                    yield given  # which shows the difference

    def _difference_with_optional(self, drawing: Drawing, given: Arguments) -> str | None:
        return self._difference_for(given)

    def _difference_for(self, given: Arguments) -> str | None:
        for is_training in (True, False):
            one = self._run(self._module, given, is_training=is_training)
            other = self._run(self._built, given, is_training=is_training)
            if not _agree(one, other):
                mode = "training" if is_training else "evaluation"
                shapes = ", ".join(str(list(each.shape)) for each in given if torch.is_tensor(each))
                return f"in {mode} it does something else with inputs of sizes {shapes}"
        return None

    def _run(self, module: nn.Module, given: Arguments, *, is_training: bool) -> _Outcome:
        module.train(is_training)
        for path, tensor in module.named_buffers():
            tensor.copy_(self._buffers[path])
        own = copy.deepcopy(given)
        with torch.random.fork_rng(devices=()), torch.set_grad_enabled(is_training):
            torch.manual_seed(_SEED)
            try:
                result, refused = module(*own), False
            except Exception:  # noqa: BLE001  # kernels raise errors of any class
                result, refused = None, True
            random = torch.get_rng_state()
        buffers = {path: tensor.clone() for path, tensor in module.named_buffers()}
        return _Outcome(refused, result, own, buffers, random)


def _varied(drawing: Drawing) -> Iterator[tuple[Form, ...]]:
    """Yield each form, and it with an empty and a longer batch."""
    yield from drawing.forms()


def with_tensors_of(module: nn.Module, built: nn.Module) -> nn.Module:
    """Give an object the tensors of a module, the very same, and its flags of training."""
    for name, tensor in module._parameters.items():
        if name in built._parameters:
            setattr(built, name, tensor)
    for name, tensor in module._buffers.items():
        if name in built._buffers:
            setattr(built, name, tensor)
    for name, child in module._modules.items():
        if child is not None and built._modules.get(name) is not None:
            with_tensors_of(child, built._modules[name])
    built.training = module.training
    return built


def _own_copy(module: ArchiveModule) -> ArchiveModule:
    return copy.deepcopy(module)


def _dtype_of(module: nn.Module) -> torch.dtype:
    found = (tensor.dtype for _, tensor in tensors_of(module) if tensor.is_floating_point())
    return next(found, torch.float32)


def _entries(module: ArchiveModule) -> list[Sequence[Argument]]:
    """Return the arguments of ``forward``, or of each of its overloads."""
    methods = module.tsarchive_class.methods
    found = [m for name, m in methods.items() if name.partition("__")[0] == "forward"]
    return [method.schema.arguments[1:] for method in found]


def _agree(one: _Outcome, other: _Outcome) -> bool:
    if one.refused:
        return True
    if other.refused or not torch.equal(one.random, other.random):
        return False
    is_same = _same(one.result, other.result) and _same(one.given, other.given)
    places = _returned(one) == _returned(other)
    return is_same and places and _same(one.buffers, other.buffers)


def _returned(outcome: _Outcome) -> list[int]:
    """Return the inputs whose memory the result has."""
    given = [each.data_ptr() for each in _tensors(outcome.given) if each.numel()]
    return [given.index(p.data_ptr()) for p in _tensors(outcome.result) if p.data_ptr() in given]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _same(one: Any, other: Any) -> bool:
    """Return whether values are equal to the bit, but for the bits of what is no number."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.dtype != other.dtype or one.shape != other.shape or one.layout != other.layout:
            return False
        return bool(((one == other) | ((one != one) & (other != other))).all())
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other
