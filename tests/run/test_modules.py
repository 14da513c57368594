"""Modules and objects of an archive as Python objects."""

from __future__ import annotations

import copy
import threading

import pytest
import torch

import tsarchive
from tests.support.comparing import equal
from tests.support.running import Graph, constant, hand_written, method, operator, our_module
from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import Attribute, ClassType
from tsarchive.ir.types import BOOL, INT, NONE, STRING, TENSOR, EnumType, OptionalType, TupleType
from tsarchive.run.classes import Classes
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.objects import new_object
from tsarchive.run.slots import SlotKind, get_slot, set_slot, slot_kind


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.seen = [0]

    def forward(self, x: torch.Tensor, items: list[int]):
        self.seen.append(len(items))
        items.append(1)
        return x * self.weight

    @torch.jit.export
    def count(self) -> int:
        return len(self.seen)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.flat = [self.inner.weight]
        self.register_buffer("total", torch.zeros(1))
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor):
        items = [5]
        y = self.inner(x, items)
        self.total += 1
        return self.drop(y) + len(items) + self.flat[0]


@pytest.fixture
def theirs():
    return torch.jit.script(Net())


@pytest.fixture
def mine(theirs):
    return our_module(theirs)


X = torch.tensor([1.0, 2.0])


def called(module, x=X):
    torch.manual_seed(1)
    return module(x)


def test_class_names(mine):
    assert (type(mine).__name__, type(mine.inner).__name__) == ("Net", "Inner")
    assert type(mine).__module__ == "__torch__.tests.run.test_modules"
    assert isinstance(mine, ArchiveModule)
    assert "(inner): Inner()" in repr(mine)


def test_mode_and_state(theirs, mine):
    for mode in (True, False):
        assert equal(called(theirs.train(mode)), called(mine.train(mode)))
    assert equal(theirs.total, mine.total)
    assert mine.inner.count() == theirs.inner.count() == 3
    assert list(mine.state_dict()) == list(theirs.state_dict())


def test_a_tensor_in_two_places_stays_one(mine):
    assert mine.flat[0] is mine.inner.weight
    assert isinstance(mine.inner.weight, torch.nn.Parameter)
    called(mine).sum().backward()
    assert mine.inner.weight.grad is not None
    mine.double()
    assert called(mine, X.double()).dtype == torch.float64
    other = copy.deepcopy(mine)
    assert other.flat[0] is other.inner.weight is not mine.inner.weight


def test_hooks_of_python_see_internal_calls_and_share_containers(mine):
    mine.eval()
    plain = called(mine)
    log = []
    handles = [
        mine.inner.register_forward_pre_hook(lambda module, args: log.append(len(args))),
        mine.inner.register_forward_hook(lambda module, args, result: result * 2),
        mine.drop.register_full_backward_hook(lambda module, *gradients: log.append("backward")),
    ]
    hooked = called(mine)
    assert equal(hooked, plain + X * mine.inner.weight)
    hooked.sum().backward()
    assert log == [2, "backward"]
    for handle in handles:
        handle.remove()
    assert equal(called(mine), plain)
    assert len(log) == 2


def test_global_hooks_see_internal_calls(mine):
    seen = []
    register = torch.nn.modules.module.register_module_forward_hook
    handle = register(lambda module, args, result: seen.append(type(module).__name__))
    called(mine)
    handle.remove()
    assert seen == ["Inner", "Dropout", "Net"]


