"""What the policy refuses, when, and with which error; what a user allows runs."""

from __future__ import annotations

import copy
import io
import os
import pickle
import threading

import pytest
import torch

import tsarchive
from tests.support.archives import TORCH, torch_saved
from tests.support.deviating import Convolution
from tests.support.processes import torch_process
from tests.support.registry_calls import archive_of
from tests.support.running import Graph, operator
from tsarchive import ArchiveError, CallError, Policy, PolicyError
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.types import TENSOR
from tsarchive.pickler import Global, Object, dumps
from tsarchive.policy import Guard
from tsarchive.run.classes import Classes

HEADER = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
SAVES = 'torch.save(x, "written")'
MAPS = 'x = torch.from_file("written", True, 4)'


class Writer(torch.nn.Module):
    def forward(self, x: torch.Tensor, path: str) -> torch.Tensor:
        y = x + 1
        torch.save(y, path)
        return y


class WriterAtLoad(torch.nn.Module):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.path = state[0]
        self.training = state[1]
        mapped = torch.from_file(self.path + ".mapped", True, 4, dtype=torch.float32)
        torch.save(mapped, self.path)


def loaded(code: str, policy: Policy | None = None):
    """The module of an archive with the class ``M``, whose body is ``code``."""
    return tsarchive.load(io.BytesIO(archive_of(HEADER + code)), policy=policy)


def method(*lines: str, name: str = "f", params: str = "x: Tensor") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"  def {name}(self: __torch__.M,\n    {params}) -> Tensor:\n{body}    return x\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_tensor_that_code_may_save_can_be_loaded_by_torch(folder):
    archive = io.BytesIO(torch_saved(torch.jit.script(Writer())))
    module = tsarchive.load(archive, policy=Policy.default().allow("aten::save"))
    module(torch.ones(2), "written \xe9")
    assert torch.load(folder / "written \xe9").tolist() == [2, 2]


def is_empty(folder) -> bool:
    return list(folder.iterdir()) == []


def test_a_call_is_refused_before_anything_of_its_function_runs(folder):
    module = tsarchive.load(io.BytesIO(torch_saved(torch.jit.script(Writer()))))
    with pytest.raises(PolicyError) as caught:
        module(torch.ones(2), str(folder / "written"))
    error = caught.value
    assert error.operator == "aten::save"
    assert error.function.endswith("Writer.forward")
    assert error.record == "code/__torch__/tests/policy/test_policies.py"
    assert "torch.save(y, path)" in error.construct
    assert error.origin.startswith(f"{__file__}:")
    assert error.origin.endswith("torch.save(y, path)")
    assert "a pickle to a file" in error.message
    assert "Policy.default().allow('aten::save')" in error.hint.replace('"', "'")
    assert isinstance(error, PermissionError)
    assert is_empty(folder)


def test_an_allowed_operator_runs(folder):
    module = loaded(method(MAPS), Policy.default().allow("aten::from_file"))
    module.f(torch.ones(1))
    assert (folder / "written").stat().st_size == 16


def test_loading_refuses_what_setstate_names_and_writes_nothing(folder):
    # torch.jit runs __setstate__ when it copies a module, so the file is made by hand.
    data = torch_saved(torch.jit.script(WriterAtLoad(str(folder / "written"))))
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(PolicyError, match="from_file") as caught:
        tsarchive.load(io.BytesIO(data))
    assert caught.value.function.endswith("WriterAtLoad.__setstate__")
    assert caught.value.line is not None
    assert is_empty(folder)
    with pytest.raises(PolicyError, match="aten::save"):
        tsarchive.load(io.BytesIO(data), policy=Policy.default().allow("aten::from_file"))
    assert is_empty(folder)


def test_the_error_names_the_line_of_the_record(folder):
    module = loaded(method("y = torch.neg(x)", SAVES))
    with pytest.raises(PolicyError) as caught:
        module.f(torch.ones(1))
    assert (caught.value.record, caught.value.line) == ("code/__torch__.py", 7)
    assert str(caught.value).startswith("code/__torch__.py:7: __torch__.M.f names the operator")
    assert str(caught.value).endswith(f"\n  code: {SAVES}")


