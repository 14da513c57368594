"""Code of an archive that tries to reach Python: each way is refused, or leads nowhere.

All operators are allowed here: what is tested does not lean on the policy.
"""

from __future__ import annotations

import builtins
import inspect
import io
import linecache
import re
import sys
import traceback

import pytest
import torch

import tsarchive
from tests.support.frontend import function_of, graph_of, importer_of
from tests.support.running import hand_written, method
from tsarchive.errors import ArchiveError, ScriptError, SourceError
from tsarchive.frontend.grammar import OF_PYTHON
from tsarchive.policy import Policy
from tsarchive.run.classes import Classes
from tsarchive.run.linkage import source_of
from tsarchive.run.operators import operator_schemas
from tsarchive.run.slots import get_slot

X = torch.ones(2)

# Where hand-written code defines its classes.
MODULE = "__torch__.tests.support.running"
POINT = f"{MODULE}.P"


def loaded(methods: str) -> tsarchive.ArchiveModule:
    return tsarchive.load(io.BytesIO(hand_written(methods)), policy=Policy.trusted())


def compiled(text: str, name: str = "f"):
    return Classes().compiler.function(function_of(text, name)).compile()


INTERFACE = "class I(Interface):\n  def {name}(self{rest}) -> Any:\n    pass\n"
# A value, taken for an object with a method that Python gives it.
CALLS = [
    ("3", "__class__", ""),
    ("3", "bit_length", ""),
    ("'{0.__class__}'", "format", ", x: int"),
    ("'a'", "encode", ""),
    ("x", "numpy", ""),
    ("x", "storage", ""),
    ("x", "tolist", ""),
    ("x", "register_hook", ", x: int"),
    ("x", "__reduce_ex__", ", x: int"),
    ("[x]", "clear", ""),
    ("{1: x}", "keys", ""),
    ("self", "state_dict", ""),
    ("self", "load_state_dict", ", x: int"),
    ("self", "register_forward_hook", ", x: int"),
    ("self", "_apply", ", x: int"),
    ("self", "__getattr__", ", x: str"),
    ("self", "__dir__", ""),
    ("self", "tsarchive_methods", ""),
]


@pytest.mark.parametrize(("value", "name", "rest"), CALLS)
def test_values_taken_for_objects_have_no_methods_of_python(value, name, rest):
    given = ", ".join("3" if part.endswith("int") else "'a'" for part in rest.split(",")[1:])
    text = method(f"i = unchecked_cast({MODULE}.I, {value})\ny = (i).{name}({given})\nreturn x")
    with pytest.raises(ArchiveError):
        loaded(text + INTERFACE.format(name=name, rest=rest))(X)


ATTRIBUTES = ["grad_fn", "data", "numpy", "_backward_hooks", "tsarchive_classes", "training"]


@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.parametrize("value", ["x", "[x]", "'a'", "self", "{1: x}", "(x, x)"])
@pytest.mark.parametrize(
    "statement", ["return p.{name}", "p.{name} = 3\nreturn x", "return (p).take()"]
)
def test_values_taken_for_objects_have_no_attributes(name, value, statement):
    statement = statement.format(name=name)
    header = "forward(self, x: Tensor) -> Any"
    text = method(f"p = unchecked_cast({POINT}, {value})\n{statement}", header)
    taken = f"class P:\n  {name} : int\n  def take(self) -> int:\n    return self.{name}\n"
    with pytest.raises(ScriptError, match=re.escape(f"expected an object of {POINT}")):
        loaded(text + taken)(X)


@pytest.mark.parametrize("kind", ["P", "Q"])
def test_modules_and_context_managers_are_looked_at_too(kind):
    header = "class Q(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
    header += method("return x") + "class P:\n" + method("return 1", "__enter__(self) -> int")
    header += method(
        "return None",
        "__exit__(self, a: Optional[int], b: Optional[int], c: Optional[int]) -> None",
    )
    use = "with m:\n  y = x\nreturn y" if kind == "P" else "return (m).forward(x)"
    text = method(f"m = unchecked_cast({MODULE}.{kind}, x)\n{use}")
    with pytest.raises(ScriptError, match="expected an object of"):
        loaded(text + header)(X)


