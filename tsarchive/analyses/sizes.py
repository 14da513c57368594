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
from itertools import zip_longest
from math import prod
from typing import Any, Final, NamedTuple, Protocol

from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.graph import Node, Value

_DEPTH: Final = 64
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
    """Constants in a call that stand, together, for dimensions of an input, by their names."""

    node: Node
    constants: tuple[int, ...]
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
        self._found: dict[tuple[Node, tuple[int, ...], tuple[Symbol, ...]], None] = {}
        # Symbols that a parameter of the model decides.
        self._decided: set[Symbol] = set()
        self._calls = 0
        self._opaque = 0

    def baked(self) -> list[Baked]:
        """Return what was found, without what the model itself decides."""
        found: dict[Baked, None] = {}
        for node, constants, symbols in self._found:
            left = {s.name for s in symbols if s not in self._decided} - {""}
            if left:
                found[Baked(node, constants, tuple(sorted(left)))] = None
        return [*found]

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

    def note(self, node: Node, constants: Sequence[int], symbols: Iterable[Symbol]) -> None:
        self._found[node, tuple(constants), tuple(symbols)] = None

    def decide(self, dim: Dim) -> None:
        """Note that the model decides a size."""
        self._decided.update(dim.symbols)

    def opaque(self, *dims: Dim, example: int | None = None) -> Dim:
        """Return a size that depends on others in a way that is not told."""
        symbols = [symbol for dim in dims for symbol in dim.symbols]
        if not symbols:
            is_made = any(dim.made is not None for dim in dims)
            return _free("", None) if example is None or is_made else Dim(example)
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
            self.note(plain.made, [plain.factor], symbolic.symbols)
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
    """Follow ``view`` and ``reshape``, each group of dimensions that becomes another for itself."""
    before, wanted = _dims(given[0]), [_as_dim(size, node) for size in given[1]]
    found: list[Dim] = []
    has_open = any(map(_is_open, wanted))
    for group in _groups(before, wanted):
        # Beside -1, a 1 that is not the first may be there to add a dimension.
        found += _regrouped(following, node, *group, may_be_new=has_open and bool(found))
    return Sized(tuple(found))


_Group = tuple[list[Dim], list[Dim]]


def _groups(before: Sequence[Dim], wanted: Sequence[Dim]) -> list[_Group]:
    """Return the smallest groups of dimensions that have, one after the other, as many elements.

    All are one group where a size in the example is not known.
    """
    one, other = [dim.example for dim in before], _examples(before, wanted)
    if None in one or other is None or 0 in one or not before or not wanted:
        return [([*before], [*wanted])]
    groups: list[_Group] = []
    i = j = 0
    while i < len(before) and j < len(wanted):
        first, second = i, j
        ours, theirs = one[i] or 0, other[j]
        i, j = i + 1, j + 1
        while ours != theirs:
            if ours < theirs:
                ours, i = ours * (one[i] or 0), i + 1
            else:
                theirs, j = theirs * other[j], j + 1
        groups.append(([*before[first:i]], [*wanted[second:j]]))
    groups[-1][0].extend(before[i:])
    groups[-1][1].extend(wanted[j:])
    return groups


def _examples(before: Sequence[Dim], wanted: Sequence[Dim]) -> list[int] | None:
    """Return the sizes of a view in the example, with that of -1; None where one is not known."""
    whole = prod(dim.example or 0 for dim in before)
    told = [dim.example for dim in wanted if not _is_open(dim)]
    known = prod(size or 0 for size in told)
    if None in told or not known or whole % known:
        return None
    rest = whole // known
    if len(told) == len(wanted) and rest != 1:
        return None
    return [rest if _is_open(dim) else dim.example or 0 for dim in wanted]


def _is_open(dim: Dim) -> bool:
    return not dim.symbols and dim.factor == -1


def _regrouped(
    following: _Following,
    node: Node,
    before: Sequence[Dim],
    wanted: Sequence[Dim],
    *,
    may_be_new: bool,
) -> Sequence[Dim]:
    """Return the sizes of a group. Without -1 its constants hold what its other sizes do not."""
    symbols = Counter(symbol for dim in before for symbol in dim.symbols)
    told = Counter(symbol for dim in wanted for symbol in dim.symbols)
    left = [*(symbols - told).elements()]
    follows = not told - symbols
    if any(map(_is_open, wanted)):
        if len(before) == len(wanted) == 1:
            return before
        rest = _open_size(following, before, wanted, left) if follows else _free("", None)
        return [rest if _is_open(dim) else dim for dim in wanted]
    plain = [dim.factor for dim in wanted if not dim.symbols]
    longer = [size for size in plain if size != 1]
    if follows and left and plain and (longer or not may_be_new):
        following.note(node, longer or plain[:1], left)
    return before if len(before) == len(wanted) == 1 and follows else wanted