@pytest.mark.parametrize(
    "lines",
    [
        ["if torch.gt(torch.sum(x), 5):", f"  {SAVES}"],
        ["for i in range(torch.len([x])):", f"  {SAVES}"],
        ["while False:", "  pass", SAVES],
        [SAVES, "y = torch.neg(x)"],
    ],
    ids=["a branch", "a loop", "behind a loop", "the first line"],
)
def test_where_in_a_function_it_is_named(folder, lines):
    with pytest.raises(PolicyError):
        loaded(method(*lines)).f(torch.ones(1))
    assert is_empty(folder)


def test_code_that_never_runs_is_not_refused():
    module = loaded(method("if False:", f"  {SAVES}", "else:", "  pass") + method(SAVES, name="g"))
    assert module.f(torch.ones(1)) == 1


def test_a_function_that_is_called_is_refused_when_it_is_compiled(folder):
    module = loaded(method("y = (self).g(x, )") + method(SAVES, name="g"))
    with pytest.raises(PolicyError) as caught:
        module.f(torch.ones(1))
    assert caught.value.function == "__torch__.M.g"
    assert is_empty(folder)


def test_it_is_refused_again_at_the_next_call(folder):
    module = loaded(method(SAVES))
    for _ in range(2):
        with pytest.raises(PolicyError):
            module.f(torch.ones(1))


def test_in_threads(folder):
    module = loaded(method(SAVES))
    refused = []

    def call() -> None:
        try:
            module.f(torch.ones(1))
        except PolicyError as error:
            refused.append(error.operator)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["aten::save"] * 8
    assert is_empty(folder)


