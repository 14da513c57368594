"""Devices that code names move with the tensors: modules that run elsewhere then."""

from __future__ import annotations

import gc
import io
import pickle

import pytest
import torch

import tsarchive
from tests.devices.subjects import (
    CPU,
    DEVICE,
    EXAMPLE,
    GPU,
    STORAGE_ON_GPU,
    OnGpu,
    Traced,
    archive,
    changed,
    code_of,
    function,
)
from tests.support.archives import (
    CORPUS,
    case_archive,
    records_of,
    saved,
    torch_loaded,
    torch_saved,
)
from tests.support.comparing import equal
from tests.support.corpus_inputs import arguments_for, call
from tests.support.legacy_archives import fixture
from tsarchive.container import Container, NewRecord, write_container
from tsarchive.errors import PickleError
from tsarchive.pickler import Global, Object, PersistentId, Reduce, dumps, loads


def test_a_scripted_module_runs_on_the_cpu():
    module = tsarchive.load(io.BytesIO(torch_saved(torch.jit.script(OnGpu()))), map_location="cpu")
    cpu = torch.device("cpu")
    assert (module.one, module.several, module.named) == (cpu, [cpu, cpu], {"a": cpu})
    assert (module.maybe, module.pair) == (cpu, (cpu, 1))
    assert (module.part.device, module.part.devices, module.part.title) == (
        "cpu", ["cpu", "cpu"], "cuda"
    )  # fmt: skip
    expected = (torch.tensor([2.0, 3.0, 4.0]), "cuda")
    assert equal(module(torch.ones(3)), expected)
    for canonical in (False, True):
        data = saved(module, canonical=canonical)
        assert equal(torch_loaded(data)(torch.ones(3)), expected)
        assert tsarchive.check_jitter(io.BytesIO(data)).stable


def test_a_module_runs_without_data():
    data = torch_saved(torch.jit.script(OnGpu()))
    module = tsarchive.load(io.BytesIO(data), map_location="meta")
    assert module(torch.ones(3))[0].device.type == "meta"


