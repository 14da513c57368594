"""What a file needs of the process that loads it, and what of that is missing."""

from __future__ import annotations

import io
import sys

import pytest
import torch

import tsarchive
from tests.support.archives import ARCHIVES, CORPUS, case_archive
from tests.support.command_line import process, write_archive
from tests.support.fresh_registry import NAMES_OF_TORCH
from tsarchive.describing.contents import TORCH_CLASSES, TORCH_OPERATORS
from tsarchive.errors import ArchiveError, SourceError
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.pickler import Global, Object, dumps
from tsarchive.run.operators import native_class

HEADER = "class Net(Module):\n  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n"
EMPTY = dumps(())


def archive(path, code, **objects) -> str:
    """An archive whose root is a ``__torch__.Net``; ``code`` by record or of the first."""
    code = {"code/__torch__.py": code} if isinstance(code, str) else code
    root = dumps(Object(Global("__torch__", "Net"), objects))
    return write_archive(
        path,
        {
            "data.pkl": root,
            **{name: text.encode() for name, text in code.items()},
            "constants.pkl": EMPTY,
            "version": b"3\n",
        },
    )


def needs(path):
    with tsarchive.open(path) as opened:
        return opened.needs


def body(*lines: str) -> str:
    return HEADER + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = torch.add(x, x)", {"aten::add": 1}),
        ("y = torch.add(torch.mul(x, x), torch.mul(x, x))", {"aten::add": 1, "aten::mul": 2}),
        ("y = ops.prim.NumToTensor(1)", {"prim::NumToTensor": 1}),
        ("y = ops.torchvision.nms(x, x, 0.5)", {"torchvision::nms": 1}),
        ("y = torch.autograd.grad([x], [x])", {"aten::grad": 1}),
        ("y = annotate(int, unchecked_cast(int, int(x)))", {}),
        ("y = isinstance(x, Tensor)", {}),
        ("print(len([x]), range(3), uninitialized(int))", {}),
        ('y = "torch.add(1)"', {}),
        ('y = "a\\"torch.add(1)"', {}),
        ("y = __torch__.torch.nn.functional.relu(x, )", {}),
        ("y = (self).torch(x, )", {}),
        ("y = self.torch.add(x)", {}),
        ("return torch.float32", {}),
        ("y = torch.neg(x) if True else torch.abs(x)", {"aten::neg": 1}),
    ],
)
def test_operators_of_a_line(line, expected, tmp_path):
    assert needs(archive(tmp_path / "a.pt", body(line))).operators == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("True", {"aten::add"}),
        ("False", {"aten::sub"}),
        ("not False", {"aten::add"}),
        ("not not False", {"aten::sub"}),
        ("torch.is_grad_enabled()", {"aten::is_grad_enabled", "aten::add", "aten::sub"}),
        ("not c", {"aten::add", "aten::sub"}),
    ],
)
def test_a_branch_that_a_literal_rules_out_needs_nothing(condition, expected, tmp_path):
    code = body(
        f"if {condition}:", "  y = torch.add(x, x)", "else:", "  y = torch.sub(x, x)", "return y"
    )
    assert set(needs(archive(tmp_path / "a.pt", code)).operators) == expected


def test_torch_looks_at_the_same_branches(tmp_path):
    """The branch that is never taken names an operator that does not exist."""
    dead = ("  y = ops.nowhere.f(x)",)
    path = archive(
        tmp_path / "a.pt",
        body("if False:", *dead, "else:", "  y = torch.neg(x)", "return y"),
        training=True,
    )
    assert not tsarchive.missing(path)
    assert equal_to_neg(torch.jit.load(path))
    assert equal_to_neg(tsarchive.load(path))
    path = archive(
        tmp_path / "b.pt",
        body("if bool(x):", *dead, "else:", "  y = torch.neg(x)", "return y"),
        training=True,
    )
    assert tsarchive.missing(path).operators == ("nowhere::f",)
    with pytest.raises(RuntimeError, match="nowhere::f"):
        torch.jit.load(path)


def equal_to_neg(module) -> bool:
    return torch.equal(module(torch.ones(2)), -torch.ones(2))


