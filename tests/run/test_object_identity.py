"""``is`` on values that torch makes anew, where Python has one object for many.

Each snippet runs in torch.jit several times, with its optimiser and without. Where all agree,
tsarchive agrees with them; where they differ, it does what torch does without its optimiser.
"""

from __future__ import annotations

import copy
import enum
import inspect
import io
import math
import sys
from typing import Any, Optional

import pytest
import torch

import tsarchive
from tests.support.archives import torch_loaded, torch_saved
from tests.support.registry_calls import archive_of
from tsarchive.policy import Policy
from tsarchive.run.own_objects import own_member, own_text, own_value

HEADER = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
HELPERS = {
    "passed": ("a: str", "return a"),
    "constant": ("", "return 'x'"),
    "are_same": ("a: str, b: str", "return torch.__is__(a, b)"),
    "is_x": ("a: str", "return torch.__is__(a, 'x')"),
    "first": ("l: List[str]", "return l[0]"),
    "defaulted": ("a: str='x'", "return torch.__is__(a, 'x')"),
    "picked": ("a: str, b: str, c: bool", "if c:\n  d = a\nelse:\n  d = b\nreturn d"),
}
# Parameters, body and arguments. "x" stands for a string of one character and one of several.
STRINGS = {
    "argument and constant": ("a: str", "return torch.__is__(a, 'x')", "x"),
    "constant and argument": ("a: str", "return torch.__isnot__('x', a)", "x"),
    "itself": ("a: str", "return torch.__is__(a, a)", "x"),
    "two arguments": ("a: str, b: str", "return torch.__is__(a, b)", "x", "x"),
    "two constants": ("", "return torch.__is__('x', 'x')"),
    "two constants, negated": ("", "return torch.__isnot__('x', 'x')"),
    "a constant with a name": ("", "a = 'x'\nreturn torch.__is__(a, a)"),
    "a condition of constants": (
        "", "if torch.__is__('x', 'x'):\n  r = 1\nelse:\n  r = 2\nreturn r",
    ),
    "constants that are computed": (
        "",
        "return [torch.__is__(torch.add('a', 'b'), 'ab'), torch.__is__(str(3), '3')]",
    ),
    "results": (
        "a: str",
        "return [torch.__is__(torch.add(a, ''), a), torch.__is__(torch.strip(a), a), "
        "torch.__is__(torch.join('', [a]), a), torch.__is__(torch.format('{}', a), a)]",
        "x",
    ),
    "no result": ("a: str", "return torch.__is__(str(a), a)", "x"),
    "characters": ("a: str", "return torch.__is__(torch.list(a)[0], torch.list(a)[1])", "xx"),
    "characters one by one": (
        "a: str",
        "r = annotate(List[bool], [])\np = a\nfor i in range(torch.len(a)):\n  q = a[i]\n"
        "  _0 = torch.append(r, torch.__is__(p, q))\n  p = q\nreturn r",
        "xxx",
    ),
    "a list of results": (
        "a: str",
        "l = [torch.lower(a), torch.lower(a)]\nm = torch.split(a, ' ')\n"
        "return [torch.__is__(l[0], a), torch.__is__(m[0], a), torch.__is__(m[0], m[-1])]",
        "x x",
    ),
    "an item": ("a: str", "l = [a]\nreturn torch.__is__(l[0], a)", "x"),
    "items": (
        "l: List[str]",
        "return [torch.__is__(l[0], l[0]), torch.__is__(l[0], l[1]), torch.__is__(l[1], l[-1]), "
        "torch.__is__(l[0], 'x')]",
        ["x", "x"],
    ),
    "all items": (
        "l: List[str]",
        "r = annotate(List[bool], [])\nfor i in range(torch.len(l)):\n"
        "  _0 = torch.append(r, torch.__is__(l[i], l[0]))\nreturn r",
        ["x", "x", "y"],
    ),
    "items and an argument": (
        "l: List[str], a: str",
        "_0 = torch.append(l, a)\nr = annotate(List[bool], [])\nfor i in range(torch.len(l)):\n"
        "  _1 = torch.append(r, torch.__is__(l[i], a))\nreturn r",
        ["x", "y"], "x",
    ),
    "neighbours": (
        "l: List[str]",
        "r = annotate(List[bool], [])\np = ''\nfor i in range(torch.len(l)):\n  s = l[i]\n"
        "  _0 = torch.append(r, torch.__is__(s, p))\n  p = s\nreturn r",
        ["x", "x"],
    ),
    "lists of lists": (
        "l: List[List[str]]",
        "return [torch.__is__(l[0][0], l[1][0]), torch.__is__(l[0][0], l[0][0])]",
        [["x"], ["x"]],
    ),
    "joined lists": (
        "l: List[str]",
        "m = torch.add(l, l)\nreturn [torch.__is__(m[0], m[2]), torch.__is__(m[0], m[1]), "
        "torch.__is__(torch.slice(l, 0, 1, 1)[0], l[0])]",
        ["x", "x"],
    ),
    "sorted and popped": (
        "l: List[str]",
        "a = l[0]\nb = torch.sorted(l)[0]\nreturn [torch.__is__(a, b), "
        "torch.__is__(torch.pop(l, 0), a)]",
        ["x", "y"],
    ),
    "values of a dict": (
        "d: Dict[str, str]",
        "return [torch.__is__(d['a'], d['a']), torch.__is__(d['a'], d['x'])]",
        {"a": "x", "x": "x"},
    ),
    "keys and values": (
        "d: Dict[str, str]",
        "k, v = torch.items(d)[0]\n"
        "return [torch.__is__(k, v), torch.__is__(torch.keys(d)[0], k), torch.__is__(d[k], v)]",
        {"x": "x"},
    ),
    "a key that is there": (
        "a: str, b: str",
        "d = {a: 1}\nd[b] = 2\nk = torch.keys(d)[0]\n"
        "return [torch.__is__(k, a), torch.__is__(k, b)]",
        "x", "x",
    ),
    "a tuple that is made": (
        "a: str",
        "p = (a, 'x')\nq, r = p\n"
        "return [torch.__is__(q, a), torch.__is__(r, 'x'), torch.__is__(q, r), "
        "torch.__is__((p)[0], q)]",
        "x",
    ),
    "a tuple that is given": (
        "p: Tuple[str, str]",
        "q, r = p\nreturn [torch.__is__(q, r), torch.__is__(q, 'x'), torch.__is__((p)[0], q)]",
        ("x", "x"),
    ),
    "a branch": (
        "a: str, c: bool",
        "if c:\n  b = a\nelse:\n  b = 'x'\nreturn [torch.__is__(b, a), torch.__is__(b, 'x')]",
        "x", True,
    ),
    "the other branch": (
        "a: str, c: bool",
        "if c:\n  b = a\nelse:\n  b = 'x'\nreturn [torch.__is__(b, a), torch.__is__(b, 'x')]",
        "x", False,
    ),
    "branches of constants": (
        "c: bool",
        "if c:\n  b = 'x'\nelse:\n  b = 'y'\nreturn [torch.__is__(b, 'x'), torch.__is__(b, 'y')]",
        True,
    ),
    "a loop": (
        "a: str",
        "b = a\nr = annotate(List[bool], [])\nfor i in range(3):\n"
        "  _0 = torch.append(r, torch.__is__(a, b))\n  b = torch.add(b, 'x')\nreturn r",
        "x",
    ),
    "passed through a call": ("a: str", "return torch.__is__((self).passed(a, ), a)", "x"),
    "a constant of a call": ("", "return torch.__is__((self).constant(), 'x')"),
    "given to a call": (
        "a: str, b: str",
        "return [(self).are_same(a, a, ), (self).are_same(a, b, ), (self).is_x(a, ), "
        "(self).is_x('x', )]",
        "x", "x",
    ),
    "taken by a call": (
        "l: List[str]",
        "a = (self).first(l, )\n"
        "return [torch.__is__(a, l[0]), torch.__is__(a, l[1]), torch.__is__(a, 'x')]",
        ["x", "x"],
    ),
    "picked by a call": (
        "a: str, b: str",
        "c = (self).picked(a, b, False, )\nd = (self).picked(a, b, torch.eq(a, b), )\n"
        "return [torch.__is__(c, b), torch.__is__(c, a), torch.__is__(d, b), torch.__is__(d, a)]",
        "x", "x",
    ),
    "a default": ("", "return (self).defaulted()"),
    "any": (
        "a: Any, b: Any",
        "return [torch.__is__(a, b), torch.__is__(a, 'x'), torch.__is__(a, a)]",
        "x", "x",
    ),
    "optional": (
        "a: Optional[str], b: Optional[str]",
        "return [torch.__is__(a, b), torch.__is__(a, 'x'), torch.__is__(a, None)]",
        "x", "x",
    ),
    "optional, and left out": (
        "a: Optional[str], b: Optional[str]", "return torch.__is__(a, b)", None, None,
    ),
    "in a fork": (
        "a: str, b: str",
        "def __forked_function():\n  return torch.__is__(a, b)\n"
        "return torch.wait(fork(__forked_function))",
        "x", "x",
    ),
}  # fmt: skip
OPTIMISED = {
    "a result twice": ("a: str", "return torch.__is__(torch.lower(a), torch.lower(a))", "x"),
    "a number twice": ("n: int", "return torch.__is__(str(n), str(n))", 3),
    "a constant in a list": ("", "l = ['x']\nreturn torch.__is__(l[0], 'x')"),
    "a constant in a dict": ("", "d = {'a': 'x'}\nreturn torch.__is__(d['a'], 'x')"),
    "a constant of two calls": ("", "return torch.__is__((self).constant(), (self).constant())"),
    "a constant given twice": ("", "return (self).are_same('x', 'x', )"),
    "a tuple twice": ("n: int", "a = (n, 2)\nb = (n, 2)\nreturn torch.__is__(a, b)", 3),
    "a sum twice": ("z: complex", "return torch.__is__(torch.add(z, 1), torch.add(z, 1))", 2j),
}
# torch has two objects, Python one; Python 3.10 can have two empty tuples.
ONE_OBJECT = {
    "empty strings": ("a: List[str]", "return torch.__is__(a[0], a[1])", ["", ""]),
    "empty tuples": ("a: List[Tuple[()]]", "return torch.__is__(a[0], a[1])", [(), ()]),
    "tuples of constants": ("", "return torch.__is__((1, 2), (1, 2))"),
    "sorted strings": ("a: List[str]", "return torch.__is__(torch.sorted(a)[0], a[1])", ["y", "x"]),
}
VALUES = {
    "complex": 2j,
    "number": 2j,
    "Union[complex, int]": 2j,
    "int": 2**40,
    "float": 0.5,
    "bool": True,
    "Device": torch.device("cpu"),
    "Tensor": torch.ones(2),
    "List[int]": [1],
    "Dict[str, int]": {"a": 1},
    "Tuple[int, int]": (1, 2),
    "Optional[Tuple[int, int]]": (1, 2),
    "Tuple[str, Tensor]": ("x", torch.ones(1)),
    "Generator": torch.Generator(),
    "Any": (1, "x"),
}
OF_VALUES = {
    "itself": ("a: {0}", "return torch.__is__(a, a)", 1),
    "two": ("a: {0}, b: {0}", "return torch.__is__(a, b)", 2),
    "items": (
        "a: {0}, b: {0}",
        "l = [a, b, a]\nreturn [torch.__is__(l[0], l[1]), torch.__is__(l[0], l[2])]",
        2,
    ),
    "a branch": (
        "a: {0}, b: {0}",
        "if torch.__is__(a, b):\n  c = a\nelse:\n  c = b\n"
        "return [torch.__is__(a, c), torch.__is__(b, c)]",
        2,
    ),
    "as any": ("a: {0}", "b = annotate(Any, a)\nreturn torch.__is__(a, b)", 1),
}
NUMBERS = {
    "nan": ("a: float, b: Any", "return [torch.__is__(a, a), torch.__is__(b, b)]", *2 * [math.nan]),
    "zeros": ("a: float, b: float", "return torch.__is__(a, b)", 0.0, -0.0),
    "other types": (
        "a: Any, b: Any, c: Any",
        "return [torch.__is__(a, b), torch.__is__(b, c), torch.__is__(a, c)]",
        1, 1.0, True,
    ),
    "constants": (
        "",
        "return [torch.__is__(2j, 2j), torch.__is__(2., 2.), torch.__is__(1, 1), "
        "torch.__is__(1, 1.), torch.__is__(None, None)]",
    ),
    "passed on": ("z: complex", "return torch.__is__(complex(z), z)", 2j),
}  # fmt: skip


