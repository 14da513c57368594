"""Constructor arguments that make an object with the attributes and tensors of a module.

Most parameters of a constructor are attributes of the object by the same name. Where an archive
does not tell them, because its code was traced or because its torch did not write them, calls of
operators name most of them, and the shapes of tensors tell sizes.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

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


@dataclass(frozen=True, slots=True)
class Proposal:
    """Arguments, and the object on the device ``meta`` that they make."""

    arguments: Arguments
    built: nn.Module


def construct(class_: type[nn.Module], arguments: Mapping[str, Any]) -> nn.Module | None:
    """Return an object without memory for its tensors; None where the class refuses."""
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=()):
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
    if issubclass(class_, nn.RNNBase) and class_ is not nn.RNNBase:
        found.pop("mode", None)
        if class_ is nn.RNN:
            keyword = inspect.Parameter.KEYWORD_ONLY
            found["nonlinearity"] = inspect.Parameter("nonlinearity", keyword, default="tanh")
        if class_ is not nn.LSTM:
            found.pop("proj_size", None)
    return [
        parameter
        for name, parameter in found.items()
        if name not in _OF_TENSORS and not name.startswith("_")
    ]


class Proposals:
    """The arguments for one class that fit what an archive tells, the likeliest first."""

    def __init__(self, class_: type[nn.Module], evidence: Evidence) -> None:
        self._class = class_
        self._evidence = evidence
        parameters = parameters_of(class_)
        self._required = {each.name for each in parameters if each.default is each.empty}
        self._choices = {each.name: self._values(each) for each in parameters}
        self.misfit = f"no arguments of {class_.__name__} give its tensors and attributes"

    def __iter__(self) -> Iterator[Proposal]:
        """Yield proposals. ``misfit`` says in words what stood against the best one."""
        first = self._descended()
        if first is None:
            return
        free = [
            [value for value in self._choices[name] if self._fits({**first, name: value})]
            for name in first
        ]
        for values in itertools.islice(likeliest_first(free), _MOST_PROPOSALS):
            arguments = dict(zip(first, values, strict=True))
            built = construct(self._class, arguments)
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

    def _if_same(self, proposal: Proposal, changed: Arguments) -> Proposal:
        built = construct(self._class, changed)
        is_same = built is not None and state_of(built) == state_of(proposal.built)
        return Proposal(changed, built) if built is not None and is_same else proposal

    def _values(self, parameter: inspect.Parameter) -> list[Any]:
        """The values that a parameter may have had, the likeliest first."""
        name, default = parameter.name, parameter.default
        is_required = default is inspect.Parameter.empty
        told = [] if is_required else [default]
        is_whether = isinstance(default, bool)  # there is something, which the attribute holds
        if name in self._evidence.values and not (
            is_whether and self._evidence.values[name] is None
        ):
            return _distinct([self._evidence.values[name], *told])
        named = [*self._evidence.arguments.get(name, ()), *told, *WORDS.get(name, ())]
        named = [simpler for value in named for simpler in _one_for_all(value)]
        others: list[Any] = []
        if is_whether:
            others = [not default]
        elif is_required or isinstance(default, int):
            others = self._numbers
        elif default is None:
            others = [*self._sizes, True, False]
        elif isinstance(default, float):
            others = [each for each in self._evidence.constants if type(each) is float]
        return _distinct(
            value for value in [*named, *others] if is_required or _is_like(value, default)
        )

    @property
    def _sizes(self) -> list[int]:
        """The sizes of tensors, the most frequent first."""
        counted = Counter(size for shape in self._evidence.shapes.values() for size in shape)
        return [size for size, _ in counted.most_common()]

    @property
    def _numbers(self) -> list[Any]:
        """Sizes, parts of shapes, products of sizes and numbers in the code, and these numbers."""
        evidence = self._evidence
        sizes = self._sizes
        tails = [shape[at:] for shape in evidence.shapes.values() for at in range(len(shape))]
        numbers = [each for each in evidence.constants if type(each) is int and each > 1]
        products = [size * number for size in sizes for number in numbers]
        listed = [each for each in evidence.constants if isinstance(each, tuple)]
        return [*sizes, *tails, *evidence.constants, *listed, *products][:_MOST_NUMBERS]

    def _descended(self) -> Arguments | None:
        """Return arguments that fit, found by changing one after the other; None without any."""
        start = self._start()
        if start is None:
            return None
        arguments, built = start
        misfits = self._misfits(built)
        is_better = True
        while misfits and is_better:
            is_better = False
            for name, values in self._choices.items():
                for value in values:
                    tried = construct(self._class, {**arguments, name: value})
                    found = misfits if tried is None else self._misfits(tried)
                    if len(found) < len(misfits):
                        arguments, misfits, is_better = {**arguments, name: value}, found, True
        if misfits:
            self.misfit = misfits[0]
        return None if misfits else arguments

    def _start(self) -> tuple[Arguments, nn.Module] | None:
        """Return the best arguments among the likeliest that the class takes."""
        required = [name for name, values in self._choices.items() if name in self._required]
        likely = {name: values[0] for name, values in self._choices.items() if values}
        found: list[tuple[int, Arguments, nn.Module]] = []
        combinations = likeliest_first([self._choices[name] for name in required])
        for values in itertools.islice(combinations, _MOST_STARTS):
            arguments = {**likely, **dict(zip(required, values, strict=True))}
            built = construct(self._class, arguments)
            if built is not None:
                found.append((len(self._misfits(built)), arguments, built))
            if found and (found[-1][0] == 0 or len(found) >= _ENOUGH_STARTS):
                break
        return min(found, key=lambda each: each[0])[1:] if found else None

    def _fits(self, arguments: Arguments) -> bool:
        built = construct(self._class, arguments)
        return built is not None and not self._misfits(built)

    def _misfits(self, built: nn.Module) -> list[str]:
        """Say in words where an object differs from what is known of the module."""
        name, evidence = type(built).__name__, self._evidence
        shapes = {path: tuple(tensor.shape) for path, tensor in built.state_dict().items()}
        missing = shapes.keys() ^ evidence.shapes.keys()
        found = [
            f"{path!r} is a tensor of {'the archive' if path in evidence.shapes else name} alone"
            for path in sorted(missing)
        ]
        for path in shapes.keys() & evidence.shapes.keys():
            found += _different_sizes(path, shapes[path], evidence.shapes[path])
        attributes = vars(built)
        for attribute, value in evidence.values.items():
            if attribute in evidence.shapes:
                continue
            if not hasattr(built, attribute):
                found.append(f"{name} has no attribute {attribute!r}")
            elif not _equal(
                comparable(attributes.get(attribute, getattr(built, attribute))), value
            ):
                found.append(f"no argument of {name} gives {attribute} the value {value!r}")
        return found


def _different_sizes(path: str, one: Sequence[int], other: Sequence[int]) -> Iterator[str]:
    """Tell each size by itself: arguments set one each."""
    for size, wanted in itertools.zip_longest(one, other):
        if size != wanted:
            yield f"{path!r} has another shape than {tuple(one)}: {tuple(other)}"


def _equal(one: Any, other: Any) -> bool:
    return bool(is_plain_value(one) and is_plain_value(other) and one == other)


def _is_like(value: Any, default: Any) -> bool:
    """Return whether a value is of a type that may stand for a default."""
    if default is None or value is None or callable(default):
        return True
    if isinstance(default, (bool, str)) or isinstance(value, (bool, str)):
        return type(value) is type(default)
    return True


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
