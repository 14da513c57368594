"""Natives of values of any type, of control, and the results that come later."""

import enum
import math
import warnings

import pytest
import torch

from tests.natives.oracle import Failed, by_native, by_operator, by_script, check_script
from tsarchive.errors import ArchiveError, ScriptError
from tsarchive.run.natives import NATIVES, Awaitable, Future
from tsarchive.run.natives.table import native

PAIRS = [
    *((1, 1), (1, 2), (2**40, 2**40), (1.5, 1.5), (0.0, -0.0), (1, True), (1, 1.0)),
    *((torch.device("cpu"), torch.device("cpu")), (torch.device("cpu"), torch.device("meta"))),
    *(([1], [1]), ({1: 2}, {1: 2}), (torch.ones(1), torch.ones(1)), (None, 1), (1, None)),
]


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=repr)
def test_identity(a, b):
    types = ["Optional[int]" if value is None or [a, b].count(None) else "" for value in (a, b)]
    options = {"types": tuple(types)} if any(types) else {}
    check_script("aten::__is__", a, b, **options)
    check_script("aten::__isnot__", a, b, **options)


def test_identity_of_one_object():
    for value in ([1], {}, torch.ones(1), None, (1,), "text", True):
        assert NATIVES["aten::__is__"](value, value)
        assert not NATIVES["aten::__isnot__"](value, value)


@pytest.mark.parametrize("other", ["cpu", "cuda:1", "cuda:0", "cuda"])
@pytest.mark.parametrize("key", ["aten::eq.device", "aten::ne.device"])
def test_equal_devices(key, other):
    check_script(key, torch.device("cuda:1"), torch.device(other))


HASHED = [
    *(0, 5, -1, 2**63 - 1, -(2**63), True, 0.0, -0.0, 1.5, -math.inf, "", "abc", "é", "12345678"),
    *("a longer text of more than two blocks", (1, 2), (1, "a"), (), ((1.5,), "x"), (-1, -1)),
    *(torch.device("cpu"), torch.device("cuda:1"), torch.device("meta")),
]


@pytest.mark.parametrize("value", HASHED, ids=repr)
def test_hash(value):
    check_script("aten::hash.generic", value)


def test_hash_of_none_and_tensors():
    assert NATIVES["aten::hash.generic"](None) == 0
    tensor = torch.ones(1)
    assert NATIVES["aten::hash.generic"](tensor) == NATIVES["aten::hash.generic"](tensor)
    assert NATIVES["aten::hash.generic"](tensor) != NATIVES["aten::hash.generic"](torch.ones(1))


@pytest.mark.parametrize("value", [[1], {1: 2}, 1j])
def test_values_that_are_not_hashed(value):
    for outcome in (
        by_native("aten::hash.generic", value),
        by_script("aten::hash.generic", value),
    ):
        assert isinstance(outcome, Failed)
        assert "unhashable type: '" in outcome.message


def test_unwrapping():
    check_script("aten::_unwrap_optional", 3, types=("Optional[int]",))
    unit = torch.jit.CompilationUnit(
        "def run(x: Optional[int]):\n    return torch.ops.aten._unwrap_optional(x)\n"
    )
    with pytest.raises(RuntimeError, match="Unwrapping null optional"):
        unit.run(None)
    assert by_native("aten::_unwrap_optional", None) == Failed("Unwrapping null optional")


@pytest.mark.parametrize(
    "key", ["prim::unchecked_unwrap_optional", "prim::unchecked_cast", "aten::Size"]
)
def test_values_that_pass(key):
    value = [1]
    assert NATIVES[key](value) is value


def test_choices():
    assert NATIVES["prim::IfThenElse"](True, 1, 2) == 1
    assert NATIVES["prim::IfThenElse"](False, 1, 2) == 2
    assert NATIVES["prim::Uninitialized"]() is None


@pytest.mark.parametrize("index", [0, 1, -1, -2, 2, -3])
def test_tuple_items(index):
    arguments = ("prim::TupleIndex", (1, "a"), index)
    assert by_native(*arguments) == by_operator(*arguments)


def test_object_numbers():
    value = [1]
    assert NATIVES["prim::id"](value) == NATIVES["prim::id"](value) != NATIVES["prim::id"]([1])
    assert NATIVES["prim::id"](None) == 0


class Color(enum.Enum):
    RED = 1.5
    BLUE = "b"
    GREEN = 3


