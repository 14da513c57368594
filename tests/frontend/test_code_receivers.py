"""Values that code of an archive takes for what they are not, and those that Python gives to it.

``unchecked_cast`` says anything of any value. Here code uses it to get from its own objects to
what Python keeps around them; each way ends in an error before Python is asked for a member.
"""

from __future__ import annotations

import collections
import io
import zipfile

import pytest
import torch

import tsarchive
from tests.support.running import hand_written, method
from tsarchive.errors import ArchiveError, LimitError, ScriptError, SourceError, UnsupportedError
from tsarchive.pickler import Global, Object, dumps
from tsarchive.policy import Limits, Policy
from tsarchive.run.metering import Budgets

X = torch.ones(2)
FORWARD = "forward(self, x: Tensor) -> Any"
MODULE = "class {name}(Module):\n  __parameters__ = []\n  __buffers__ = []\n"


def loaded(methods: str) -> tsarchive.ArchiveModule:
    return tsarchive.load(io.BytesIO(hand_written(methods)), policy=Policy.trusted())


def with_child(body: str, more: str = "", child: str = "") -> tsarchive.ArchiveModule:
    """A module with this ``forward`` and a submodule ``child`` of a class C, both loaded."""
    code = (
        MODULE.format(name="Root")
        + "  training : bool\n  child : __torch__.C\n"
        + method(body, FORWARD)
        + (MODULE.format(name="C") + "  training : bool\n  n : int\n" + child)
        + method("return torch.add(x, self.n)", "forward(self, x: Tensor) -> Tensor")
        + more
    )
    inner = Object(Global("__torch__", "C"), {"training": True, "n": 1})
    root = Object(Global("__torch__", "Root"), {"training": True, "child": inner})
    return tsarchive.load(archive_of(code, root), policy=Policy.trusted())