def code_of(signature: str, body: str, name: str = "f") -> str:
    """A method of an archive."""
    parameters = ", ".join(filter(None, ["self: __torch__.M", signature]))
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"  def {name}({parameters}):\n{lines}"


SHARED = "".join(code_of(*text, name=name) for name, text in HELPERS.items())


def ours(data: bytes) -> Any:
    return tsarchive.load(io.BytesIO(data), policy=Policy.trusted())


def check(data: bytes, *arguments: Any, name: str = "f", differs: bool = False) -> None:
    """Compare a method with torch's; ``differs`` where torch's optimiser changes the result."""
    calls = [copy.deepcopy(arguments) if differs else arguments for _ in range(4)]
    optimised = _results(torch_loaded(data), name, calls)
    with torch.jit.optimized_execution(False):
        plain = _results(torch_loaded(data), name, calls)
    assert (optimised != plain) is differs, (optimised, plain)
    assert _results(ours(data), name, calls) == plain


def _results(module: Any, name: str, calls: list[tuple[Any, ...]]) -> list[Any]:
    return [getattr(module, name)(*arguments) for arguments in calls]


@pytest.mark.parametrize("text", ["x", "word", "two words", "é"])
@pytest.mark.parametrize("snippet", STRINGS.values(), ids=STRINGS)
def test_strings(snippet, text):
    signature, body, *arguments = snippet
    code = (SHARED + code_of(signature, body)).replace("'x'", repr(text))
    check(archive_of(HEADER + code), *(_with(text, argument) for argument in arguments))


