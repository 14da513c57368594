"""Sizes that tracing baked into code: constants that stand for a dimension of the input.

One call of a traced method is followed with the sizes of its example inputs. A dimension is a
product of a number and of symbols, one for each dimension of an input and for each size that
follows from them in a way that is not told. A constant is baked where what it stands for holds a
symbol: the call then fails, or means something else, for inputs of other sizes. What is not known
is followed no further: nothing is said that does not follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, zip_longest
from math import prod
from typing import Any, Final, NamedTuple, Protocol

from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import Node, Value

_DEPTH: Final = 64
_MOST_SYMBOLS: Final = 8
# Calls of one method that are followed: one class may have many instances that call each other.
_MOST_CALLS: Final = 20_000
_END: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size that another input may have otherwise; ``example`` is the one that was traced."""

    name: str
    example: int | None


class Dim(NamedTuple):
    """A size: ``factor`` times the product of ``symbols``. ``made`` is the call that a constant is
    written in, None for the sizes of parameters."""

    factor: int
    symbols: tuple[Symbol, ...] = ()
    made: Node | None = None

    @property
    def example(self) -> int | None:
        """The size in the call that was traced, if it is known."""
        known = [symbol.example for symbol in self.symbols]
        return (
            None if None in known else prod((s for s in known if s is not None), start=self.factor)
        )


class Sized(NamedTuple):
    """A tensor of which the sizes are known."""

    dims: tuple[Dim, ...]


class Instance(Protocol):
    """An object of the archive."""

    @property
    def class_(self) -> ClassType: ...

    def attribute(self, name: str) -> Any:
        """Return an instance, sizes or a plain value; None for what is not known."""


class Baked(NamedTuple):
    """A constant in a call that stands for dimensions of an input, by their names."""

    node: Node
    constant: int
    dimensions: tuple[str, ...]


def baked_sizes(
    root: Instance, function: Function, inputs: Sequence[Any], constant: Callable[[Any], Any]
) -> list[Baked]:
    """Return the constants that are baked into a method and those that it calls.

    ``inputs`` are the sizes of example inputs, or plain values, beside the object itself;
    ``constant`` gives the sizes of an entry of the table of constants.
    """
    following = _Following(constant)
    names = [value.name or f"input {i}" for i, value in enumerate(function.graph.params[1:])]
    given = [_symbolic(name, value) for name, value in zip(names, inputs, strict=False)]
    following.call(function, [root, *given], 0)
    return following.baked()


def _symbolic(name: str, value: Any) -> Any:
    """Return an example input with a symbol for each of its dimensions."""
    if isinstance(value, Sized):
        dims = enumerate(value.dims)
        return Sized(tuple(_free(f"dimension {i} of {name}", dim.factor) for i, dim in dims))
    if isinstance(value, list | tuple):
        made = [_symbolic(f"{name}[{i}]", item) for i, item in enumerate(value)]
        return type(value)(made)
    return value


def _free(name: str, example: int | None) -> Dim:
    return Dim(1, (Symbol(name, example),))


