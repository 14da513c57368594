"""Arguments and results of PT2 programs: nested and refused as torch nests and refuses them."""

from __future__ import annotations

import io
import logging
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
import torch.utils._pytree as pytree

import tsarchive
from tests.support.archives import TORCH
from tests.support.features import takes_trees_apart
from tsarchive.errors import CallError, UnsupportedError


class Pair(NamedTuple):
    one: object
    other: object


@dataclass
class Box:
    content: object
    label: object = None


if "pt2inputs.Pair" not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
    pytree._register_namedtuple(Pair, serialized_type_name="pt2inputs.Pair")
    torch.export.register_dataclass(Box, serialized_type_name="pt2inputs.Box")

ONE, TWO, THREE = torch.ones(2), torch.full((2,), 2.0), torch.full((2,), 3.0)


def module_of(function):
    """A module with ``forward`` as given, so that torch sees names and defaults of arguments."""
    return type("Called", (torch.nn.Module,), {"forward": function})()


def both(function, args, kwargs=None):
    """The program as torch loads it, and as we do."""
    program = torch.export.export(module_of(function), args, kwargs or {})
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    logging.disable(logging.CRITICAL)
    expected = torch.export.load(file).module()
    logging.disable(logging.NOTSET)
    file.seek(0)
    return tsarchive.load(file), expected


def is_none(value):
    return value is None


def assert_equal(found, expected):
    assert pytree.tree_structure(found, is_none) == pytree.tree_structure(expected, is_none)
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)
    for one, other in pairs:
        assert type(one) is type(other)
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def tuples(self, x):
    return x[0] + x[1][0], (x[1][1],)


def lists(self, xs):
    return [xs[0], [xs[1], xs[0] + xs[1]]]


def dicts(self, d):
    return {"sum": d["a"] + d["b"], "inner": {"a": d["a"]}}


def mixed_dict(self, d):
    return {"t": d["t"] + d["l"][0], "l": [d["l"][1]], "n": d["n"], "d": d["d"]}


def mixed_list(self, xs):
    return [xs[0], (xs[1][0], xs[1][1]), xs[2]["k"] * xs[3]]


def named(self, p):
    return Pair(p.other, p.one + 1)


def nested_named(self, p):
    return [Pair(p.one.one, [p.other, None])]


def nothing(self, x, y):
    return x, None, y


def only_keywords(self, *, x, scale):
    return x * scale


def keywords(self, x, *, a, b=None):
    return x - a


def several(self, *xs, **others):
    return xs[0] + xs[1] * others["z"] - others["a"]


def constants(self, x, number, factor, flag, text):
    return x * number + factor if flag else x


def ordered(self, d):
    return OrderedDict(b=d["a"], a=d["b"])


def default(self, d):
    made = defaultdict(list)
    made["k"] = d["a"] + 1
    return made


def queue(self, xs):
    return deque([xs[1], xs[0]], maxlen=4)


def box(self, b):
    return Box(b.content + 1, b.label)


def integer_keys(self, d):
    return {1: d[2], 0: d[1]}


def numbers(self, x):
    return x, 1, 2.5, True, None


def empty(self, x, nothing, none):
    return x, [], {}, ()


def one_in_list(self, x):
    return [x]


def itself(self, x):
    return x


def deep(self, x):
    return {"a": [({"b": (x["a"][0][0]["b"],)},)]}


# name -> (function, args, kwargs, other calls that run as well)
PROGRAMS = {
    "tuples": (tuples, ((ONE, (TWO, THREE)),), {}),
    "lists": (lists, ([ONE, TWO],), {}),
    "dicts": (dicts, ({"a": ONE, "b": TWO},), {}),
    "mixed_dict": (mixed_dict, ({"t": ONE, "l": [ONE, TWO], "n": None, "d": {"x": THREE}},), {}),
    "mixed_list": (mixed_list, ([ONE, (TWO, THREE), {"k": ONE}, 3],), {}),
    "named": (named, (Pair(ONE, TWO),), {}),
    "nested_named": (nested_named, (Pair(Pair(ONE, TWO), THREE),), {}),
    "nothing": (nothing, (ONE, None), {}),
    "only_keywords": (only_keywords, (), {"scale": TWO, "x": ONE}),
    "keywords": (keywords, (ONE,), {"a": TWO}),
    "several": (several, (ONE, TWO), {"z": THREE, "a": ONE}),
    "constants": (constants, (ONE, 3, 0.5, True, "text"), {}),
    "ordered": (ordered, (OrderedDict(a=ONE, b=TWO),), {}),
    "default": (default, (defaultdict(list, a=ONE, b=TWO),), {}),
    "queue": (queue, (deque([ONE, TWO]),), {}),
    "box": (box, (Box(ONE),), {}),
    "full_box": (box, (Box(ONE, TWO),), {}),
    "integer_keys": (integer_keys, ({1: ONE, 2: TWO},), {}),
    "numbers": (numbers, (ONE,), {}),
    "empty": (empty, (ONE, [], {}), {}),
    "one_in_list": (one_in_list, (ONE,), {}),
    "itself": (itself, (ONE,), {}),
    "deep": (deep, ({"a": [({"b": (ONE,)},)]},), {}),
}
# Containers that programs of torch 2.7 and older neither take nor give.
LATER = {"ordered", "default", "queue", "box", "full_box", "numbers"} if TORCH < (2, 8) else set()


