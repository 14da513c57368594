"""The strategies of ``tsarchive.testing``: what they promise, and how much they cover."""

from __future__ import annotations

import ast

import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from tests.support.random_programs import scripted
from tests.support.suite import examples
from tsarchive.testing import Program, programs, traceable_programs
from tsarchive.testing.drawing import Place, Scope, Statements, _Condition
from tsarchive.testing.vocabulary import TYPES, Hole, Vocabulary, arguments, match, parts, split

SETTINGS = settings(max_examples=examples(100), suppress_health_check=list(HealthCheck))


@pytest.mark.filterwarnings("ignore")  # programs warn as they please
@given(program=programs())
@SETTINGS
def test_torch_takes_every_program(program):
    parameters = scripted(program).forward.schema.arguments[1:]
    assert all(len(inputs) == len(parameters) for inputs in program.inputs)


class Leaving(Statements):
    """Draws one condition, and one way out of the block where it holds."""

    def __init__(self, way: str) -> None:
        super().__init__(lambda strategy: None, Vocabulary())
        self.way = way

    def _condition(self, scope: Scope) -> _Condition:
        return _Condition("isinstance(x, int)", "x", "int", "str")

    def _way_out(self, scope: Scope, place: Place) -> str:
        return self.way


@pytest.mark.whole
@pytest.mark.parametrize("way", ["return 1", "raise ValueError('x')", "break", "continue"])
def test_variables_are_refined_after_a_way_out_as_torch_does_it(way):
    scope = Scope({"x": "Union[int, str]"})
    left = Leaving(way)._exit(scope, Place(1, "int", exits=True, in_loop=True))

    def taken(type_: str) -> bool:
        body = [*left.lines, f"y: {type_} = x"]
        program = Program(
            "\n".join([*_HEADER_OF_A_LOOP, *(f"{' ' * 12}{s}" for s in body), _END]), ()
        )
        try:
            return bool(torch.jit.script(program.module()))
        except RuntimeError:
            return False

    assert taken(scope.types["x"])
    assert taken("str") == (scope.types["x"] == "str")


_HEADER_OF_A_LOOP = (
    "from typing import Union",
    "import torch",
    "class Model(torch.nn.Module):",
    "    def forward(self, x: Union[int, str]) -> int:",
    "        for i in range(3):",
)
_END = "        return 2\n"


@given(program=traceable_programs())
@SETTINGS
def test_traceable_programs_take_and_give_tensors(program):
    forward = program.namespace()["Model"].forward
    kinds = {str(kind) for kind in forward.__annotations__.values()}
    assert all("Tensor" in kind for kind in kinds)
    assert all(isinstance(value, torch.Tensor) for inputs in program.inputs for value in inputs)


CONSTRUCTS = (
    ast.If, ast.IfExp, ast.For, ast.While, ast.Break, ast.Continue, ast.With, ast.Assert,
    ast.Raise, ast.AugAssign, ast.AnnAssign, ast.Delete, ast.Starred, ast.ListComp, ast.DictComp,
    ast.JoinedStr, ast.Slice, ast.Compare, ast.BoolOp, ast.Dict, ast.Tuple, ast.keyword,
    ast.ClassDef, ast.FunctionDef, ast.Return, ast.Attribute,
)  # fmt: skip


def test_every_construct_is_drawn():
    left = set(CONSTRUCTS)

    def has_the_last(program: Program) -> bool:
        left.difference_update(map(type, ast.walk(ast.parse(program.source))))
        return not left

    # Without shrinking: it is enough that there is one of each.
    enough = settings(SETTINGS, phases=[Phase.generate], max_examples=1000)
    find(programs(), has_the_last, settings=enough)


@pytest.mark.sample(2)
@pytest.mark.parametrize("type_", TYPES)
def test_there_are_arguments_of_every_type(type_):
    find(arguments(type_), lambda value: True, settings=SETTINGS)


def test_a_program_is_named_by_its_source_and_never_twice():
    source = "class Model:\n    pass\n"
    one, again = Program(source, ()).module(), Program(source, ()).module()
    other = Program(source + "# other\n", ()).module()
    names = [type(model).__module__ for model in (one, again, other)]
    assert names[1] == f"{names[0]}_2"
    assert not names[2].startswith(names[0])


def test_a_program_shows_its_source():
    assert repr(Program("x = 1\n", ((2,),))) == "Program(((2,),)):\nx = 1\n"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("pass", ("pass",)),
        ("(1 < <int>)", ("(1 < ", Hole("", "int", "", None), ")")),
        ("<=List[int]>[0]", ("", Hole("=", "List[int]", "", None), "[0]")),
        ("<.Optional[str]:v>", ("", Hole(".", "Optional[str]", "v", None), "")),
        ("<:v>", ("", Hole("", "", "v", None), "")),
        ("[<float|i:int>]", ("[", Hole("", "float", "", ("i", "int")), "]")),
    ],
)
def test_forms(form, expected):
    assert parts(form) == expected


@pytest.mark.parametrize(
    ("pattern", "type_", "expected"),
    [
        ("T", "int", {"T": "int"}),
        ("List[T]", "List[Tuple[int, str]]", {"T": "Tuple[int, str]"}),
        ("Dict[str, T]", "Dict[str, List[int]]", {"T": "List[int]"}),
        ("Dict[str, T]", "Dict[int, Tensor]", None),
        ("Tuple[T, U]", "Tuple[int, Tuple[float, str]]", {"T": "int", "U": "Tuple[float, str]"}),
        ("List[T]", "int", None),
        ("T", "Union[int, str]", None),
    ],
)
def test_patterns(pattern, type_, expected):
    assert match(pattern, type_) == expected


@given(st.sampled_from(TYPES))
def test_a_type_is_split_into_its_arguments(type_):
    head, inner = split(type_)
    assert (f"{head}[{', '.join(inner)}]" if inner else head) == type_