class _Following:
    def __init__(self, constant: Callable[[Any], Any]) -> None:
        self._constant = constant
        self._found: dict[tuple[Node, int, tuple[Symbol, ...]], None] = {}
        # Symbols that a parameter of the model decides.
        self._decided: set[Symbol] = set()
        self._calls = 0
        self._opaque = 0

    def baked(self) -> list[Baked]:
        """Return what was found, without what the model itself decides."""
        found: dict[tuple[Node, int], Baked] = {}
        for node, constant, symbols in self._found:
            left = {s.name for s in symbols if s not in self._decided} - {""}
            if left:
                found.setdefault((node, constant), Baked(node, constant, tuple(sorted(left))))
        return [*found.values()]

    def call(self, function: Function, given: Sequence[Any], depth: int) -> list[Any]:
        """Follow a call; return what its results are."""
        self._calls += 1
        graph = function.graph
        if depth > _DEPTH or self._calls > _MOST_CALLS:
            return [None] * len(graph.returns)
        known: dict[Value, Any] = dict(zip(graph.params, given, strict=False))
        for node in graph.nodes:
            results = self._results(node, [self._value(v, known) for v in node.inputs], depth)
            known |= zip(node.outputs, results, strict=False)
        return [self._value(value, known) for value in graph.returns]

    def _value(self, value: Value, known: dict[Value, Any]) -> Any:
        if not value.node.is_constant:
            return known.get(value)
        held = value.node.attributes["value"]
        return self._constant(held.value) if isinstance(held, TableConstant) else held

    def _results(self, node: Node, given: list[Any], depth: int) -> Sequence[Any]:
        match node.kind:
            case "prim::GetAttr" if hasattr(given[0], "attribute"):
                return [given[0].attribute(node.name)]
            case "prim::CallMethod" if hasattr(given[0], "class_"):
                method = given[0].class_.methods.get(node.name)
                return [] if method is None else self.call(method, given, depth + 1)
            case "prim::CallFunction" if isinstance(given[0], Function):
                return self.call(given[0], given[1:], depth + 1)
            case "prim::TupleUnpack" | "prim::ListUnpack" if isinstance(given[0], tuple | list):
                return list(given[0])
            case "prim::TupleConstruct":
                return [tuple(given)]
            case "prim::ListConstruct":
                return [given]
        rule = _RULES.get(node.kind)
        if rule is None or node.schema is None:
            return []
        names = [argument.name for argument in node.schema.arguments]
        try:
            return [rule(self, node, dict(zip(names, given, strict=False)), given)]
        except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError):
            return []  # not of a form that is known

    # What rules tell

    def note(self, node: Node, constant: int, symbols: Iterable[Symbol]) -> None:
        self._found.setdefault((node, constant, tuple(symbols)))

    def decide(self, dim: Dim) -> None:
        """Note that the model decides a size."""
        self._decided.update(dim.symbols)

    def opaque(self, *dims: Dim, example: int | None = None) -> Dim:
        """Return a size that depends on others in a way that is not told."""
        symbols = [symbol for dim in dims for symbol in dim.symbols]
        if not symbols:
            return Dim(example) if example is not None else _free("", None)
        return Dim(1, (Symbol(symbols[0].name, example),))

    def same(self, node: Node, one: Dim, other: Dim, *, may_spread: bool = True) -> Dim:
        """Return the size of two dimensions that have to be equal, where 1 may be spread."""
        if may_spread and Dim(1) in (one._replace(made=None), other._replace(made=None)):
            return other if one._replace(made=None) == Dim(1) else one
        if one.symbols and other.symbols:
            return one
        symbolic, plain = (one, other) if one.symbols else (other, one)
        if not symbolic.symbols:
            return plain
        if plain.made is not None and symbolic.example == plain.factor:
            self.note(plain.made, plain.factor, symbolic.symbols)
        elif plain.made is None:
            self.decide(symbolic)
        return symbolic


_Rule = Callable[[_Following, Node, dict[str, Any], list[Any]], Any]


def _dims(value: Any) -> tuple[Dim, ...]:
    """Return the sizes of an argument. Raises TypeError where they are not known."""
    if not isinstance(value, Sized):
        raise TypeError
    return value.dims


def _as_dim(value: Any, node: Node) -> Dim:
    """Return the size that an argument tells. Raises TypeError for what is none."""
    if isinstance(value, Dim):
        return value
    if type(value) is int:
        return Dim(value, (), node)
    raise TypeError


