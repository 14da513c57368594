"""Classes that differ in mangled names alone run one compiled body; others do not."""

from __future__ import annotations

import copy
import io
import linecache
import pickle
import re
import threading
import traceback
import zipfile

import pytest
import torch

import tsarchive
from tests.support.archives import loaded, torch_loaded, torch_saved
from tests.support.frontend import importer_of
from tests.support.networks import build, each_network
from tsarchive import Limits, PolicyError
from tsarchive.run import codegen, compiler
from tsarchive.run.codegen import generate
from tsarchive.run.linkage import LazyFunction

ATTRIBUTES = """\
  training : bool
  _is_full_backward_hook : Optional[bool]
"""
HEADER = f"""\
  __parameters__ = []
  __buffers__ = []
{ATTRIBUTES}"""
HALF = f"""\
class Half(Module):
{HEADER}  def forward(self: SELF,
    x: Tensor) -> Tensor:
    y = torch.relu(torch.view(x, [2, -1]))
    return torch.mul(y, 3)
"""
PAIR = f"""\
class Pair(Module):
{HEADER}  first : FIRST
  second : SECOND
  def forward(self: SELF,
    x: Tensor) -> Tensor:
    first = self.first
    second = self.second
    _0 = (first).forward(x, )
    return torch.sub((second).forward(_0, ), 1)
"""


