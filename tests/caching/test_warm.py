"""Archives whose code an earlier process has compiled: the same answers, and nothing compiled."""

from __future__ import annotations

import contextlib
import copy
import gc
import inspect
import io
import json
import os
import pickle
import pydoc
import re
import struct
import sys
import traceback
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.library import _scoped_library
from torch.utils._python_dispatch import TorchDispatchMode

import tsarchive
from tests.support.archives import ARCHIVES, case_archive, loaded, saved, torch_loaded, torch_saved
from tests.support.auditing import archive_with
from tests.support.comparing import equal
from tests.support.networks import build, each_network
from tests.support.processes import torch_process
from tests.support.running import check_same, outcome
from tsarchive import Limits, Policy, PolicyError
from tsarchive.caching import CacheFolder
from tsarchive.formats.torchscript import stored_code
from tsarchive.operators.risks import Risk, Row

# A function with a constant that no recipe tells: a generator.
UNSTORED = {"generator_constant"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> CacheFolder:
    monkeypatch.setenv("TSARCHIVE_CACHE", str(tmp_path / "cache"))
    return CacheFolder(tmp_path / "cache")


def code_of(module) -> stored_code.StoredCode:
    return module.tsarchive_classes.origin.importer.code


def compiled(module) -> list[str]:
    """The functions that were compiled in this process."""
    return [one.call.function.qualified_name for one in code_of(module).functions.compiled]


def kept(module) -> list[str]:
    """Keep what a module was made of; the functions that could not be."""
    code = code_of(module)
    code.keep()
    return code.functions.refused


def called(module, case) -> None:
    for name, calls in {"forward": [*case.inputs, *case.failing], **case.methods}.items():
        for arguments in calls:
            run = module if name == "forward" else getattr(module, name)
            with contextlib.suppress(Exception):
                run(*copy.deepcopy(arguments))


def test_every_fixture(case):
    data = case_archive(case)
    first = loaded(data)
    called(first, case)
    names, refused = compiled(first), kept(first)
    assert bool(refused) == (case.name in UNSTORED)
    warm, theirs = loaded(data), torch_loaded(data)
    for name, calls in {"forward": [*case.inputs, *case.failing], **case.methods}.items():
        for arguments in calls:
            run = warm if name == "forward" else getattr(warm, name)
            check_same(theirs if name == "forward" else getattr(theirs, name), run, *arguments)
    assert len(compiled(warm)) == len(refused)
    assert names or not case.inputs
    assert saved(warm) == saved(first)


@pytest.mark.sample(3)
@each_network
def test_networks(name, kind):
    script, inputs = build(name, kind)
    data = torch_saved(script)
    first = loaded(data)
    expected = first(*inputs)
    assert kept(first) == []
    warm = loaded(data)
    assert equal(expected, warm(*inputs))
    assert compiled(warm) == []
    assert "text" not in vars(code_of(warm))


class WithoutDefaults(nn.Module):
    """Calls an operator with lists by default, which code that runs is not given."""

    def forward(self, x):
        return torch.conv2d(x, x, None, [1, 1], [0, 0])


def test_globals_that_no_code_has_need_no_recipe():
    network = torch.jit.freeze(torch.jit.script(nn.Conv2d(1, 2, 1)).eval())
    for module in (network, torch.jit.script(WithoutDefaults())):
        data = torch_saved(module)
        first = loaded(data)
        expected = first(torch.ones(1, 1, 4, 4))
        assert kept(first) == []
        warm = loaded(data)
        assert equal(expected, warm(torch.ones(1, 1, 4, 4)))
        assert compiled(warm) == []


_WARM = """
import sys, json, torch, tsarchive
module = tsarchive.load(sys.argv[1])
with torch.no_grad():
    result = module(torch.ones(2, 3))
print(json.dumps([[n for n in sys.modules if n.startswith("tsarchive.")], result.tolist()]))
"""
_UNNEEDED = ("tsarchive.frontend", "tsarchive.run.codegen", "tsarchive.run.expressions",
             "tsarchive.run.passes", "tsarchive.analyses", "tsarchive.cli")  # fmt: skip


def test_nothing_that_compiles_is_imported(tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes(torch_saved(torch.jit.script(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))))
    done = [torch_process("-c", _WARM, path, cwd=tmp_path) for _ in range(2)]
    assert [one.returncode for one in done] == [0, 0], done[1].stderr
    (cold, expected), (warm, found) = (json.loads(one.stdout) for one in done)
    assert found == expected
    assert any(name.startswith(_UNNEEDED) for name in cold)
    assert not any(name.startswith(_UNNEEDED) for name in warm)


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.other = nn.Linear(3, 4)

    def forward(self, x, times: int = 2):
        """Say what is wrong."""
        y = self.other(self.linear(x).relu()[:, :3])
        if times > 5:
            raise ValueError(f"{times} is too much")
        return y.reshape(times, -1)


@pytest.fixture
def failing() -> tuple[object, object]:
    """A module as it is without the cache, and as it is from it."""
    data = torch_saved(torch.jit.script(Failing()))
    first = loaded(data)
    first(torch.ones(2, 3))
    kept(first)
    os.environ["TSARCHIVE_CACHE"], before = "0", os.environ["TSARCHIVE_CACHE"]
    cold = loaded(data)
    os.environ["TSARCHIVE_CACHE"] = before
    return cold, loaded(data)


def shown_error(module, *arguments) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011  # whatever it is, it is the same
        module(*arguments)
    text = "".join(traceback.format_exception(raised.value))
    return text


@pytest.mark.parametrize("arguments", [(torch.ones(2, 3), 9), (torch.ones(2, 3), 5),
                                       (torch.ones(2, 7),), (torch.ones(2, 3), "x")])  # fmt: skip
def test_errors_and_tracebacks(failing, arguments):
    cold, warm = (shown_error(module, *arguments) for module in failing)
    assert _without_numbers(warm) == _without_numbers(cold)
    assert "test_warm.py" in warm


_NUMBER = re.compile(r"(?<=forward)[ #0-9]+(?=>)")


def _without_numbers(text: str) -> str:
    """Without the numbers that generated sources of one name have in a process."""
    return "\n".join(_NUMBER.sub("", line) for line in text.splitlines())


def test_what_python_shows_of_it(failing):
    cold, warm = failing
    for module in (cold, warm):
        module(torch.ones(2, 3))
    assert inspect.getsource(warm.forward) == inspect.getsource(cold.forward)
    assert inspect.signature(warm.forward) == inspect.signature(cold.forward)
    assert pydoc.render_doc(warm.forward) == pydoc.render_doc(cold.forward)
    assert str(inspect.signature(warm.linear.forward)) == str(
        inspect.signature(cold.linear.forward)
    )
    assert repr(warm) == repr(cold)
    assert dir(warm) == dir(cold)


def test_copies_and_saves(failing):
    cold, warm = failing
    x = torch.ones(2, 3)
    for copied in (copy.deepcopy(warm), pickle.loads(pickle.dumps(warm))):
        assert torch.equal(copied(x), cold(x))
    assert saved(warm) == saved(cold)
    assert saved(warm, canonical=True) == saved(cold, canonical=True)


def test_it_is_exported_and_decompiled(failing, tmp_path):
    cold, warm = failing
    programs = [torch.export.export(module, (torch.ones(2, 3),)) for module in (cold, warm)]
    assert str(programs[0].graph) == str(programs[1].graph)
    reports = []
    for name, module in zip(("cold", "warm"), failing, strict=True):
        tsarchive.save(module, tmp_path / f"{name}.pt")
        tsarchive.decompile(tmp_path / f"{name}.pt", tmp_path / name)
        reports.append({p.relative_to(tmp_path / name): p.read_bytes()
                        for p in (tmp_path / name).rglob("*.py")})  # fmt: skip
    assert reports[0].keys() == reports[1].keys()


def test_what_was_not_compiled_before_is_compiled_and_added():
    class Two(nn.Module):
        def forward(self, x):
            return x + 1

        @torch.jit.export
        def other(self, x):
            return self.forward(x) * 2

    data = torch_saved(torch.jit.script(Two()))
    first = loaded(data)
    first(torch.ones(1))
    kept(first)
    second = loaded(data)
    assert second.other(torch.ones(1)).item() == 4
    assert [name.rpartition(".")[2] for name in compiled(second)] == ["other"]
    kept(second)
    third = loaded(data)
    assert (third.other(torch.ones(1)).item(), third(torch.ones(1)).item()) == (4, 2)
    assert compiled(third) == []


class Scaled(nn.Module):
    def __init__(self, scale: float):
        super().__init__()
        self.weight = nn.Parameter(torch.full((2,), scale))
        self.scale = scale

    def forward(self, x):
        return x * torch.tensor(self.scale) + self.weight


def test_other_weights_share_an_entry_and_other_constants_do_not(folder):
    x = torch.ones(2)
    modules = [torch.jit.trace(Scaled(scale), x) for scale in (2.0, 3.0)]
    with torch.no_grad():
        modules.append(torch.jit.trace(Scaled(3.0), x))
        modules[2].weight.fill_(7.0)
    for module in modules:
        data = torch_saved(module)
        for _ in range(2):
            mine = loaded(data)
            assert torch.equal(mine(x), module(x))
            kept(mine)
        assert compiled(loaded(data)) == []


@torch.jit.script
class Adder:
    def __init__(self, number: int):
        self.number = number

    def add(self, x: torch.Tensor):
        return x + self.number


class ScaledOrAdded(nn.Module):
    def __init__(self):
        super().__init__()
        two = torch.tensor(2.0)
        self.scaled = torch.jit.trace(lambda x: x * two, torch.ones(2))

    def forward(self, x):
        return self.scaled(x)

    @torch.jit.export
    def added(self, x):
        return Adder(3).add(x)


def _with_constant(data: bytes, number: float) -> bytes:
    """The archive with another number in its one constant, and the same code."""
    with zipfile.ZipFile(io.BytesIO(data)) as read, io.BytesIO() as out:
        with zipfile.ZipFile(out, "w") as write:
            for info in read.infolist():
                is_constant = "/constants/" in info.filename
                content = struct.pack("<f", number) if is_constant else read.read(info)
                write.writestr(info.filename, content)
        return out.getvalue()


def test_code_for_other_constants_is_not_kept_again():
    data = torch_saved(torch.jit.script(ScaledOrAdded()))
    x = torch.ones(2)
    for number in (2.0, 3.0):
        mine = loaded(_with_constant(data, number))
        if number == 3.0:  # finds a class in the text, and calls nothing
            saved(mine, canonical=True)
            kept(mine)
            mine = loaded(_with_constant(data, number))
        assert torch.equal(mine(x), x * number)
        kept(mine)


def test_archives_of_one_code_with_other_constants_do_not_replace_each_other(folder):
    data = torch_saved(torch.jit.script(ScaledOrAdded()))
    x = torch.ones(2)
    archives = {number: _with_constant(data, number) for number in (2.0, 3.0)}
    for archive in archives.values():
        mine = loaded(archive)
        mine(x)
        kept(mine)
    assert len(folder.entries()) == len(archives)
    for number, archive in archives.items():
        mine = loaded(archive)
        assert torch.equal(mine(x), x * number)
        assert compiled(mine) == []


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operators = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.operators.append(str(operator))
        return operator(*args, **(kwargs or {}))


def test_modes_see_no_constant_that_is_read():
    data, x = torch_saved(torch.jit.script(ScaledOrAdded())), torch.ones(2)
    first = loaded(data)
    first(x)
    with Seen() as seen:
        kept(first)
    assert seen.operators == []
    with Seen() as seen:
        loaded(data)(x)
    assert seen.operators == ["aten.mul.Scalar"]
    with FakeTensorMode():
        assert loaded(data)(torch.ones(2)).shape == (2,)


def _changing(two: float) -> bytes:
    """An archive whose code adds to its constant whenever it runs."""
    constant = torch.tensor(two)
    x = torch.ones(2, dtype=constant.dtype)
    function = torch.jit.trace(lambda x: x * constant + constant.add_(x[0]), x, check_trace=False)
    return torch_saved(function)


def test_code_that_changes_numbers_which_it_names_gives_the_same_again():
    data, x = _changing(2.0), torch.ones(2)
    shown = []
    for _ in range(3):
        mine = loaded(data)
        shown.append([mine(x).tolist() for _ in range(3)])
        kept(mine)
    assert shown[0] == shown[1] == shown[2]
    assert compiled(mine) == []


def test_code_that_changes_its_constants_is_not_kept(folder):
    data, x = _changing(2), torch.ones(2, dtype=torch.int64)
    mine = loaded(data)
    mine(x)
    with pytest.raises(stored_code.Unstorable, match="changed the numbers"):
        kept(mine)
    assert folder.entries() == []


def test_graphs_that_were_read_leave_code_as_it_is():
    data = torch_saved(torch.jit.script(ScaledOrAdded()))
    mine = loaded(data)
    mine(torch.ones(2))
    kept(mine)
    warm = loaded(data)
    saved(warm, canonical=True)
    warm(torch.ones(2))
    assert compiled(warm) == []


class Gated(nn.Module):
    def __init__(self, kind: type):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(kind(0.7310585975646973)))
        self.same = nn.Parameter(self.scale.detach().clone())

    def forward(self, x):
        y = x * self.scale + (x / self.same - self.scale)
        return (y * y) ** self.scale + torch.stack([self.same, self.scale]).sum()