def test_only_what_the_objects_lead_to_counts(tmp_path):
    code = {
        "code/__torch__.py": "class Net(Module):\n"
        "  part : __torch__.parts.my-part.Part\n"
        "  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n"
        "    _0 = __torch__.used.f\n    return _0(x, )\n"
        "class Other(Module):\n"
        "  def forward(self: __torch__.Other) -> Tensor:\n    return ops.other.f()\n",
        "code/__torch__/parts/my-part.py": "class Part(Module):\n"
        "  def forward(self: __torch__.parts.my-part.Part) -> Tensor:\n"
        "    return ops.part.f()\n"
        "  def other(self: __torch__.parts.my-part.Part) -> Tensor:\n"
        "    return ops.part.g()\n",
        "code/__torch__/used.py": "def f(x: Tensor) -> Tensor:\n  return __torch__.used.g(x, )\n"
        "def g(x: Tensor) -> Tensor:\n  return ops.used.g(__torch__.used.f(x, ))\n"
        "def h(x: Tensor) -> Tensor:\n  return ops.unused.h(x)\n",
    }
    found = needs(archive(tmp_path / "a.pt", code))
    assert set(found.operators) == {"part::f", "part::g", "used::g"}
    assert found.foreign == ("part::f", "part::g", "used::g")


def test_operators_are_in_the_order_of_the_code(tmp_path):
    names = ["abs", "cos", "exp", "log", "neg", "sin", "tan", "sqrt"]
    helpers = (f"def f{name}(x: Tensor) -> Tensor:\n  return torch.{name}(x)\n" for name in names)
    code = body(*(f"x = __torch__.f{name}(x, )" for name in names)) + "".join(helpers)
    found = needs(archive(tmp_path / "a.pt", code)).operators
    assert list(found) == [f"aten::{name}" for name in names]


def test_classes_come_from_code_and_objects(tmp_path):
    code = (
        "class Net(Module):\n"
        "  a : __torch__.torch.classes.quantized.LinearPackedParamsBase\n"
        "  b : __torch__.torch.classes.mine.Thing\n"
        "  def forward(self: __torch__.Net) -> Any:\n"
        "    return unchecked_cast(__torch__.torch.classes.mine.Other, self.b)\n"
    )
    held = Object(Global("__torch__.torch.classes.mine", "Held"), 3)
    path = archive(tmp_path / "a.pt", code, a=held)
    mine = ("mine.Held", "mine.Other", "mine.Thing")
    assert needs(path).classes == (*mine, "quantized.LinearPackedParamsBase")
    assert needs(path).foreign == mine
    found = tsarchive.missing(path)
    assert (found.operators, found.classes) == ((), mine)
    assert found
    assert found.hints.keys() == set(mine)


def test_constants_need_their_classes(tmp_path):
    held = Object(Global("__torch__.torch.classes.mine", "Held"), 3)
    records = {
        "data.pkl": dumps(Object(Global("__torch__", "Net"), {})),
        "code/__torch__.py": body("return x").encode(),
        "constants.pkl": dumps((held,)),
        "version": b"3",
    }
    assert needs(write_archive(tmp_path / "a.pt", records)).classes == ("mine.Held",)


def test_a_library_that_is_imported_later_is_seen(tmp_path):
    path = archive(tmp_path / "a.pt", body("return ops.tsarchive_late.f(x)"))
    assert tsarchive.missing(path).operators == ("tsarchive_late::f",)
    library = torch.library.Library("tsarchive_late", "DEF")
    library.define("f(Tensor x) -> Tensor")
    assert not tsarchive.missing(path)


def test_every_form_of_a_source_is_taken():
    path = ARCHIVES / "sequential.pt"
    with tsarchive.open(path) as opened:
        found = [tsarchive.missing(f) for f in (path, str(path), opened)]
    found.append(tsarchive.missing(io.BytesIO(path.read_bytes())))
    assert len(set(found)) == 1
    assert not found[0]


@pytest.mark.parametrize("records", [{"notes.txt": b"x"}, {"data.pkl": EMPTY}])
def test_other_kinds_of_files_are_refused(records, tmp_path):
    with pytest.raises(ArchiveError):
        tsarchive.missing(write_archive(tmp_path / "a.pt", records))


def test_long_expressions_are_read(tmp_path):
    sums, nots = " - ".join(["x"] * 300), "not " * 150
    code = body(f"y = {sums}", f"if {nots}True:", "  y = ops.a.b()", "else:", "  y = ops.c.d()")
    assert set(needs(archive(tmp_path / "a.pt", code)).operators) == {"a::b"}


