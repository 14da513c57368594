"""Constructor arguments that make an object with the attributes and tensors of a module.

Most parameters of a constructor are attributes of the object by the same name. Where an archive
does not tell them, because its code was traced or because its torch did not write them, calls of
operators name most of them, and the shapes of tensors tell sizes.
"""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import re
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from tsarchive.errors import LimitError

from .evidence import Evidence, comparable, is_plain_value

Arguments = dict[str, Any]

# They say where tensors are and of which type; the tensors themselves tell it.
_OF_TENSORS: Final = frozenset({"device", "dtype"})
# Words that constructors take, where neither attributes nor code need to tell which.
WORDS: Final[Mapping[str, tuple[Any, ...]]] = {
    "activation": ("relu", "gelu"),
    "approximate": ("none", "tanh"),
    "mode": (
        "nearest", "linear", "bilinear", "bicubic", "trilinear", "nearest-exact", "mean", "sum",
        "max", "constant", "reflect", "replicate", "circular",
    ),
    "nonlinearity": ("tanh", "relu"),
    "padding_mode": ("zeros", "reflect", "replicate", "circular"),
    "reduction": ("mean", "sum", "none"),
}  # fmt: skip
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_MOST_NUMBERS: Final = 48
_MOST_STARTS: Final = 256
_ENOUGH_STARTS: Final = 24
_MOST_PROPOSALS: Final = 16
_CALLS_OF_TENSOR: Final = 64
_MOST_CALLS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Proposal:
    """Arguments, and the object on the device ``meta`` that they make."""

    arguments: Arguments
    built: nn.Module


class _Constructing(TorchFunctionMode):
    """What a constructor does with tensors that have no memory, at most so many calls of torch.

    A guess may ask for thousands of layers. Random numbers are not drawn.
    """

    def __init__(self, most: float) -> None:
        super().__init__()
        self.calls = 0
        self._most = most

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), keywords: Any = None
    ) -> Any:
        self.calls += 1
        if self.calls > self._most:
            raise LimitError("a constructor makes more than the archive has", limit=self._most)
        if function in (torch.Tensor.normal_, torch.Tensor.uniform_):
            return arguments[0]
        return function(*arguments, **(keywords or {}))


def construct(class_: type[nn.Module], arguments: Mapping[str, Any]) -> nn.Module | None:
    """Return an object without memory for its tensors; None where the class refuses."""
    return _constructed(class_, arguments, _Constructing(math.inf))


def _constructed(
    class_: type[nn.Module], arguments: Mapping[str, Any], mode: _Constructing
) -> nn.Module | None:
    try:
        with mode, torch.device("meta"), torch.random.fork_rng(devices=()):
            return class_(**arguments)
    except Exception:  # whatever a constructor makes of arguments of another class
        return None


def parameters_of(class_: type[nn.Module]) -> list[inspect.Parameter]:
    """Return the parameters of a constructor that say how an object behaves, in their order."""
    found: dict[str, inspect.Parameter] = {}
    for base in class_.__mro__:
        own = inspect.signature(base).parameters.values() if "__init__" in vars(base) else ()
        for parameter in own:
            if parameter.kind not in _VARIADIC:
                found.setdefault(parameter.name, parameter)
        if own and not any(parameter.kind in _VARIADIC for parameter in own):
            break
    if issubclass(class_, nn.RNNBase):
        _leave_recurrent(class_, found)
    return [
        parameter
        for name, parameter in found.items()
        if name not in _OF_TENSORS and not name.startswith("_")
    ]


def _leave_recurrent(class_: type[nn.Module], found: dict[str, inspect.Parameter]) -> None:
    """Leave the parameters of a recurrent class, whose constructor does not name its own."""
    found.pop("mode")
    if class_ is not nn.LSTM:
        found.pop("proj_size")
    if class_ is nn.RNN:
        kind = inspect.Parameter.KEYWORD_ONLY
        found["nonlinearity"] = inspect.Parameter("nonlinearity", kind, default="tanh")