def _frozen(kind: type) -> bytes:
    return torch_saved(torch.jit.freeze(torch.jit.script(Gated(kind).eval())))


@pytest.mark.parametrize("kind", [float, complex])
def test_an_entry_has_no_number_that_is_a_weight(folder, kind):
    data, x = _frozen(kind), torch.rand(3)
    mine = loaded(data)
    expected = torch_loaded(data)(x)
    assert torch.equal(mine(x), expected)
    assert kept(mine) == []
    (entry,) = folder.entries()
    content = entry.path.read_bytes()
    number = Gated(kind).scale.item().real
    for code in ("<f", "<d", ">f", ">d"):
        assert struct.pack(code, number) not in content
    assert repr(number)[:7].encode() not in content
    warm = loaded(data)
    assert torch.equal(warm(x), expected)
    assert compiled(warm) == []


def _with_weights(data: bytes, *numbers: float) -> bytes:
    """The archive with these numbers in its constants, and the same code."""
    given = {f"constants/{i}": struct.pack("<f", number) for i, number in enumerate(numbers)}
    with zipfile.ZipFile(io.BytesIO(data)) as read, io.BytesIO() as out:
        with zipfile.ZipFile(out, "w") as write:
            for info in read.infolist():
                content = given.get(info.filename.partition("/")[2])
                write.writestr(info.filename, read.read(info) if content is None else content)
        return out.getvalue()