def _open_size(
    following: _Following, before: Sequence[Dim], wanted: Sequence[Dim], left: Sequence[Symbol]
) -> Dim:
    """Return the size of -1 in a group; ``left`` are the symbols that no other size has."""
    constant = prod(dim.factor for dim in wanted if not _is_open(dim))
    longer = [dim for dim in before if dim._replace(made=None) != Dim(1)]
    if constant == 1 and len(longer) == 1 and len(left) == len(longer[0].symbols):
        return longer[0]
    if any(dim.made is not None for dim in before):
        return _free("", None)
    factor = prod(dim.factor for dim in before)
    if constant and factor % constant == 0:
        return Dim(factor // constant, tuple(left))
    return following.opaque(Dim(1, tuple(left)))


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
    return Sized(tuple(_as_dim(size, node) for size in named["size"]))


def _counted(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    """Follow ``arange`` from 0 in steps of 1."""
    if named.get("start", 0) != 0 or named.get("step", 1) != 1:
        return None
    return Sized((_as_dim(named["end"], node),))


def _repeated(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    before, times = _dims(given[0]), [_as_dim(count, node) for count in given[1]]
    before = (Dim(1),) * (len(times) - len(before)) + before
    return Sized(tuple(map(_times, before, times)))


def _times(dim: Dim, count: Dim) -> Dim:
    """Return the size of a dimension that is repeated."""
    if dim._replace(made=None) == Dim(1):
        return count
    if count._replace(made=None) == Dim(1):
        return dim
    if dim.symbols or count.symbols:
        return Dim(dim.factor * count.factor, (*dim.symbols, *count.symbols))
    return _free("", None)


def _resized(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    """Follow ``interpolate``, whose sizes are those of the last dimensions."""
    dims, sizes = _dims(given[0]), [_as_dim(size, node) for size in named["output_size"]]
    return Sized((*dims[: len(dims) - len(sizes)], *sizes))


def _narrowed(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims = list(_dims(named["self"]))
    dims[named["dim"] % len(dims)] = _as_dim(named["length"], node)
    return Sized(tuple(dims))


def _recurrent(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    """Follow a state into a recurrent layer: its batch is that of the input."""
    dims, state = _dims(named["input"]), named["hx"]
    batch = dims[0 if named["batch_first"] else 1]
    for each in [state] if isinstance(state, Sized) else state:
        following.same(node, batch, _dims(each)[1], may_spread=False)


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
    found[axis] = following.opaque(*summed, example=example)
    return Sized(tuple(found))


def _flattened(following: _Following, node: Node, named: dict[str, Any], given: list[Any]) -> Any:
    dims = _dims(given[0])
    start, end = given[1] % len(dims), given[2] % len(dims)
    return Sized((*dims[:start], _merged(dims[start : end + 1]), *dims[end + 1 :]))


def _merged(dims: Sequence[Dim]) -> Dim:
    if len(dims) == 1:
        return dims[0]
    symbols = tuple(symbol for dim in dims for symbol in dim.symbols)
    if not symbols and any(dim.made is not None for dim in dims):
        return _free("", None)
    return Dim(prod(dim.factor for dim in dims), symbols)


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
    if not (start == 0 and given[4] == 1):
        dims[axis] = following.opaque(dims[axis])
    elif end not in (None, _END):
        dims[axis] = _ended(following, dims[axis], _as_dim(end, node))
    return Sized(tuple(dims))


def _ended(following: _Following, dim: Dim, end: Dim) -> Dim:
    """Return the size of a slice from 0: the end, where it is known to lie within."""
    if dim.symbols or (end.example or -1) < 0:
        return following.opaque(dim, end)
    return end if (end.example or 0) <= dim.factor else dim


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
                "constant masked_fill erf square reciprocal triu tril cumsum cumprod",
            ),
            *_rules(_number, "add sub mul add_ sub_ mul_"),
            *_rules(_divided, "floor_divide floordiv"),
            *_rules(_broadcast, "div pow div_ maximum minimum eq ne lt le gt ge"),
            *_rules(_size, "size"),
            *_rules(_viewed, "view reshape _unsafe_view"),
            *_rules(_expanded, "expand"),
            *_rules(
                _made, "zeros ones full empty rand randn new_zeros new_ones new_full new_empty"
            ),
            *_rules(_counted, "arange"),
            *_rules(_repeated, "repeat"),
            *_rules(_narrowed, "narrow"),
            *_rules(
                _resized,
                "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d "
                "upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d",
            ),
            *_rules(_recurrent, "lstm gru rnn_tanh rnn_relu"),
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