class Proposals:
    """The arguments for one class that fit what an archive tells, the likeliest first."""

    def __init__(self, class_: type[nn.Module], evidence: Evidence) -> None:
        self._class = class_
        self._evidence = evidence
        parameters = parameters_of(class_)
        self._required = {each.name for each in parameters if each.default is each.empty}
        self._choices = {each.name: self._values(each) for each in parameters}
        self.misfit: str = f"no arguments of {class_.__name__} give its tensors and attributes"
        self._most_of_one = _CALLS_OF_TENSOR * (len(evidence.shapes) + _CALLS_OF_TENSOR)
        self._calls = 0

    def __iter__(self) -> Iterator[Proposal]:
        """Yield proposals. ``misfit`` says in words what stood against the best one."""
        first = self._descended()
        if first is None:
            return
        free = [
            [
                value
                for value in self._choices[name]
                if self._misfits_of({**first, name: value}) == []
            ]
            for name in first
        ]
        for values in itertools.islice(likeliest_first(free), _MOST_PROPOSALS):
            arguments = dict(zip(first, values, strict=True))
            built = self._construct(arguments)
            if built is not None and not self._misfits(built):
                yield Proposal(arguments, built)

    def simplified(self, proposal: Proposal) -> Proposal:
        """Return arguments as people write them: no defaults, and one number where all are equal.

        An object is its class and its attributes, so arguments that give equal ones are equal.
        """
        for name, value in proposal.arguments.items():
            simpler = next(_one_for_all(value))
            proposal = self._if_same(proposal, {**proposal.arguments, name: simpler})
        for name in [*proposal.arguments]:
            changed = {other: value for other, value in proposal.arguments.items() if other != name}
            proposal = self._if_same(proposal, changed)
        return proposal

    def _construct(self, arguments: Arguments) -> nn.Module | None:
        """Make an object, if that takes about as many calls of torch as the archive has tensors.

        Raises LimitError when all of them together have taken too many.
        """
        mode = _Constructing(self._most_of_one)
        built = _constructed(self._class, arguments, mode)
        self._calls += mode.calls
        if self._calls > _MOST_CALLS:
            raise LimitError("the search for its arguments is long", limit=_MOST_CALLS)
        return built

    def _if_same(self, proposal: Proposal, changed: Arguments) -> Proposal:
        built = construct(self._class, changed)
        is_same = built is not None and state_of(built) == state_of(proposal.built)
        return Proposal(changed, built) if built is not None and is_same else proposal

    def _values(self, parameter: inspect.Parameter) -> list[Any]:
        """The values that a parameter may have had, the likeliest first."""
        name, default = parameter.name, parameter.default
        is_required = default is parameter.empty
        defaults = [] if is_required else [default]
        if self._is_told(name, default):
            return _distinct([self._evidence.values[name], *defaults])
        named = [*self._evidence.arguments.get(name, ()), *defaults, *WORDS.get(name, ())]
        named = [simpler for value in named for simpler in _one_for_all(value)]
        found = [*named, *self._not_named(default, is_required=is_required)]
        return _distinct(each for each in found if is_required or _is_like(each, default))

    def _is_told(self, name: str, default: Any) -> bool:
        """Return whether an attribute is the argument of its name.

        Of what a flag asks for, the attribute is what there is, such as a bias: None without it.
        """
        is_absent = isinstance(default, bool) and self._evidence.values.get(name) is None
        return name in self._evidence.values and not is_absent

    def _not_named(self, default: Any, *, is_required: bool) -> list[Any]:
        """The values that shapes and code suggest, where no name says which is which."""
        if isinstance(default, bool):
            return [not default]
        if is_required or isinstance(default, int):
            return self._numbers
        if isinstance(default, float):
            return [each for each in self._evidence.constants if type(each) is float]
        return [*self._sizes, True, False] if default is None else []

    @property
    def _sizes(self) -> list[int]:
        """The sizes of tensors, the most frequent first."""
        counted = Counter(size for shape in self._evidence.shapes.values() for size in shape)
        return [size for size, _ in counted.most_common()]

    @property
    def _numbers(self) -> list[Any]:
        """Sizes, parts of shapes, products of sizes and numbers in the code, and these numbers.

        Before them, how many modules stand side by side under numbers.
        """
        evidence = self._evidence
        sizes = self._sizes
        tails = [shape[at:] for shape in evidence.shapes.values() for at in range(len(shape))]
        numbers = [each for each in evidence.constants if type(each) is int and each > 1]
        products = [size * number for size in sizes for number in numbers]
        others = [each for each in evidence.constants if not isinstance(each, str)]
        return _distinct([*self._counts(), *sizes, *tails, *others, *products])[:_MOST_NUMBERS]

    def _counts(self) -> Iterator[int]:
        """Yield how many modules have numbers for names, for each that holds such."""
        paths = [*self._evidence.shapes, *self._evidence.inner_values]
        found: dict[str, int] = {}
        for path in paths:
            for number in re.finditer(r"(?<=\.)\d+(?=\.)", path):
                holder = path[: number.start()]
                found[holder] = max(found.get(holder, 0), int(number[0]) + 1)
        yield from found.values()

    def _descended(self) -> Arguments | None:
        """Return arguments that fit, found by changing one after the other; None without any."""
        start = self._start()
        if start is None:
            return None
        arguments, misfits = start
        before: list[str] | None = None
        while misfits and misfits != before:
            before = misfits
            for name, value in self._single_choices():
                changed = {**arguments, name: value}
                found = self._misfits_of(changed)
                if found is not None and len(found) < len(misfits):
                    arguments, misfits = changed, found
        if misfits:
            self.misfit = misfits[0]
        return None if misfits else arguments

    def _single_choices(self) -> Iterator[tuple[str, Any]]:
        return ((name, value) for name, values in self._choices.items() for value in values)

    def _start(self) -> tuple[Arguments, list[str]] | None:
        """Return the best of the likeliest arguments that the class takes, and their misfits."""
        required = [name for name in self._choices if name in self._required]
        likely = {name: values[0] for name, values in self._choices.items() if values}
        found: list[tuple[Arguments, list[str]]] = []
        combinations = likeliest_first([self._choices[name] for name in required])
        for values in itertools.islice(combinations, _MOST_STARTS):
            arguments = {**likely, **dict(zip(required, values, strict=True))}
            misfits = self._misfits_of(arguments)
            if misfits is not None:
                found.append((arguments, misfits))
            if misfits == [] or len(found) >= _ENOUGH_STARTS:
                break
        return min(found, key=lambda each: len(each[1]), default=None)

    def _misfits_of(self, arguments: Arguments) -> list[str] | None:
        """The misfits of the object that arguments make; None where the class refuses them."""
        built = self._construct(arguments)
        return None if built is None else self._misfits(built)

    def _misfits(self, built: nn.Module) -> list[str]:
        """Say in words where an object differs from what is known of the module."""
        name, known = type(built).__name__, self._evidence.shapes
        shapes = {path: tuple(tensor.shape) for path, tensor in built.state_dict().items()}
        found: list[str] = []
        for path in sorted(shapes.keys() | known.keys()):
            if path in shapes and path in known:
                found += _different_sizes(path, shapes[path], known[path])
            else:
                owner = "the archive" if path in known else name
                found.append(f"{path!r} is a tensor of {owner} alone")
        return [*found, *self._different_values(built)]

    def _different_values(self, built: nn.Module) -> Iterator[str]:
        name = type(built).__name__
        for attribute, value in {**self._evidence.values, **self._evidence.inner_values}.items():
            try:
                found = operator.attrgetter(attribute)(built)
            except AttributeError:
                yield f"{name} has no attribute {attribute!r}"
                continue
            if not _equal(comparable(found), value):
                yield f"no argument of {name} gives {attribute} the value {value!r}"