def test_enums():
    assert NATIVES["prim::EnumName"](Color.RED) == "RED"
    assert NATIVES["prim::EnumValue.float"](Color.RED) == 1.5
    assert NATIVES["prim::EnumValue.str"](Color.BLUE) == "b"
    assert NATIVES["prim::EnumValue.int"](Color.GREEN) == 3
    assert NATIVES["aten::eq.enum"](Color.RED, Color.RED)
    assert not NATIVES["aten::ne.enum"](Color.RED, Color.RED)


def test_submodules_by_key():
    linear = torch.nn.Linear(1, 1)
    assert NATIVES["prim::ModuleContainerIndex.list"](torch.nn.ModuleList([linear]), 0) is linear
    modules = torch.nn.ModuleDict({"a": linear})
    assert NATIVES["prim::ModuleContainerIndex.dict"](modules, "a") is linear


def test_fork_runs_at_once_and_in_order():
    seen = []
    first, second = Future(seen.append, 1), Future(seen.append, 2)
    assert seen == [1, 2]
    assert NATIVES["aten::wait"](first) is NATIVES["aten::wait"](second) is None
    assert Future(max, 3, 4).wait() == 4


def test_a_failed_fork_raises_at_every_wait():
    future = Future(NATIVES["prim::RaiseException"], "broken", None)
    for _ in range(2):
        with pytest.raises(ScriptError, match="broken"):
            NATIVES["aten::wait"](future)


def test_awaitables_run_once_and_late():
    seen = []
    awaitable = Awaitable(lambda x: seen.append(x) or x, 5)
    assert seen == []
    assert [NATIVES["prim::awaitable_wait"](awaitable) for _ in range(2)] == [5, 5]
    assert seen == [5]
    assert NATIVES["prim::awaitable_nowait"]([1]).wait() == [1]


def test_print(capsys):
    @torch.jit.script
    def shown(x: torch.Tensor):
        print("é", 1.0, [True], x)

    shown(torch.ones(2))
    theirs = capsys.readouterr().out
    NATIVES["prim::Print"]("é", 1.0, [True], torch.ones(2))
    assert capsys.readouterr().out == theirs
    NATIVES["prim::Print"]("\udcff")
    assert capsys.readouterr().out == "\ufffd\n"


def test_warnings_come_once_per_line():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            NATIVES["aten::warn"]("careful", 2)
        NATIVES["aten::warn"]("careful", 2)
    assert [(str(w.message), w.category, w.filename) for w in seen] == [
        ("careful", UserWarning, __file__)
    ] * 2


@pytest.mark.parametrize(
    ("class_name", "expected"),
    [(None, "RuntimeError"), ("builtins.ValueError", "builtins.ValueError")],
)
def test_exceptions_name_their_class(class_name, expected):
    with pytest.raises(ScriptError) as caught:
        NATIVES["prim::RaiseException"]("text", class_name)
    assert (caught.value.message, caught.value.exception) == ("text", expected)


def test_functions_left_out_cannot_be_called():
    with pytest.raises(ScriptError, match="annotated to be ignored"):
        NATIVES["prim::IgnoredPythonOp"](1, 2)


@pytest.mark.parametrize(
    ("key", "arguments", "exception"),
    [
        ("aten::__getitem__.t", ([1], 1), "builtins.IndexError"),
        ("aten::__getitem__.Dict_str", ({}, "z"), "builtins.KeyError"),
        ("aten::index.str", ("a", "b", 0, -1), "builtins.ValueError"),
        ("aten::remainder.int", (1, 0), "builtins.ZeroDivisionError"),
        ("aten::ord", ("ab",), "builtins.TypeError"),
        ("aten::floordiv.int", (-(2**63), -1), "RuntimeError"),
    ],
)
def test_faults_name_the_class_of_python(key, arguments, exception):
    with pytest.raises(ScriptError) as caught:
        NATIVES[key](*arguments)
    assert caught.value.exception == exception


def test_gradient_mode():
    assert NATIVES["aten::is_grad_enabled"]() is True
    with torch.no_grad():
        assert NATIVES["aten::is_grad_enabled"]() is False
        NATIVES["aten::set_grad_enabled"](True)
        assert torch.is_grad_enabled()


def test_code_of_an_archive_knows_that_it_is_scripted():
    assert NATIVES["aten::is_scripting"]() is True
    assert NATIVES["aten::_get_tracing_state"]() is False
    assert NATIVES["aten::has_torch_function"](torch.ones(1)) is False


def test_an_operator_is_defined_once():
    with pytest.raises(ArchiveError, match=r"aten::add\.int is defined twice"):
        native("aten::add.int")(max)
