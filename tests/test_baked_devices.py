"""Devices that code names move with the tensors: ``map_location`` reaches into the code."""

from __future__ import annotations

import gc
import io
import pickle

import pytest
import torch
from cli_support import document, error, run, write_archive
from comparing import equal
from conftest import CORPUS, records_of, torch_loaded, torch_saved
from corpus_inputs import arguments_for, call
from hypothesis import given
from hypothesis import strategies as st
from legacy_support import fixture

import tsarchive
from tsarchive.container import Container, NewRecord, write_container
from tsarchive.errors import CallError, PickleError, SourceError
from tsarchive.pickler import Global, Object, PersistentId, Reduce, dumps, loads
from tsarchive.torchscript.debug import read_debug_record
from tsarchive.torchscript.debug_writing import DebugWriter
from tsarchive.torchscript.edits import Edit, EditedText, moved_debug_record

EMPTY = dumps(())
CPU, GPU = 'torch.device("cpu")', 'torch.device("cuda:0")'
DEVICE = Global("torch", "device")
STORAGE_ON_GPU = PersistentId(("storage", Global("torch", "FloatStorage"), "0", "cuda:0", 0))


def archive(code, data=EMPTY, constants=EMPTY) -> io.BytesIO:
    """An archive that can be looked at: ``code`` by record, or of the one record."""
    code = {"code/__torch__.py": code} if isinstance(code, str) else code
    records = {"data.pkl": data, **code, "constants.pkl": constants, "version": b"3\n"}
    file = io.BytesIO()
    write_container(
        file,
        [NewRecord(n, c.encode() if isinstance(c, str) else c) for n, c in records.items()],
    )
    file.seek(0)
    return file


def moved(code, target, **records) -> str:
    """The text of the one code record after loading to ``target``."""
    with tsarchive.open(archive(code, **records)) as opened:
        return opened.moved(target).code["code/__torch__.py"]


def function(body: str, parameters: str = "x: Tensor") -> str:
    lines = "".join(f"  {line}\n" for line in body.split("\n"))
    return f"def f({parameters}) -> Tensor:\n{lines}"