class Half(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Pair(torch.nn.Module):
    def __init__(self, first: torch.nn.Module, second: torch.nn.Module) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class Top(Pair):
    pass


def traced(module: torch.nn.Module) -> bytes:
    """An archive in which each module has a class of its own."""
    return torch_saved(torch.jit.trace(module, torch.rand(2, 4)))


def name_of(script) -> str:
    return script._c.qualified_name


def written(module: torch.nn.Module, *texts: str) -> bytes:
    """The archive of a module with the given class texts: its own and those of its submodules.

    They stand in the order of ``modules()``; in it, each submodule has a class of its own.
    """
    script = torch.jit.trace(module, torch.rand(2, 4))
    codes: dict[str, str] = {}
    for part, text in zip(script.modules(), texts, strict=True):
        name = name_of(part)
        for child, placed in part.named_children():
            text = text.replace(f": {child.upper()}\n", f": {name_of(placed)}\n")
        codes[name] = re.sub(r"\Aclass \w+", f"class {name.rpartition('.')[2]}", text).replace(
            "SELF", name
        )
    records: dict[str, str] = {}
    for name, text in codes.items():
        record = f"code/{name.rpartition('.')[0].replace('.', '/')}.py"
        records[record] = records.get(record, "") + text
    source, target = zipfile.ZipFile(io.BytesIO(torch_saved(script))), io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        for name in source.namelist():
            if not name.endswith(".debug_pkl"):
                file.writestr(name, records.get(name.partition("/")[2], source.read(name)))
    return target.getvalue()


def replaced(data: bytes, old: str, new: str) -> bytes:
    """The archive with one class in the place of another, wherever one is named."""
    source, target = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        for name in source.namelist():
            text = source.read(name)
            for between in (".", "\n"):
                one, other = (between.join(n.rsplit(".", 1)).encode() for n in (old, new))
                text = re.sub(re.escape(one) + rb"\b", other, text)
            file.writestr(name, text)
    return target.getvalue()


def halves(*texts: str, pair: str = PAIR) -> bytes:
    return written(Pair(Half(), Half()), pair, *texts)


def run_code(module):
    """The code object that runs for ``forward`` of a loaded module."""
    function = module.tsarchive_class.methods["forward"]
    return module.tsarchive_classes.compiler.function(function).compile().__code__


@pytest.fixture
def generated(monkeypatch) -> list[str]:
    """The names of the classes whose methods source is generated for, from here on."""
    found: list[str] = []
    generate = codegen.generate

    def counting(function, *arguments):
        found.append(function.qualified_name.split(".")[-2])
        return generate(function, *arguments)

    monkeypatch.setattr(codegen, "generate", counting)
    return found


def test_twins_run_one_body(generated):
    data, x = halves(HALF, HALF), torch.randn(2, 4)
    module = loaded(data)
    assert torch.equal(module(x), torch_loaded(data)(x))
    assert sorted(generated) == ["Half", "Pair"]
    assert type(module.first) is not type(module.second)
    first, second = run_code(module.first), run_code(module.second)
    assert first.co_code == second.co_code
    for code, half in ((first, module.first), (second, module.second)):
        assert code.co_filename == f"<tsarchive {half.tsarchive_class.qualified_name}.forward>"
        assert "torch" not in linecache.getline(code.co_filename, 1)
        assert "relu" in "".join(linecache.getlines(code.co_filename))


def test_twins_have_graphs_of_their_own():
    module = loaded(halves(HALF, HALF))
    module(torch.randn(2, 4))
    first, second = (half.tsarchive_class.methods["forward"] for half in module.children())
    assert first.graph is not second.graph
    assert second.schema.arguments[0].type is type(module.second).tsarchive_class
    assert second.graph.params[0].type is type(module.second).tsarchive_class


def test_twins_of_twins_call_their_own_submodules(generated):
    data = written(Top(Pair(Half(), Half()), Pair(Half(), Half())), PAIR, *[PAIR, HALF, HALF] * 2)
    module, x = loaded(data), torch.randn(2, 4)
    assert torch.equal(module(x), torch_loaded(data)(x))
    assert sorted(generated) == ["Half", "Pair", "Top"]
    called = []
    module.second.first.register_forward_hook(lambda *_: called.append("hooked"))
    module(x)
    assert called == ["hooked"]


@pytest.mark.parametrize("is_first", [True, False])
def test_one_class_in_two_places_is_no_twin_of_two_classes(generated, is_first):
    texts = [PAIR, HALF, HALF] * 2
    data = written(Top(Pair(Half(), Half()), Pair(Half(), Half())), PAIR, *texts)
    pair = getattr(loaded(data), "first" if is_first else "second")
    one, other = (half.tsarchive_class.qualified_name for half in pair.children())
    assert one != other
    data = replaced(data, one, other)
    module, x = loaded(data), torch.randn(2, 4)
    assert torch.equal(module(x), torch_loaded(data)(x))
    # The code for two classes does for one, and not the other way round.
    assert sorted(generated) == ["Half", "Pair", *["Pair"] * is_first, "Top"]


def test_two_archives_share_nothing(generated):
    data = halves(HALF, HALF)
    for _ in range(2):
        loaded(data)(torch.randn(2, 4))
    assert len(generated) == 4


HOOK = """\
  def hook(self: SELF,
    input: Tuple[Tensor],
    result: Tensor) -> Tensor:
    return torch.neg(result)
"""
DIFFERENCES = {
    "operator": ("torch.relu", "torch.tanh"),
    "constant": ("torch.mul(y, 3)", "torch.mul(y, 4)"),
    "type of an attribute": ("hook : Optional[bool]", "hook : Optional[int]"),
    "order of attributes": (ATTRIBUTES, "".join(ATTRIBUTES.splitlines(keepends=True)[::-1])),
    "list of names": ("__buffers__ = []", '__buffers__ = ["training", ]'),
    "default of an argument": ("x: Tensor)", "x: Tensor,\n    again: int=1)"),
    "name of a variable": ("y", "z"),
    "another method": ("  def forward", f"{HOOK}  def forward"),
    "hook": (
        "  __buffers__ = []\n",
        '  __buffers__ = []\n  __forward_hooks__ = ["hook", ]\n',
    ),
    "comment": ("    y =", "    # torch.relu\n    y ="),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_whatever_differs_is_not_shared(generated, name):
    old, new = DIFFERENCES[name]
    other = HALF.replace(old, new)
    assert other != HALF
    if name == "hook":
        other += HOOK
    module, x = loaded(halves(HALF, other)), torch.randn(2, 4)
    module(x)
    assert sorted(generated) == ["Half", "Half", "Pair"]
    alone = loaded(halves(other, other))
    assert torch.equal(module.second(x), alone.second(x))


def test_what_calls_different_submodules_is_not_shared(generated):
    other = HALF.replace("relu", "tanh")
    tree = Top(Pair(Half(), Half()), Pair(Half(), Half()))
    data = written(tree, PAIR, PAIR, HALF, HALF, PAIR, HALF, other)
    module, x = loaded(data), torch.randn(2, 4)
    assert torch.equal(module(x), torch_loaded(data)(x))
    assert sorted(generated) == ["Half", "Half", "Pair", "Pair", "Top"]


def test_constants_count_where_code_names_them(generated):
    scale = HALF.replace("  def", "  scale : Final[int] = 3\n  def")
    other = scale.replace("= 3", "= 5")
    named = scale.replace("(y, 3)", "(y, self.scale)")
    x = torch.randn(2, 4)
    unnamed = loaded(halves(scale, other))
    unnamed(x)
    assert sorted(generated) == ["Half", "Pair"]
    assert (unnamed.first.scale, unnamed.second.scale) == (3, 5)
    generated.clear()
    other = named.replace("= 3", "= 5")
    found = loaded(halves(named, other))(x)
    assert sorted(generated) == ["Half", "Half", "Pair"]
    y = torch.relu(torch.relu(x) * 3) * 5
    torch.testing.assert_close(found, y - 1)


@pytest.mark.parametrize("name", ["(first).scale", 'getattr(first, "scale")'])
def test_constants_count_where_code_around_names_them(generated, name):
    scale = HALF.replace("  def", "  scale : Final[int] = 3\n  def")
    other = scale.replace("= 3", "= 5")
    pair = PAIR.replace(", 1)", f", {name})")
    data = written(
        Top(Pair(Half(), Half()), Pair(Half(), Half())), PAIR, pair, scale, scale, pair, other,
        other,
    )  # fmt: skip
    module, x = loaded(data), torch.randn(2, 4)
    found = module(x)
    assert sorted(generated) == ["Half", "Pair", "Pair", "Top"]
    y = torch.relu(x) * 9 - 3
    torch.testing.assert_close(found, torch.relu(y) * 9 - 6)


def test_methods_that_name_a_module_class_are_not_shared(generated):
    text = f"{HALF}  def of(self: SELF,\n    other: SELF) -> int:\n    return 1\n"
    module = loaded(halves(text, text))
    for half in module.children():
        method = half.tsarchive_class.methods["of"]
        assert method.original is method
        assert method.schema.arguments[1].type is half.tsarchive_class
    assert module.second.of(module.second) == 1


def test_errors_name_the_class_and_line_of_the_twin():
    module = loaded(halves(HALF, f"# above\n{HALF}".replace("# above\n", "")))
    module(torch.randn(2, 4))
    for half in module.children():
        with pytest.raises(RuntimeError) as raised:
            half(torch.randn(3))
        name = half.tsarchive_class.qualified_name
        (frame,) = [f for f in traceback.extract_tb(raised.tb) if f.filename.startswith("<tsa")]
        assert frame.filename == f"<tsarchive {name}.forward>"
        assert "view" in frame.line


def lines_of(error: BaseException) -> list[tuple[str, int]]:
    return [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]


def made_here():
    class Reshaped(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(2, 4)  # the first line

    return Reshaped()


def made_there():
    class Reshaped(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(2, 4)  # the second line

    return Reshaped()


def test_errors_name_the_line_of_the_user_that_the_twin_came_from(generated):
    with open(__file__, encoding="utf-8") as file:
        text = file.read().splitlines()
    module = loaded(torch_saved(torch.jit.script(Pair(made_here(), made_there()))))
    module(torch.randn(2, 4))
    assert sorted(generated) == ["Pair"]
    for half, marker in ((module.first, "# the first line"), (module.second, "# the second line")):
        with pytest.raises(RuntimeError) as raised:
            half(torch.randn(3))
        line = next(n for n, shown in enumerate(text, 1) if shown.endswith(marker))
        assert (__file__, line) in lines_of(raised.value)


def test_policies_refuse_in_each_twin():
    text = HALF.replace("torch.mul(y, 3)", 'torch.from_file("f", False, 4)')
    module = loaded(halves(text, text))
    for half in module.children():
        with pytest.raises(PolicyError) as raised:
            half(torch.randn(2, 4))
        assert half.tsarchive_class.qualified_name in str(raised.value)


def test_limits_count_in_twins(generated):
    text = HALF.replace("    y =", "    while True:\n      x = torch.relu(x)\n    y =")
    module = loaded(halves(HALF, HALF), limits=Limits(steps=100))
    module(torch.randn(2, 4))
    assert sorted(generated) == ["Half", "Pair"]
    module = loaded(halves(text, text), limits=Limits(steps=100))
    for half in module.children():
        with pytest.raises(tsarchive.LimitError) as raised:
            half(torch.randn(2, 4))
        assert half.tsarchive_class.qualified_name in str(raised.value)


def test_twins_are_copied_pickled_and_hooked():
    module, x = loaded(halves(HALF, HALF)), torch.randn(2, 4)
    expected = module(x)
    for made in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(made(x), expected)
    module.second.register_forward_pre_hook(lambda _, given: (torch.zeros_like(given[0]),))
    assert torch.equal(module(x), torch.full((2, 4), -1.0))


def test_twins_are_compiled_and_exported(generated):
    module, x = loaded(halves(HALF, HALF)), torch.randn(2, 4)
    expected = module(x)
    assert torch.equal(torch.compile(module, backend="eager", fullgraph=True)(x), expected)
    # One body for calls, one for tracers.
    assert sorted(generated) == ["Half", "Half", "Pair", "Pair"]
    exported = torch.export.export(module, (x,), strict=True)
    assert torch.equal(exported.module()(x), expected)


def test_threads_may_call_twins_for_the_first_time_at_once():
    data, x = halves(HALF, HALF), torch.randn(2, 4)
    module = loaded(data)
    found, start = [], threading.Barrier(8)

    def call(half):
        start.wait()
        found.append(half(x))

    threads = [threading.Thread(target=call, args=(h,)) for h in list(module.children()) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(torch.equal(result, found[0]) for result in found)


@pytest.mark.sample(3)
@each_network
def test_a_shared_body_is_what_would_be_generated(monkeypatch, name, kind):
    """For all functions of networks: text, places and globals."""
    source, shared = compiler.Compiler._source, []

    def compared(maker, call):
        function, bound, wanted = call
        found, own = source(maker, call), generate(function, maker.linkage, bound, wanted)
        assert found.lines == own.lines
        assert list(map(str, found.places)) == list(map(str, own.places))
        assert found.namespace.keys() == own.namespace.keys()
        for global_, value in own.namespace.items():
            if isinstance(value, (type, LazyFunction)):
                assert found.namespace[global_] is value
            else:
                assert type(found.namespace[global_]) is type(value)
        shared.append(call)
        return source(maker, call)

    monkeypatch.setattr(compiler.Compiler, "_source", compared)
    script, inputs = build(name, kind)
    loaded(torch_saved(script))(*inputs)
    assert shared


def is_shared(name: str, *headers: str) -> bool:
    """Whether the method ``name`` of classes with such headers is one for all."""
    body = f"  def {name}(self,\n    x: Tensor) -> Tensor:\n    return x\n"
    folders = [f"__torch__/___torch_mangle_{number}" for number in range(len(headers))]
    files = {
        f"code/{folder}.py": f"class A(Module):\n{header}{body}"
        for folder, header in zip(folders, headers, strict=True)
    }
    importer = importer_of(files)
    classes = [importer.find(f"{folder.replace('/', '.')}.A") for folder in folders]
    return len({class_.function(name).original for class_ in classes}) == 1


@pytest.mark.parametrize("title", ["__forward_hooks__", "__parameters__", "__buffers__"])
def test_a_constant_with_the_name_of_a_list_does_not_hide_it(title):
    constant, names = f"  {title} : Final[int] = 1\n", f'  {title} = ["f"]\n'
    assert is_shared("f", constant + names, names)
    assert not is_shared("f", constant, constant + names)


@pytest.mark.parametrize("base", ["Module", " Module", "\n  Module", "ModuleInterface", "Other"])
def test_names_of_modules_are_known_however_they_are_declared(base):
    importer = importer_of(f"class A({base}):\n  pass\nclass B(Interface):\n  pass\n")
    assert importer.sharing.names_no_module("__torch__.B") is True
    assert importer.sharing.names_no_module("__torch__.A") is (base == "Other")


def test_no_part_of_a_long_name_is_looked_at_twice():
    assert not importer_of("").sharing.names_no_module("__torch__." * 1_000_000 + "a .b")