def test_code_has_numbers_by_their_place_in_the_table(folder, monkeypatch):
    monkeypatch.setattr(stored_code, "_small_constants", lambda container: [])
    data, x = _frozen(float), torch.rand(3)
    for numbers in ((0.5, 0.5), (0.25, 3.0), (3.0, 0.25), (float("inf"), float("nan"))):
        archive = _with_weights(data, *numbers)
        mine, theirs = loaded(archive), torch_loaded(archive)
        assert torch.equal(mine(x).nan_to_num(), theirs(x).nan_to_num())
        assert compiled(mine) == [] or numbers == (0.5, 0.5)
        kept(mine)
    assert len(folder.entries()) == 1


def test_an_entry_has_no_weights(folder):
    module = nn.Linear(40, 40)
    with torch.no_grad():
        module.weight.fill_(1.2345678)
    mine = loaded(torch_saved(torch.jit.trace(module, torch.ones(1, 40))))
    mine(torch.ones(1, 40))
    kept(mine)
    (entry,) = folder.entries()
    assert entry.size < module.weight.nbytes
    assert torch.tensor(1.2345678).numpy().tobytes() not in entry.path.read_bytes()


_CALLING = """
class Net(Module):
  __parameters__ = []
  def forward(self, x: Tensor) -> Tensor:
    _0 = {}(x, 999)
    return torch.add(x, 0)
"""
_PURE = "(Tensor x, int dtype) -> Tensor"
_WRITING = "(Tensor(a!) x, int dtype) -> Tensor(a!)"