# Statements as torch prints them, and what they are on the CPU.
TO_CPU = {
    "a factory": (
        'return torch.zeros([2], dtype=6, layout=0, device=torch.device("cuda:0"))',
        'return torch.zeros([2], dtype=6, layout=0, device=torch.device("cpu"))',
    ),
    "a conversion": ('return torch.to(x, torch.device("cuda"))', f"return torch.to(x, {CPU})"),
    "with an index": (
        'return torch.to(x, torch.device("cuda", 1), 6)', f"return torch.to(x, {CPU}, 6)"
    ),
    "single quotes": ("return torch.to(x, torch.device('cuda'))", f"return torch.to(x, {CPU})"),
    "two on a line": (f"return g({GPU}, {GPU}, )", f"return g({CPU}, {CPU}, )"),
    "over lines": ('return torch.to(x, torch.device(\n    "cuda"))',
                   'return torch.to(x, torch.device(\n    "cpu"))'),
    "behind other letters": (f'y = ("é", {GPU})', f'y = ("é", {CPU})'),
    "a method": ("return torch.cuda(x)", f"return torch.to(x, {CPU})"),
    "a method with a comma": ("return torch.cuda(x, )", f"return torch.to(x,  {CPU})"),
    "a method inside": (
        "return torch.add(torch.cuda(torch.cuda(x)), 1)",
        f"return torch.add(torch.to(torch.to(x, {CPU}), {CPU}), 1)",
    ),
    "a list": (f"y = [{GPU}, {CPU}]", f"y = [{CPU}, {CPU}]"),
    "an extension": ('return torch.to(x, torch.device("npu:3"))', f"return torch.to(x, {CPU})"),
    "a generator": (
        f"y = torch.Generator(device={GPU})", f"y = torch.Generator(device={CPU})"
    ),
    "a seeded generator": (
        'y = torch.Generator(device="cuda:0", seed=7)', 'y = torch.Generator(device="cpu", seed=7)'
    ),
    "pinned": (
        "y = torch.zeros([2], device=None, pin_memory=True)",
        "y = torch.zeros([2], device=None, pin_memory=False)",
    ),
    "pinning": ("return torch.pin_memory(x)", "return (x)"),
    "pinning as a trace has it": (f"return torch._pin_memory(x, {GPU})", "return (x)"),
    "pinning for a device": (f"return torch.pin_memory(x, {GPU})", "return (x)"),
    "a variable": ('d = "cuda"\nreturn torch.to(x, torch.device(d))',
                   'd = "cpu"\nreturn torch.to(x, torch.device(d))'),
    "either of two": (
        'if c:\n  d = "cuda"\nelse:\n  d = "cpu"\nreturn torch.to(x, torch.device(d))',
        'if c:\n  d = "cpu"\nelse:\n  d = "cpu"\nreturn torch.to(x, torch.device(d))',
    ),
    "an element": (
        '_0 = ["cuda:0", "cuda:1"]\nd = _0[1]\nreturn torch.to(x, torch.device(d))',
        '_0 = ["cpu", "cpu"]\nd = _0[1]\nreturn torch.to(x, torch.device(d))',
    ),
    "a comparison": (
        f"_0 = torch.eq(ops.prim.device(x), {GPU})", f"_0 = torch.eq(ops.prim.device(x), {CPU})"
    ),
    "a comparison the other way": (
        f"_0 = torch.ne({GPU}, ops.prim.device(x))", f"_0 = torch.ne({CPU}, ops.prim.device(x))"
    ),
    "one of a list": (
        f"y = torch.__contains__([{GPU}], ops.prim.device(x))",
        f"y = torch.__contains__([{CPU}], ops.prim.device(x))",
    ),
    "a list that is filled": (
        'l = annotate(List[str], [])\n_0 = torch.append(l, "cuda")\ny = torch.device(l[0])',
        'l = annotate(List[str], [])\n_0 = torch.append(l, "cpu")\ny = torch.device(l[0])',
    ),
    "a variable with an index": (
        't = "cuda"\ny = torch.device(t, 1)', f't = "cuda"\ny = {CPU}'
    ),
    "a cast": (
        'e = annotate(Optional[str], "cuda")\nd = unchecked_cast(str, e)\ny = torch.device(d)',
        'e = annotate(Optional[str], "cpu")\nd = unchecked_cast(str, e)\ny = torch.device(d)',
    ),
    "a formatted string": ('y = torch.device(torch.format("cuda:{}", i))', f"y = {CPU}"),
    "an added string": ('y = torch.device(torch.add("cuda:", str(i)))', f"y = {CPU}"),
    "a string in parts": (
        's = "cuda"\ny = torch.device(torch.format("{}:{}", s, 0))',
        f's = "cuda"\ny = {CPU}',
    ),
    "several at once": ('a, b = "cuda", "cuda"\ny = torch.device(b)',
                        'a, b = "cuda", "cpu"\ny = torch.device(b)'),
}  # fmt: skip

UNCHANGED = {
    "the same device": f"return torch.to(x, {CPU})",
    "no tensors at all": 'return torch.to(x, torch.device("meta"))',
    "a string": 'y = "cuda"',
    "a string that holds code": "y = 'torch.device(\"cuda\")'",
    "what is no device": 'y = torch.device("cuda:x")',
    "the type of a device": '_0 = torch.eq(ops.prim.type(ops.prim.device(x)), "cuda")',
    "is it": 'y = torch.__contains__(["cpu", "cuda", "meta"], ops.prim.type(d))',
    "is_cuda": "_0 = ops.prim.is_cuda(x)",
    "to the host": "return torch.cpu(x)",
    "casts": 'y = (_0).__init__("cuda", None, True, None, )',
    "what a caller gives": "return torch.to(x, torch.device(d))",
    "what a function gives": "y = torch.device(g(x, ))",
    "what a string is made of by a call": 'y = torch.device(torch.add("cuda:", g(x, )))',
    "a string that is printed": 'd = "cuda"\nprint(d)\ny = torch.device("cpu")',
    "not pinned": "y = torch.zeros([2], device=None, pin_memory=False)",
}


@pytest.mark.parametrize("form", TO_CPU)
def test_a_form_moves_to_the_cpu(form):
    before, after = TO_CPU[form]
    assert moved(function(before), "cpu") == function(after)


@pytest.mark.parametrize("form", UNCHANGED)
def test_a_form_stays(form):
    text = function(UNCHANGED[form], "x: Tensor,\n    d: str")
    assert moved(text, "cpu") == text


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("cuda:1", f'torch.to(torch.to(x, torch.device("cuda:1")), {CPU})'),
        ("cpu", f"torch.to(torch.to(x, {CPU}), {CPU})"),
        ("meta", 'torch.to(torch.to(x, torch.device("meta")), torch.device("meta"))'),
    ],
)
def test_who_names_another_device_means_the_cpu(target, expected):
    text = function(f"return torch.to(torch.to(x, {GPU}), {CPU})")
    assert moved(text, target) == function(f"return {expected}")


