"""The bytes of torch itself: what it writes, and what it writes again after reading ours."""

import enum
import io
import math
import zipfile

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.archives import torch_saved
from tsarchive.pickler import (
    Global,
    MarkedTuple,
    Memo,
    Memoised,
    Object,
    PersistentId,
    Reduce,
    dumps,
)

TAG = Global("torch.jit._pickle", "restore_type_tag")
REBUILD = Global("torch._utils", "_rebuild_tensor_v2")
BUILDERS = {"int": "intlist", "float": "doublelist", "bool": "boollist", "Tensor": "tensorlist"}


def tagged_list(items, element):
    """A list as torch writes it: by element type."""
    if element in BUILDERS:
        builder = Global("torch.jit._pickle", f"build_{BUILDERS[element]}")
        return Reduce(builder, MarkedTuple((items,)))
    return Reduce(TAG, (items, f"List[{element}]"))


def tagged_dict(items, key, value):
    return Reduce(TAG, (items, f"Dict[{key}, {value}]"))


def module(name, state):
    prefix, _, last = f"__torch__.{name}".rpartition(".")
    return Object(Global(prefix, last), state, Memo.ALWAYS)


def hooks():
    return Reduce(Global("collections", "OrderedDict"), (), Memo.NEVER)


def storage(key, count, kind="Float"):
    return PersistentId(("storage", Global("torch", f"{kind}Storage"), str(key), "cpu", count))


def tensor(of, sizes, strides, *, offset=0, grad=False, memo=Memo.SHARED, metadata=()):
    layout = (of, offset, MarkedTuple(sizes), MarkedTuple(strides))
    return Reduce(REBUILD, MarkedTuple((*layout, grad, hooks(), *metadata)), memo)


def record(archive, ending):
    with zipfile.ZipFile(io.BytesIO(archive)) as records:
        (name,) = [name for name in records.namelist() if name.endswith(ending)]
        return records.read(name)


def saved_again(archive):
    """What torch writes once it has loaded the archive."""
    return torch_saved(torch.jit.load(io.BytesIO(archive)))


# Modules of torch, and the same values by hand.

FLAGS = {"training": True, "_is_full_backward_hook": None}


def storage_tensor(key, sizes, kind="Float", **options):
    """A contiguous tensor that fills its own storage."""
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return tensor(storage(key, math.prod(sizes), kind), sizes, strides, **options)


def linear(weight, bias):
    return module("tests.pickler.test_torch.OwnLinear", {"weight": weight, "bias": bias} | FLAGS)


class OwnLinear(torch.nn.Linear):
    """Compiled nowhere else, so its name is never mangled."""


class OneLinear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = OwnLinear(2, 2)

    def forward(self, x):
        return self.l(x)


def one_linear():
    parameters = storage_tensor(0, (2, 2), grad=True), storage_tensor(1, (2,), grad=True)
    return FLAGS | {"l": linear(*parameters)}


class Tied(torch.nn.Module):
    """Tensors held twice, views of one storage. Scripting makes two modules of one."""

    def __init__(self):
        super().__init__()
        self.a = OwnLinear(2, 2)
        self.b = self.a
        self.register_buffer("t", torch.zeros(6))
        self.register_buffer("same", self.t)
        self.register_buffer("view", self.t[2:].view(2, 2))

    def forward(self, x):
        return self.b(self.a(x)) + self.t.sum() + self.same.sum() + self.view


def tied():
    shared = storage(0, 6)
    t = tensor(shared, (6,), (1,))
    view = tensor(shared, (2, 2), (2, 1), offset=2)
    parameters = storage_tensor(1, (2, 2), grad=True), storage_tensor(2, (2,), grad=True)
    both = {"a": linear(*parameters), "b": linear(*parameters)}
    return {"t": t, "same": t, "view": view} | FLAGS | both


class Shade(enum.Enum):
    DARK = 1
    LIGHT = 2


class Attributes(torch.nn.Module):
    cpu: torch.device
    again: torch.device
    shade: Shade
    tensors: list[torch.Tensor]
    named: dict[str, torch.Tensor]

    def __init__(self):
        super().__init__()
        t = torch.ones(2)
        self.cpu = self.again = torch.device("cpu")
        self.shade = Shade.DARK
        self.tensors = [t, t, torch.zeros(())]
        self.named = {"a": t}

    def forward(self, x):
        return x.to(self.cpu), self.again, self.shade == Shade.DARK, self.tensors, self.named


def attributes():
    cpu = Reduce(Global("torch", "device"), ("cpu",), Memo.ALWAYS)
    t = storage_tensor(0, (2,), memo=Memo.ALWAYS)
    scalar = storage_tensor(1, (), memo=Memo.ALWAYS)
    shade = Reduce(Global(f"__torch__.{__name__}", "Shade"), Shade.DARK.value)
    return FLAGS | {
        "cpu": cpu,
        "again": cpu,
        "shade": shade,
        "tensors": tagged_list([t, t, scalar], "Tensor"),
        "named": tagged_dict({"a": t}, "str", "Tensor"),
    }