def _different_sizes(path: str, one: Sequence[int], other: Sequence[int]) -> Iterator[str]:
    """Tell each size by itself: arguments set one each."""
    for size, wanted in itertools.zip_longest(one, other):
        if size != wanted:
            yield f"{path!r} has another shape than {tuple(one)}: {tuple(other)}"


def _equal(one: Any, other: Any) -> bool:
    return bool(is_plain_value(one) and is_plain_value(other) and one == other)


def _is_like(value: Any, default: Any) -> bool:
    """Return whether a value is of a type that may stand for a default."""
    if isinstance(default, bool):
        return isinstance(value, bool)
    if default is None or value is None or callable(default):
        return True
    if isinstance(default, str) or isinstance(value, bool):
        return type(value) is type(default)
    return True  # the padding of a convolution is a number by default, and may be a word


def _distinct(values: Iterable[Any]) -> list[Any]:
    found: dict[tuple[type, Any], Any] = {}
    for value in values:
        found.setdefault((type(value), repr(value)), value)
    return [*found.values()]


def likeliest_first(choices: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield combinations of choices: first those in which few are not the first of their own."""
    positions = [index for index, values in enumerate(choices) if len(values) > 1]
    if not all(choices):
        return
    for count in range(len(positions) + 1):
        for changed in itertools.combinations(positions, count):
            others = [choices[index][1:] for index in changed]
            for values in itertools.product(*others):
                row = [values_of[0] for values_of in choices]
                for index, value in zip(changed, values, strict=True):
                    row[index] = value
                yield tuple(row)


def _one_for_all(value: Any) -> Iterator[Any]:
    """Yield the number that all items of a value are, if they are one, and the value."""
    if isinstance(value, tuple) and len(set(value)) == 1 and type(value[0]) is int:
        yield value[0]
    yield value


def state_of(value: Any) -> Any:
    """Return what an object has beside its class and the numbers in its tensors.

    Objects of one class for which it is equal behave alike.
    """
    if isinstance(value, nn.Module):
        return type(value), state_of(vars(value))
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), type(value)
    if isinstance(value, dict):
        return {key: state_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [state_of(item) for item in value]
    return None if isinstance(value, weakref.ref) else value