def test_lists_known_under_two_types():
    text = method(
        f"a = annotate(List[{POINT}], [])\n"
        "b = unchecked_cast(List[Tensor], a)\n"
        "c = torch.append(b, x)\n"
        "return torch.add(x, (a[0]).grad_fn)"
    )
    with pytest.raises(ScriptError, match="expected an object of"):
        loaded(text + "class P:\n  grad_fn : int\n")(X)


@pytest.mark.parametrize("operator", ["ops.aten.wait", "ops.prim.awaitable_wait"])
def test_values_taken_for_futures(operator):
    kind = "Future" if operator.endswith("aten.wait") else "Await"
    text = method(f"f = unchecked_cast({kind}[Tensor], self)\nreturn {operator}(f)")
    with pytest.raises(ScriptError, match="but found a _Template"):
        loaded(text)(X)


def test_objects_of_an_archive_still_work_under_a_cast():
    text = method(
        f"o = annotate(Any, {POINT}.__new__({POINT}))\n"
        f"p = unchecked_cast({POINT}, o)\n"
        "p.n = 3\nreturn torch.add(x, (p).take())"
    )
    taken = "class P:\n  n : int\n  def take(self) -> int:\n    return self.n\n"
    assert torch.equal(loaded(text + taken)(X), X + 3)


