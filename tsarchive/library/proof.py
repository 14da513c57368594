"""Whether a module of an archive and an object of a library do the same on drawn inputs.

Both get the same tensors, inputs and random numbers, in training and in evaluation. Their results,
the order of these in memory, their buffers, what they write to their inputs, which of these they
return and how many random numbers they draw must be equal to the bit, and gradients up to rounding.
What the module of the archive takes, the object must take, but for what a check in Python refuses,
which traced code does not have; it may take more, as traced code stands for the inputs of the trace
alone.
"""

from __future__ import annotations

import copy
import enum
import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

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
_MOST_TRIES: Final = 1500
_MOST_OPTIONAL: Final = 4
_MOST_OPTIONAL_TRIES: Final = 160
_PATIENCE: Final = 128
_FEW_ELEMENTS: Final = 1 << 20
_MOST_WORK: Final = 1 << 30
_MOST_WORK_AT_ONCE: Final = _MOST_WORK >> 3
_OF_NUMBER: Final = 16


class _Verdict(enum.Enum):
    """What came of the comparison of two calls; the text goes before the sizes of inputs."""

    SAME = "it does the same with"
    CHECKED = "its class has a check in Python against"
    REFUSED = "its class refuses"
    OTHER_COUNT = "it gives another number of tensors than its class for"
    OTHER = "in evaluation it does something else with"
    OTHER_IN_TRAINING = "in training it does something else with"


REACHED_A_LIMIT: Final = "the proof reached a limit"


class _Effort:
    """What the calls of a proof compute, by an estimate that no machine or clock changes.

    The unit is a number that is multiplied by one of a weight; those that are made and compared
    take ``_OF_NUMBER`` each.
    """

    def __init__(self, module: nn.Module) -> None:
        weights = [tensor for _, tensor in tensors_of(module) if tensor.dim() > 1]
        fan_in = max((math.prod(weight.shape[1:]) for weight in weights), default=0)
        self._of_result = _OF_NUMBER + fan_in
        self._results = 1.0
        self._left = _MOST_WORK
        self.has_refused = False

    def allows(self, count: int) -> bool:
        """Return whether a call may be made with so many numbers.

        That it gives as many for each of them as calls before it is assumed.
        """
        work = count * (_OF_NUMBER + self._results * self._of_result)
        is_allowed = self._left > 0 and work <= _MOST_WORK_AT_ONCE
        self.has_refused |= not is_allowed
        return is_allowed

    def spend(self, given: Any, result: Any, gradients: Sequence[torch.Tensor]) -> None:
        """Note a call that was made."""
        count, made = _count(given), _count(result)
        self._results = max(self._results, made / max(count, 1))
        self._left -= count * _OF_NUMBER + made * self._of_result + _count(gradients)


def _count(value: Any) -> int:
    return sum(tensor.numel() for tensor in tensors_in(value))