def _kept(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    return given[0] if isinstance(given[0], Sized | Dim) else None


def _broadcast(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    sized = [value for value in given[:2] if isinstance(value, Sized)]
    if not sized or (len(sized) < 2 and not isinstance(given[1], int | float | Dim)):
        return None
    if len(sized) == 1:
        return sized[0]
    pairs = zip_longest(*(reversed(each.dims) for each in sized), fillvalue=Dim(1))
    return Sized(tuple([following.same(node, *pair) for pair in pairs][::-1]))


def _number(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    """Follow arithmetic of sizes, which tracing keeps as tensors, too."""
    if any(isinstance(value, Sized) for value in given[:2]):
        return _broadcast(following, node, named, given)
    one, other = (_as_dim(value, node) for value in given[:2])
    if not (one.symbols or other.symbols):
        return None
    if node.kind == "aten::mul":
        return Dim(one.factor * other.factor, (*one.symbols, *other.symbols))
    return following.opaque(one, other)


def _divided(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    one, other = (_as_dim(value, node) for value in given[:2])
    if not other.symbols and one.factor % other.factor == 0:
        return Dim(one.factor // other.factor, one.symbols)
    example = one.example // other.example if one.example and other.example else None
    return following.opaque(one, other, example=example)


def _size(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims = _dims(given[0])
    return dims[given[1]] if type(given[1]) is int else list(dims)


def _viewed(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    """Follow ``view`` and ``reshape``: constants hold what the other sizes do not."""
    before, wanted = _dims(given[0]), [_as_dim(size, node) for size in given[1]]
    symbols = Counter(symbol for dim in before for symbol in dim.symbols)
    factor = prod(dim.factor for dim in before)
    open_places = [i for i, dim in enumerate(wanted) if not dim.symbols and dim.factor == -1]
    told = [dim for i, dim in enumerate(wanted) if i not in open_places]
    left = symbols - Counter(symbol for dim in told for symbol in dim.symbols)
    constant = prod(dim.factor for dim in told)
    rest = [*left.elements()]
    if not open_places:
        _held(following, node, told, rest)
        return Sized(tuple(wanted))
    held = _swallowed(factor, constant, rest)
    _held(following, node, told, held)
    _held_in_place(following, node, before, wanted)
    rest = [*(Counter(rest) - Counter(held)).elements()]
    whole = prod((symbol.example or 0 for symbol in held), start=factor)
    if not constant or whole % constant:
        return None
    wanted[open_places[0]] = Dim(whole // constant, tuple(rest))
    return Sized(tuple(wanted))


def _held(
    following: _Following, node: Node, told: Sequence[Dim], symbols: Sequence[Symbol]
) -> None:
    """Note constants that stand for symbols: the one that holds them, or the largest."""
    if not symbols:
        return
    plain = [dim.factor for dim in told if not dim.symbols]
    example = prod(symbol.example or 0 for symbol in symbols)
    holding = [size for size in plain if example and size % example == 0]
    if holding:
        following.note(node, min(holding), symbols)
    elif plain:
        following.note(node, max(plain), symbols)


def _held_in_place(
    following: _Following, node: Node, before: Sequence[Dim], wanted: Sequence[Dim]
) -> None:
    """Note a constant where the first dimension stands, as long as it was in the example."""
    if len(before) < 2 or not wanted or wanted[0].symbols:
        return
    if before[0].symbols and before[0].example == wanted[0].factor:
        following.note(node, wanted[0].factor, before[0].symbols)


def _swallowed(factor: int, constant: int, symbols: Sequence[Symbol]) -> list[Symbol]:
    """Return the fewest symbols that constants must hold, the later ones first."""
    if (constant and factor % constant == 0) or len(symbols) > _MOST_SYMBOLS:
        return []
    known = [symbol for symbol in reversed(symbols) if symbol.example]
    for count in range(1, len(known) + 1):
        for chosen in combinations(known, count):
            whole = prod((symbol.example or 0 for symbol in chosen), start=factor)
            if constant and whole % constant == 0:
                return [*chosen]
    return []


def _expanded(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    before, wanted = _dims(given[0]), [_as_dim(size, node) for size in given[1]]
    found: list[Dim] = []
    for size, dim in zip_longest(reversed(wanted), reversed(before), fillvalue=None):
        if size is None:
            return None
        if dim is not None and (not size.symbols and size.factor == -1):
            found.append(dim)
        elif dim is None or dim._replace(made=None) == Dim(1):
            found.append(size)
        else:
            found.append(following.same(node, dim, size, may_spread=False))
    return Sized(tuple(found[::-1]))


def _made(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    return Sized(tuple(_as_dim(size, node) for size in given[0]))


def _joined(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims = [_dims(value) for value in given[0]]
    axis = given[1] % len(dims[0])
    found = list(dims[0])
    for other in dims[1:]:
        for place, dim in enumerate(other):
            if place != axis:
                found[place] = following.same(node, found[place], dim, may_spread=False)
    summed = [each[axis] for each in dims]
    examples = [dim.example for dim in summed]
    example = None if None in examples else sum(e for e in examples if e is not None)
    plain = all(not dim.symbols for dim in summed)
    found[axis] = Dim(example or 0) if plain else following.opaque(*summed, example=example)
    return Sized(tuple(found))


def _flattened(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims = _dims(given[0])
    start, end = given[1] % len(dims), given[2] % len(dims)
    inner = dims[start : end + 1]
    merged = Dim(prod(d.factor for d in inner), tuple(s for d in inner for s in d.symbols))
    return Sized((*dims[:start], merged, *dims[end + 1 :]))


def _permuted(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    return Sized(tuple(_dims(given[0])[place] for place in given[1]))


def _transposed(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims = list(_dims(given[0]))
    one, other = (given[1], given[2]) if len(given) > 2 else (0, len(dims) - 1)
    dims[one], dims[other] = dims[other], dims[one]
    return Sized(tuple(dims))


def _unsqueezed(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims = list(_dims(given[0]))
    dims.insert(given[1] % (len(dims) + 1), Dim(1))
    return Sized(tuple(dims))


def _squeezed(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims = list(_dims(given[0]))
    axis = given[1] % len(dims)
    if dims[axis].symbols:
        return None
    if dims[axis].factor == 1:
        del dims[axis]
    return Sized(tuple(dims))


def _selected(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims = list(_dims(given[0]))
    del dims[given[1] % len(dims)]
    return Sized(tuple(dims))


def _sliced(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims = list(_dims(given[0]))
    axis, start, end = given[1] % len(dims), given[2] or 0, given[3]
    if not (start == 0 and end in (None, _END) and given[4] == 1):
        dims[axis] = following.opaque(dims[axis])
    return Sized(tuple(dims))


def _reduced(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims, axes, keeps = _dims(given[0]), given[1], given[2]
    if not isinstance(axes, list | int) or type(keeps) is not bool:
        return None
    gone = {axis % len(dims) for axis in ([axes] if isinstance(axes, int) else axes)}
    if keeps:
        return Sized(tuple(Dim(1) if i in gone else dim for i, dim in enumerate(dims)))
    return Sized(tuple(dim for i, dim in enumerate(dims) if i not in gone))


def _convolved(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims, weight = _dims(named["input"]), _dims(named["weight"])
    if named.get("transposed"):
        return None
    following.decide(dims[1])
    strides, pads, dilations = named["stride"], named["padding"], named["dilation"]
    found = [dims[0], weight[0]]
    spatial = zip(dims[2:], weight[2:], strides, pads, dilations, strict=True)
    for dim, kernel, stride, pad, dilation in spatial:
        found.append(_windowed(following, dim, kernel.factor, stride, pad, dilation))
    return Sized(tuple(found))


def _windowed(
    following: _Following, dim: Dim, kernel: int, stride: int, pad: int, dilation: int
) -> Dim:
    if stride == 1 and 2 * pad == dilation * (kernel - 1):
        return dim
    size = dim.example
    known = None if size is None else (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    return following.opaque(dim, example=known)


def _pooled(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims, kernels = _dims(named["self"]), named["kernel_size"]
    strides, pads = named["stride"] or kernels, named["padding"]
    if named.get("ceil_mode"):
        return None
    lead = len(dims) - len(kernels)
    rows = zip(dims[lead:], kernels, strides, pads, strict=True)
    found = [_windowed(following, dim, k, stride, pad, 1) for dim, k, stride, pad in rows]
    return Sized((*dims[:lead], *found))


def _adaptive(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims, sizes = _dims(given[0]), given[1]
    found = tuple(Dim(size) for size in sizes)
    return Sized((*dims[: len(dims) - len(sizes)], *found))


def _linear(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims, weight = _dims(given[0]), _dims(given[1])
    following.decide(dims[-1])
    return Sized((*dims[:-1], weight[0]))


def _multiplied(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    one, other = _dims(given[0]), _dims(given[1])
    if min(len(one), len(other)) < 2:
        return None
    following.same(node, one[-1], other[-2], may_spread=False)
    pairs = zip_longest(reversed(one[:-2]), reversed(other[:-2]), fillvalue=Dim(1))
    batch = [following.same(node, *pair) for pair in pairs][::-1]
    return Sized((*batch, one[-2], other[-1]))


def _added(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    return _multiplied(following, node, named, given[1:3])


def _normalised(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims = _dims(given[0])
    if node.kind == "aten::layer_norm":
        for dim in dims[len(dims) - len(given[1]) :]:
            following.decide(dim)
    elif len(dims) > 1:
        following.decide(dims[1])
    return given[0]


def _embedded(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    return Sized((*_dims(given[1]), _dims(given[0])[-1]))


def _rules(rule: _Rule, names: str) -> Iterator[tuple[str, _Rule]]:
    return ((f"aten::{name}", rule) for name in names.split())


_RULES: Final[dict[str, _Rule]] = {
    "prim::NumToTensor": _kept,
    **dict(
        (
            *_rules(
                _kept,
                "relu relu_ relu6 sigmoid tanh gelu silu silu_ elu leaky_relu leaky_relu_ "
                "hardtanh hardtanh_ hardswish hardswish_ hardsigmoid dropout dropout_ "
                "feature_dropout contiguous clone detach to type_as softmax log_softmax exp log "
                "sqrt rsqrt neg abs clamp clamp_min sin cos alias Int ScalarImplicit IntImplicit "
                "constant masked_fill erf square reciprocal",
            ),
            *_rules(_number, "add sub mul add_ sub_ mul_"),
            *_rules(_divided, "floor_divide floordiv"),
            *_rules(_broadcast, "div pow div_ maximum minimum eq ne lt le gt ge"),
            *_rules(_size, "size"),
            *_rules(_viewed, "view reshape _unsafe_view"),
            *_rules(_expanded, "expand"),
            *_rules(_made, "zeros ones full empty rand randn"),
            *_rules(_joined, "cat"),
            *_rules(_flattened, "flatten"),
            *_rules(_permuted, "permute"),
            *_rules(_transposed, "transpose t"),
            *_rules(_unsqueezed, "unsqueeze"),
            *_rules(_squeezed, "squeeze"),
            *_rules(_selected, "select"),
            *_rules(_sliced, "slice"),
            *_rules(_reduced, "mean sum"),
            *_rules(_convolved, "_convolution conv1d conv2d conv3d"),
            *_rules(_pooled, "max_pool1d max_pool2d max_pool3d avg_pool2d avg_pool3d avg_pool1d"),
            *_rules(_adaptive, "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"),
            *_rules(_linear, "linear"),
            *_rules(_multiplied, "matmul bmm mm"),
            *_rules(_added, "addmm baddbmm"),
            *_rules(_normalised, "batch_norm layer_norm instance_norm"),
            *_rules(_embedded, "embedding"),
        )
    ),
}
