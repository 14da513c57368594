"""Whether a module of an archive and an object of a library do the same on drawn inputs.

Both get the same tensors, inputs and random numbers, in training and in evaluation. Their results,
the order of these in memory, their buffers, what they write to their inputs, which of these they
return and how many random numbers they draw must be equal to the bit, and gradients up to rounding.
What the module of the archive takes, the object must take; it may take more, as traced code stands
for the inputs of the trace alone.
"""

from __future__ import annotations

import copy
import enum
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import nn

from tsarchive.ir.schema import Argument
from tsarchive.operators.effects import operator_may_write
from tsarchive.run.modules import ArchiveModule

from .calls import Outcome, agree, called, is_equal, tensors_in
from .evidence import Evidence, code_of, tensors_of
from .inputs import Arguments, Drawing, Form, reordered

_FEWEST: Final = 2
_MOST_OF_RANK: Final = 3
_MOST_TAKEN: Final = 12
_MOST_TRIES: Final = 3000
_MOST_UNLIKELY: Final = 6
_MOST_REFUSED: Final = 200
_MOST_OPTIONAL: Final = 4
_MOST_OPTIONAL_TRIES: Final = 160
_FEW_ELEMENTS: Final = 1 << 20


class _Verdict(enum.Enum):
    """What came of the comparison of two calls; the text goes before the sizes of inputs."""

    SAME = "it does the same with"
    REFUSED = "its class refuses"
    OTHER = "in evaluation it does something else with"
    OTHER_IN_TRAINING = "in training it does something else with"


class Trial:
    """A module and an object that may stand for it, with tensors of their own.

    ``built`` is an object of the library on the device ``meta``; it is left as it is.
    """

    def __init__(self, module: ArchiveModule, built: nn.Module, evidence: Evidence) -> None:
        self._module = _copied(module)
        self._shape_only = built
        self._built = with_tensors_of(copy.deepcopy(module), copy.deepcopy(built))
        self._evidence = evidence
        self._buffers = {path: tensor.clone() for path, tensor in module.named_buffers()}

    def difference(self) -> str | None:
        """Say in words what the two do differently; None where they do the same."""
        found = map(self._difference_of, entries(self._module))
        return next((difference for difference in found if difference is not None), None)

    def _difference_of(self, arguments: Sequence[Argument]) -> str | None:
        drawing = Drawing(arguments, self._evidence, _dtype_of(self._module))
        if drawing.unknown is not None:
            return f"inputs like {drawing.unknown!r} are not drawn"
        taken: Counter[int] = Counter()
        for forms in self._accepted(drawing, taken):
            found = self._difference_around(drawing, forms, is_first=taken[_rank(forms)] == 1)
            if found is not None:
                return found
        enough = taken.total() >= min(_FEWEST, len(arguments))
        return None if enough else "no inputs were found that it takes"

    def _accepted(self, drawing: Drawing, taken: Counter[int]) -> Iterator[tuple[Form, ...]]:
        """Yield forms that the archive takes, few of each rank, and count them in ``taken``.

        The archive's code is asked first, always: its operators check what kernels trust. Where
        the object is sure to refuse, it is asked few times.
        """
        unlikely = refused = 0
        for forms in itertools.islice(drawing.forms(), _MOST_TRIES):
            if taken.total() >= _MOST_TAKEN or refused >= _MOST_REFUSED:
                break
            if taken[_rank(forms)] >= _MOST_OF_RANK:
                continue
            if not self._may_take(drawing, forms):
                unlikely += 1
                if unlikely > _MOST_UNLIKELY:
                    continue
            if self._is_refused(drawing.drawn(forms)):
                refused += 1
            else:
                taken[_rank(forms)] += 1
                yield forms

    def _difference_around(
        self, drawing: Drawing, forms: tuple[Form, ...], *, is_first: bool
    ) -> str | None:
        """Compare at one form; at the first of a rank, unusual and optional arguments as well."""
        given = drawing.drawn(forms)
        difference = self._difference_for(given)
        unusual = drawing.unusual(forms) if is_first else ()
        for others in (reordered(given), *unusual):
            difference = difference or self._difference_for(others, with_gradients=False)
        if difference is not None or not is_first:
            return difference
        return self._difference_with_more(drawing, given)

    def _may_take(self, drawing: Drawing, forms: Sequence[Form]) -> bool:
        """Ask the object without memory, which is quick."""
        given = drawing.without_memory(forms)
        if given is None:
            return True
        try:
            with torch.no_grad():
                self._shape_only(*given)
        except NotImplementedError:
            return True
        except Exception:  # kernels raise errors of any class
            return False
        return True

    def _difference_with_more(self, drawing: Drawing, given: Arguments) -> str | None:
        """Compare calls with arguments that may be left out.

        Classes of torch check masks in Python alone and leave that out of scripted code, so the
        object may refuse some, if it takes others.
        """
        taken: Counter[str] = Counter()
        refused: set[str] = set()
        for name, more in itertools.islice(drawing.optional(given), _MOST_OPTIONAL_TRIES):
            if taken[name] >= _MOST_OPTIONAL or self._is_refused(more):
                continue
            verdict = self._verdict(more)
            if verdict is _Verdict.REFUSED:
                refused.add(name)
            elif verdict is not _Verdict.SAME:
                return f"it does something else when {name!r} is given"
            else:
                taken[name] += 1
        never = next((name for name in sorted(refused) if not taken[name]), None)
        return None if never is None else f"its class refuses values of {never!r} that it takes"

    def _difference_for(self, given: Arguments, *, with_gradients: bool = True) -> str | None:
        verdict = self._verdict(given, with_gradients=with_gradients)
        sizes = [list(tensor.shape) for tensor in tensors_in(given)]
        return None if verdict is _Verdict.SAME else f"{verdict.value} inputs of sizes {sizes}"

    def _verdict(self, given: Arguments, *, with_gradients: bool = True) -> _Verdict:
        for is_training in (True, False):
            modes = {"is_training": is_training, "with_gradients": is_training and with_gradients}
            one, buffers = self._run(self._module, given, **modes)
            if not one.was_refused:
                other, of_built = self._run(self._built, given, **modes)
                if other.was_refused:
                    return _Verdict.REFUSED
                if not (agree(one, other) and is_equal(buffers, of_built)):
                    return _Verdict.OTHER_IN_TRAINING if is_training else _Verdict.OTHER
        return _Verdict.SAME

    def _is_refused(self, given: Arguments) -> bool:
        """Return whether the archive refuses arguments."""
        run = self._run(self._module, given, is_training=False, with_gradients=False)
        return run[0].was_refused

    def _run(
        self, module: nn.Module, given: Arguments, *, is_training: bool, with_gradients: bool
    ) -> tuple[Outcome, dict[str, torch.Tensor]]:
        """Call one of the two with the buffers of the beginning; also return those after it."""
        module.train(is_training)
        for path, tensor in module.named_buffers():
            tensor.copy_(self._buffers[path])
        outcome = called(module, given, [*module.parameters()], with_gradients=with_gradients)
        return outcome, {path: tensor.clone() for path, tensor in module.named_buffers()}