def doubled(schema: str, kind: str = "") -> str | float:
    """The answer of code that calls an operator of this schema, which writes to its argument."""
    with _scoped_library("tsarchive_cached", "FRAGMENT") as library:
        library.define(f"f{schema}", kind)
        library.impl("f", lambda x, dtype: x.mul_(2), "CompositeExplicitAutograd")
        code = _CALLING.format("ops.tsarchive_cached.f")
        mine = loaded(archive_with(code), policy=Policy.trusted())
        state, result = outcome(mine, torch.ones(1))
        if hasattr(code_of(mine), "keep"):
            kept(mine)
        return result.item() if state == "result" else str(result)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((_PURE,), (_WRITING,)),
        ((_PURE,), (_PURE, "CONSERVATIVE")),
        ((_WRITING,), (_WRITING.replace("int", "ScalarType"),)),
    ],
    ids=["schemas", "promises", "types"],
)
def test_operators_that_are_registered_anew(monkeypatch, first, second):
    cached = [doubled(*one) for one in (first, second, second, first, first)]
    monkeypatch.setenv("TSARCHIVE_CACHE", "0")
    assert cached == [doubled(*one) for one in (first, second, second, first, first)]
    assert cached[0] != cached[1]


def test_code_that_was_compiled_for_other_operators_is_not_kept(folder):
    with _scoped_library("tsarchive_cached", "FRAGMENT") as library:
        library.define(f"f{_WRITING}")
        library.impl("f", lambda x, dtype: x.mul_(2), "CompositeExplicitAutograd")
        code = _CALLING.format("ops.tsarchive_cached.f")
        mine = loaded(archive_with(code), policy=Policy.trusted())
        mine(torch.ones(1))
    with _scoped_library("tsarchive_cached", "FRAGMENT") as library:
        library.define(f"f{_PURE}")
        with pytest.raises(stored_code.Unstorable, match="registered anew"):
            kept(mine)
    assert folder.entries() == []