class Casting(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        with torch.autocast("cuda"):
            y = x @ x
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = x @ x
        return y, z


def test_casts_for_a_gpu_change_nothing_on_the_cpu():
    data = torch_saved(torch.jit.script(Casting()))
    found = tsarchive.load(io.BytesIO(data), map_location="cpu")(torch.ones(2, 2))
    assert [tensor.dtype for tensor in found] == [torch.float32, torch.bfloat16]
    assert equal(found, torch_loaded(data)(torch.ones(2, 2)))


def test_strings_of_attributes_that_are_no_devices_stay():
    code = (
        "class Net(Module):\n  d : str\n  e : Dict[str, Tuple[str, str]]\n"
        "  def forward(self: __torch__.Net) -> Device:\n"
        "    print(torch.device((self.e[self.d])[0]))\n"
        "    return torch.device(self.d)\n"
    )
    values = {"d": "auto", "e": {"cuda": ("cuda", "none")}}
    data = dumps(Object(Global("__torch__", "Net"), values))
    module = tsarchive.load(archive(code, data=data), map_location="cpu")
    assert (module.d, module.e) == ("auto", {"cuda": ("cpu", "none")})


def test_tensors_of_an_extension_come_to_the_cpu():
    """Its device is none that this process knows."""
    storage = PersistentId(("storage", Global("torch", "FloatStorage"), "0", "npu:0", 0))
    hooks = Reduce(Global("collections", "OrderedDict"), ())
    rebuild = Global("torch._utils", "_rebuild_tensor_v2")
    tensor = Reduce(rebuild, (storage, 0, (0,), (1,), False, hooks))
    values = {"t": tensor, "d": Reduce(DEVICE, ("npu:0",))}
    code = "class Net(Module):\n  t : Tensor\n  d : Device\n"
    data = dumps(Object(Global("__torch__", "Net"), values))
    module = tsarchive.load(archive(code, data=data), map_location="cpu")
    assert (module.t.device, module.d) == (torch.device("cpu"), torch.device("cpu"))
    with pytest.raises(PickleError, match="npu"):
        tsarchive.load(archive(code, data=data))


@pytest.mark.long("test_a_scripted_module_runs_on_the_cpu")
def test_a_module_that_was_traced_on_a_gpu_runs_on_the_cpu():
    original = torch.jit.trace(Traced().eval(), EXAMPLE)
    on_cpu = torch_saved(original)
    on_gpu = changed(on_cpu, (CPU, GPU), ("pin_memory=False", "pin_memory=True"))
    assert code_of(on_gpu) != code_of(on_cpu)
    assert code_of(on_gpu, "cpu") == code_of(on_cpu)
    module = tsarchive.load(io.BytesIO(on_gpu), map_location="cpu")
    expected = original(*EXAMPLE)
    assert equal(module(*EXAMPLE), expected)
    data = saved(module)
    assert code_of(data) == code_of(on_gpu, "cpu")
    assert equal(torch_loaded(data)(*EXAMPLE), expected)
    report = tsarchive.check_jitter(io.BytesIO(on_gpu), map_location="cpu", canonical=True)
    assert report.stable
    assert report.canonical.same


def test_a_module_that_was_traced_on_the_cpu_is_for_a_gpu_afterwards():
    on_cpu = torch_saved(torch.jit.trace(Traced().eval(), EXAMPLE))
    on_gpu = code_of(on_cpu, "cuda:0")
    assert on_gpu == code_of(changed(on_cpu, (CPU, GPU)))
    assert on_gpu != code_of(on_cpu)


def test_a_pickle_of_a_loaded_module_has_the_code_for_its_device():
    """What told that the CPU is meant is not in the pickle."""
    code = (
        "class Net(Module):\n  d : Device\n"
        "  def forward(self: __torch__.Net) -> Tensor:\n"
        f"    return torch.zeros([2], dtype=6, layout=0, device={CPU})\n"
    )
    root = Object(Global("__torch__", "Net"), {"d": Reduce(DEVICE, ("cuda:0",))})
    module = tsarchive.load(archive(code, data=dumps(root)), map_location="cuda:1")
    assert module.d == torch.device("cuda:1")
    content = pickle.dumps(module)
    del module
    gc.collect()
    revived = pickle.loads(content)
    assert revived.d == torch.device("cuda:1")
    assert revived().device.type == "cpu"


def test_constants_move():
    tensor = Reduce(
        Global("torch._utils", "_rebuild_tensor_v2"),
        (STORAGE_ON_GPU, 0, (0,), (1,), False, Reduce(Global("collections", "OrderedDict"), ())),
    )
    device = Reduce(DEVICE, ("cuda:0",))
    file = archive(function("return x"), constants=dumps((tensor, tensor, device)))
    with tsarchive.open(file) as opened:
        first, second, place = loads(opened.moved("cpu").read("constants.pkl"))
    assert first is second
    assert first.argument[0].value[3] == "cpu"
    assert place.argument == ("cpu",)


def test_archives_of_the_cpu_stay_byte_for_byte(case):
    data = case_archive(case)
    with Container.open(io.BytesIO(data)) as container, tsarchive.open(io.BytesIO(data)) as opened:
        records = opened.moved("cpu").records
        assert {n: r.crc for n, r in records.items()} == {
            n: r.crc for n, r in container.records.items()
        }


def test_there_and_back_gives_the_same_code(case):
    data = case_archive(case)
    with tsarchive.open(io.BytesIO(data)) as opened:
        there = opened.moved("cuda:0")
        assert dict(there.moved("cuda:0").code) == dict(there.code)
        assert dict(there.moved("cpu").code) == dict(opened.code)


@pytest.mark.parametrize("version", ["1.0.1", "1.1.0", "1.2.0"])
def test_archives_of_before_torch_1_3_move_too(version):
    path = fixture(f"traced_sequence-{version}")
    content = records_of(path.read_bytes())
    code = next(name for name in content if name.startswith("code/"))
    file = io.BytesIO()
    on_gpu = content[code].replace(CPU.encode(), GPU.encode())
    write_container(file, [NewRecord(n, on_gpu if n == code else c) for n, c in content.items()])
    assert on_gpu != content[code]
    assert code_of(file.getvalue(), "cpu") == code_of(path.read_bytes())
    assert code_of(path.read_bytes(), "cuda:0") == code_of(file.getvalue())
    module = tsarchive.load(io.BytesIO(file.getvalue()), map_location="cpu")
    for call_ in torch.load(path.with_suffix(".io.pt"), weights_only=True)["forward"]:
        assert equal(module(*call_["args"]), tsarchive.load(path)(*call_["args"]))


# Real archives

PATHS = sorted((CORPUS / "torchscript").glob("*")) if CORPUS.is_dir() else []
corpus = pytest.mark.skipif(
    not PATHS, reason="the corpus of real archives is not beside the repository"
)
NAMES_A_GPU = ("pypi-nnsplit-0.1.4__en_ts_cuda.pt", "pypi-nnsplit-0.2.2__de_ts_cuda.pt")
NAMES_THE_CPU = (
    "debian-pytorch-2.6.0__TestSerialization.test_lstm.traced.pt",
    "dotnet-TorchSharp__shakespeare.zip.pt",
    "pytorch-android-demo-app__vit4mnist.ptl",
)


@corpus
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_real_code_goes_there_and_back(path):
    with tsarchive.open(path) as opened:
        if opened.kind != "torchscript":
            pytest.skip(f"the file is of kind {opened.kind}")
        there = opened.moved("cuda:0")
        if path.name not in NAMES_A_GPU:
            assert dict(opened.moved("cpu").code) == dict(opened.code)
            assert dict(there.moved("cpu").code) == dict(opened.code)
        assert dict(there.moved("cuda:0").code) == dict(there.code)


@corpus
@pytest.mark.parametrize("name", NAMES_A_GPU)
def test_real_archives_of_a_gpu_run_on_the_cpu(name):
    path = CORPUS / "torchscript" / name
    module = tsarchive.load(path, map_location="cpu")
    data = saved(module)
    with tsarchive.open(path) as opened:
        assert code_of(data) == dict(opened.moved("cpu").code)
    given_text = torch.randint(0, 100, (2, 20)).byte()
    assert equal(torch_loaded(data)(given_text), module(given_text))
    # torch leaves the device in the code.
    with pytest.raises(RuntimeError):
        torch.jit.load(path, map_location="cpu")(given_text)


@corpus
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_results_do_not_depend_on_the_device_in_the_code(path):
    content = path.read_bytes()
    on_gpu = changed(content, (CPU, GPU)) if CPU in "".join(code_texts(content)) else None
    if on_gpu is None:
        pytest.skip("the code names no device")
    try:
        probe = torch.jit.load(path, map_location="cpu")
    except RuntimeError:
        pytest.skip("torch.jit does not load it")
    arguments = arguments_for(path.name, probe, "forward")
    if arguments is None:
        pytest.skip("no arguments are known that torch.jit takes")
    expected = call(tsarchive.load(path, map_location="cpu"), "forward", arguments)
    found = tsarchive.load(io.BytesIO(on_gpu), map_location="cpu")
    assert equal(call(found, "forward", arguments), expected)


def code_texts(content: bytes):
    with tsarchive.open(io.BytesIO(content)) as opened:
        yield from opened.code.values()