class Hooked(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def write_first(self, inputs: tuple[torch.Tensor]) -> None:
    torch.save(inputs[0], "written")


def write_after(self, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
    torch.save(output, "written")


@pytest.mark.parametrize("register", ["register_forward_pre_hook", "register_forward_hook"])
def test_hooks(folder, register):
    module = Hooked()
    getattr(module, register)(write_first if "pre" in register else write_after)
    ours = tsarchive.load(io.BytesIO(torch_saved(torch.jit.script(module))))
    with pytest.raises(PolicyError, match="names the operator aten::save") as caught:
        ours(torch.ones(1))
    assert "write_" in caught.value.function
    assert is_empty(folder)


class Forking(torch.nn.Module):
    def write(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, "written")
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.jit.wait(torch.jit.fork(self.write, x))


def test_a_forked_call(folder):
    ours = tsarchive.load(io.BytesIO(torch_saved(torch.jit.script(Forking()))))
    with pytest.raises(PolicyError, match="aten::save"):
        ours(torch.ones(1))
    assert is_empty(folder)


def test_a_deep_and_a_pickled_copy_keep_the_policy(folder):
    module = loaded(method(SAVES))
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        with pytest.raises(PolicyError):
            copied.f(torch.ones(1))
    assert is_empty(folder)


@pytest.mark.long("test_a_deep_and_a_pickled_copy_keep_the_policy")
@pytest.mark.parametrize("allowed", [False, True])
def test_a_copy_in_another_process_keeps_the_policy(folder, allowed):
    policy = Policy.default().allow("aten::from_file") if allowed else None
    (folder / "pickle").write_bytes(pickle.dumps(loaded(method(MAPS), policy)))
    code = (
        "import pickle, torch, tsarchive\n"
        "module = pickle.load(open('pickle', 'rb'))\n"
        "try: module.f(torch.ones(1))\n"
        "except tsarchive.PolicyError: print('refused')\n"
    )
    done = torch_process("-W", "ignore", "-c", code, cwd=folder)
    assert (done.returncode, done.stdout) == (0, "" if allowed else "refused\n"), done.stderr
    assert (folder / "written").exists() is allowed


def test_export_and_compile_are_refused(folder):
    module = loaded(method(SAVES, name="forward"))
    with pytest.raises(ArchiveError, match="aten::save"):
        tsarchive.to_exported_program(module, (torch.ones(1),))
    assert is_empty(folder)


@pytest.mark.parametrize("read", [tsarchive.check_jitter, tsarchive.load])
def test_what_loads_files_obeys_at_load(folder, read):
    code = (
        "  def __getstate__(self: __torch__.M) -> int:\n    return 1\n"
        "  def __setstate__(self: __torch__.M,\n    state: int) -> NoneType:\n"
        f"    {MAPS}\n    print(x)\n    return None\n"
    )
    data = replaced(
        archive_of(HEADER + code), "data.pkl", dumps(Object(Global("__torch__", "M"), 1))
    )
    with pytest.raises(PolicyError, match=r"M\.__setstate__ names the operator aten::from_file"):
        read(io.BytesIO(data))
    assert is_empty(folder)
    read(io.BytesIO(data), policy=Policy.default().allow("aten::from_file"))
    assert (folder / "written").exists()


def test_decompile_obeys_at_load(folder):
    data = torch_saved(torch.jit.script(WriterAtLoad(str(folder / "written"))))
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(PolicyError):
        tsarchive.decompile(io.BytesIO(data), folder / "package")
    assert is_empty(folder)


def replaced(data: bytes, name: str, content: bytes) -> bytes:
    import zipfile

    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(written, "w") as new:
        for member in old.namelist():
            is_it = member.partition("/")[2] == name
            new.writestr(member, content if is_it else old.read(member))
    return written.getvalue()


def by_hand(kind: str, policy: Policy, *, overload: str = ""):
    """A call of an operator with one tensor, by a graph made by hand."""
    graph = Graph()
    function = graph.function(operator(graph.block, kind, graph.param(TENSOR)))
    return Classes(guard=Guard(policy)).compiler.function(function)


@pytest.fixture(scope="module")
def library():
    """A library of another namespace with an operator of two overloads."""
    made = torch.library.Library("tsarchive_policy", "DEF")
    made.define("twice(Tensor x) -> Tensor")
    made.define("twice.other(Tensor x, int n) -> Tensor")
    made.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    made.impl("twice.other", lambda x, n: x * n, "CompositeExplicitAutograd")
    yield made
    made._destroy()


TWICE = method("x = ops.tsarchive_policy.twice(x)")
OTHER = method("x = ops.tsarchive_policy.twice(x, 5)")


@pytest.mark.parametrize(
    ("names", "plain", "other"),
    [
        ((), False, False),
        (("tsarchive_policy::twice",), True, True),
        (("tsarchive_policy::twice.other",), False, True),
        (("tsarchive_policy::*",), True, True),
        (("tsarchive_policy::thrice", "tsarchive::*"), False, False),
        (("tsarchive_polic::*",), False, False),
    ],
)
def test_names_of_other_namespaces(library, names, plain, other):
    policy = Policy.default().allow(*names)
    for code, is_allowed, factor in ((TWICE, plain, 2), (OTHER, other, 5)):
        module = loaded(code, policy)
        if is_allowed:
            assert module.f(torch.ones(1)) == factor
        else:
            with pytest.raises(PolicyError, match="not part of torch"):
                module.f(torch.ones(1))


def test_the_hint_is_what_allows(library):
    with pytest.raises(PolicyError) as caught:
        loaded(TWICE).f(torch.ones(1))
    text = caught.value.hint.partition("policy=")[2]
    assert loaded(TWICE, eval(text, {"Policy": Policy})).f(torch.ones(1)) == 2


def test_the_hint_adds_to_what_is_allowed(library):
    with pytest.raises(PolicyError) as caught:
        loaded(TWICE, Policy.default().allow("aten::save")).f(torch.ones(1))
    assert 'allow("aten::save", "tsarchive_policy::twice")' in caught.value.hint


def packed() -> torch.ScriptObject:
    weight = torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(weight, None)


def test_packed_weights_of_torch_load():
    class Quantized(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.packed = packed()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.quantized.linear_dynamic(x, self.packed)

    module = tsarchive.load(io.BytesIO(torch_saved(torch.jit.script(Quantized()))))
    assert module(torch.ones(1, 2)).shape == (1, 2)


def native_archive(name: str) -> bytes:
    module, _, last = f"{NATIVE_PREFIX}{name}".rpartition(".")
    root = dumps(Object(Global("__torch__", "M"), {"o": Object(Global(module, last), ())}))
    return replaced(archive_of(f"{HEADER}  o : {NATIVE_PREFIX}{name}\n"), "data.pkl", root)


@pytest.mark.skipif(TORCH < (2, 9), reason="torch 2.8 and older have no class that is refused")
def test_an_object_of_a_refused_class_is_not_made():
    with pytest.raises(PolicyError) as caught:
        tsarchive.load(io.BytesIO(native_archive("aten.OpaqueObject")))
    assert caught.value.operator == "aten.OpaqueObject"
    assert caught.value.function is None
    assert "the archive holds an object of the class aten.OpaqueObject" in caught.value.message
    assert f'.allow("{NATIVE_PREFIX}aten.OpaqueObject")' in caught.value.hint


def test_a_method_of_a_refused_class_is_not_named():
    code = method(
        "y = (p).enable()", params=f"x: Tensor, p: {NATIVE_PREFIX}profiling._ScriptProfile"
    )
    function = loaded(code).tsarchive_class.methods["f"]
    with pytest.raises(PolicyError, match=r"M\.f names the class profiling\._ScriptProfile"):
        Classes().compiler.function(function).compile()


@pytest.mark.parametrize(
    "name",
    [
        "torchvision.nms", "torchvision", "torchvision::", "::nms", "*", "*::nms", "a::b::c",
        "a::n*", "a b::c", "aten::add.", "", "__torch__.M", "__torch__.torch.classes.M",
        "aten::add(Tensor)", None, 3, ("aten::save",),
    ],
)  # fmt: skip
def test_malformed_names(name):
    with pytest.raises(CallError) as caught:
        Policy.default().allow(name)
    assert caught.value.hint


def test_a_dotted_operator_gets_a_hint():
    with pytest.raises(CallError, match='"torchvision::nms"'):
        Policy.default().allow("torchvision.nms")


@pytest.mark.parametrize(
    "name",
    [
        "mylib.Packed", "my.lib.Packed", "profiler._RecordFunction", f"{NATIVE_PREFIX}mylib.Packed",
        f"{NATIVE_PREFIX}mylib.packed",
    ],
)  # fmt: skip
def test_classes_in_both_forms(name):
    policy = Policy.default().allow(name)
    full = NATIVE_PREFIX + name.removeprefix(NATIVE_PREFIX)
    assert policy.refusal(full) is None
    assert policy.refusal(full.removeprefix(NATIVE_PREFIX)) is None
    assert Policy.default().allow(full) == policy
    assert policy.refusal("other.Packed") is not None


def test_a_policy_is_a_value():
    first = Policy.default().allow("aten::save", "aten::from_file")
    second = Policy.default().allow("aten::from_file").allow("aten::save")
    assert first == second
    assert hash(first) == hash(second)
    assert repr(first) == 'Policy.default().allow("aten::from_file", "aten::save")'
    assert eval(repr(first), {"Policy": Policy}) == first
    assert repr(Policy.default()) == "Policy.default()"
    assert repr(Policy.trusted().allow("aten::save")) == "Policy.trusted()"
    assert Policy.default() != Policy.trusted()
    assert Policy.default().refusal("aten::save") is not None
    with pytest.raises(AttributeError):
        first.is_trusting = True
    assert pickle.loads(pickle.dumps(first)) == first


@pytest.mark.parametrize("name", ["aten::save", "prim::rpc_async", "a::b", "mylib.Packed"])
def test_trusted_refuses_nothing(name):
    assert Policy.trusted().refusal(name) is None


def test_rpc_is_refused_whether_or_not_it_is_there():
    policy = Policy.default()
    assert policy.refusal("prim::rpc_sync").risk.value == "processes"
    assert not os.environ.get("WORLD_SIZE")


@pytest.mark.parametrize("given", [{"policy": "default"}, {"policy": ""}, {"limits": 5}])
def test_what_is_no_policy_is_refused(given):
    with pytest.raises(CallError, match="is no "):
        tsarchive.load(io.BytesIO(torch_saved(torch.jit.script(Writer()))), **given)


def test_a_refusal_can_be_pickled(folder):
    module = tsarchive.load(io.BytesIO(torch_saved(torch.jit.script(Writer()))))
    with pytest.raises(PolicyError) as caught:
        module(torch.ones(2), "written")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is PolicyError
    assert str(again) == str(caught.value)
    assert vars(again) == vars(caught.value)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no MKL-DNN")
def test_what_the_warning_of_an_optimised_module_says_is_so():
    module = torch.jit.optimize_for_inference(torch.jit.script(Convolution().eval()))
    x, buffer = torch.ones(1, 1, 5, 5), io.BytesIO()
    with pytest.warns(UserWarning, match="refuses to run"):
        tsarchive.save(module, buffer)
    with pytest.raises(tsarchive.PolicyError, match="aten::to_mkldnn"):
        tsarchive.load(io.BytesIO(buffer.getvalue()))(x)
    policy = tsarchive.Policy.default().allow("aten::to_mkldnn", "prim::mkldnn_convolution")
    loaded = tsarchive.load(io.BytesIO(buffer.getvalue()), policy=policy)
    assert torch.equal(loaded(x), module(x))