def _with(text: str, value: Any) -> Any:
    """``value`` with ``text`` in the place of every "x"."""
    match value:
        case str():
            return value.replace("x", text)
        case list() | tuple():
            return type(value)(_with(text, item) for item in value)
        case dict():
            return {_with(text, key): _with(text, item) for key, item in value.items()}
    return value


@pytest.mark.parametrize("snippet", OPTIMISED.values(), ids=OPTIMISED)
def test_what_the_optimiser_changes(snippet):
    signature, body, *arguments = snippet
    check(archive_of(HEADER + SHARED + code_of(signature, body)), *arguments, differs=True)


@pytest.mark.parametrize("name", ONE_OBJECT)
def test_what_python_has_one_of(name):
    if name == "empty tuples" and sys.version_info < (3, 11):
        pytest.skip("this Python makes two")
    snippet = ONE_OBJECT[name]
    signature, body, *arguments = snippet
    data = archive_of(HEADER + code_of(signature, body))
    assert (torch_loaded(data).f(*arguments), ours(data).f(*arguments)) == (False, True)


@pytest.mark.parametrize("snippet", OF_VALUES.values(), ids=OF_VALUES)
@pytest.mark.parametrize("type_", VALUES)
def test_values(type_, snippet):
    """The same object is given for all arguments, which torch copies or not."""
    signature, body, count = snippet
    data = archive_of(HEADER + code_of(signature.format(type_), body))
    check(data, *[VALUES[type_]] * count)