@pytest.fixture(scope="module")
def program():
    known = {}

    def find(name):
        if name not in known:
            known[name] = both(*PROGRAMS[name])
        return known[name]

    return find


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in LATER])
def test_results_have_the_structure_of_torch(name, program):
    module, expected = program(name)
    _, args, kwargs = PROGRAMS[name]
    assert_equal(module(*args, **kwargs), expected(*args, **kwargs))


# Programs of torch 2.9 and before take keys in their own order alone.
DICTS = (
    {"dict in another order": ("dicts", ({"b": TWO, "a": ONE},), {})} if TORCH >= (2, 10) else {}
)
# Other calls that both take.
ALSO = {
    **DICTS,
    "keywords in another order": ("only_keywords", (), {"x": ONE, "scale": THREE}),
    "other values": ("tuples", ((THREE, (ONE, TWO)),), {}),
}


@pytest.mark.parametrize("name", ALSO)
def test_calls_of_other_forms(name, program):
    stem, args, kwargs = ALSO[name]
    module, expected = program(stem)
    assert_equal(module(*args, **kwargs), expected(*args, **kwargs))


REFUSED = {
    "list for a tuple": ("tuples", ([ONE, (TWO, THREE)],), {}),
    "tuple for a list": ("lists", ((ONE, TWO),), {}),
    "too many items": ("lists", ([ONE, TWO, THREE],), {}),
    "too few items": ("lists", ([ONE],), {}),
    "another key": ("dicts", ({"a": ONE, "c": TWO},), {}),
    "a key too many": ("dicts", ({"a": ONE, "b": TWO, "c": TWO},), {}),
    "a key too few": ("dicts", ({"a": ONE},), {}),
    "ordered dict for a dict": ("dicts", (OrderedDict(a=ONE, b=TWO),), {}),
    "dict for an ordered dict": ("ordered", ({"a": ONE, "b": TWO},), {}),
    "tuple for a named tuple": ("named", ((ONE, TWO),), {}),
    "dict of another default": ("default", (defaultdict(int, a=ONE, b=TWO),), {}),
    "ordered dict in another order": ("ordered", (OrderedDict(b=TWO, a=ONE),), {}),
    "default dict in another order": ("default", (defaultdict(list, b=TWO, a=ONE),), {}),
    "deque of another length": ("queue", (deque([ONE, TWO], maxlen=3),), {}),
    "list for a deque": ("queue", ([ONE, TWO],), {}),
    "object of another form": ("box", (Box(ONE, TWO),), {}),
    "tensor for an object": ("box", (ONE,), {}),
    "no argument": ("itself", (), {}),
    "an argument too many": ("itself", (ONE, ONE), {}),
    "unknown keyword": ("keywords", (ONE,), {"a": ONE, "c": ONE}),
    "missing keyword": ("keywords", (ONE,), {}),
    "keyword by position": ("keywords", (ONE, TWO), {}),
    "tensor for a list": ("lists", (ONE,), {}),
    "number for a tensor": ("itself", (1,), {}),
    "None for a tensor": ("itself", (None,), {}),
    "another number": ("constants", (ONE, 4, 0.5, True, "text"), {}),
    "another float": ("constants", (ONE, 3, 0.25, True, "text"), {}),
    "another truth value": ("constants", (ONE, 3, 0.5, False, "text"), {}),
    "another string": ("constants", (ONE, 3, 0.5, True, "other"), {}),
    "string for a number": ("constants", (ONE, "3", 0.5, True, "text"), {}),
    "tensor of another size": ("itself", (torch.ones(3),), {}),
    "scalar": ("itself", (torch.tensor(1.0),), {}),
    "size inside": ("deep", ({"a": [({"b": (torch.ones(3),)},)]},), {}),
    "structure inside": ("deep", ({"a": [({"b": [ONE]},)]},), {}),
    "item inside": ("mixed_list", ([ONE, (TWO,), {"k": ONE}, 3],), {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_refuses_is_refused(name, program):
    stem, args, kwargs = REFUSED[name]
    module, expected = program(stem)
    with pytest.raises(
        (ValueError, TypeError, RuntimeError, AssertionError, LookupError, AttributeError)
    ):
        expected(*args, **kwargs)
    with pytest.raises((CallError, RuntimeError)):
        module(*args, **kwargs)


@pytest.mark.parametrize(
    ("stem", "args", "kwargs", "message"),
    [
        ("tuples", ([ONE, (TWO, THREE)],), {}, r"expects a tuple for x, not list"),
        (
            "deep",
            ({"a": [({"b": [ONE]},)]},),
            {},
            r"a tuple for x\['a'\]\[0\]\[0\]\['b'\], not list",
        ),
        ("dicts", ({"a": ONE, "c": TWO},), {}, r"the keys \['a', 'b'\] in d, not \['a', 'c'\]"),
        ("ordered", (OrderedDict(b=TWO, a=ONE),), {}, r"keys \['a', 'b'\] in d in this order"),
        ("lists", ([ONE],), {}, r"expects 2 items in xs, not 1"),
        (
            "named",
            ((ONE, TWO),),
            {},
            r"named tuple pt2inputs.Pair with the fields one, other for p",
        ),
        ("nested_named", (Pair(Pair(ONE, 1), TWO),), {}, r"Tensor for p\.one\.other, not int"),
        ("itself", (torch.ones(3),), {}, r"x must have the size \[2\], but has \[3\]"),
        ("constants", (ONE, 4, 0.5, True, "text"), {}, r"number must be 3, but is 4"),
        ("constants", (ONE, 3, 0.5, True, "x"), {}, r"text must be 'text', but is x"),
        ("keywords", (ONE,), {}, r"is missing the argument 'a'"),
        ("keywords", (ONE,), {"a": ONE, "c": ONE}, r"has no argument 'c'"),
        ("itself", (ONE,), {"x": ONE}, r"was given the argument 'x' twice"),
        ("itself", (ONE, ONE), {}, r"takes 1 positional arguments, 2 were given"),
    ],
)
def test_errors_say_which_argument_and_what_was_expected(stem, args, kwargs, message, program):
    if "named" in stem and TORCH < (2, 8):
        pytest.skip("programs of torch 2.7 and older do not name the fields of named tuples")
    module, _ = program(stem)
    with pytest.raises((CallError, RuntimeError), match=message):
        module(*args, **kwargs)


def test_the_number_of_dimensions_is_checked(program):
    """torch checks it where the file holds no sample inputs only."""
    module, _ = program("itself")
    with pytest.raises(RuntimeError, match=r"x must have the size \[2\], but has \[2, 1\]"):
        module(torch.ones(2, 1))


def test_positional_arguments_may_be_named(program):
    module, _ = program("keywords")
    assert torch.equal(module(x=TWO, a=ONE), ONE)
    assert torch.equal(module(a=ONE, x=TWO), ONE)


def test_named_tuples_of_other_classes_with_the_same_fields(program):
    class Other(NamedTuple):
        one: object
        other: object

    module, _ = program("named")
    assert_equal(module(Other(ONE, TWO)), Pair(TWO, TWO))


@takes_trees_apart
def test_named_tuples_that_are_not_registered_are_made(program, monkeypatch):
    module, _ = both(*PROGRAMS["named"])
    monkeypatch.delitem(pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE, "pt2inputs.Pair")
    made = module(Pair(ONE, TWO))
    assert type(made).__name__ == "Pair"
    assert made._fields == ("one", "other")
    assert torch.equal(made.one, TWO)


def test_objects_must_be_registered(program, monkeypatch):
    module, _ = both(*PROGRAMS["box"])
    monkeypatch.delitem(pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE, "pt2inputs.Box")
    with pytest.raises(UnsupportedError, match=r"pt2inputs.Box, which is not registered"):
        module(Box(ONE))


def test_arguments_are_changed_in_place():
    def change(self, x, pair):
        x.add_(1)
        pair[0].mul_(2)
        return x + pair[0]

    module, expected = both(change, (torch.ones(2), (torch.ones(2), torch.ones(2))))
    for call in (module, expected):
        x, pair = torch.zeros(2), (torch.ones(2), torch.ones(2))
        assert torch.equal(call(x, pair), THREE)
        assert torch.equal(x, ONE)
        assert torch.equal(pair[0], TWO)


def test_a_result_that_is_an_argument_is_the_same_tensor(program):
    module, _ = program("itself")
    x = torch.ones(2)
    assert module(x) is x


@takes_trees_apart
def test_the_module_is_compiled_with_nested_arguments(program):
    for name in ("deep", "mixed_list", "keywords", "named", "ordered", "queue"):
        module, expected = program(name)
        _, args, kwargs = PROGRAMS[name]
        compiled = torch.compile(module, backend="eager")
        assert_equal(compiled(*args, **kwargs), expected(*args, **kwargs))


def test_the_module_is_exported_with_nested_arguments(program):
    for name in ("deep", "mixed_list", "keywords", "named"):
        module, expected = program(name)
        _, args, kwargs = PROGRAMS[name]
        again = torch.export.export(module, args, kwargs)
        assert_equal(again.module()(*args, **kwargs), expected(*args, **kwargs))