def archive_of(code: str, root: Object) -> io.BytesIO:
    records = {
        "data.pkl": dumps(root),
        "code/__torch__.py": code.encode(),
        "constants.pkl": dumps(()),
        "version": b"3\n",
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in records.items():
            archive.writestr(f"archive/{name}", content)
    made.seek(0)
    return made


HOOK = '  __forward_pre_hooks__ = ["put"]\n  __forward_hooks__ = []\n  forward : Any\n'
PUT = method("self.forward = x\nreturn None", "put(self, x: Any) -> NoneType")


@pytest.mark.parametrize("value", ["x", "self", "self.child", "'a'", "[x]"])
@pytest.mark.parametrize("body", ["self.slot = 3\nreturn None", "print(self.slot)\nreturn None"])
def test_the_self_of_a_hook_is_looked_at(value, body):
    """Hooks are functions to code, which calls them with what it likes."""
    hook = '  __forward_pre_hooks__ = ["put"]\n  __forward_hooks__ = []\n  slot : int\n'
    evil = MODULE.format(name="Evil") + hook + method(body, "put(self, x: Any) -> NoneType")
    call = f"_0 = __torch__.Evil.put(unchecked_cast(__torch__.Evil, {value}), 1)\nreturn x"
    with pytest.raises(ScriptError, match=r"expected an object of __torch__\.Evil"):
        with_child(call, evil)(X)


def test_hooks_are_of_modules_only():
    evil = "class Evil:\n  __parameters__ = []\n  __buffers__ = []\n" + HOOK + PUT
    module = with_child("return __torch__.Evil.__new__(__torch__.Evil)", evil)
    with pytest.raises(SourceError, match="has hooks, but is no module"):
        module(X)


MEMBERS = [
    "forward", "share_memory", "compile", "register_full_backward_hook", "_modules",
    "_forward_pre_hooks", "tsarchive_classes", "tsarchive_class", "original_name", "append",
    "slot_keys", "archive_hooks", "__call__",
]  # fmt: skip


@pytest.mark.parametrize("lists", ['["{}"], []', '[], ["{}"]', "[], []"])
@pytest.mark.parametrize("name", MEMBERS)
def test_slots_that_are_not_set_are_none(name, lists, capsys):
    """As in torch; Python has something else under each of these names."""
    parameters, buffers = lists.format(name).split(", ")
    code = (
        f"class Root(Module):\n  __parameters__ = {parameters}\n  __buffers__ = {buffers}\n"
        f'  training : bool\n  __annotations__["{name}"] = Optional[Tensor]\n'
        + method("return 1", "__getstate__(self) -> int")
        + method(
            f'print(getattr(self, "{name}"))\nreturn None', "__setstate__(self, s: int) -> None"
        )
        + method(f'return getattr(self, "{name}")', FORWARD)
    )
    module = tsarchive.load(archive_of(code, Object(Global("__torch__", "Root"), 1)))
    assert capsys.readouterr().out == "None\n"
    assert module(X) is None


def test_slots_of_a_module_that_code_makes_are_none():
    assert with_child("m = __torch__.C.__new__(__torch__.C)\nreturn m.n")(X) is None


@pytest.mark.parametrize("name", ["__dict__", "__class__", "__getattribute__", "__reduce_ex__"])
def test_getattr_is_syntax_for_an_attribute(name):
    with pytest.raises(SourceError, match=f"the attribute {name} cannot stand"):
        with_child(f'return getattr(self, "{name}")')(X)


# Members that Python's objects have, and those that archives give to theirs.
TAKEN = [
    ("Tensor", ".shape"), ("Tensor", ".data"),
    ("Tensor", ".grad"), ("Tensor", ".device"), ("Tensor", ".T"), ("Tensor", ".requires_grad"),
    ("__torch__.E", ".value"), ("__torch__.E", ".name"), ("Tuple[int, int, int]", "[0:2]"),
]  # fmt: skip
OPERATORS = [
    ("Device", "ops.prim.type({})"), ("Device", "ops.prim.index({})"),
    ("Tensor", "int({})"), ("Tensor", "float({})"), ("Tensor", "torch.size({})"),
    ("Tensor", "torch.stride({})"), ("Tensor", "torch.len({})"),
    ("List[int]", "torch.append({}, 1)"), ("List[int]", "torch.pop({})"),
    ("List[int]", "torch.slice({}, 0, 1)"),
    ("List[int]", "torch.sort({})"), ("List[int]", "torch.index({}, 1)"),
    ("List[int]", "torch.count({}, 1)"), ("List[int]", "torch.extend({}, [1])"),
    ("Dict[str, int]", "torch.pop({}, 'a')"), ("Dict[str, int]", "torch.items({})"),
    ("Dict[str, int]", "torch.values({})"), ("Dict[str, int]", "torch.clear({})"),
    ("str", "torch.upper({})"), ("str", "torch.join({}, ['a'])"), ("str", "torch.format({}, 1)"),
    ("str", "torch.split({})"),
]  # fmt: skip
# An object with methods of all these names.
NAMES = (
    "type", "index", "shape", "data", "grad", "device", "T", "requires_grad", "value", "name",
    "item", "size", "stride", "append", "pop", "sort", "count", "extend", "items", "values",
    "clear", "upper", "join", "format", "split", "tolist",
)  # fmt: skip
OBJECT = "class O:\n" + "".join(method("return 1", f"{name}(self) -> int") for name in NAMES)
ENUM = "class E(Enum):\n  A = 1\n"


@pytest.mark.parametrize(("type_", "use"), [(t, f"{{}}{use}") for t, use in TAKEN] + OPERATORS)
@pytest.mark.parametrize("value", ["__torch__.O.__new__(__torch__.O)", "self"])
def test_operators_look_at_what_they_are_given(type_, use, value):
    """No bound method becomes a value, and none is called."""
    used = use.format("v")
    body = f"o = {value}\nv = unchecked_cast({type_}, o)\nreturn ({used}, v)"
    with pytest.raises(ArchiveError, match=r"but found a|cannot|doesn't|object|\bno\b"):
        with_child(body, OBJECT + ENUM)(X)


def test_functions_are_no_values():
    body = "f = unchecked_cast(Any, __torch__.g)\nreturn f"
    with pytest.raises(UnsupportedError, match=r"takes the function __torch__\.g for a value"):
        with_child(body, "def g(x: Tensor) -> Tensor:\n  return x\n")(X)


@pytest.mark.parametrize("value", ["x", "'a'", "__torch__.O.__new__(__torch__.O)"])
def test_a_submodule_is_replaced_by_modules_only(value):
    with pytest.raises(ScriptError, match="expected a module, but found"):
        with_child(f"self.child = unchecked_cast(__torch__.C, {value})\nreturn x", OBJECT)(X)


class Foreign(torch.nn.Module):
    """What Python code puts in the place of a submodule."""

    def __init__(self, result=None):
        super().__init__()
        self.result = result
        self.n = 5
        self.calls = []

    def forward(self, x):
        return x if self.result is None else self.result

    def other(self, x):
        self.calls.append(x)
        return self.forward(x)


@pytest.mark.parametrize(
    "result",
    [object(), [object()], {"a": object()}, (1, (len,)), torch.nn.Module, {1, 2}, b"a", print],
)
@pytest.mark.parametrize("name", ["forward", "other"])
def test_results_of_python_code_are_values_of_torchscript(result, name):
    module = with_child(
        f"return (self.child).{name}(x)",
        child=method("return x", "other(self, x: Tensor) -> Tensor"),
    )
    module.child = Foreign(result)
    with pytest.raises(ScriptError, match="TorchScript has no type for a"):
        module(X)


def test_a_module_of_python_in_the_place_of_one_of_the_archive():
    other = method("return x", "other(self, x: Tensor) -> Tensor")
    module = with_child("y = (self.child).other(x)\nreturn (y, self.child.n)", child=other)
    assert module(X)[1] == 1
    module.child = Foreign()
    assert module(X)[1] == 5
    assert len(module.child.calls) == 1
    module.child.n = object()
    with pytest.raises(ScriptError, match="'n' of Foreign is no int"):
        module(X)
    del module.child.n
    with pytest.raises(ScriptError, match="Foreign has no attribute 'n'"):
        module(X)


@pytest.mark.parametrize("name", ["save", "state_dict", "_apply", "save_to_buffer"])
def test_modules_of_torch_lend_code_no_methods(name):
    module = with_child(
        f"return (self.child).{name}(x)",
        child=method("return x", f"{name}(self, x: Tensor) -> Tensor"),
    )
    assert torch.equal(module(X), X)
    module.child = torch.jit.script(torch.nn.ReLU())
    with pytest.raises(ScriptError, match="has no method"):
        module(X)


@pytest.mark.parametrize("hook", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_of_python_give_values_of_torchscript(hook):
    module = with_child("return (self.child).forward(x)")
    getattr(module.child, hook)(lambda *_: object())
    with pytest.raises(ArchiveError):
        module(X)


def test_a_future_brings_values_of_torchscript():
    module = loaded(method("return torch.wait(f)", "forward(self, f: Future[Any]) -> Any"))
    future = torch.futures.Future()
    future.set_result(X)
    assert module(future) is X
    future = torch.futures.Future()
    future.set_result(collections.Counter)
    with pytest.raises(ScriptError, match="TorchScript has no type for a"):
        module(future)


@pytest.mark.parametrize("end", ["return x", "return torch.add(x, torch.ones([3]))"])
@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_grad_mode_of_the_caller_stays(end, is_enabled):
    module = loaded(method(f"torch.set_grad_enabled({not is_enabled})\n{end}"))
    with torch.set_grad_enabled(is_enabled):
        try:
            result = module(X)
            assert result is X
        except RuntimeError:
            assert "add" in end
        assert torch.is_grad_enabled() is is_enabled


@pytest.mark.parametrize(
    "name", ["_repr_html_", "_repr_mimebundle_", "_ipython_display_", "_as_parameter_"]
)
@pytest.mark.parametrize("kind", ["method", "slot", "submodule"])
def test_tools_that_show_a_module_call_none_of_its_code(name, kind):
    slot = {"method": "", "slot": f"  {name} : str\n", "submodule": f"  {name} : __torch__.C\n"}
    code = MODULE.format(name="Root") + "  training : bool\n" + slot[kind]
    code += method("return '<script>'", f"{name}(self) -> str") if kind == "method" else ""
    code += method("return x", FORWARD) + MODULE.format(name="C") + "  training : bool\n"
    code += method("return '<script>'", "forward(self) -> str")
    inner = Object(Global("__torch__", "C"), {"training": True})
    state = {"training": True, name: "<script>" if kind == "slot" else inner}
    module = tsarchive.load(archive_of(code, Object(Global("__torch__", "Root"), state)))
    shown = getattr(module, name, None)
    assert not callable(shown) or "<script>" not in shown()
    assert torch.equal(module(X), X)


def test_made_up_sizes_give_no_budget_back():
    """Code may take an object of its own, whose ``numel`` it wrote, for a tensor."""
    budgets = Budgets(Limits(nbytes=100))

    @budgets.bounded
    def spend():
        budgets.make(-1000)
        budgets.allocate(-1000)
        budgets.make(101)

    with pytest.raises(LimitError):
        spend()