def test_code_that_does_not_parse_is_refused(tmp_path):
    with pytest.raises(SourceError):
        needs(archive(tmp_path / "a.pt", HEADER + "    return (\n"))


def test_nothing_is_missing_for_what_torch_wrote(case):
    assert not tsarchive.missing(io.BytesIO(case_archive(case)))


def test_the_tables_name_what_torch_registers():
    assert {name.partition("::")[0] for name in NAMES_OF_TORCH} <= TORCH_OPERATORS
    known = ("quantized.Conv2dPackedParamsBase", "rnn.CellParamsBase", "mkldnn.ConvOpContext",
             "sparse.LinearPackedParamsBase")  # fmt: skip
    assert {name.partition(".")[0] for name in known} <= TORCH_CLASSES
    assert all(native_class(f"{NATIVE_PREFIX}{name}") for name in known)


def test_needs_are_told_without_torch(tmp_path):
    probe = (
        "import sys, tsarchive\n"
        "with tsarchive.open(sys.argv[1]) as archive: print(len(archive.needs.operators))\n"
        "assert 'torch' not in sys.modules"
    )
    done = process("-c", probe, ARCHIVES / "sequential.pt", cwd=tmp_path)
    assert (done.stdout.strip(), done.stderr) == ("3", "")
    assert "torch" in sys.modules


# Real archives

PATHS = sorted((CORPUS / "torchscript").glob("*")) if CORPUS.is_dir() else []


@pytest.mark.skipif(not PATHS, reason="the corpus of real archives is not beside the repository")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_what_is_missing_is_what_torch_refuses(path):
    found = tsarchive.missing(path)
    try:
        torch.jit.load(path, map_location="cpu")
    except RuntimeError as error:
        first_line = str(error).strip().partition("\n")[0]
        if "Legacy model format" in first_line:
            assert not found
            return
        if "torch.classes.xnnpack." in first_line:
            return  # functions and classes of ours stand for these
        # torch stops at the first one.
        assert any(name in first_line for name in (*found.operators, *found.classes))
    else:
        assert not found


TWIN = """class Twin(Module):
  def forward(self: __torch__.{own}.Twin,
    x: Tensor) -> Tensor:
    return (__torch__.{called}.{name})(torch.{operator}(x))
"""


def twins(path, *rows):
    """An archive whose main function names classes that differ in names, and what these name."""
    code = {"code/__torch__.py": body(*(f"y = __torch__.{own}.Twin" for own, *_ in rows))}
    for own, called, name, operator in rows:
        text = TWIN.format(own=own, called=called, name=name, operator=operator)
        code[f"code/__torch__/{own}.py"] = text
    for number in (7, 8, 9):
        code[f"code/__torch__/___torch_mangle_{number}.py"] = (
            f"def f(x: Tensor) -> Tensor:\n  return ops.mine.op{number}(x)\n"
        )
    return archive(path, code)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [("___torch_mangle_1", "___torch_mangle_7", "f", "relu")],
            {"aten::relu": 1, "mine::op7": 1},
        ),
        (
            [
                ("___torch_mangle_1", "___torch_mangle_7", "f", "relu"),
                ("___torch_mangle_2", "___torch_mangle_8", "f", "relu"),
            ],
            {"aten::relu": 2, "mine::op7": 1, "mine::op8": 1},
        ),
        (  # one calls another, one itself
            [
                ("___torch_mangle_1", "___torch_mangle_9", "f", "relu"),
                ("___torch_mangle_2", "___torch_mangle_2", "f", "relu"),
            ],
            {"aten::relu": 2, "mine::op9": 1},
        ),
        (
            [("___torch_mangle_1", "___torch_mangle_7", "f", "___torch_mangle_3")],
            {"aten::___torch_mangle_3": 1, "mine::op7": 1},
        ),
    ],
)  # fmt: skip
def test_twins_need_what_each_of_them_names(tmp_path, rows, expected):
    found = needs(twins(tmp_path / "x.pt", *rows)).operators
    assert found == expected


def test_errors_show_mangled_names_as_they_are_written(tmp_path):
    refused = body("y = (lambda: __torch__.___torch_mangle_123456.f(x))")
    with pytest.raises(SourceError, match=r"^code/__torch__\.py:4: [^$]*___torch_mangle_123456"):
        needs(archive(tmp_path / "x.pt", refused))