_ADDING = """
import sys, torch, tsarchive
path, schema = sys.argv[1:]
library = torch.library.Library("aten", "FRAGMENT")
library.define("tsarchive_cached" + schema)
library.impl("tsarchive_cached", lambda x, n: x.mul_(2), "CompositeExplicitAutograd")
print(tsarchive.load(path, policy=tsarchive.Policy.trusted())(torch.ones(1)).item())
"""


def test_operators_that_others_add_to_torchs(tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes(archive_with(_CALLING.format("torch.tsarchive_cached")))
    shown = []
    pure, writing = (schema.replace("dtype", "n") for schema in (_PURE, _WRITING))
    for schema in (pure, writing, writing):
        done = torch_process("-c", _ADDING, path, schema, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        shown.append(float(done.stdout))
    assert shown == [1, 2, 2]


def test_the_policy_decides_again(failing, monkeypatch):
    _, warm = failing
    row = Row("aten::relu", Risk.FILES, "reads the disk today")
    policy = type(warm.tsarchive_classes.enforcement.guard.policy)
    refusal = policy.refusal
    monkeypatch.setattr(
        policy, "refusal", lambda self, name: row if "relu" in name else refusal(self, name)
    )
    messages = []
    for module in failing:
        with pytest.raises(PolicyError, match="reads the disk today") as raised:
            module(torch.ones(2, 3))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_other_policies_and_limits_have_entries_of_their_own(folder):
    data = torch_saved(torch.jit.script(Failing()))
    options = [{}, {"policy": Policy.trusted()}, {"limits": Limits(steps=10_000)},
               {"policy": Policy.default().forbid("aten::cos")}]  # fmt: skip
    for count, option in enumerate(options, 1):
        for _ in range(2):
            mine = loaded(data, **option)
            mine(torch.ones(2, 3))
            kept(mine)
        assert len(folder.entries()) == count
        assert compiled(loaded(data, **option)) == []


def test_limits_hold():
    class Loop(nn.Module):
        def forward(self, x, times: int):
            for _ in range(times):
                x = x + 1
            return x

    data = torch_saved(torch.jit.script(Loop()))
    for _ in range(2):
        mine = loaded(data, limits=Limits(steps=1000))
        assert mine(torch.zeros(1), 5).item() == 5
        with pytest.raises(tsarchive.LimitError):
            mine(torch.zeros(1), 5000)
        refused = kept(mine)
        assert refused == []
    assert compiled(loaded(data, limits=Limits(steps=1000))) == []


def test_operators_that_are_registered_otherwise_are_compiled_again(failing, monkeypatch):
    _, warm = failing
    monkeypatch.setattr(stored_code, "_registry", lambda names: b"others")
    assert warm(torch.ones(2, 3)).shape == (2, 4)
    assert len(compiled(warm)) == 1  # the two layers are run within it


def test_code_on_another_device():
    class Made(nn.Module):
        def forward(self, x):
            return x + torch.ones(2, device="cpu") + torch.zeros(2, device=torch.device("cuda:0"))

    data = torch_saved(torch.jit.script(Made()))
    for _ in range(2):
        for device in ("cpu", "meta"):
            mine = loaded(data, map_location=device)
            assert mine(torch.ones(2, device=device)).device.type == device
            kept(mine)


@pytest.mark.sample(12)
@pytest.mark.parametrize("path", sorted(ARCHIVES.glob("*.pt")), ids=lambda path: path.stem)
def test_archives_of_every_kind_load_twice(path):
    shown = []
    for _ in range(3):
        state, module = outcome(tsarchive.load, path)
        shown.append(str(module) if state == "error" else saved(module))
        if state == "result" and hasattr(module.tsarchive_classes.origin.importer.code, "keep"):
            kept(module)
        del module
        gc.collect()
    assert shown[0] == shown[1] == shown[2]


def test_what_is_dropped_is_kept(folder):
    mine = loaded(torch_saved(torch.jit.script(nn.ReLU())))
    mine(torch.ones(1))
    assert folder.entries() == []
    del mine
    gc.collect()
    assert len(folder.entries()) == 1


def test_keeping_that_fails_is_silent(folder, tmp_path):
    folder.path.write_bytes(b"")
    mine = loaded(torch_saved(torch.jit.script(nn.ReLU())))
    mine(torch.ones(1))
    del mine
    gc.collect()


_EXITING = """
import sys, torch, tsarchive
module = tsarchive.load(sys.argv[1])
module(torch.ones(2, 3))
sys.exit(7)
"""


@pytest.mark.sample(1, gaps="a process each; a folder that cannot be made is tried in test_folder")
@pytest.mark.parametrize("place", ["writable", "/dev/null/cache"])
def test_an_exit_code_is_that_of_the_program(tmp_path, place):
    path = tmp_path / "net.pt"
    path.write_bytes(torch_saved(torch.jit.script(nn.ReLU())))
    env = {**os.environ, "TSARCHIVE_CACHE": str(tmp_path / place)}
    done = torch_process("-c", _EXITING, path, cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")
    assert (tmp_path / place).is_dir() == (place == "writable")


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def in_child(work) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return child


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@forks
def test_a_child_writes_what_it_has_found_itself(folder):
    data = torch_saved(torch.jit.script(Failing()))
    mine = loaded(data)
    mine.linear(torch.ones(2, 3))

    assert ended(in_child(lambda: kept(mine))) == 0
    assert folder.entries() == []

    def work():
        mine(torch.ones(2, 3))
        kept(mine)

    assert ended(in_child(work)) == 0
    assert len(folder.entries()) == 1
    warm = loaded(data)
    warm(torch.ones(2, 3))
    assert compiled(warm) == []


@forks
def test_sixteen_processes_at_once(folder):
    data, x = torch_saved(torch.jit.script(Failing())), torch.ones(2, 3)
    expected = torch_loaded(data)(x)

    def work():
        for _ in range(4):
            mine = loaded(data)
            assert torch.equal(mine(x), expected)
            kept(mine)

    children = [in_child(work) for _ in range(16)]
    assert [ended(child) for child in children] == [0] * 16
    assert [path.suffix for path in Path(folder.path).iterdir()] == [".code"]
    warm = loaded(data)
    assert torch.equal(warm(x), expected)
    assert compiled(warm) == []


def test_an_entry_that_is_damaged_is_compiled_again(folder):
    data, x = torch_saved(torch.jit.script(Failing())), torch.ones(2, 3)
    mine = loaded(data)
    expected = mine(x)
    kept(mine)
    (entry,) = folder.entries()
    content = bytearray(entry.path.read_bytes())
    content[len(content) // 2] ^= 4
    entry.path.write_bytes(content)
    again = loaded(data)
    assert torch.equal(again(x), expected)
    assert len(compiled(again)) == 1
    kept(again)
    assert entry.path.read_bytes() != bytes(content)


def test_buffers_are_cached_as_paths_are(tmp_path):
    data = torch_saved(torch.jit.script(nn.ReLU()))
    (tmp_path / "net.pt").write_bytes(data)
    mine = tsarchive.load(tmp_path / "net.pt")
    mine(torch.ones(1))
    kept(mine)
    warm = tsarchive.load(io.BytesIO(data))
    warm(torch.ones(1))
    assert compiled(warm) == []