@pytest.mark.parametrize("snippet", NUMBERS.values(), ids=NUMBERS)
def test_numbers(snippet):
    signature, body, *arguments = snippet
    check(archive_of(HEADER + code_of(signature, body)), *arguments)


@torch.jit.interface
class Comparing(torch.nn.Module):
    def are_same(self, a: str, b: str) -> bool:
        pass


class Compares(torch.nn.Module):
    @torch.jit.export
    def are_same(self, a: str, b: str) -> bool:
        return a is b

    def forward(self, x: int) -> int:
        return x


class Asks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.asked = Compares()

    def forward(self, a: str, b: str) -> list[bool]:
        return [self.asked.are_same(a, b), self.asked.are_same(a, a)]


Asks.__annotations__ = {"asked": Comparing}  # as text, torch does not find it


def test_methods_of_interfaces():
    check(torch_saved(torch.jit.script(Asks())), "x", "x", name="forward")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Named(enum.Enum):
    A = "a"
    B = "b"


class Scripted(torch.nn.Module):
    """A method for each comparison of members, and of strings in attributes."""

    def __init__(self):
        super().__init__()
        self.color = self.other_color = Color.RED
        self.one, self.two = "x", "x"
        self.long, self.longer = "word", "word"
        self.texts = ["word", "word", "x", "x"]
        self.pair = ("word", "x")
        self.table = {"word": "word"}
        self.number, self.numbers = 2j, [2j, 2j]

    def same(self, a: Color, b: Color) -> bool:
        return a is b

    def passed(self, a: Color) -> Color:
        return a

    def red(self) -> Color:
        return Color.RED

    def is_red(self, a: Color) -> bool:
        return a is Color.RED

    def is_attribute(self, a: str) -> bool:
        return a is self.long

    @torch.jit.export
    def constants(self, a: Color):
        return [a is Color.RED, Color.RED is a, Color.RED is Color.RED, Color.RED is Color.BLUE]

    @torch.jit.export
    def variable(self, a: Color):
        b = Color.RED
        return [b is b, a is a, b is a]

    @torch.jit.export
    def arguments(self, a: Color, b: Color):
        return [a is b, a is not b]

    @torch.jit.export
    def over_class(self, a: Color):
        found: list[bool] = []
        for c in Color:
            found.append(c is a)
            found.append(c is Color.RED)
        return found

    @torch.jit.export
    def over_list(self, colors: list[Color]):
        found: list[bool] = []
        for c in colors:
            found.append(c is colors[0])
            found.append(c is Color.RED)
        return found

    @torch.jit.export
    def in_list(self, a: Color, i: int):
        colors = [a, Color.RED]
        return [colors[i] is a, colors[i] is Color.RED, colors[i] == a]

    @torch.jit.export
    def in_dict(self, colors: dict[str, Color]):
        return [colors["a"] is colors["b"], colors["a"] is colors["a"], colors["a"] == colors["b"]]

    @torch.jit.export
    def in_tuple(self, colors: tuple[Color, Color]):
        return [colors[0] is colors[1], colors[0] is colors[0], colors[0] is Color.RED]

    @torch.jit.export
    def branches(self, a: Color, choice: bool):
        b = a if choice else Color.RED
        c = Color.RED if choice else Color.BLUE
        return [b is a, b is Color.RED, c is Color.RED, b == a, a != Color.RED]

    @torch.jit.export
    def calls(self, a: Color, b: Color):
        passed = [self.passed(a) is a, self.passed(Color.RED) is Color.RED]
        made = [self.red() is Color.RED, self.red() is self.red(), self.red() is a]
        given = [self.same(a, b), self.same(a, a), self.same(Color.RED, Color.RED)]
        return passed + made + given + [self.same(a, Color.RED), self.is_red(a)]

    @torch.jit.export
    def attribute(self, a: Color):
        return [self.color is self.color, self.color is a, self.color is Color.RED]

    @torch.jit.export
    def attributes(self):
        return self.color is self.other_color

    @torch.jit.export
    def set_attribute(self, a: Color):
        self.color = a
        return [self.color is a, self.color is self.color, self.color == Color.RED]

    @torch.jit.export
    def optional(self, a: Optional[Color], b: Optional[Color]):  # noqa: UP045
        return [a is Color.RED, a is b]

    @torch.jit.export
    def values(self, a: Named):
        text, name = "a", "A"
        return [a.value is a.value, a.value is text, Named.A.value is a.value, a.name is name]

    @torch.jit.export
    def names_of_class(self, a: Named):
        found: list[bool] = []
        text = "a"
        for c in Named:
            found.append(c.value is text)
            found.append(c.value is a.value)
        return found

    @torch.jit.export
    def returned(self, colors: list[Color]):
        if colors[0] is colors[1]:
            return colors
        return [colors[1], colors[0]]

    @torch.jit.export
    def strings(self, a: str):
        x, word = "x", "word"
        same = [self.one is self.one, self.one is self.two, self.long is self.longer]
        same += [self.one is a, self.long is a, self.long is word, self.one is x]
        return same

    @torch.jit.export
    def strings_of_containers(self, a: str):
        x, keys = "x", list(self.table.keys())
        same = [self.texts[0] is self.texts[1], self.texts[2] is self.one, self.texts[2] is x]
        same += [self.pair[0] is self.long, self.pair[0] is a]
        same += [self.table["word"] is self.long, keys[0] is a]
        return same

    @torch.jit.export
    def strings_in_calls(self, a: str):
        return [self.is_attribute(a), self.is_attribute(self.long), self.is_attribute(self.one)]

    @torch.jit.export
    def set_string(self, a: str):
        self.one = a
        return [self.one is a, self.two is a, self.one is self.one, self.one is self.two]

    @torch.jit.export
    def set_constant(self, a: str):
        x = "x"
        self.one = x
        return [self.one is x, self.two is x, self.one is a]

    @torch.jit.export
    def complex_numbers(self, z: complex):
        same = [self.numbers[0] is self.numbers[1], self.numbers[0] is self.numbers[0]]
        same += [self.number is self.number, self.number is z]
        return same