def _rank(forms: Sequence[Form]) -> int:
    return len(forms[0].shape) if forms else 0


def with_tensors_of(module: nn.Module, built: nn.Module) -> nn.Module:
    """Give an object the tensors of a module, the very same, and its flags of training."""
    for table in ("_parameters", "_buffers"):
        for name, tensor in getattr(module, table).items():
            if name in getattr(built, table):
                setattr(built, name, tensor)
    for name, child in module._modules.items():
        of_built = built._modules.get(name)
        if child is not None and of_built is not None:
            with_tensors_of(child, of_built)
    built.training = module.training
    return built


def _copied(module: ArchiveModule) -> ArchiveModule:
    """A copy, which shares large parameters unless something in its code may write to them.

    The object of the library has its own, as its code may write where that of the archive does not:
    torch leaves the limit of an embedding's norm out of scripted code.
    """
    parameters = [*module.parameters()]
    is_large = sum(parameter.numel() for parameter in parameters) > _FEW_ELEMENTS
    is_shared = is_large and not any(map(operator_may_write, code_of(module)))
    return copy.deepcopy(module, {id(each): each for each in parameters} if is_shared else {})


def _dtype_of(module: nn.Module) -> torch.dtype:
    found = (tensor.dtype for _, tensor in tensors_of(module) if tensor.is_floating_point())
    return next(found, torch.float32)


def entries(module: ArchiveModule) -> list[Sequence[Argument]]:
    """Return the arguments of ``forward``, or of each of its overloads."""
    methods = module.tsarchive_class.methods
    found = [m for name, m in methods.items() if name.partition("__")[0] == "forward"]
    return [method.schema.arguments[1:] for method in found]