NAMES = [
    "__builtins__", "globals", "eval", "exec", "range", "constant", "spend", "self_", "torch",
    "__import__", "__class__", "__dict__", "__name__", "None_", "checked", "is_plain",
    "__tsarchive_places__", "__debug__", "_", "__", "print", "getattr",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_of_variables_are_only_names(name):
    """Generated source has names of its own, so none means anything to Python."""
    text = f"def f({name}: int) -> int:\n  for i in range({name}):\n    {name} = {name} + i\n"
    run = compiled(f"{text}  return {name}\n")
    assert run(3) == 6
    assert run.__globals__["__builtins__"] in (builtins, vars(builtins))


@pytest.mark.parametrize("name", NAMES)
def test_names_of_functions_are_only_names(name):
    text = f"def {name}(x: int) -> int:\n  return x + 1\n"
    text += f"def f(x: int) -> int:\n  return __torch__.{name}(x)\n"
    if name in OF_PYTHON:
        with pytest.raises(ArchiveError):
            compiled(text)(1)
    else:
        assert compiled(text)(1) == 2


SPECIAL = [
    "__init_subclass__", "__reduce__", "__reduce_ex__", "__del__", "__getattr__", "__setattr__",
    "__getattribute__", "__set_name__", "__class_getitem__", "__dir__", "__copy__", "__hash__",
    "__iter__", "__index__", "__torch_function__", "__instancecheck__", "__slots__", "__new__",
    "__classcell__", "__module__", "__qualname__", "__doc__", "mro", "_apply", "state_dict",
    "_parameters", "_modules", "register_forward_hook", "tsarchive_class", "tsarchive_classes",
    "tsarchive_type", "tsarchive_settable", "tsarchive_reference", "tsarchive_methods",
    "slot_keys", "archive_hooks", "type", "training_",
]  # fmt: skip
OF_MODULES = {"_apply", "state_dict", "_parameters", "_modules", "register_forward_hook"}
OWN = {"mro", "type", "training_", "slot_keys", "archive_hooks"}


@pytest.mark.parametrize("base", ["(Module)", ""])
@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize(
    "member",
    ["  {name} : int\n", "  {name} : Final[int] = 3\n",
     "  def {name}(self) -> int:\n    return 3\n",
     "  def __{name}_getter(self) -> int:\n    return 3\n"],
)  # fmt: skip
def test_members_of_classes_hide_none_of_python(base, name, member):
    text = f"class C{base}:\n" + member.format(name=name)
    plain, made = (class_of(given) for given in (f"class C{base}:\n  pass\n", text))
    is_free = name in OWN or (not base and name in OF_MODULES)
    if not is_free:
        assert type(vars(made).get(name)) is type(vars(plain).get(name))
    assert made.tsarchive_class.qualified_name == "__torch__.C"
    assert made.__name__ == "C"
    assert [parent.__name__ for parent in made.__mro__] == [p.__name__ for p in plain.__mro__]


def class_of(text: str) -> type:
    return Classes().table.python_class(importer_of(text).find("__torch__.C"))


@pytest.mark.parametrize("name", [*SPECIAL, "forward_", "os"])
def test_slots_hide_no_member(name):
    text = method(f"self.{name} = 5\nreturn self.{name}", "f(self) -> int")
    importer, classes = importer_of(f"class C:\n  {name} : int\n{text}"), Classes()
    type_ = importer.find("__torch__.C")
    if name in OF_PYTHON:
        with pytest.raises(SourceError, match=f"attribute {name}"):
            classes.compiler.function(type_.methods["f"]).compile()
        return
    run = classes.compiler.function(type_.methods["f"]).compile()
    made = classes.table.python_class(type_).__new__(classes.table.python_class(type_))
    assert run(made) == 5
    assert get_slot(made, type_.attributes[name]) == 5
    assert made.tsarchive_classes is classes
    assert type(made) is classes.table.python_class(type_)


@pytest.mark.parametrize(
    "name", ["_missing_", "_generate_next_value_", "_ignore_", "_order_", "__new__", "__init__",
             "__class__", "_value_", "__reduce_ex__", "mro", "__members__"],
)  # fmt: skip
def test_enums_have_no_special_members(name):
    with pytest.raises(SourceError, match="an Enum has no member"):
        importer_of(f"class E(Enum):\n  A = 1\n  {name} = 2\n").find("__torch__.E")


@pytest.mark.parametrize("value", ["\0b", "a\0", "\0\1\2\0", "\0é"])
def test_strings_of_enums_may_hold_nul_as_torch_writes_it(value):
    made = importer_of(f'class E(Enum):\n  A = "{value}"\n').find("__torch__.E")
    assert made.members == {"A": value}


@pytest.mark.parametrize("text", ["x\0", "\0", "1 \0 2"])
def test_nul_is_no_code(text):
    with pytest.raises(SourceError, match="outside of a string"):
        importer_of(f"class E(Enum):\n  A = {text}\n").find("__torch__.E")


@pytest.mark.parametrize("name", ["name", "value", "names", "_x", "self", "__x"])
def test_enums_with_unusual_members(name):
    text = f"class E(Enum):\n  A = 1\n  {name} = 2\ndef f() -> int:\n  return __torch__.E.A.value\n"
    classes, importer = Classes(), importer_of(text)
    try:
        made = classes.table.python_class(importer.find("__torch__.E"))
    except ArchiveError:
        return
    assert made["A"].value == 1


@pytest.mark.parametrize(
    "name", ["_make", "__new__", "__class__", "class", "count", "_fields", "self", "_tuple_new"]
)
def test_fields_of_named_tuples_are_only_names(name):
    text = f"class T(NamedTuple):\n  a : int\n  {name} : int\n"
    made = Classes().table.python_class(importer_of(text).find("__torch__.T"))
    assert made(1, 2)[1] == 2
    assert made.__new__(made, 1, 2) == (1, 2)
    assert made.__mro__ == (made, tuple, object)


@pytest.mark.parametrize(
    "text",
    [
        "class 1T(NamedTuple):\n  a : int\n",
        "class T(NamedTuple):\n  ﬁ : int\n",
        "class é:\n  a : int\n",
        "def 1f(x):\n  return x\n",
    ],
)
def test_names_that_are_none(text):
    with pytest.raises(SourceError):
        everything_of(text)


def everything_of(text: str) -> None:
    importer = importer_of(text)
    for name in importer.definitions("code/__torch__.py"):
        importer.find(name)


STRINGS = ["'", '"', "\\", "\n", "\r", "'''", '"""', "{}", "\x00", "\udc80", "é", "\u2028", "#",
           "'); __import__('os').abort() #", "%s", "\\N{DASH}", "\x1a"]  # fmt: skip


@pytest.mark.parametrize("text", STRINGS)
def test_strings_reach_generated_source_as_they_are(text):
    data = text.encode("utf-8", "surrogateescape")
    written = "".join(f"\\{byte:03o}" for byte in data)
    run = compiled(f'def f() -> str:\n  return "{written}"\n')
    assert run() == text
    assert source_of(run).isascii()


@pytest.mark.parametrize("text", STRINGS)
def test_strings_as_names_of_attributes(text):
    data = text.encode("utf-8", "surrogateescape")
    written = "".join(f"\\{byte:03o}" for byte in data)
    for subject in ("x", "torch", "ops.aten", "ops", "__torch__", "CONSTANTS", "inf"):
        with pytest.raises(SourceError):
            graph_of(f'def f(x: Tensor) -> Tensor:\n  return getattr({subject}, "{written}")(x)\n')


OPERATORS = [
    "ops.os.system", "ops.__class__.x", "torch.__loader__", "torch.__dict__", "ops.aten.__class__",
    "torch.ops", "torch.load", "torch.os", "torch.serialization", "torch.jit", "torch.hub",
    "ops.load_library", "ops.aten.load_library", "ops.load_library.x", "ops.aten.relu.default",
    "ops.aten.relu.__class__", "ops.aten._qualified_op_name", "ops.aten.overloads", "ops._ops.x",
    "ops.aten.name", "ops.import_module.x", "ops.loaded_libraries.add",
    "torch.classes.load_library",
]  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_those_of_the_registry(name):
    with pytest.raises(SourceError):
        graph_of(f"def f(x: Tensor) -> Tensor:\n  return {name}(x)\n")


def test_no_registered_operator_is_an_attribute_of_python():
    """``torch.ops`` is asked for an attribute only where the registry has the schema."""
    for owner, namespace in ((torch.ops, ""), (torch.ops.aten, "aten")):
        for name in dir(type(owner)):
            kind = f"{namespace}::{name}" if namespace else f"{name}::{name}"
            assert operator_schemas(kind) == () or (name.startswith("__") and namespace), kind


def test_tracebacks_open_no_file_that_the_archive_names(tmp_path):
    secret = tmp_path / "secret.py"
    secret.write_text("the content of a file\n")
    text = method("assert_ = ops.prim.RaiseException('no', 'builtins.ValueError')\nreturn x")
    opened = []

    def hook(event, arguments):
        if event == "open" and is_watching:
            opened.append(str(arguments[0]))

    is_watching = True
    sys.addaudithook(hook)
    try:
        loaded(text)(X)
    except ValueError as error:
        shown = "".join(traceback.format_exception(error))
    is_watching = False
    assert "no" in shown
    assert not [name for name in opened if "tsarchive " in name or "secret" in name]


def test_file_names_of_generated_source_name_no_file():
    text = "def f(x: int) -> int:\n  return x\n"
    run = compiled(text)
    name = run.__code__.co_filename
    assert name.startswith("<tsarchive ")
    assert name.endswith(">")
    assert inspect.getsource(run).startswith("def ")
    assert linecache.cache[name][1] is None


@pytest.mark.parametrize(
    "name",
    ["builtins.SystemExit", "builtins.KeyboardInterrupt", "builtins.StopIteration",
     "builtins.eval", "os.system", "__class__", "a.b\udc80", "builtins.__class__"],
)  # fmt: skip
def test_raised_classes_are_errors_of_archives(name):
    error = ScriptError("no", exception=name)
    assert isinstance(error, Exception)
    assert not isinstance(error, StopIteration)
    assert issubclass(type(error), ScriptError)


def test_modules_named_like_those_of_python_stay_apart():
    files = {f"code/{name}.py": "class system:\n  x : int\n" for name in ("os", "builtins")}
    importer, classes = importer_of(files), Classes()
    before = sys.modules["os"].system
    made = classes.table.python_class(importer.find("os.system"))
    assert made.__module__ == "os"
    assert sys.modules["os"].system is before
    assert classes.table.python_class(importer.find("builtins.system")).__module__ == "builtins"
    assert not hasattr(builtins, "system")