@pytest.mark.parametrize("record", ["data", "constants"])
def test_tensors_elsewhere_name_another_device(record):
    text = function(f"return torch.to(x, {CPU})")
    assert moved(text, "cuda:0") == function(f"return torch.to(x, {GPU})")
    there = {record: dumps((STORAGE_ON_GPU,))}
    assert moved(text, "cuda:0", **there) == text


def test_lengths_of_packed_sequences_stay_on_the_cpu():
    body = (
        "a = torch.as_tensor(n, dtype=4, device={})\n"
        "b, c = a, torch.zeros([1], device={})\n"
        "d, e = torch._pack_padded_sequence(x, b, True)"
    )
    assert moved(function(body.format(CPU, CPU)), "cuda:0") == function(body.format(CPU, GPU))


def test_lengths_that_were_made_elsewhere_move():
    body = (
        "a = torch.to(torch.sum(torch.to(x, {0}), [1]), {1})\n"
        "d, e = torch._pack_padded_sequence(torch.to(x, {0}), a, True)"
    )
    text = function(body.format(GPU, CPU))
    assert moved(text, "cpu") == function(body.format(CPU, CPU))
    assert moved(text, "cuda:1") == text.replace("cuda:0", "cuda:1")


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("cuda:0", "y = torch.zeros([2], device=None, pin_memory=True)"),
        ("cuda:0", "return torch.pin_memory(x)"),
        ("meta", 'y = torch.Generator(device="cpu", seed=7)'),
    ],
)
def test_what_another_device_needs_on_the_host_stays(target, body):
    assert moved(function(body), target) == function(body)


def test_nothing_pinned_is_made_on_another_device():
    body = "y = torch.zeros([2], device={}, pin_memory={})"
    assert moved(function(body.format(CPU, True)), "cuda:0") == function(body.format(GPU, False))


CLASSES = """\
class Part(Module):
  name : str
  def forward(self: __torch__.Part,
    x: Tensor) -> Tensor:
    return x
class Whole(Module):
  k : Final[Device] = torch.device("cuda:0")
  part : __torch__.Part
  def forward(self: __torch__.Whole,
    x: Tensor,
    d: Device=torch.device("cuda:0")) -> Tensor:
    part = self.part
    name = part.name
    _0 = __torch__.helper
    y = _0(x, "cuda:1", "cuda", )
    (self).again(y, "cuda", )
    self.part.name = "cuda:0"
    return torch.to(x, torch.device(name))
  def again(self: __torch__.Whole,
    x: Tensor,
    device: str="cuda") -> Tensor:
    return __torch__.helper(x, device, "cuda", )
def helper(x: Tensor,
    d: str,
    other: str) -> Tensor:
  print(other)
  return torch.to(x, torch.device(d))
"""


def test_strings_are_followed_through_calls_and_attributes():
    expected = CLASSES
    for before, after in (
        ('Final[Device] = torch.device("cuda:0")', 'Final[Device] = torch.device("cpu")'),
        ('d: Device=torch.device("cuda:0")', 'd: Device=torch.device("cpu")'),
        ('_0(x, "cuda:1", "cuda", )', '_0(x, "cpu", "cuda", )'),
        ('again(y, "cuda", )', 'again(y, "cpu", )'),
        ('part.name = "cuda:0"', 'part.name = "cpu"'),
        ('device: str="cuda"', 'device: str="cpu"'),
    ):
        assert before in expected
        expected = expected.replace(before, after)
    assert moved(CLASSES, "cpu") == expected


def test_strings_are_followed_through_results():
    text = (
        "class Picks(Module):\n  def forward(self: __torch__.Picks,\n    x: Tensor) -> Tensor:\n"
        "    return torch.to(x, torch.device((self).pick(__torch__.name(1, ), )))\n"
        "  def pick(self: __torch__.Picks,\n    n: str) -> str:\n"
        '    if torch.eq(n, "a"):\n      return "cuda:1"\n    return __torch__.name(2, )\n'
        'def name(n: int) -> str:\n  _0 = "cuda"\n  return _0\n'
    )
    assert moved(text, "cpu") == text.replace('"cuda:1"', '"cpu"').replace('"cuda"', '"cpu"')


def test_values_that_follow_themselves_come_to_an_end():
    text = function(
        'a = "cuda"\nfor i in range(3):\n  b = a\n  a = b\n'
        "  n = n.next\nreturn torch.to(x, torch.device(a), torch.device(n.name))"
    )
    assert moved(text, "cpu") == text.replace('"cuda"', '"cpu"')


