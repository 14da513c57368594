"""Inputs drawn for a module: of types that its method declares, of sizes that it may take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from tsarchive.ir.schema import Argument
from tsarchive.ir.types import BOOL, FLOAT, INT, TENSOR, ListType, OptionalType, TupleType, Type

from .evidence import Evidence

Arguments = tuple[Any, ...]

_SEED: Final = 20
_MOST_ELEMENTS: Final = 1 << 19
_MOST_SIZES: Final = 8
_MOST_SPACE: Final = 64
_RANKS: Final = (2, 3, 4, 1, 5, 0)
_SCALES: Final = (0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True, slots=True)
class Form:
    """How to draw one tensor: its shape, and what is in it.

    ``content`` is "numbers" of either sign and of all magnitudes, "probabilities" between 0 and 1,
    "flags", or the number of different indices.
    """

    shape: tuple[int, ...]
    content: str | int = "numbers"

    def drawn(self, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
        """Draw a tensor; ``dtype`` is that of numbers."""
        if isinstance(self.content, int):
            return torch.randint(0, self.content, self.shape, generator=generator)
        uniform = torch.rand(self.shape, generator=generator)
        if self.content == "flags":
            return uniform < 0.5
        if self.content == "numbers":
            picked = torch.randint(0, len(_SCALES), self.shape, generator=generator)
            uniform = (uniform * 2 - 1) * torch.tensor(_SCALES)[picked]
        return uniform.to(dtype)

    def of_shape(self, *shape: int) -> Form:
        """Return the same for another shape."""
        return Form(shape, self.content)


class Drawing:
    """Draws arguments for a method of a module, with equal results for equal forms."""

    def __init__(self, arguments: Sequence[Argument], evidence: Evidence, dtype: torch.dtype) -> None:
        self._arguments = arguments
        self._dtype = dtype
        numbers = [each for each in _flat(evidence.constants) if type(each) is int]
        self._windows = [n for n in [*numbers, *_flat(evidence.values.values())] if type(n) is int]
        sizes = [size for shape in evidence.shapes.values() for size in shape]
        products = [math.prod(each) for each in _int_lists(evidence)]
        squares = [n * n for n in self._windows if 1 < n <= 16]
        found = dict.fromkeys([*sizes, *self._windows, *products, *squares, 4, 6, 3])
        self._sizes = [size for size in found if 0 < size <= _MOST_ELEMENTS][: _MOST_SIZES + 8]

    def forms(self) -> Iterator[tuple[Form, ...]]:
        """Yield forms for the tensors that must be given; a module may refuse many of them."""
        count = sum(not argument.has_default for argument in self._arguments)
        for first in self._first_forms():
            for others in itertools.product(*(self._related(first) for _ in range(count - 1))):
                yield (first, *others)[:count]

    def drawn(self, forms: Sequence[Form]) -> Arguments:
        """Draw tensors of these forms."""
        generator = torch.Generator().manual_seed(_SEED + len(forms))
        return tuple(form.drawn(self._dtype, generator) for form in forms)

    def optional(self, given: Arguments) -> Iterator[Arguments]:
        """Yield arguments with one of those that may be left out given as well."""
        places = range(len(given), len(self._arguments))
        defaults = [argument.default for argument in self._arguments[len(given) :]]
        generator = torch.Generator().manual_seed(_SEED)
        for place in places:
            before = defaults[: place - len(given)]
            for value in self._values(self._arguments[place], given, generator):
                yield (*given, *before, value)

    def _first_forms(self) -> Iterator[Form]:
        for space in self._spaces():
            for rank in _RANKS:
                for shape in self._shapes(rank, space):
                    if math.prod(shape) <= _MOST_ELEMENTS:
                        yield Form(shape)
        indices = min(self._sizes)
        for most in dict.fromkeys([*self._sizes, indices]):
            yield from (Form(shape, most) for shape in ((3,), (2, 3), (1,), (2, 3, 2)))
        yield from (Form(shape, "probabilities") for shape in ((3, 4), (5,), (2, 3, 4)))

    def _shapes(self, rank: int, space: int) -> Iterator[tuple[int, ...]]:
        """Yield shapes of a rank, with each of the sizes at each place."""
        found = {}
        for place in dict.fromkeys((rank - 1, 1, 0, *range(rank))):
            for size in self._sizes if 0 <= place < rank else (1,):
                shape = [2, *(space for _ in range(rank - 1))][:rank]
                if shape and 0 <= place < rank:
                    shape[place] = size
                found[tuple(shape)] = None
        yield from found

    def _spaces(self) -> list[int]:
        largest = max((n for n in self._windows if n <= _MOST_SPACE), default=1)
        return [*dict.fromkeys((largest + 2, 12, 5))]

    def _related(self, form: Form) -> Iterator[Form]:
        """Yield forms of further tensors beside the first one."""
        shape = form.shape
        yield form
        if len(shape) > 0:
            classes = max(shape[1] if len(shape) > 1 else shape[0], 1)
            yield Form(shape[:1] + shape[2:], classes)
            yield Form(shape, "probabilities")
            yield Form(shape, 2)
            yield from (form.of_shape(*shape[:-1], size) for size in self._sizes)
            yield Form(shape[:1])
            yield form.of_shape(shape[0] + 1, *shape[1:])

    def _values(
        self, argument: Argument, given: Arguments, generator: torch.Generator
    ) -> Iterator[Any]:
        type_ = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
        if type_ == BOOL:
            yield from (flag for flag in (True, False) if flag is not argument.default)
        elif type_ == INT:
            yield from (number for number in (1, 2) if number != argument.default)
        elif type_ == FLOAT:
            yield 0.25
        elif is_tensors(type_):
            for form in self._forms_beside(given):
                yield _nested(type_, lambda form=form: form.drawn(self._dtype, generator))

    def _forms_beside(self, given: Arguments) -> Iterator[Form]:
        """Yield forms for states and masks, whose sizes are among those of the inputs."""
        sizes = [size for value in given if isinstance(value, torch.Tensor) for size in value.shape]
        sizes = [*dict.fromkeys([*sizes, 1, *self._sizes[:4]])][:_MOST_SIZES]
        for content in ("numbers", "flags"):
            for rank in (2, 3, 1):
                for shape in itertools.product(sizes, repeat=rank):
                    yield Form(shape, content)


def is_tensors(type_: Type) -> bool:
    """Return whether a type is a tensor, or a tuple or list of them."""
    if isinstance(type_, TupleType):
        return type_.qualified_name is None and all(map(is_tensors, type_.elements))
    return type_ == TENSOR or type_ == ListType(TENSOR)


def _nested(type_: Type, draw: Any) -> Any:
    if isinstance(type_, TupleType):
        return tuple(_nested(element, draw) for element in type_.elements)
    return draw() if type_ == TENSOR else [draw(), draw()]


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _flat(value)
        else:
            yield value


def _int_lists(evidence: Evidence) -> Iterator[tuple[int, ...]]:
    for value in (*evidence.constants, *evidence.values.values()):
        if isinstance(value, tuple) and value and all(type(item) is int for item in value):
            yield value
