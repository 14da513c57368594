"""State of a loaded module: names, loading, conversions, attributes, containers, methods."""

from __future__ import annotations

import inspect
import pydoc

import pytest
import torch

import tsarchive
from tests.support.archives import loaded, torch_loaded, torch_saved
from tests.support.both_engines import both_of, called
from tests.support.comparing import equal
from tests.support.networks import build, each_network


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5)
        )
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])
        self.named = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3), "b": torch.nn.ReLU()})
        self.shift = torch.zeros(1)
        self.count = 3
        self.scale = 2.0
        self.sizes = [1, 2]

    def forward(self, x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
        x = self.body(x)
        for layer in self.layers:
            x = layer(x)
        return self.named["a"](x) * self.scale * by + self.shift

    @torch.jit.export
    def total(self, more: int) -> int:
        return self.count + more


INPUT = torch.arange(20.0).reshape(5, 4) / 7


@pytest.fixture(scope="module")
def data() -> bytes:
    torch.manual_seed(0)
    return torch_saved(torch.jit.script(Net()))


@pytest.fixture
def theirs(data):
    return torch_loaded(data)


@pytest.fixture
def ours(data):
    return loaded(data)


def names_of(module) -> dict[str, list[str]]:
    """A child in two places has two wrappers in torch.jit, so none is left out as a duplicate."""
    return {
        "state_dict": list(module.state_dict()),
        "parameters": [name for name, _ in module.named_parameters()],
        "buffers": [name for name, _ in module.named_buffers()],
        "modules": [name for name, _ in module.named_modules(remove_duplicate=False)],
    }


def test_names_and_their_order_are_those_of_torch(case):
    theirs, mine = both_of(case.build())
    assert names_of(mine) == names_of(theirs)
    assert mine.training == getattr(theirs, "training", True)
    pairs = zip(theirs.modules(), mine.named_modules(remove_duplicate=False), strict=True)
    for one, (_, two) in pairs:
        assert one.original_name == two.original_name == type(two).__name__
    flags = [[p.requires_grad for p in module.parameters()] for module in (theirs, mine)]
    assert flags[0] == flags[1]


@pytest.mark.sample(3, gaps="networks are slow, and tests of records and of bodies have them all")
@each_network
def test_state_of_networks(name, kind):
    module, inputs = build(name, kind)
    theirs, mine = both_of(module)
    assert names_of(mine) == names_of(theirs)
    state = {key: tensor * 2 for key, tensor in theirs.state_dict().items()}
    for each in (theirs, mine):
        each.load_state_dict(state)
    assert equal(dict(theirs.state_dict()), dict(mine.state_dict()))
    if hasattr(theirs, "forward"):  # recurrent networks have several, none under this name
        assert equal(called(theirs, inputs), called(mine, inputs))


WRONG_STATES = {
    "nothing": lambda state: {},
    "one missing": lambda state: dict(list(state.items())[1:]),
    "one too many": lambda state: {**state, "more": torch.ones(1)},
    "another shape": lambda state: {**state, "body.0.bias": torch.ones(9)},
}


@pytest.mark.parametrize("change", WRONG_STATES.values(), ids=WRONG_STATES)
def test_wrong_state_dicts(theirs, ours, change):
    messages = []
    for module in (theirs, ours):
        with pytest.raises(RuntimeError) as info:
            module.load_state_dict(change(module.state_dict()))
        messages.append(str(info.value).splitlines()[1:])
    assert messages[0] == messages[1]


def test_state_dict_can_be_lenient_and_assign(theirs, ours):
    results = [module.load_state_dict({}, strict=False) for module in (theirs, ours)]
    assert results[0] == results[1]
    state = {key: tensor.clone() for key, tensor in ours.state_dict().items()}
    ours.load_state_dict(state, assign=True)
    assert ours.body[0].weight.data_ptr() == state["body.0.weight"].data_ptr()
    assert equal(called(ours.eval(), [INPUT]), called(theirs.eval(), [INPUT]))


CONVERSIONS = {
    "half": lambda module: module.half(),
    "double": lambda module: module.double(),
    "to dtype": lambda module: module.to(torch.float64),
    "to device and dtype": lambda module: module.to("cpu", torch.float16),
    "cpu": lambda module: module.cpu(),
    "float": lambda module: module.half().float(),
    "channels": lambda module: module.to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("convert", CONVERSIONS.values(), ids=CONVERSIONS)
def test_conversions(theirs, ours, convert):
    assert convert(ours) is ours
    convert(theirs)
    assert equal(dict(ours.state_dict()), dict(theirs.state_dict()))
    x = INPUT.to(ours.body[0].weight.dtype)
    assert equal(called(ours.eval(), [x]), called(theirs.eval(), [x]))


def test_what_only_python_modules_do(ours):
    """torch.jit refuses these; the module that was scripted does them."""
    expected = called(ours.eval(), [INPUT])
    state = {key: tensor.clone() for key, tensor in ours.state_dict().items()}
    assert ours.bfloat16().body[0].weight.dtype is torch.bfloat16
    ours.to("meta")
    assert {tensor.device.type for tensor in ours.state_dict().values()} == {"meta"}
    ours.to_empty(device="cpu").float().load_state_dict(state)
    assert equal(called(ours, [INPUT]), expected)
    assert not any(p.requires_grad for p in ours.requires_grad_(False).parameters())
    assert all(tensor.is_shared() for tensor in ours.share_memory().state_dict().values())
    assert ours.get_submodule("body.0") is ours.body[0]


def test_apply_and_gradients(theirs, ours):
    def fill(module):
        for parameter in module.parameters(recurse=False):
            torch.nn.init.constant_(parameter, 0.5)

    for module in (theirs, ours):
        module.apply(fill)
        called(module, [INPUT]).sum().backward()
    gradients = [[p.grad for p in module.parameters()] for module in (theirs, ours)]
    assert equal(*gradients)
    ours.zero_grad()
    assert all(parameter.grad is None for parameter in ours.parameters())


def test_modes_reach_children_and_code(theirs, ours):
    for mode in (False, True):
        for module in (theirs, ours):
            module.train(mode)
        assert [m.training for m in ours.modules()] == [m.training for m in theirs.modules()]
        assert equal(called(ours, [INPUT]), called(theirs, [INPUT]))
    for module in (theirs, ours):
        module.body.eval()
    assert equal(called(ours, [INPUT]), called(theirs, [INPUT]))


def test_a_mode_that_the_archive_lacks():
    """torch.jit.freeze removes it; an nn.Module has it."""
    frozen = torch.jit.freeze(torch.jit.script(Net().eval()))
    theirs, mine = both_of(frozen)
    assert not hasattr(theirs._c, "training")
    assert mine.train().training is True
    assert mine.eval().training is False
    assert equal(called(mine, [INPUT]), called(theirs, [INPUT]))


ASSIGNMENTS = [
    ("count", 7), ("count", "abc"), ("count", 2.5), ("count", torch.tensor(4)),
    ("scale", 3), ("scale", 0.5), ("scale", "x"), ("scale", None),
    ("sizes", (3, 4)), ("sizes", []), ("sizes", ["a"]), ("sizes", 3),
    ("shift", torch.ones(1)), ("shift", 3), ("training", False), ("training", "x"),
    ("new", {"any": "thing"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), ASSIGNMENTS, ids=str)
def test_setting_attributes(theirs, ours, name, value):
    """What torch takes is converted as there; what it refuses is refused."""
    try:
        setattr(theirs, name, value)
    except RuntimeError:
        before = getattr(ours, name)
        with pytest.raises(tsarchive.CallError, match=f"attribute '{name}' of Net"):
            setattr(ours, name, value)
        assert getattr(ours, name) is before
        return
    setattr(ours, name, value)
    assert equal(getattr(theirs, name), getattr(ours, name))
    assert equal(called(ours.eval(), [INPUT]), called(theirs.eval(), [INPUT]))


def test_a_parameter_in_a_plain_slot_stays_there(ours):
    ours.shift = torch.nn.Parameter(torch.ones(1))
    assert "shift" not in ours.state_dict()
    assert "shift" in vars(ours)


def test_attributes_come_and_go(ours):
    assert hasattr(ours, "count")
    assert not hasattr(ours, "nothing")
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nothing'"):
        _ = ours.nothing
    with pytest.raises(AttributeError):
        del ours.nothing
    with pytest.raises(TypeError, match="cannot assign 'str' as parameter 'weight'"):
        ours.body[0].weight = "text"
    del ours.count
    assert not hasattr(ours, "count")


def test_containers_hold_their_children(ours):
    body, layers, named = ours.body, ours.layers, ours.named
    assert (len(body), len(layers), len(named)) == (3, 3, 2)
    assert list(body) == list(body.children())
    assert body[0] is body.get_submodule("0")
    assert body[-1] is body[2]
    assert [layer.weight.shape for layer in layers] == [(3, 3)] * 3
    with pytest.raises(IndexError):
        layers[3]
    assert list(named) == list(named.keys()) == ["a", "b"]
    assert named["a"] is named.a
    assert "b" in named
    assert "c" not in named
    assert [key for key, _ in named.items()] == ["a", "b"]
    assert list(named.values()) == [named.a, named.b]


def test_slices_of_containers_are_modules_of_torch(ours):
    ours.eval()
    first = ours.body[:2]
    assert type(first) is torch.nn.Sequential
    assert first[1] is ours.body[1]
    assert equal(first(INPUT), ours.body[1](ours.body[0](INPUT)))
    assert type(ours.layers[1:]) is torch.nn.ModuleList


def test_traced_containers_hold_their_children():
    traced = torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), INPUT)
    _, mine = both_of(traced)
    assert [type(child).__name__ for child in mine] == ["Linear", "ReLU"]


def test_replaced_children_are_called(ours):
    ours.eval()
    ours.named["a"].weight = torch.nn.Parameter(torch.zeros(3, 3))
    ours.body = torch.nn.Linear(4, 3)
    assert equal(called(ours, [INPUT]), (ours.named.a.bias * 2).expand(5, 3))


def test_repr_is_that_of_an_ordinary_module(ours):
    shown = repr(ours)
    assert "torch_mangle" not in shown
    assert "(body): Sequential(\n    (0): Linear()" in shown


def test_methods_are_listed_with_signatures(theirs, ours):
    listed = type(ours).tsarchive_methods()
    assert sorted(listed) == sorted(theirs._c._method_names()) == ["forward", "total"]
    assert str(listed["forward"]) == "(self, x: Tensor, by: float = 1.0) -> Tensor"
    assert str(inspect.signature(ours.total)) == "(more: int) -> int"
    assert {"forward", "total"} <= set(dir(ours))
    assert "total(self, more: int) -> int" in pydoc.render_doc(ours, renderer=pydoc.plaintext)
    assert ours.total(2) == theirs.total(2) == 5


@torch.jit.script
class Box:
    def __init__(self, x: int):
        self.x = x

    @property
    def above(self) -> int:
        return self.x + 1

    @above.setter
    def above(self, value: int):
        self.x = value - 1


class WithProperties(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.box = Box(3)
        self.number = 2

    @property
    def twice(self) -> int:
        return self.number * 2

    @twice.setter
    def twice(self, value: int):
        self.number = value // 2

    def forward(self):
        return self.box


def test_properties_of_the_original_classes():
    module = loaded(torch_saved(torch.jit.script(WithProperties())))
    assert module.twice == 4
    module.twice = 10
    assert (module.number, module.twice) == (5, 10)
    box = module()
    assert (box.x, box.above) == (3, 4)
    box.above = 8
    assert box.x == 7


USUAL_CONSTANTS = (
    "in_features", "out_features", "eps", "num_features", "momentum", "p", "inplace", "stride",
    "kernel_size", "padding", "padding_mode", "hidden_size", "num_layers", "embedding_dim",
)  # fmt: skip


def test_constants_of_the_original_classes():
    """``model.fc.in_features`` is how people replace the head of a network."""
    body = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3, stride=2), torch.nn.BatchNorm2d(2), torch.nn.Dropout(0.25),
        torch.nn.Flatten(), torch.nn.Linear(18, 4),
    )  # fmt: skip
    theirs, ours = both_of(torch.jit.script(body))
    count = 0
    for name, module in theirs.named_modules():
        for constant in USUAL_CONSTANTS:
            if hasattr(module, constant):
                count += 1
                assert getattr(ours.get_submodule(name), constant) == getattr(module, constant)
    assert count > 10
    ours[4] = torch.nn.Linear(ours[4].in_features, 1)
    assert ours(torch.ones(1, 1, 8, 8)).shape == (1, 1)


PROTOCOL = ("__init__", "__call__", "__len__", "__eq__", "__del__", "__getattr__", "__enter__")


@pytest.mark.parametrize("name", PROTOCOL)
def test_methods_with_the_names_of_pythons_protocol_change_nothing_of_a_module(name):
    class Rectified(torch.nn.ReLU):  # what is defined is so for all scripted modules of a class
        pass

    scripted = torch.jit.script(Rectified())
    scripted.define(f"def {name}(self, x: Tensor) -> Tensor:\n    return x * 3\n")
    module = loaded(torch_saved(scripted))
    assert equal(module(torch.ones(2)), torch.ones(2))