def to(x: torch.Tensor, device: str):
    return x.to(device)


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.device = "cuda"
        self.devices = ["cuda:0", "cpu"]
        self.title = "cuda"

    def forward(self, x: torch.Tensor):
        return x


class OnGpu(torch.nn.Module):
    """Devices in every kind of value that an archive can hold."""

    __constants__ = ("constant",)

    def __init__(self):
        super().__init__()
        self.constant = torch.device("cuda:0")
        self.one = torch.device("cuda:0")
        self.several = [torch.device("cuda:0"), torch.device("cpu")]
        self.named = {"a": torch.device("cuda:1")}
        self.maybe: torch.device | None = torch.device("cuda:1")
        self.pair = (torch.device("cuda"), 1)
        self.part = Part()

    def forward(self, x: torch.Tensor, index: int = 0):
        x = x.to(self.constant).to(self.one).to(self.several[0]).to(self.named["a"])
        if self.maybe is not None:
            x = x.to(self.pair[0])
        x = to(x, "cuda:0").to(self.part.device).to(self.part.devices[index])
        x = x.cuda() + torch.arange(3, device="cuda") + torch.ones(3, device=f"cuda:{index}")
        if x.is_cuda or x.device != torch.device("cuda:0"):
            x = x - 1000
        return x, self.part.title


def saved(module, **options) -> bytes:
    file = io.BytesIO()
    tsarchive.save(module, file, **options)
    return file.getvalue()


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


HOSTILE = (
    "class Net(Module):\n  d : List[str]\n"
    "  def forward(self: __torch__.Net) -> Device:\n    return torch.device(self.d[0])\n"
)


def test_values_that_are_referred_to_very_often_are_visited_once():
    inner = ["cuda"]
    for _ in range(20):
        inner = [inner, inner]
    data = dumps(Object(Global("__torch__", "Net"), {"d": inner}))
    text = HOSTILE.replace("List[str]", f"{'List[' * 21}str{']' * 21}")
    module = tsarchive.load(archive(text, data=data), map_location="cpu")
    found = module.d
    for _ in range(20):
        assert found[0] is found[1]
        found = found[0]
    assert found == ["cpu"]


def test_values_that_are_nested_too_deeply_are_refused():
    inner = ["cuda"]
    for _ in range(5000):
        inner = [inner]
    data = dumps(Object(Global("__torch__", "Net"), {"d": inner}))
    with pytest.raises(PickleError, match="nested too deeply"):
        tsarchive.load(archive(HOSTILE, data=data), map_location="cpu")


def test_code_with_very_many_ways_is_read_in_time():
    """Each name has two sources, so there are very many paths and few names."""
    lines = [f"if c:\n  a{n} = a{n + 1}\nelse:\n  a{n} = b{n + 1}\nb{n} = a{n}"
             for n in range(60)]  # fmt: skip
    text = function("\n".join([*lines, "y = torch.device((a0).name)"]))
    assert moved(text, "cpu") == text


def test_code_that_is_nested_too_deeply_is_refused():
    name = ".".join(["self", *["a"] * 4000])
    with pytest.raises(SourceError, match="nested too deeply"):
        moved(function(f"y = torch.device({name})"), "cpu")


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


class Traced(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3, batch_first=True)
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        y = self.lstm(packed)[0].data
        y = self.linear(y).to(x.device) + torch.tensor([1.0, 2.0], device=x.device)
        mask = torch.zeros(y.shape, device=x.device, dtype=torch.bool)
        positions = torch.arange(2, device=x.device) * torch.full((2,), 3, device=x.device)
        return y.masked_fill(mask, 0.0) + positions, torch.zeros_like(y), y.new_ones(2)


EXAMPLE = (torch.ones(2, 5, 4), torch.tensor([5, 3]))


def changed(data: bytes, *pairs: tuple[str, str]) -> bytes:
    """An archive with replacements in the text of its code records."""
    records = []
    for name, content in records_of(data).items():
        if name.startswith("code/") and name.endswith(".py"):
            for old, new in pairs:
                content = content.replace(old.encode(), new.encode())
        if name != ".data/serialization_id":
            records.append(NewRecord(name, content))
    file = io.BytesIO()
    write_container(file, records)
    return file.getvalue()


def code_of(data: bytes, target: str | None = None) -> dict[str, str]:
    with tsarchive.open(io.BytesIO(data)) as opened:
        return dict((opened.moved(target) if target else opened).code)


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
    data = torch_saved(case.build())
    with Container.open(io.BytesIO(data)) as container, tsarchive.open(io.BytesIO(data)) as opened:
        records = opened.moved("cpu").records
        assert {n: r.crc for n, r in records.items()} == {
            n: r.crc for n, r in container.records.items()
        }