CALLS = {
    "constants": (Color.RED,),
    "variable": (Color.RED,),
    "arguments": (Color.RED, Color.RED),
    "over_class": (Color.RED,),
    "over_list": ([Color.RED, Color.BLUE, Color.RED],),
    "in_list": (Color.RED, 0),
    "in_dict": ({"a": Color.RED, "b": Color.RED},),
    "in_tuple": ((Color.RED, Color.RED),),
    "branches": (Color.RED, True),
    "calls": (Color.RED, Color.RED),
    "attribute": (Color.RED,),
    "set_attribute": (Color.RED,),
    "optional": (Color.RED, Color.RED),
    "values": (Named.A,),
    "names_of_class": (Named.A,),
    "strings": ("x",),
    "strings_of_containers": ("word",),
    "strings_in_calls": ("word",),
    "set_string": ("x",),
    "set_constant": ("x",),
    "complex_numbers": (2j,),
}


@pytest.fixture(scope="module")
def scripted() -> bytes:
    return torch_saved(torch.jit.script(Scripted()))


@pytest.mark.parametrize("name", CALLS)
def test_members_and_attributes(scripted, name):
    check(scripted, *CALLS[name], name=name)


def test_other_choices(scripted):
    check(scripted, Color.RED, False, name="branches")
    check(scripted, Color.BLUE, False, name="branches")
    check(scripted, Color.RED, 1, name="in_list")
    check(scripted, None, None, name="optional")


