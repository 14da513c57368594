"""The canonical form: bytes that depend on the model alone, and that torch reads and runs."""

from __future__ import annotations

import copy
import io
import json
import shutil
import subprocess
import sys
import tokenize
import zipfile
from pathlib import Path
from typing import Union

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

import tsarchive
from fixtures.modules import all_cases
from tests.support.archives import ROOT, loaded, records_of, saved, torch_loaded, torch_saved
from tests.support.networks import build, each_network
from tests.support.running import check_same, hand_written, method
from tests.support.suite import is_long
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.graph import Block
from tsarchive.ir.names import NamePool
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import INT, EnumType, TupleType
from tsarchive.printer.canonical import CanonicalNames, CanonicalPool


def canonical(module, **options) -> bytes:
    return saved(module, canonical=True, **options)


def code_of(data: bytes) -> dict[str, str]:
    return {n: c.decode() for n, c in records_of(data).items() if n.endswith(".py")}


def test_saving_and_loading_change_nothing(case):
    module = case.build()
    expected = canonical(module)
    assert canonical(loaded(saved(module))) == expected
    assert canonical(loaded(expected)) == expected
    assert canonical(module) == expected


def test_torch_reads_and_runs_it(case):
    module = case.build()
    theirs = torch_loaded(canonical(module))
    for arguments in (*case.inputs, *case.failing):
        check_same(module, theirs, *arguments)
    for name, inputs in case.methods.items():
        for arguments in inputs:
            check_same(getattr(module, name), getattr(theirs, name), *arguments)


@pytest.mark.sample(3, gaps="networks are slow, and tests of records and of bodies have them all")
@each_network
def test_torch_networks(name, kind):
    module, inputs = build(name, kind)
    expected = canonical(module)
    assert canonical(loaded(torch_saved(module))) == expected
    assert canonical(loaded(expected)) == expected
    if hasattr(module, "forward"):  # the overloads of scripted RNNs have no such name
        check_same(module, torch_loaded(expected), *inputs)


def test_what_is_left_out():
    case = next(case for case in all_cases() if case.name == "trace_convolution")
    names = list(records_of(canonical(case.build(), debug=True)))
    assert not [n for n in names if n.endswith(".debug_pkl") or n.startswith("traced_inputs")]
    assert "data.pkl" in names


def test_nothing_is_compressed():
    with zipfile.ZipFile(io.BytesIO(canonical(scripted_many()))) as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        assert {entry.filename.partition("/")[0] for entry in archive.infolist()} == {"archive"}


def test_file_names_do_not_count(tmp_path, monkeypatch):
    module = torch.jit.script(torch.nn.ReLU())
    paths = [tmp_path / "one.pt", tmp_path / "folder" / "another.name.zip"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        monkeypatch.chdir(path.parent)
        tsarchive.save(module, path.name, canonical=True)
    assert {path.read_bytes() for path in paths} == {canonical(module)}


def test_extra_files_are_those_given_now():
    module = torch.jit.script(torch.nn.ReLU())
    files = {f"file{number}": str(number) for number in range(20)}
    backwards = dict(reversed(files.items()))
    assert canonical(module, extra_files=files) == canonical(module, extra_files=backwards)
    with_files = loaded(saved(module, extra_files=files))
    assert canonical(with_files) == canonical(module)
    assert canonical(with_files, extra_files=files) == canonical(module, extra_files=files)
    read = dict.fromkeys(files, "")
    torch.jit.load(io.BytesIO(canonical(module, extra_files=files)), _extra_files=read)
    assert read == {name: text.encode() for name, text in files.items()}


# --- other processes ---

EVERY = 1 if is_long() else 40  # of so many cases one is saved

_SAVE_ALL = """
import hashlib, io, json, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
import fixtures, tsarchive
from fixtures.modules import all_cases
assert fixtures.__file__.startswith(sys.argv[1])
cases = all_cases()[::int(sys.argv[3])]
if sys.argv[2] == "after others":
    for case in reversed(cases):
        case.build()
digests = {}
for case in cases:
    data = io.BytesIO()
    tsarchive.save(case.build(), data, canonical=True)
    digests[case.name] = hashlib.sha256(data.getvalue()).hexdigest()
print(json.dumps(digests))
"""


def save_all(folder: Path, hash_seed: str, order: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SAVE_ALL, str(folder), order, str(EVERY)],
        cwd=folder.parent if folder != ROOT else Path(tokenize.__file__).parent,
        env={"PYTHONHASHSEED": hash_seed, "PATH": "", "HOME": str(Path.home())},
        stdout=subprocess.PIPE,
        text=True,
    )