def test_there_and_back_gives_the_same_code(case):
    data = torch_saved(case.build())
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


# Debug records


def debug_rows(data: bytes) -> dict[str, list]:
    records = records_of(data)
    return {
        name: [row.offset for row in read_debug_record(content, name)]
        for name, content in records.items()
        if name.endswith(".debug_pkl")
    }


def test_debug_rows_begin_where_their_text_begins():
    data = torch_saved(torch.jit.script(OnGpu()))
    written = saved(tsarchive.load(io.BytesIO(data), map_location="cpu"))
    before, after = records_of(data), records_of(written)
    compared = 0
    for name, rows in debug_rows(data).items():
        record = name.removesuffix(".debug_pkl")
        texts = before[record], after[record]
        for old, new in zip(rows, debug_rows(written)[name], strict=True):
            heads = [text[at : at + 6] for text, at in zip(texts, (old, new), strict=True)]
            assert heads[0] == heads[1] or b"cuda" in texts[0][old : old + 12], heads
            compared += heads[0] == heads[1]
    assert compared > 50


def test_debug_records_keep_all_but_the_offsets():
    data = torch_saved(torch.jit.script(OnGpu()))
    name = "code/__torch__/test_baked_devices.py.debug_pkl"
    content = records_of(data)[name]
    text = records_of(data)[name.removesuffix(".debug_pkl")]
    same = moved_debug_record(content, EditedText(text, []), name)
    rows = read_debug_record(content, name)
    assert DebugWriter().record(read_debug_record(same, name)) == DebugWriter().record(rows)


def test_a_debug_record_of_an_older_form_moves():
    edited = EditedText(b"abcdef", [Edit(1, 2, b"xyz")])
    rows = ((0, ("text", 1), 0), (3, ("text", 2), 1))
    assert loads(moved_debug_record(dumps(rows), edited, "d")) == (
        (0, ("text", 1), 0), (5, ("text", 2), 1)
    )  # fmt: skip


@pytest.mark.parametrize("value", [3, (1, 2), (("x", 1),)])
def test_a_malformed_debug_record_is_refused(value):
    with pytest.raises(PickleError, match="malformed"):
        moved_debug_record(dumps(value), EditedText(b"", []), "d")


@given(st.data())
def test_every_byte_is_found_again(data):
    text = data.draw(st.binary(min_size=1, max_size=30))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    edits = [
        Edit(start, end, data.draw(st.binary(max_size=4)))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    edited = EditedText(text, edits)
    offsets = [edited.offset(at) for at in range(len(text) + 1)]
    assert offsets == sorted(offsets)
    assert offsets[-1] <= len(edited.data)
    for at in range(len(text)):
        if not any(edit.start <= at < edit.end for edit in edits):
            assert edited.data[offsets[at]] == text[at]


# Errors and the command


@pytest.mark.parametrize("target", ["", "cuda:x", "CPU 0", 'cpu"'])
def test_what_is_no_device_is_refused(target):
    with (
        tsarchive.open(archive(function("return x"))) as opened,
        pytest.raises(CallError, match="map_location"),
    ):
        opened.moved(target)


def test_code_that_does_not_parse_is_refused():
    with pytest.raises(SourceError, match=r"__torch__\.py:1"):
        moved('def f(: torch.device("cuda")', "cpu")


def test_bytes_that_are_no_text_stay():
    text = (
        b'def f(x: Tensor) -> Tensor:\n  y = "\xff\r"\n  return torch.to(x, torch.device("cuda"))\n'
    )
    with tsarchive.open(archive({"code/__torch__.py": text})) as opened:
        found = opened.moved("cpu").read("code/__torch__.py")
    assert found == text.replace(b"cuda", b"cpu")


def test_the_command_shows_the_code_as_it_runs(tmp_path):
    text = function(TO_CPU["a factory"][0])
    records = {"data.pkl": EMPTY, "code/__torch__.py": text.encode(), "constants.pkl": EMPTY}
    path = write_archive(tmp_path / "a.pt", {**records, "version": b"3"})
    assert run("code", path).stdout == text
    assert run("code", path, "--map-location", "cpu").stdout == text.replace(GPU, CPU)
    (piece,) = document("code", path, "--map-location", "cpu")["code"]
    assert piece["text"] == text.replace(GPU, CPU)
    assert "not a device" in error("code", path, "--map-location", "no device")["message"]


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