class Layouts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        per_channel = torch.tensor([0.5, 1.0]), torch.tensor([0, 1]), 0
        buffers = {
            "q": torch.quantize_per_tensor(torch.ones(2), 0.5, 3, torch.quint8),
            "c": torch.quantize_per_channel(torch.ones(2, 1), *per_channel, torch.qint8),
            "z": torch.ones(2, dtype=torch.complex64).conj(),
            "s": torch.eye(2).to_sparse(),
        }
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    def forward(self, x):
        return self.q, self.c, self.z, self.s


def layouts():
    return {"q": per_tensor(), "c": per_channel(), "z": conjugate(), "s": sparse()} | FLAGS


def call(name, *arguments):
    return Reduce(Global("torch._utils", name), MarkedTuple(arguments))


def per_tensor():
    layout = storage(0, 2, "QUInt8"), 0, MarkedTuple((2,)), MarkedTuple((1,))
    scale = MarkedTuple((Global("torch", "per_tensor_affine"), 0.5, 3))
    return call("_rebuild_qtensor", *layout, scale, False, hooks())


def per_channel():
    layout = storage(1, 2, "QInt8"), 0, MarkedTuple((2, 1)), MarkedTuple((1, 1))
    scales = storage_tensor(2, (2,), "Double", memo=Memo.NEVER)
    zeros = storage_tensor(3, (2,), "Long", memo=Memo.NEVER)
    scheme = MarkedTuple((Global("torch", "per_channel_affine"), scales, zeros, 0))
    return call("_rebuild_qtensor", *layout, scheme, False, hooks())


def conjugate():
    metadata = tagged_dict({"conj": True}, "str", "bool")
    return storage_tensor(4, (2,), "ComplexFloat", metadata=(metadata,))


def sparse():
    indices = storage_tensor(5, (2, 2), "Long", memo=Memo.NEVER)
    values = storage_tensor(6, (2,), memo=Memo.NEVER)
    sizes = MarkedTuple((2, 2))
    return call("_rebuild_sparse_tensor", 1, sizes, False, indices, values, hooks())


class Stateful(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = 3
        self.t = torch.ones(1)

    @torch.jit.export
    def __getstate__(self):
        return (self.a, self.t, [self.t + 1, self.t], self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[int, torch.Tensor, list[torch.Tensor], bool]):
        self.a = state[0]
        self.t = state[1]
        self.training = state[3]

    def forward(self, x):
        return x + self.t


def stateful():
    held = storage_tensor(0, (1,), memo=Memo.ALWAYS)
    fresh = storage_tensor(1, (1,), memo=Memo.ALWAYS)
    return Memoised((3, held, tagged_list([fresh, held], "Tensor"), True))


MODULES = {
    OneLinear: one_linear,
    Tied: tied,
    Attributes: attributes,
    Layouts: layouts,
    Stateful: stateful,
}


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor.*deprecated")
@pytest.mark.parametrize("python_class", MODULES)
def test_module(python_class):
    """data.pkl of the second save, which no later save changes."""
    archive = saved_again(torch_saved(torch.jit.script(python_class())))
    value = module(f"{__name__}.{python_class.__name__}", MODULES[python_class]())
    assert dumps(value) == record(archive, "/data.pkl")
    assert record(saved_again(archive), "/data.pkl") == record(archive, "/data.pkl")


def test_constants():
    """Everything in constants.pkl is held elsewhere, too."""

    archive = torch_saved(torch.jit.trace(lambda x: (x + ONE, x * TWO), torch.zeros(2)))
    constants = (
        storage_tensor(0, (2,), memo=Memo.ALWAYS),
        storage_tensor(1, (2,), "Double", memo=Memo.ALWAYS),
    )
    assert dumps(constants) == record(archive, "/constants.pkl")


ONE, TWO = torch.ones(2), torch.full((2,), 2.0, dtype=torch.float64)


# What torch loads from our bytes, it writes as the same bytes.


CLASSES = """class Leaf(Module):
  __parameters__ = []
  __buffers__ = []
  x : int
class Plain:
  y : int
"""


def archive_of(state, types):
    """An archive whose module has attributes of these types, written by torch's own writer."""
    attributes = "".join(f"  {name} : {annotation}\n" for name, annotation in types.items())
    code = f"{CLASSES}class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n{attributes}"
    records = {
        "data.pkl": dumps(module("M", state)),
        "code/__torch__.py": code.encode(),
        "constants.pkl": dumps(()),
    }
    stream = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(stream)
    for name, data in records.items():
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    return stream.getvalue()


def written_back(state, types):
    return record(saved_again(archive_of(state, types)), "/data.pkl")


class Generated:
    """Draws values of a type, sharing some of them: as plain Python values and as ours."""

    def __init__(self, draw):
        self.draw = draw
        self.made = {}

    def value(self, kind):
        name = annotation(kind)
        earlier = self.made.setdefault(name, [])
        if earlier and self.draw(st.booleans()):
            return self.draw(st.sampled_from(earlier))
        pair = self.fresh(kind)
        if not isinstance(kind, str):
            earlier.append(pair)
        return pair

    def fresh(self, kind):
        if isinstance(kind, str):
            plain = self.draw(SCALARS[kind])
            return plain, plain
        name, *parts = kind
        if name == "Optional":
            return self.value(parts[0]) if self.draw(st.booleans()) else (None, None)
        if name == "List":
            pairs = [self.value(parts[0]) for _ in range(self.draw(st.integers(0, 3)))]
            ours = tagged_list([ours for _, ours in pairs], annotation(parts[0]))
            return [plain for plain, _ in pairs], ours
        if name == "Dict":
            keys = self.draw(st.lists(SCALARS[parts[0]], max_size=3, unique=True))
            items = {key: self.value(parts[1]) for key in keys}
            ours = {key: ours for key, (_, ours) in items.items()}
            plain = {key: plain for key, (plain, _) in items.items()}
            return plain, tagged_dict(ours, parts[0], annotation(parts[1]))
        pairs = [self.value(part) for part in parts]
        return tuple(plain for plain, _ in pairs), tuple(ours for _, ours in pairs)


SCALARS = {
    "int": st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300),
    "float": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "str": st.text(st.characters(codec="utf-8")) | st.sampled_from(["a0", "List[str]"]),
    "complex": st.complex_numbers(allow_nan=False),
}