class Trial:
    """A module and an object that may stand for it, with tensors of their own.

    ``built`` is an object of the library on the device ``meta``; it is left as it is. With
    ``is_brief``, one form of each rank is compared, and nothing unusual: for modules whose code
    was compared in full with other sizes. ``refuting`` are inputs that told the module from other
    objects of the class: they are compared first, and those that tell it from this one are added.
    """

    def __init__(
        self,
        module: ArchiveModule,
        built: nn.Module,
        evidence: Evidence,
        refuting: list[Arguments],
        *,
        is_brief: bool = False,
    ) -> None:
        self._module = _copied(module)
        self._built = with_tensors_of(copy.deepcopy(module), copy.deepcopy(built))
        self._evidence = evidence
        self._refuting = refuting
        self._is_brief = is_brief
        self._effort = _Effort(module)
        self._buffers = {path: tensor.clone() for path, tensor in module.named_buffers()}

    def difference(self) -> str | None:
        """Say in words what the two do differently; None where they do the same."""
        known = map(self._difference_for, [*self._refuting])
        found = itertools.chain(known, map(self._difference_of, entries(self._module)))
        return next((difference for difference in found if difference is not None), None)

    def _difference_of(self, arguments: Sequence[Argument]) -> str | None:
        drawing = Drawing(arguments, self._evidence, _dtype_of(self._module))
        if drawing.unknown is not None:
            return f"inputs like {drawing.unknown!r} are not drawn"
        taken: Counter[int] = Counter()
        for forms in self._accepted(drawing, taken):
            is_thorough = taken[_rank(forms)] == 1 and not self._is_brief
            found = self._difference_around(drawing, forms, is_thorough=is_thorough)
            if found is not None:
                return found
        if taken.total() >= min(1 if self._is_brief else _FEWEST, len(arguments)):
            return None
        return REACHED_A_LIMIT if self._effort.has_refused else "no inputs were found that it takes"

    def _accepted(self, drawing: Drawing, taken: Counter[int]) -> Iterator[tuple[Form, ...]]:
        """Yield forms that the archive takes, few of each rank, and count them in ``taken``.

        The archive's code is asked, as its operators check what kernels trust.
        """
        most, patience = (1, _PATIENCE // 4) if self._is_brief else (_MOST_OF_RANK, _PATIENCE)
        since = 0
        for forms in itertools.islice(drawing.forms(), _MOST_TRIES):
            if taken.total() >= _MOST_TAKEN or (taken and since >= patience * len(forms)):
                break
            rank = _rank(forms)
            if taken[rank] >= most or not self._effort.allows(sum(form.count for form in forms)):
                continue
            since += 1
            if self._takes(drawing.zeros(forms)) and self._takes_drawn(drawing.drawn(forms)):
                since = 0
                taken[rank] += 1
                yield forms

    def _difference_around(
        self, drawing: Drawing, forms: tuple[Form, ...], *, is_thorough: bool
    ) -> str | None:
        """Compare at one form, and if asked at unusual and optional arguments as well."""
        given = drawing.drawn(forms)
        difference = self._difference_for(given)
        if difference is not None or self._is_brief:
            return difference
        unusual = drawing.unusual(forms) if is_thorough else ()
        for others in (reordered(given), *unusual):
            if difference is None and self._effort.allows(_count(others)):
                difference = self._difference_for(others, with_gradients=False)
        if difference is not None or not is_thorough:
            return difference
        return self._difference_with_more(drawing, given)

    def _difference_with_more(self, drawing: Drawing, given: Arguments) -> str | None:
        """Compare calls with arguments that may be left out.

        Classes of torch check masks in Python alone and leave that out of scripted code, so the
        object may refuse some, if it takes others.
        """
        taken: Counter[str] = Counter()
        refused: set[str] = set()
        for name, more in itertools.islice(drawing.optional(given), _MOST_OPTIONAL_TRIES):
            if taken[name] >= _MOST_OPTIONAL or not self._takes(more):
                continue
            verdict = self._verdict(more)
            if verdict in (_Verdict.REFUSED, _Verdict.CHECKED):
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
        if verdict in (_Verdict.SAME, _Verdict.CHECKED):
            return None
        if not any(given is known for known in self._refuting):
            self._refuting.append(given)
        return f"{verdict.value} inputs of sizes {sizes}"

    def _verdict(self, given: Arguments, *, with_gradients: bool = True) -> _Verdict:
        for is_training in (True, False):
            modes = {"is_training": is_training, "with_gradients": is_training and with_gradients}
            one, buffers = self._run(self._module, given, **modes)
            if not one.was_refused:
                other, of_built = self._run(self._built, given, **modes)
                if other.was_refused:
                    return _Verdict.CHECKED if other.was_checked else _Verdict.REFUSED
                if _count_of(one) != _count_of(other):
                    return _Verdict.OTHER_COUNT
                if not (agree(one, other) and is_equal(buffers, of_built)):
                    return _Verdict.OTHER_IN_TRAINING if is_training else _Verdict.OTHER
        return _Verdict.SAME

    def _takes_drawn(self, given: Arguments) -> bool:
        """Return whether the archive takes arguments that the class has no check against."""
        return self._takes(given) and not called(self._built.eval(), given).was_checked

    def _takes(self, given: Arguments) -> bool:
        """Return whether the archive takes arguments."""
        outcome = called(self._module.eval(), given)
        self._effort.spend(given, outcome.result, ())
        return not outcome.was_refused

    def _run(
        self, module: nn.Module, given: Arguments, *, is_training: bool, with_gradients: bool
    ) -> tuple[Outcome, dict[str, torch.Tensor]]:
        """Call one of the two with the buffers of the beginning; also return those after it."""
        module.train(is_training)
        for path, tensor in module.named_buffers():
            tensor.copy_(self._buffers[path])
        parameters = [*module.parameters()]
        outcome = called(module, given, parameters, with_gradients=with_gradients)
        self._effort.spend(given, outcome.result, parameters if with_gradients else ())
        return outcome, {path: tensor.clone() for path, tensor in module.named_buffers()}


def _count_of(outcome: Outcome) -> int:
    """Return how many tensors a call gave."""
    return sum(1 for _ in tensors_in(outcome.result))


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