def test_a_pre_hook_that_fails_leaves_no_trace(mine):
    handle = mine.inner.register_forward_pre_hook(lambda module, args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        called(mine)
    handle.remove()
    with pytest.raises(tsarchive.CallError):
        mine.inner.forward("no tensor", [1])


def test_a_submodule_can_be_replaced(mine):
    class Twice(torch.nn.Module):
        def forward(self, x, items):
            return x * 2

    mine.eval()
    mine.inner = Twice()
    assert equal(called(mine), X * 2 + 1 + mine.flat[0])


def test_a_forward_that_python_replaced_is_called(mine):
    mine.eval()
    mine.inner.forward = lambda x, items: x * 3
    assert equal(called(mine), X * 3 + 1 + mine.flat[0])


def test_first_calls_from_many_threads(theirs):
    mine = our_module(theirs.eval())
    results: list[torch.Tensor] = []
    start = threading.Barrier(8)

    def run():
        start.wait()
        results.append(mine(X))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(equal(result, results[0]) for result in results)


def test_export_and_compile(mine):
    mine.eval()
    expected = called(mine)
    compiled = torch.compile(mine, backend="eager")
    assert equal(called(compiled), expected)

    class Pure(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())

        def forward(self, x):
            return self.layers(x)

    pure = our_module(torch.jit.script(Pure()))
    exported = torch.export.export(pure, (X,)).module()
    assert equal(exported(X), pure(X))
    assert equal(torch.compile(pure, backend="eager", fullgraph=True)(X), pure(X))


class Hooked(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x + 1


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hooked = Hooked()

    def forward(self, x: torch.Tensor):
        return self.hooked(x)


def before(self, input: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    return (input[0] * 10,)


def after(self, input: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
    return output + input[0] * 100


def hooked_module() -> torch.nn.Module:
    module = Outer()
    for each in (module, module.hooked):
        each.register_forward_pre_hook(before)
        each.register_forward_hook(after)
    return torch.jit.script(module)


@pytest.mark.parametrize(
    "call",
    [
        lambda module: module(X),
        lambda module: module.forward(X),
        lambda module: module.hooked(X),
        lambda module: module.hooked.forward(X),
    ],
    ids=["call", "forward", "call of a child", "forward of a child"],
)
def test_hooks_of_the_archive_run_as_in_torch(call):
    theirs = hooked_module()
    assert equal(call(theirs), call(our_module(theirs)))


def archive_class(attributes: list[Attribute], *, is_module: bool = True) -> ClassType:
    made = ClassType("__torch__.pkg.Made", is_module=is_module)
    made.attributes.update({attribute.name: attribute for attribute in attributes})
    return made


NAMES = [
    "plain", "training", "_is_full_backward_hook", "forward", "type", "_parameters", "half",
    "__class__", "__dict__", "__private", "class", "x y", "é", "", "a.b", "tsarchive_class",
    "slot:plain", "slot_keys",
]  # fmt: skip


@pytest.mark.parametrize("is_module", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_slot(name, is_module):
    """A slot is found by code and by get_slot, and hides nothing of its class."""
    owner = archive_class([Attribute(name, INT), Attribute("other", INT)], is_module=is_module)
    classes = Classes()
    made = new_object(classes.table.python_class(owner))
    members = dir(type(made))
    set_slot(made, owner.attributes[name], 5)
    set_slot(made, owner.attributes["other"], 6)
    assert get_slot(made, owner.attributes[name]) == 5

    graph = Graph()
    self_value, number = graph.param(owner, "self"), graph.param(INT, "number")
    graph.block.append("prim::SetAttr", [self_value, number], name=name)
    value = graph.block.append("prim::GetAttr", [self_value], name=name).add_output(INT)
    function = graph.function(operator(graph.block, "aten::add.int", value, value))
    assert classes.compiler.function(function)(made, 4) == 8
    assert (get_slot(made, owner.attributes[name]), made.other) == (4, 6)
    assert dir(type(made)) == members
    assert isinstance(made, torch.nn.Module) is is_module


KINDS = [
    (Attribute("a", TENSOR, is_parameter=True), SlotKind.PARAMETER),
    (Attribute("a", OptionalType(TENSOR), is_parameter=True), SlotKind.PARAMETER),
    (Attribute("a", NONE, is_parameter=True), SlotKind.PARAMETER),
    (Attribute("a", STRING, is_parameter=True), SlotKind.PLAIN),
    (Attribute("a", TENSOR, is_buffer=True), SlotKind.BUFFER),
    (Attribute("a", TENSOR), SlotKind.PLAIN),
    (Attribute("a", BOOL), SlotKind.PLAIN),
    (Attribute("a", ClassType("__torch__.M", is_module=True)), SlotKind.MODULE),
    (Attribute("a", ClassType("__torch__.C")), SlotKind.PLAIN),
]


@pytest.mark.parametrize(("attribute", "kind"), KINDS)
def test_where_slots_are_kept(attribute, kind):
    owner = archive_class([attribute])
    assert slot_kind(owner, attribute) is kind
    made = new_object(Classes().table.python_class(owner))
    value = torch.nn.ReLU() if kind is SlotKind.MODULE else torch.ones(1)
    set_slot(made, attribute, value)
    assert made.__dict__.get(kind.value, made.__dict__)["a"] is value
    assert isinstance(value, torch.nn.Parameter) is (kind is SlotKind.PARAMETER)


@pytest.mark.parametrize("requires_grad", [True, False])
def test_parameters_keep_their_flag(requires_grad):
    owner = archive_class([Attribute("a", TENSOR, is_parameter=True)])
    made = new_object(Classes().table.python_class(owner))
    leaf = torch.ones(1, requires_grad=requires_grad)
    for value in (leaf, leaf * 2):
        set_slot(made, owner.attributes["a"], value)
        assert isinstance(made.a, torch.nn.Parameter)
        assert made.a.requires_grad is requires_grad
        assert made.a.is_leaf
    set_slot(made, owner.attributes["a"], None)
    assert made.a is None


@torch.jit.script
class Vector:
    def __init__(self, x: int, y: int):
        self.x = x
        self.y = y

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.x + other.x, self.y + other.y)

    def __len__(self) -> int:
        return 2

    def scaled(self, by: int) -> Vector:
        return Vector(self.x * by, self.y * by)


class Makes(torch.nn.Module):
    def forward(self, x: int) -> Vector:
        return Vector(x, 2) + Vector(1, 1)


def test_objects_of_script_classes():
    made = our_module(torch.jit.script(Makes()))(4)
    assert (made.x, made.y, len(made)) == (5, 3, 2)
    assert (made + made.scaled(2)).x == 15
    fresh = type(made)(7, 8)
    assert (type(fresh).__name__, fresh.y) == ("Vector", 8)
    assert type(made).__new__(type(made)).x is None
    assert copy.deepcopy(made).y == 3


def test_named_tuples_and_enums():
    classes = Classes()
    pair = classes.table.python_class(TupleType((INT, INT), "__torch__.Pair", ("a", "class")))
    assert (pair(1, 2).a, pair(1, 2)[1], pair.__name__) == (1, 2, "Pair")
    color = EnumType("__torch__.Color", INT, {"RED": 1, "GREEN": 2})
    assert classes.table.python_class(color).GREEN.value == 2
    assert classes.table.enum_member(color, 1).name == "RED"
    assert classes.table.enum_member(color, 1.0) is None
    assert classes.table.type_of(classes.table.python_class(color).RED) is color
    with pytest.raises(UnsupportedError, match="cannot be an enum"):
        classes.table.python_class(EnumType("__torch__.Odd", INT, {"mro": 1}))


def test_constants_of_a_graph_are_shared_by_all_calls():
    graph = Graph()
    items = constant(graph.block, [1], TENSOR)
    graph.block.append("aten::append", [items, constant(graph.block, 2, INT)])
    function = graph.function(items)
    assert Classes().compiler.function(function)() is not Classes().compiler.function(function)()
    run = Classes().compiler.function(function)
    assert run() is run()


def test_only_what_is_called_is_compiled(tmp_path):
    text = method("return x") + method("return ops.no.such(x)", "never(self, x: Tensor) -> Tensor")
    path = tmp_path / "lazy.pt"
    path.write_bytes(hand_written(text))
    loaded = tsarchive.load(path)
    assert equal(loaded(X), X)
    with pytest.raises(tsarchive.UnknownOperatorError, match="no::such"):
        loaded.never(X)