KINDS = st.recursive(
    st.sampled_from(sorted(SCALARS)),
    lambda kinds: st.one_of(
        st.tuples(st.just("List"), kinds),
        st.tuples(st.just("Dict"), st.sampled_from(["str", "int", "bool"]), kinds),
        st.lists(kinds, max_size=5).map(lambda parts: ("Tuple", *parts)),
        st.tuples(st.just("Optional"), st.sampled_from(sorted(SCALARS))),
    ),
    max_leaves=4,
)


def annotation(kind):
    """The type as torch spells it."""
    if isinstance(kind, str):
        return kind
    name, *parts = kind
    return f"{name}[{', '.join(map(annotation, parts)) or '()'}]"


@st.composite
def attribute_values(draw):
    """Types, plain values and our values of some attributes; types may repeat."""
    kinds = draw(st.lists(KINDS, max_size=4))
    kinds += draw(st.lists(st.sampled_from(kinds), max_size=4)) if kinds else []
    generated = Generated(draw)
    pairs = [generated.value(kind) for kind in kinds]
    names = [f"a{index}" for index in range(len(kinds))]
    types = dict(zip(names, map(annotation, kinds), strict=True))
    plain = dict(zip(names, [plain for plain, _ in pairs], strict=True))
    return types, plain, dict(zip(names, [ours for _, ours in pairs], strict=True))


@given(attribute_values())
def test_torch_reads_the_values_and_writes_the_bytes_back(drawn):
    types, plain, ours = drawn
    archive = archive_of(ours, types)
    loaded = torch.jit.load(io.BytesIO(archive))
    assert {name: getattr(loaded, name) for name in types} == plain
    assert record(saved_again(archive), "/data.pkl") == dumps(module("M", ours))


def test_objects_reached_twice_are_written_back():
    """A module is memoised always, an object of a script class only if it is shared."""
    leaf = module("Leaf", {"x": 1})
    shared, single = (Object(Global("__torch__", "Plain"), {"y": number}) for number in range(2))
    state = {"a": leaf, "b": leaf, "c": shared, "d": shared, "e": single}
    types = dict.fromkeys("ab", "__torch__.Leaf") | dict.fromkeys("cde", "__torch__.Plain")
    assert written_back(state, types) == dumps(module("M", state))


def test_device_is_written_back():
    cpu = Reduce(Global("torch", "device"), ("cpu",), Memo.ALWAYS)
    state = {"a": cpu, "cpu": "cpu", "c": cpu}
    types = {"a": "Device", "cpu": "str", "c": "Device"}
    assert written_back(state, types) == dumps(module("M", state))


@given(st.integers(250, 300))
def test_memo_ids_around_255_are_written_back(count):
    names = [f"a{index}" for index in range(count)]
    shared = (1, "text")
    state = dict.fromkeys(names, shared)
    assert written_back(state, dict.fromkeys(names, "Tuple[int, str]")) == dumps(module("M", state))


# The pickler behind torch._C._pickle_save takes one value that nothing else holds.


@given(st.one_of(*SCALARS.values(), st.none()))
def test_scalar(value):
    assert dumps(value) == record(torch._C._pickle_save(value), "/data.pkl")


@given(
    st.sampled_from(sorted(SCALARS)).flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(SCALARS[kind], min_size=1))
    )
)
def test_list(drawn):
    kind, items = drawn
    ours = dumps(tagged_list(items, kind))
    assert ours == record(torch._C._pickle_save(items), "/data.pkl")


@given(st.lists(st.one_of(*SCALARS.values()), max_size=6).map(tuple))
def test_tuple(items):
    assert dumps(items) == record(torch._C._pickle_save(items), "/data.pkl")