def with_comments(text: str) -> str:
    """The same program on other lines: a comment before every second statement."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    layout = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    first_lines: set[int] = set()
    last = 0
    for token in tokens:
        if token.type not in layout:
            if token.start[0] > last:
                first_lines.add(token.start[0])
            last = token.end[0]
    lines = text.splitlines(keepends=True)
    for number in sorted(first_lines, reverse=True):
        line = lines[number - 1] if number <= len(lines) else ""
        if number % 2 == 0 and line.strip() and not line.startswith("from __future__"):
            indent = line[: len(line) - len(line.lstrip())]
            lines.insert(number - 1, f"\n{indent}# line {number}\n")
    return "".join(lines)


def test_other_processes_paths_and_comments(tmp_path):
    copied = tmp_path / "elsewhere" / "sources"
    shutil.copytree(ROOT / "fixtures" / "modules", copied / "fixtures" / "modules")
    (copied / "fixtures" / "__init__.py").write_text("")
    for path in (copied / "fixtures" / "modules").glob("*.py"):
        path.write_text(with_comments(path.read_text()))
    here, there = save_all(ROOT, "1", "alone"), save_all(copied, "77", "after others")
    first, second = (json.loads(process.communicate()[0]) for process in (here, there))
    assert len(first) == len(all_cases()[::EVERY])
    assert first == second


# --- names of types ---


def variant(number: int) -> type[torch.nn.Module]:
    """Classes of one name that differ; torch numbers them as it meets them."""

    class Part(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer(f"buffer{number}", torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + 1
            x = x * 2
            return x

    return Part


OWN = "__torch__.tests.canonical.test_canonical"
OWN_CODE = "code/__torch__/tests/canonical/test_canonical.py"
PARTS = [variant(number) for number in range(3)]


class Point:
    def __init__(self, x: int):
        self.x = x


class Many(torch.nn.Module):
    """Mangled classes, a script class in tags, and constants that torch lists in hash order."""

    __constants__ = ("gamma", "beta", "alpha", "delta")

    def __init__(self):
        super().__init__()
        self.gamma, self.beta, self.alpha, self.delta = 1, 2, 3, 4
        self.points = [Point(1), Point(2)]
        self.parts = torch.nn.ModuleList([part() for part in (*PARTS, *PARTS)])

    def forward(self, x: torch.Tensor):
        for part in self.parts:
            x = part(x)
        chosen: Point | None = None
        if bool(x.sum() > 0):
            chosen = self.points[0]
        return x * self.gamma + self.beta - self.alpha + self.delta, chosen is None


def apple() -> type:
    class Apple:
        def __init__(self, ripeness: int):
            self.ripeness = ripeness

    return Apple


class Berry:
    def __init__(self, size: int):
        self.size = size


# The second class of the name is the one that torch numbers.
torch.jit.script(apple())
Apple = apple()
torch.jit.script(Apple)


class Helper(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x

    def zeta(self, x: torch.Tensor):
        return x + 1

    def alpha(self, x: torch.Tensor):
        return x * 2


class ZetaFirst(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.helper = Helper()

    def forward(self, x: torch.Tensor):
        return self.helper.alpha(self.helper.zeta(x))


class AlphaFirst(ZetaFirst):
    def forward(self, x: torch.Tensor):
        return self.helper.zeta(self.helper.alpha(x))


class Hooked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = PARTS[0](), PARTS[1](), PARTS[1]()

        def after(self, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
            return output * 2

        def before(self, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            return (inputs[0] + 1,)

        for part in (self.first, self.second, self.third):
            part.register_forward_hook(after)
            part.register_forward_pre_hook(before)

    def forward(self, x: torch.Tensor):
        return self.first(self.second(self.third(x)))


def scripted_many():
    return torch.jit.script(Many())


MANGLED = {"many": Many, "hooked": Hooked}


@pytest.mark.parametrize("name", MANGLED)
def test_numbers_of_the_process_do_not_count(name):
    module = torch.jit.script(MANGLED[name]())
    expected = canonical(module)
    for part in (*PARTS[::-1], Hooked, Many):
        torch.jit.script(part())
    again = torch.jit.script(MANGLED[name]())
    assert canonical(again) == expected
    assert canonical(loaded(saved(again))) == expected
    assert canonical(loaded(torch_saved(again))) == expected
    check_same(module, torch_loaded(expected), torch.ones(2))
    check_same(module, loaded(expected), torch.ones(2))


def test_types_are_numbered_from_zero_in_order():
    code = code_of(canonical(scripted_many()))
    defined = [name for name, text in code.items() if "class Part(" in text]
    folder = OWN_CODE.removesuffix(".py")
    assert sorted(defined) == [
        f"{folder}.py",
        *(f"{folder}/___torch_mangle_{number}.py" for number in range(2)),
    ]
    assert '__buffers__ = ["buffer0", ]' in code[f"{folder}.py"]
    assert '__buffers__ = ["buffer2", ]' in code[f"{folder}/___torch_mangle_1.py"]


def test_class_constants_are_sorted():
    (text,) = [text for text in code_of(canonical(scripted_many())).values() if "Final" in text]
    names = [line.split()[0] for line in text.splitlines() if " : Final[" in line]
    assert names == sorted(names)
    assert {"alpha", "beta", "delta", "gamma"} <= set(names)


def test_the_order_in_which_methods_were_compiled_does_not_count():
    alone = canonical(torch.jit.script(AlphaFirst()))
    torch.jit.script(ZetaFirst())
    assert canonical(torch.jit.script(AlphaFirst())) == alone


class Basket(torch.nn.Module):
    def forward(self, fruit: Union[Apple, Berry]) -> int:  # noqa: UP007
        return fruit.ripeness if isinstance(fruit, Apple) else fruit.size


def test_members_of_unions_are_sorted_by_their_new_names():
    """torch sorts `___torch_mangle_0.Apple` behind `Berry`."""
    module = torch.jit.script(Basket())
    assert f"Union[{OWN}.Berry, " in code_of(saved(module))[OWN_CODE]
    expected = canonical(module)
    united = f"Union[{OWN}.Apple, {OWN}.Berry]"
    assert united in code_of(expected)[OWN_CODE]
    assert canonical(loaded(saved(module))) == expected
    assert canonical(loaded(expected)) == expected


def function(name: str) -> Function:
    return Function(name, FunctionSchema(name.rpartition(".")[2], "", (), ()), Block)


def test_mangling_is_dropped_and_collisions_are_counted():
    names = CanonicalNames()
    classes = [ClassType(f"__torch__.m.___torch_mangle_{number}.Net") for number in (7, 3, 12)]
    assert [names.name(class_) for class_ in classes] == [
        "__torch__.m.Net",
        "__torch__.m.___torch_mangle_0.Net",
        "__torch__.m.___torch_mangle_1.Net",
    ]
    other = ClassType("__torch__.m.___torch_mangle_9.Other")
    assert names.name(other) == names.tag(other) == "__torch__.m.Other"
    assert names.tag(classes[1]) == "__torch__.m.___torch_mangle_0.Net"


@pytest.mark.parametrize(
    "named",
    [
        EnumType("__torch__.___torch_mangle_4.N", INT),
        TupleType((INT,), "__torch__.___torch_mangle_4.N", ("x",)),
        function("__torch__.___torch_mangle_4.N").type,
    ],
    ids=["enum", "named tuple", "function"],
)
def test_every_kind_of_type_loses_its_number(named):
    names = CanonicalNames()
    assert names.name(named) == "__torch__.N"
    assert names.name(ClassType("__torch__.N")) == "__torch__.___torch_mangle_0.N"


def test_a_hook_is_named_after_its_class():
    names = CanonicalNames()
    classes = [ClassType(f"__torch__.___torch_mangle_{number}.C") for number in range(2)]
    for class_ in classes:
        class_.forward_hooks.append(function(f"{class_.qualified_name}.hook"))
        names.meet(class_)
    hooks = [names.name(class_.forward_hooks[0].type) for class_ in reversed(classes)]
    assert hooks == ["__torch__.C.hook", "__torch__.___torch_mangle_0.C.hook"]


# --- names of values ---

CANDIDATES = st.sampled_from(
    ["_", "x", "x0", "x1", "x10", "x12", "y", "y2", "as", "as0", "in1", "range", "range0", "a_1"]
)


@given(
    st.lists(st.lists(CANDIDATES, max_size=8), min_size=1, max_size=3),
    st.lists(st.lists(CANDIDATES, max_size=8), max_size=2),
)
def test_names_in_text_give_the_same_names(functions, before):
    """Whatever stood before in its file, text has names that lead back to those of the graph."""
    pool, ours, again = NamePool(), CanonicalPool(), CanonicalPool()
    for names in (*before, *functions):
        pool.start_function()
        pool.used.add("range")  # as where code needs what the name hides
        printed = [pool.unique(name) for name in names]
        for kind in (ours, again):
            kind.start_function()
        # A name of digits alone is none when text is read.
        read = ["_" if name.strip("_").isdigit() else name for name in printed]
        expected = [ours.unique(name) for name in names]
        assert [again.unique(name) for name in read] == expected
        assert len(set(expected)) == len(expected)


def test_numbers_stay_where_they_are_names():
    pool = CanonicalPool()
    assert [pool.unique(name) for name in ("conv1", "conv2", "x", "x7", "_0")] == [
        "conv1", "conv2", "x", "x0", "_0",
    ]  # fmt: skip


def test_names_of_parameters_are_kept():
    pool = CanonicalPool()
    names = ["x", "x1", "in1", "attribute", "str"]
    assert [pool.parameter(name) for name in names] == ["x", "x1", "in1", "attribute0", "str"]


@pytest.mark.parametrize(
    ("last", "expected"), [("argument_3", "x: Tensor,\n    x0: Tensor"), ("n", "x7: Tensor")]
)
def test_parameters_that_a_trace_has_named_are_counted_anew(last, expected):
    header = f"forward(self, x: Tensor, x7: Tensor, {last}: int) -> Tensor"
    text = method(f"return torch.add(x, x7, alpha={last})", header)
    data = canonical(loaded(hand_written(text)))
    assert expected in code_of(data)["code/__torch__/tests/support/running.py"]
    assert canonical(loaded(data)) == data


# --- archives whose operators changed since ---

DIVIDES = (
    method("return torch.div(x, 2)")
    + method("return __torch__.tests.support.running.half(x)", "other(self, x: Tensor) -> Tensor")
    + "def half(x: Tensor) -> Tensor:\n  return torch.div(x, 2)\n"
)


def of_version(data: bytes, version: int) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as read, zipfile.ZipFile(written, "w") as archive:
        for name in read.namelist():
            content = f"{version}\n".encode() if name.endswith("/version") else read.read(name)
            archive.writestr(name, content)
    return written.getvalue()


@pytest.mark.parametrize("version", [2, 3, 4])
def test_old_operators_keep_their_meaning(version):
    """Before version 4, methods divided integers into integers; functions never knew of it."""
    data = of_version(hand_written(DIVIDES), version)
    x = torch.tensor([3, 5])
    again = canonical(loaded(data))
    assert records_of(again)["version"] == b"%d\n" % max(version, 3)
    assert canonical(loaded(again)) == again
    for name in ("forward", "other"):
        theirs = getattr(torch_loaded(data), name)
        check_same(theirs, getattr(torch_loaded(again), name), x)
        check_same(theirs, getattr(loaded(again), name), x)


def test_code_that_this_process_cannot_read_is_refused():
    module = loaded(hand_written(method("return ops.nowhere.nothing(x)")))
    with pytest.raises(tsarchive.UnknownOperatorError, match="nowhere::nothing"):
        canonical(module)


def test_a_plain_module_is_refused():
    with pytest.raises(tsarchive.SaveError, match="has no TorchScript code"):
        canonical(torch.nn.ReLU())


def test_changed_values_are_saved():
    module = loaded(canonical(torch.jit.script(torch.nn.Linear(2, 2))))
    before = copy.deepcopy(module)
    with torch.no_grad():
        module.weight.add_(1)
    assert canonical(module) != canonical(before)
    assert code_of(canonical(module)) == code_of(canonical(before))