def test_members_in_attributes_are_those_that_python_knows(scripted):
    assert (torch_loaded(scripted).attributes(), ours(scripted).attributes()) == (False, True)
    module = ours(scripted)
    assert module.color is type(module.color).RED


def test_results_are_members_that_python_knows(scripted):
    module = ours(scripted)
    (first, second) = module.returned([Color.RED, Color.BLUE])
    class_ = type(first)
    assert [first, second] == [class_.BLUE, class_.RED]
    assert first is class_["BLUE"]
    module.set_attribute(Color.BLUE)
    assert module.color == class_.BLUE
    assert module.passed(module.color) is class_.BLUE
    assert copy.deepcopy(module).color == class_.BLUE
    assert saved_again(module).color.name == "BLUE"


def saved_again(module: Any) -> Any:
    """The module after a way through an archive."""
    data = io.BytesIO()
    tsarchive.save(module, data)
    return tsarchive.load(io.BytesIO(data.getvalue()))


def test_what_compares_nothing_is_not_touched():
    text = code_of("a: str, b: str", "return torch.format('{}', torch.add(a, 'x'))")
    method = ours(archive_of(HEADER + text)).f
    assert "own" not in inspect.getsource(method)
    given = "word"
    assert ours(archive_of(HEADER + code_of("a: str", "return a"))).f(given) is given


def test_own_objects():
    word = "word"
    texts = [word, "x", "é", "two words"]
    assert [own_text(text) for text in texts] == texts
    assert not any(own_text(text) is text or own_text(text) is own_text(text) for text in texts)
    number = complex(-0.0, math.nan)
    assert repr(own_value(number)) == repr(number)
    assert own_value(number) is not number
    nested = own_value({"a": [("x", 1, None, torch.ones(1))]})
    assert nested["a"][0][:3] == ("x", 1, None)


def test_own_members_equal_each_other():
    class Kind(enum.Enum):
        A = 1
        B = 2

    one, two = own_member(Kind.A), own_member(Kind.A)
    assert one == two == Kind.A != own_member(Kind.B)
    assert one is not two
    assert {one: 1}[Kind.A] == 1
    assert (one.name, one.value, str(one)) == ("A", 1, str(Kind.A))
