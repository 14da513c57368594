"""Structure-aware mutation of JSON records, in particular of torch.export programs."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from .mutated_bytes import BOUNDARIES, mutate_bytes

_CHANCE_OF_BLIND_CHANGE: Final = 0.05
_MOST_DEEP: Final = 300
# Texts that replace a program, an expression, a guard, a path or a tree.
_TEXTS: Final = (
    "", "x", "weight", "s0", "s0 + 1", "Symbol('s0', integer=True)",
    "Mul(Symbol('s0'), Integer(2))",
    "__import__('os').getcwd()", "9**9**9", "Pow(Integer(9), Pow(Integer(9), Integer(9)))",
    "L['x'].size()[0] == 2", "L['x'].__class__", "(lambda: 1)()", "../../x", "/etc/passwd",
    "weight_0", "tensor_0", "custom_obj_0", "opaque_obj_0", "torch.os.system", "_operator.add",
    "torch.ops.aten.from_file.default", "torch.ops.aten.add.Tensor", "torch.ops.aten.sum.default",
    "torch.ops.higher_order.cond", "torch.ops.higher_order.while_loop", "\ud800", "\0", "\uff45",
    "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]", "self.weight", "a.b.c",
    "__torch__.torch.classes.a.B", "Infinity", "NaN", "builtins.dict", "collections.namedtuple",
)  # fmt: skip
_VALUES: Final[tuple[Any, ...]] = (None, True, 0, -1, 1.5, [], {}, [[]], {"as_none": True})
_TAGS: Final = (
    "as_none", "as_tensor", "as_tensors", "as_int", "as_ints", "as_float", "as_string", "as_bool",
    "as_sym_int", "as_sym_ints", "as_name", "as_expr", "as_graph", "as_optional_tensor",
    "as_optional_tensors", "as_custom_obj", "as_operator", "as_complex", "as_string_to_argument",
    "as_device", "as_scalar_type", "user_input", "parameter", "buffer", "constant_input",
    "tensor_constant", "custom_obj", "user_output", "buffer_mutation", "user_input_mutation",
    "token",
)  # fmt: skip


class _Spot(NamedTuple):
    """A value and its location: the list or dict around it, and its key there."""

    around: Any
    key: Any

    @property
    def value(self) -> Any:
        return self.around[self.key]

    def put(self, value: Any) -> None:
        self.around[self.key] = value


def mutate_json(data: bytes, random: Random) -> bytes:
    """Return ``data`` after one to four changes to its JSON; to its bytes where it is not JSON."""
    try:
        root = {"": json.loads(data)}
    except ValueError:
        return mutate_bytes(data, random)
    if random.random() < _CHANCE_OF_BLIND_CHANGE:
        return mutate_bytes(data, random)
    for _ in range(random.randint(1, 4)):
        spots = list(_spots(root))
        random.choice(_CHANGES)(random.choice(spots), spots, random)
    text = json.dumps(root[""])
    return (_duplicate_field(text, random) if random.random() < 0.03 else text).encode(
        "utf-8", "replace"
    )


def _spots(root: dict[str, Any]) -> Iterator[_Spot]:
    pending = [_Spot(root, "")]
    while pending:
        spot = pending.pop()
        yield spot
        value = spot.value
        if isinstance(value, dict):
            pending += [_Spot(value, key) for key in value]
        elif isinstance(value, list):
            pending += [_Spot(value, index) for index in range(len(value))]


_Change: TypeAlias = Callable[[_Spot, list[_Spot], Random], None]


def _set_scalar(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    """Set a value of the same type, or of another one if it has parts."""
    value = spot.value
    if isinstance(value, bool):
        spot.put(not value)
    elif isinstance(value, int):
        spot.put(random.choice((*BOUNDARIES, -1, -(1 << 63), value + 1, value - 1, 1 << 70)))
    elif isinstance(value, float):
        spot.put(random.choice((0.0, -1.5, 1e308, "Infinity", "NaN")))
    else:
        spot.put(random.choice(_TEXTS))


def _set_any(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    spot.put(copy.deepcopy(random.choice((*_VALUES, random.choice(_TEXTS)))))


def _copy_other(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    """Copy another value of the record, preferably one under the same key."""
    same = [other for other in spots if other.key == spot.key]
    spot.put(copy.deepcopy(random.choice(same if random.random() < 0.7 else spots).value))


def _delete(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    if spot.key != "" or len(spot.around) > 1:
        del spot.around[spot.key]


def _insert(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    value = spot.value
    other = copy.deepcopy(random.choice(spots).value)
    if isinstance(value, list):
        own = copy.deepcopy(random.choice(value)) if value and random.random() < 0.7 else other
        value.insert(random.randint(0, len(value)), own)
    elif isinstance(value, dict):
        value[random.choice(_TEXTS)] = other


def _shuffle(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    value = spot.value
    if isinstance(value, list):
        random.shuffle(value)


def _retag(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    """Change the member of a union, keeping its content."""
    value = spot.value
    if isinstance(value, dict) and len(value) == 1:
        spot.put({random.choice(_TAGS): next(iter(value.values()))})


def _deepen(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    value = spot.value
    for _ in range(random.choice((1, 2, 10, _MOST_DEEP))):
        value = [value] if random.random() < 0.5 else {"as_string_to_argument": {"x": value}}
    spot.put(value)


def _duplicate_field(text: str, random: Random) -> str:
    """Duplicate a field of some object."""
    before, brace, after = text.partition(random.choice(('{"', '{"as_', '{"name')))
    return f'{before}{{"x": 0, "x": 1, {brace[1:]}{after}' if brace else text


_CHANGES: Final[tuple[_Change, ...]] = (
    *(_set_scalar,) * 5,
    *(_set_any, _copy_other, _delete, _insert, _retag) * 2,
    *(_shuffle, _deepen),
)
