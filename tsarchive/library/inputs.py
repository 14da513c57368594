"""Inputs drawn for a module: of types that its method declares, of sizes that it may take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils._pytree import tree_map_only

from tsarchive.ir.schema import Argument
from tsarchive.ir.types import BOOL, FLOAT, INT, TENSOR, ListType, OptionalType, TupleType, Type
from tsarchive.run.modules import PACKED_SEQUENCE

from .calls import tensors_in
from .evidence import Evidence

Arguments = tuple[Any, ...]

_SEED: Final = 20
_MOST_ELEMENTS: Final = 1 << 19
_MOST_SIZES: Final = 16
_MOST_SPACE: Final = 64
_RANK_OF_SEQUENCES: Final = 3
_MOST_BESIDE_OTHERS: Final = 100
_MOST_BESIDE: Final = 1 << 14
_MOST_SQUARED: Final = 16
_SCALES: Final = (0.1, 1.0, 10.0, 100.0)
_EXTREMES: Final = (math.inf, math.nan, -math.inf, 1e6, -1e6, 1e30, 0.0)
_OTHER_DTYPES: Final = (torch.float64, torch.bfloat16, torch.int64)
_FEW_SAMPLES: Final = 8
_MANY_SAMPLES: Final = 67
_USUAL_SIZES: Final = (4, 6, 3)


@dataclass(frozen=True, slots=True)
class Form:
    """How to draw one tensor: its shape, and what is in it.

    ``content`` is "numbers" of either sign and of several magnitudes, "probabilities" between 0
    and 1, "flags", or the number of different indices, the least and the largest among them.
    """

    shape: tuple[int, ...]
    content: str | int = "numbers"

    @property
    def count(self) -> int:
        """How many numbers the tensor has."""
        return math.prod(self.shape)

    def drawn(self, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
        """Draw a tensor; ``dtype`` is that of numbers."""
        if isinstance(self.content, int):
            return self._indices(self.content, generator)
        uniform = torch.rand(self.shape, generator=generator)
        if self.content == "flags":
            return uniform < 0.5
        if self.content == "numbers":
            picked = torch.randint(0, len(_SCALES), self.shape, generator=generator)
            uniform = (uniform * 2 - 1) * torch.tensor(_SCALES)[picked]
        return uniform.to(dtype)

    def _indices(self, count: int, generator: torch.Generator) -> torch.Tensor:
        found = torch.randint(0, count, self.shape, generator=generator)
        edges = torch.tensor([count - 1, 0, *range(1, min(count - 1, 32))])[: found.numel()]
        found.view(-1)[: len(edges)] = edges
        return found

    def zeros(self, dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
        """Return zeros in the place of what would be drawn."""
        types = {"flags": torch.bool, "numbers": dtype, "probabilities": dtype}
        found = torch.int64 if isinstance(self.content, int) else types[self.content]
        return torch.zeros(self.shape, dtype=found, device=device)

    def of_shape(self, *shape: int) -> Form:
        """Return the same for another shape."""
        return Form(shape, self.content)


_PROBABILITIES: Final = [Form(shape, "probabilities") for shape in ((3, 4), (5,), (2, 3, 4))]


class Drawing:
    """Draws arguments for a method of a module, the same for the same forms."""

    def __init__(
        self, arguments: Sequence[Argument], evidence: Evidence, dtype: torch.dtype
    ) -> None:
        self._arguments = arguments
        self._required = [argument for argument in arguments if not argument.has_default]
        self._dtype = dtype
        self._compared = evidence.compared
        told = [*evidence.constants, *evidence.values.values()]
        self._numbers = [n for n in _flat(told) if type(n) is int and n > 0]
        self._shapes = [*evidence.shapes.values(), *_int_tuples(told)]
        squares = [n * n for n in self._numbers if 1 < n <= _MOST_SQUARED]
        sizes = [*_flat(self._shapes), *map(math.prod, _int_tuples(told)), *squares]
        self._sizes = _within([*sizes, *_USUAL_SIZES, *self._numbers])

    @property
    def unknown(self) -> str | None:
        """The name of an argument that must be given, and whose type is none that is drawn."""
        return next((a.name for a in self._required if not is_drawn(a.type)), None)

    def forms(self) -> Iterator[tuple[Form, ...]]:
        """Yield forms for the arguments that must be given; a module may refuse many of them."""
        if not self._required:
            yield ()
        elif len(self._required) == 1:
            yield from ((form,) for form in self._first_forms())
        else:
            first = [*itertools.islice(self._first_forms(), _MOST_BESIDE_OTHERS)]
            related = [self._related(form) for form in first]
            most = max(map(len, related))
            more = len(self._required) - 1
            for places in sorted(itertools.product(range(most), repeat=more), key=_rarity):
                for form, others in zip(first, related, strict=True):
                    if max(places) < len(others):
                        yield (form, *(others[place] for place in places))

    def drawn(self, forms: Sequence[Form]) -> Arguments:
        """Draw arguments of these forms."""
        generator = torch.Generator().manual_seed(_SEED)
        return self._made(forms, lambda form: form.drawn(self._dtype, generator))

    def zeros(self, forms: Sequence[Form]) -> Arguments:
        """Return arguments of these forms that hold zeros, which are soon made."""
        return self._made(forms, lambda form: form.zeros(self._dtype))

    def _made(self, forms: Sequence[Form], make: Callable[[Form], torch.Tensor]) -> Arguments:
        rows = zip(self._required, forms, strict=True)
        return tuple(_value(argument.type, partial(make, form)) for argument, form in rows)

    def unusual(self, forms: Sequence[Form]) -> Iterator[Arguments]:
        """Yield arguments like those of these forms that code may treat in a way of its own.

        Batches of other sizes, among them what the code compares numbers with; numbers that are
        very large, infinite or none; and other types of numbers.
        """
        given = self.drawn(forms)
        for change in (*map(_converting, _OTHER_DTYPES), _with_extremes):
            yield _changed(given, change)
        if forms and forms[0].shape:
            batches = [self.drawn(row) for row in self._batches(forms)]
            yield from batches
            yield _changed(batches[-1], _with_extremes)

    def _batches(self, forms: Sequence[Form]) -> Iterator[tuple[Form, ...]]:
        """Yield the same for other numbers of samples, the largest at last."""
        each = max(math.prod(form.shape[1:]) for form in forms)
        told = {n + more for n in self._compared for more in (0, 1) if n > _FEW_SAMPLES}
        for count in sorted({0, 1, *told, _MANY_SAMPLES}):
            if count <= 1 or count * each <= _MOST_ELEMENTS:
                yield tuple(f.of_shape(count, *f.shape[1:]) if f.shape else f for f in forms)

    def optional(self, given: Arguments) -> Iterator[tuple[str, Arguments]]:
        """Yield arguments with one that may be left out given as well, and the name of that."""
        generator = torch.Generator().manual_seed(_SEED)
        for place in range(len(given), len(self._arguments)):
            argument = self._arguments[place]
            before = [each.default for each in self._arguments[len(given) : place]]
            for value in self._values(argument, given, generator):
                yield argument.name, (*given, *before, value)

    def _first_forms(self) -> Iterator[Form]:
        """Yield forms of all ranks in turns, those of fewer elements before larger ones."""
        if is_packed_sequence(self._required[0].type):
            yield from self._of_rank(_RANK_OF_SEQUENCES)
        else:
            ranks = map(self._of_rank, (2, 3, 4, 1, 5, 0))
            yield from _in_turns([*ranks, self._indices(), _PROBABILITIES])

    def _of_rank(self, rank: int) -> list[Form]:
        """Return shapes of a rank: the ends of known shapes, then each known size at each place."""
        if not rank:
            return [Form(())]
        ends = sorted(self._ends(rank), key=math.prod)
        shapes = dict.fromkeys((*ends, *self._placed(rank)))
        return [Form(shape) for shape in shapes if math.prod(shape) <= _MOST_ELEMENTS]

    def _ends(self, rank: int) -> Iterator[tuple[int, ...]]:
        for shape in self._shapes:
            for start in range(len(shape)):
                if 0 < len(shape) - start <= rank:
                    yield (2, 3, 2, 3, 2)[: rank - len(shape) + start] + shape[start:]

    def _placed(self, rank: int) -> Iterator[tuple[int, ...]]:
        for size, space, place in itertools.product(self._sizes, self._spaces(), range(rank)):
            beside = [2, *([space] * rank)][:rank]
            beside[place] = size
            yield tuple(beside)

    def _indices(self) -> Iterator[Form]:
        shapes = ((2, 3), (40,), (2, 3, 4), (1,))
        for shape, most in itertools.product(shapes, sorted(self._sizes, reverse=True)):
            yield Form(shape, most)

    def _spaces(self) -> list[int]:
        largest = max((n for n in self._numbers if n <= _MOST_SPACE), default=1)
        return sorted({largest + 2, 12, 5})

    def _related(self, form: Form) -> list[Form]:
        """Return forms of further tensors beside the first one."""
        shape = form.shape
        found = [form]
        if shape:
            classes = max(shape[1] if len(shape) > 1 else shape[0], 1)
            found += [Form(shape[:1] + shape[2:], classes), Form(shape, "probabilities")]
            found += [Form(shape, 2), Form(shape[:1]), form.of_shape(shape[0] + 1, *shape[1:])]
            found += [form.of_shape(*shape[:-1], size) for size in self._sizes]
        return found

    def _values(
        self, argument: Argument, given: Arguments, generator: torch.Generator
    ) -> Iterator[Any]:
        type_ = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
        plain = {BOOL: (True, False), INT: (1, 2), FLOAT: (0.25,)}
        if type_ in plain:
            yield from (value for value in plain[type_] if value != argument.default)
        elif is_drawn(type_) and not is_packed_sequence(type_):
            for form in self._forms_beside(given):
                yield _value(type_, partial(form.drawn, self._dtype, generator))

    def _forms_beside(self, given: Arguments) -> Iterator[Form]:
        """Yield forms for states and masks, whose sizes are among those of the inputs."""
        sizes = _within([n for value in tensors_in(given) for n in value.shape])[:4]
        sizes = _within([*sizes, 1, *self._sizes[:4]])
        for rank, content in itertools.product((2, 3, 1), ("numbers", "flags")):
            for shape in itertools.product(sizes, repeat=rank):
                if math.prod(shape) <= _MOST_BESIDE:
                    yield Form(shape, content)


def _rarity(places: tuple[int, ...]) -> tuple[int, int]:
    """The order in which forms of several tensors are tried: alike ones before different ones."""
    return len(set(places)), sum(places)


def is_drawn(type_: Type) -> bool:
    """Return whether a type is a tensor, a tuple or list of them, or a packed sequence."""
    if isinstance(type_, TupleType) and not is_packed_sequence(type_):
        return type_.qualified_name is None and all(map(is_drawn, type_.elements))
    return type_ in (TENSOR, ListType(TENSOR)) or is_packed_sequence(type_)


def is_packed_sequence(type_: Type) -> bool:
    return isinstance(type_, TupleType) and type_.qualified_name == PACKED_SEQUENCE


def _value(type_: Type, draw: Callable[[], torch.Tensor]) -> Any:
    return _packed(draw()) if is_packed_sequence(type_) else _nested(type_, draw)


def _packed(padded: torch.Tensor) -> Any:
    """A batch of sequences of different lengths; a tensor of another rank stays as it is."""
    if padded.dim() != 3 or 0 in padded.shape:
        return padded
    lengths = [1 + index % len(padded) for index in range(padded.size(1))]
    return pack_padded_sequence(padded, lengths, enforce_sorted=False)


def _nested(type_: Type, draw: Callable[[], torch.Tensor]) -> Any:
    if isinstance(type_, TupleType):
        return tuple(_nested(element, draw) for element in type_.elements)
    return draw() if type_ == TENSOR else [draw(), draw()]


def _changed(given: Arguments, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
    """Return arguments with other tensors in the place of those of real numbers."""
    return tuple(tree_map_only(_is_real, change, value) for value in given)


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _converting(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.to(dtype)


def reordered(given: Arguments) -> Arguments:
    """Return arguments whose numbers stand in another order in memory.

    Those along dimension 1 are side by side, or of two dimensions those along the first.
    """
    return _changed(given, _reordered)


def _reordered(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() < 2:
        return tensor
    inner = 1 if tensor.dim() > 2 else 0
    return tensor.movedim(inner, -1).contiguous().movedim(-1, inner)


def _with_extremes(tensor: torch.Tensor) -> torch.Tensor:
    """Put numbers that are very large, infinite or none in some places, at most one in a row."""
    found = tensor.flatten()
    places = torch.arange(0, found.numel(), (tensor.size(-1) if tensor.dim() else 1) + 1)
    found[places] = torch.tensor(_EXTREMES, dtype=tensor.dtype).repeat(len(places))[: len(places)]
    return found.view(tensor.shape)


def _within(sizes: Iterable[int]) -> list[int]:
    found = dict.fromkeys(size for size in sizes if 0 < size <= _MOST_ELEMENTS)
    return [*found][:_MOST_SIZES]


def _in_turns(rows: Iterable[Iterable[Form]]) -> Iterator[Form]:
    missing = object()
    for column in itertools.zip_longest(*rows, fillvalue=missing):
        yield from (form for form in column if isinstance(form, Form))


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _flat(value)
        else:
            yield value


def _int_tuples(values: Iterable[Any]) -> list[tuple[int, ...]]:
    return [
        value
        for value in values
        if isinstance(value, tuple) and value
        if all(type(item) is int and item > 0 for item in value)
    ]
