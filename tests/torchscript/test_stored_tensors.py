"""What pickles say of storages and tensors: each rule, both sides of it, and torch's own view."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tsarchive
from tests.support.archives import ARCHIVES, CORPUS
from tsarchive.container import Container
from tsarchive.findings import Nature, Severity
from tsarchive.formats.torchscript.stored_tensors import (
    MAX_BYTES,
    MAX_RANK,
    StoredTensors,
    StridedView,
    TensorError,
    tensor_findings,
)
from tsarchive.formats.torchscript.tensors import DTYPES, TensorReader
from tsarchive.pickler import Global, PersistentId, Reduce, loads
from tsarchive.pickler.values import STORAGE_TYPES
from tsarchive.run.packed import SUB_BYTE, SubByteRows

RECORD = "data.pkl"
HOOKS = Reduce(Global("collections", "OrderedDict"), ())
PER_TENSOR = (Global("torch", "per_tensor_affine"), 0.5, 1)
HUGE = 1 << 62


def storage(kind="FloatStorage", key="0", device="cpu", count=6, *more):
    return PersistentId(("storage", Global("torch", kind), key, device, count, *more))


def dense(held=None, offset=0, size=(2, 3), stride=(3, 1), grad=False, hooks=HOOKS, *flags):
    held = storage() if held is None else held
    arguments = (held, offset, size, stride, grad, hooks, *flags)
    return Reduce(Global("torch._utils", "_rebuild_tensor_v2"), arguments)


def quantized(quantizer=PER_TENSOR, held=None, size=(2, 3), stride=(3, 1), grad=False):
    held = storage("QInt8Storage") if held is None else held
    arguments = (held, 0, size, stride, quantizer, grad, HOOKS)
    return Reduce(Global("torch._utils", "_rebuild_qtensor"), arguments)


def per_channel(count, axis=0, key="1", **view):
    scales = dense(storage("DoubleStorage", key, count=count), 0, (count,), (1,))
    zeros = dense(storage("LongStorage", f"{key}z", count=count), 0, (count,), (1,))
    return (Global("torch", "per_channel_affine"), scales, zeros, axis)


def sparse(kind=1, size=(4,), grad=False, parts=None, hooks=HOOKS):
    if parts is None:
        indices = dense(storage("LongStorage", "i", count=2), 0, (1, 2), (2, 1))
        parts = (indices, dense(storage(key="v", count=2), 0, (2,), (1,)))
    function = Global("torch._utils", "_rebuild_sparse_tensor")
    return Reduce(function, (kind, size, grad, *parts, hooks))


def parameter(tensor, grad=True):
    return Reduce(Global("torch._utils", "_rebuild_parameter"), (tensor, grad, HOOKS))


def of_type(function="_rebuild_tensor_v2", arguments=None, module="torch._utils"):
    arguments = dense().argument if arguments is None else arguments
    named = (Global(module, function), Global("mine", "Kind"), arguments, {})
    return Reduce(Global("torch._tensor", "_rebuild_from_type_v2"), named)


def findings(value, size=None):
    """The findings; each storage has the record that it claims unless ``size`` is given."""
    sizes = {}
    for held in stored_in(value) if size is None else ():
        match held.value:
            case (_, Global(name=kind), str(key), _, int(count), *_) if kind in STORAGE_TYPES:
                sizes[key] = count * STORAGE_TYPES[kind].itemsize
    look = sizes.get if size is None else lambda key: size
    return list(tensor_findings(value, record=RECORD, storage_size=look))


def stored_in(value):
    if isinstance(value, PersistentId):
        yield value
    elif isinstance(value, Reduce):
        yield from stored_in(value.argument)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from stored_in(item)


def built(value, content=bytes(1 << 12)):
    """The tensor as loading builds it, from records of the size that storages claim."""

    def record(key):
        claimed = next(held.value for held in stored_in(value) if held.value[2] == key)
        size = claimed[4] * STORAGE_TYPES[claimed[1].name].itemsize
        return memoryview(bytearray(content[:size]))

    reader = TensorReader(record, None, RECORD)

    def part(inner):
        return reader.build(inner, part) if isinstance(inner, Reduce) else inner

    return part(value)


SOUND = {
    "dense": dense(),
    "scalar": dense(storage(count=1), 0, (), ()),
    "offset": dense(offset=3, size=(3,), stride=(1,)),
    "no hooks": dense(hooks=None),
    "requires grad": dense(grad=True),
    "version 1": dense(storage("FloatStorage", "0", "cpu", 6, None)),
    "nested key": dense(storage(key="a/b")),
    "meta": dense(storage(device="meta")),
    "device 127": dense(storage(device="meta:127")),
    "flags": dense(storage("ComplexFloatStorage"), 0, (2,), (1,), False, HOOKS, {"conj": True}),
    "tagged flags": dense(
        storage("ComplexFloatStorage"), 0, (2,), (1,), False, HOOKS,
        Reduce(Global("torch.jit._pickle", "restore_type_tag"), ({"neg": True}, "Dict[str, bool]")),
    ),
    "empty": dense(storage(count=0), 0, (0,), (1,)),
    "empty at the end": dense(offset=6, size=(0, 3), stride=(3, 1)),
    "last element": dense(offset=5, size=(1,), stride=(HUGE,)),
    "rank at the cap": dense(storage(count=1), 0, (1,) * MAX_RANK, (1,) * MAX_RANK),
    "per tensor": quantized(),
    "per channel": quantized(per_channel(2)),
    "last channel": quantized(per_channel(3, axis=1)),
    "version 1 channels": quantized(
        (Global("torch", "per_channel_affine"), [0.5, 0.5], [0, 1], 0)
    ),
    "sparse": sparse(),
    "parameter": parameter(dense()),
    "subclass": of_type(),
}  # fmt: skip

UNUSUAL = {
    "expanded": (dense(storage(count=1), 0, (4,), (0,)), "tensor-overlap"),
    "windows": (dense(offset=0, size=(2, 2), stride=(1, 1)), "tensor-overlap"),
    "empty beyond": (dense(storage(count=0), 4, (0, 1), (1, 1)), "tensor-offset"),
}

LONG = storage("LongStorage")
HOSTILE, BROKEN = Nature.HOSTILE, Nature.BROKEN
MALFORMED = {
    "stride over 63 bits": dense(size=(1,), stride=(1 << 63,)),
    "negative size": dense(size=(-1, 3)),
    "negative stride": dense(stride=(3, -1)),
    "negative offset": dense(offset=-1),
    "bool size": dense(size=(True, 3)),
    "bool stride": dense(stride=(3, True)),
    "bool offset": dense(offset=False),
    "ranks differ": dense(stride=(1,)),
    "list size": dense(size=[2, 3]),
    "int requires grad": dense(LONG, grad=True),
    "int for bool": dense(grad=0),
    "hooks": dense(hooks=Reduce(Global("os", "system"), ())),
    "unknown flag": dense(LONG, 0, (1,), (1,), False, None, {"x": True}),
    "flag no bool": dense(LONG, 0, (1,), (1,), False, None, {"neg": 1}),
    "real conj": dense(None, 0, (1,), (1,), False, None, {"conj": True}),
    "flags no dict": dense(None, 0, (1,), (1,), False, None, [1]),
    "too many arguments": dense(None, 0, (1,), (1,), False, None, {}, {}),
    "no storage": dense(held=0),
    "no quantizer": dense(storage("QInt8Storage")),
    "no arguments": Reduce(Global("torch._utils", "_rebuild_tensor_v2"), 1),
    "float with quantizer": quantized(held=storage()),
    "quantized grad": quantized(grad=True),
    "layout": sparse(3),
    "bool layout": sparse(True),
    "three parts of two": sparse(2),
    "part no tensor": sparse(parts=(1, dense())),
    "part sparse": sparse(parts=(sparse(), dense())),
    "part without data": sparse(parts=(dense(storage("LongStorage", "i", "meta")), dense())),
    "parameter of none": parameter(0),
    "parameter of one": parameter(parameter(dense())),
    "subclass of elsewhere": of_type("system", ("ls",), "os"),
}  # fmt: skip
NO_REFERENCE = {
    "no tuple of five": PersistentId(("storage",)),
    "seven": storage("FloatStorage", "0", "cpu", 1, None, None),
    "sixth": storage("FloatStorage", "0", "cpu", 1, 1),
    "not a storage": PersistentId(("module", *storage().value[1:])),
    "type of elsewhere": PersistentId(("storage", Global("os", "FloatStorage"), "0", "cpu", 1)),
    "bool count": storage(count=True),
    "float count": storage(count=1.0),
}  # fmt: skip
BAD = {
    **{name: (value, "tensor-arguments", BROKEN) for name, value in MALFORMED.items()},
    **{name: (value, "tensor-storage-reference", BROKEN) for name, value in NO_REFERENCE.items()},
    # storages
    "negative count": (storage(count=-1), "tensor-storage-count", HOSTILE),
    "huge count": (storage(count=HUGE), "tensor-storage-count", HOSTILE),
    "unknown type": (storage("ListStorage"), "tensor-storage-type", BROKEN),
    "key up": (storage(key="../constants.pkl"), "tensor-storage-key", HOSTILE),
    "key through": (storage(key="a/../b"), "tensor-storage-key", HOSTILE),
    "empty key": (storage(key=""), "tensor-storage-key", HOSTILE),
    "key at the root": (storage(key="/0"), "tensor-storage-key", HOSTILE),
    "key of Windows": (storage(key="..\\0"), "tensor-storage-key", HOSTILE),
    "key with NUL": (storage(key="0\0"), "tensor-storage-key", HOSTILE),
    "device index": (storage(device="cuda:999999999999"), "tensor-storage-device", BROKEN),
    "device 128": (storage(device="cuda:128"), "tensor-storage-device", BROKEN),
    "device -1": (storage(device="cuda:-1"), "tensor-storage-device", BROKEN),
    "empty device": (storage(device=""), "tensor-storage-device", BROKEN),
    "device of a path": (storage(device="/dev/null"), "tensor-storage-device", BROKEN),
    # views
    "one too far": (dense(offset=1), "tensor-bounds", HOSTILE),
    "stride too far": (dense(stride=(4, 1)), "tensor-bounds", HOSTILE),
    "wraps around": (dense(size=(3,), stride=(1 << 63 >> 1,)), "tensor-bounds", HOSTILE),
    "scalar beyond": (dense(offset=6, size=(), stride=()), "tensor-bounds", HOSTILE),
    "of nothing": (dense(storage(count=0), 0, (1,), (1,)), "tensor-bounds", HOSTILE),
    "too many elements": (dense(size=(HUGE, 4), stride=(0, 0)), "tensor-too-large", HOSTILE),
    "too many bytes": (dense(size=(HUGE,), stride=(0,)), "tensor-too-large", HOSTILE),
    "too many before a zero": (
        dense(size=(HUGE, 4, 0), stride=(0, 0, 0)), "tensor-too-large", HOSTILE,
    ),
    "empty too far": (dense(offset=HUGE, size=(0,), stride=(1,)), "tensor-too-large", HOSTILE),
    "rank": (
        dense(storage(count=1), 0, (1,) * (MAX_RANK + 1), (1,) * (MAX_RANK + 1)),
        "tensor-rank", HOSTILE,
    ),
    # the rest of a tensor
    "unknown function": (Reduce(Global("torch._utils", "_import"), ()), "tensor-function", BROKEN),
    "no scheme": (quantized((Global("torch", "sub"), 0.5, 1)), "tensor-quantizer", BROKEN),
    "int scale": (quantized((PER_TENSOR[0], 1, 1)), "tensor-quantizer", BROKEN),
    "bool zero point": (quantized((PER_TENSOR[0], 0.5, True)), "tensor-quantizer", BROKEN),
    "scales too few": (quantized(per_channel(1)), "tensor-quantizer", HOSTILE),
    "scales too many": (quantized(per_channel(3)), "tensor-quantizer", HOSTILE),
    "axis beyond": (quantized(per_channel(2, axis=2)), "tensor-quantizer", HOSTILE),
    "axis below": (quantized(per_channel(2, axis=-1)), "tensor-quantizer", HOSTILE),
    "bool axis": (quantized(per_channel(2, axis=False)), "tensor-quantizer", BROKEN),
    "part grows": (
        sparse(parts=(dense(storage("LongStorage", "i", count=1), 0, (1, 9), (0, 0)), dense())),
        "tensor-part", BROKEN,
    ),
    "subclass unknown": (of_type("_x"), "tensor-function", BROKEN),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_sound(name):
    assert findings(SOUND[name]) == []
    tensor = built(SOUND[name])
    assert isinstance(tensor, torch.Tensor)


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_is_loaded_as_torch_does(name):
    value, rule = UNUSUAL[name]
    (found,) = findings(value)
    assert (found.rule, found.severity, found.nature) == (rule, Severity.INFO, Nature.UNUSUAL)
    held, offset, size, stride, *_ = value.argument
    expected = torch.empty(0).set_(torch.UntypedStorage(held.value[4] * 4), offset, size, stride)
    tensor = built(value)
    assert (tensor.size(), tensor.stride()) == (expected.size(), expected.stride())
    assert tensor.storage_offset() == expected.storage_offset()


@pytest.mark.parametrize("name", BAD)
def test_bad(name):
    value, rule, nature = BAD[name]
    found = next(f for f in findings(value) if f.severity is Severity.ERROR)
    assert (found.rule, found.nature, found.record) == (rule, nature, RECORD)
    whole = dense(value) if isinstance(value, PersistentId) else value
    with pytest.raises(TensorError) as caught:
        built(whole)
    assert caught.value.rule == rule
    assert caught.value.message == found.message


@pytest.mark.parametrize(
    ("size", "rule"),
    [
        (24, None),
        (27, None),
        (23, "tensor-storage-size"),
        (28, "tensor-storage-size"),
        (0, "tensor-storage-size"),
    ],
)
def test_a_record_holds_its_storage_and_nothing_more(size, rule):
    assert [found.rule for found in findings(storage(), size)] == ([rule] if rule else [])
    reader = TensorReader(lambda key: memoryview(bytearray(size)), None, RECORD)
    if rule is None:
        assert reader.build(dense(), reader.build).untyped_storage().nbytes() == 24
        return
    with pytest.raises(tsarchive.PickleError, match=f"holds {size} bytes"):
        reader.build(dense(), reader.build)


def test_a_missing_record():
    look = {"0": None}.get
    (found,) = tensor_findings(storage(), record=RECORD, storage_size=look)
    assert found.rule == "tensor-storage-missing"
    for sound in (storage(count=0), storage(device="meta")):
        assert not list(tensor_findings(sound, record=RECORD, storage_size=look))


def test_recorded_inputs_have_no_data():
    def found(record):
        return list(tensor_findings(storage(), record=record, storage_size=lambda key: 0))

    assert found("traced_inputs.pkl") == []
    assert [f.rule for f in found("constants.pkl")] == ["tensor-storage-size"]


@pytest.mark.parametrize(
    "other",
    [storage("IntStorage"), storage(device="cuda:0"), storage(count=5)],
    ids=["type", "device", "count"],
)
def test_one_key_has_one_meaning(other):
    value = [storage(), storage(), other]
    rules = [
        found.rule for found in tensor_findings(value, record="d", storage_size=lambda key: 24)
    ]
    assert rules == ["tensor-storage-conflict"]
    stored = StoredTensors(RECORD)
    stored.storage(storage())
    with pytest.raises(TensorError, match="differ in type, device or size"):
        stored.storage(other)


def test_a_shared_value_is_looked_at_once():
    bad = dense(offset=1)
    value = [bad]
    for _ in range(60):
        value = [value, value, bad]
    assert len(findings(value, 24)) == 1


def test_findings_say_where_the_storage_is_named():
    offsets = {"0": 17}
    found = list(
        tensor_findings(
            [storage(), dense(offset=1)], record="d", storage_size=lambda key: 3,
            offset_of=offsets.get,
        )
    )  # fmt: skip
    assert len(found) == 3
    assert {finding.offset for finding in found} == {17}


@pytest.mark.parametrize("kind", sorted(DTYPES))
def test_every_storage_type_is_loaded_without_a_warning(kind):
    held = storage(kind, count=8)
    is_quantized = DTYPES[kind] in (
        torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4,
    )  # fmt: skip
    value = quantized(held=held) if is_quantized else dense(held)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor = built(value)
    if DTYPES[kind] in SUB_BYTE:  # code cannot hold it
        assert isinstance(tensor, SubByteRows)
        tensor = tensor.rows
    assert tensor.dtype is DTYPES[kind]
    assert tensor.untyped_storage().nbytes() == 8 * STORAGE_TYPES[kind].itemsize


def test_sparse_csr_is_loaded_without_a_warning():
    rows = dense(storage("LongStorage", "r", count=3), 0, (3,), (1,))
    columns = dense(storage("LongStorage", "c", count=0), 0, (0,), (1,))
    values = dense(storage(key="v", count=0), 0, (0,), (1,))
    tensor = built(sparse(2, (2, 2), parts=(rows, columns, values)))
    assert tensor.layout is torch.sparse_csr


@pytest.mark.parametrize(
    "device", ["xla", "hpu", "ipu", "privateuseone", "mkldnn", "opengl", "lazy", "ve", "os"]
)
def test_a_device_that_torch_lacks(device):
    with pytest.raises(tsarchive.ArchiveError, match=device):
        built(dense(storage(device=device)))


@pytest.mark.parametrize("kind", [torch.sparse_coo, torch.sparse_csr])
def test_hostile_indices_are_refused(kind):
    """Indices far beyond the size would be read out of bounds by torch's kernels."""
    far = (1 << 40).to_bytes(8, "little") * 3
    indices = dense(storage("LongStorage", "i", count=2), 0, (1, 2), (2, 1))
    parts = (indices, dense(storage(key="v", count=2), 0, (2,), (1,)))
    if kind is torch.sparse_csr:
        rows = dense(storage("LongStorage", "r", count=3), 0, (3,), (1,))
        parts = (rows, dense(storage("LongStorage", "i", count=2), 0, (2,), (1,)), parts[1])
    with pytest.raises(tsarchive.PickleError, match="make no tensor"):
        built(
            sparse(1 if kind is torch.sparse_coo else 2, (2, 2)[: len(parts) - 1], parts=parts), far
        )


def test_indices_cannot_be_changed_after_they_were_checked():
    """Code could write to a dense tensor over the storage of the indices."""
    records = {"i": bytearray(16), "v": bytearray(8)}
    reader = TensorReader(lambda key: memoryview(records[key]), None, RECORD)

    def part(inner):
        return reader.build(inner, part) if isinstance(inner, Reduce) else inner

    aliased = part(dense(storage("LongStorage", "i", count=2), 0, (2,), (1,)))
    tensor = part(sparse())
    aliased.fill_(1 << 40)
    assert tensor.coalesce().indices().tolist() == [[0]]
    assert tensor.to_dense().shape == (4,)


NUMBERS = st.integers(0, 7) | st.sampled_from([HUGE, (1 << 63) - 1, 1 << 31])
DIMENSIONS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4)


def test_what_torch_writes_and_cannot_read_accuses_nobody():
    """Four-bit weights: torch counts elements where it writes them, and bytes where it reads."""
    packed = dense(storage("QUInt4x2Storage", count=20), 0, (10, 4), (4, 1))
    assert [(f.rule, f.nature) for f in findings(packed)] == [("tensor-bounds", "broken")]


@given(DIMENSIONS, NUMBERS, st.integers(0, 40))
def test_torch_takes_every_view_that_is_taken_here(dimensions, offset, count):
    """torch checks bounds in wrapping integers: whatever passes here passes there."""
    size = tuple(length for length, _ in dimensions)
    stride = tuple(step for _, step in dimensions)
    value = dense(storage(count=count), offset, size, stride)
    try:
        StoredTensors(RECORD).tensor(value)
    except TensorError:
        return
    held = torch.UntypedStorage(count * 4)
    assert (
        torch.empty(0).set_(held, offset, size, stride).numel()
        == StridedView(None, offset, size, stride).elements
    )


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), max_size=3))
def test_overlap_is_never_missed(dimensions):
    size = tuple(length for length, _ in dimensions)
    stride = tuple(step for _, step in dimensions)
    places = [0]
    for length, step in dimensions:
        places = [place + index * step for place in places for index in range(length)]
    if len(set(places)) < len(places):
        assert StridedView(None, 0, size, stride).may_overlap


def test_limits_are_those_of_64_bits():
    assert torch.iinfo(torch.int64).max == MAX_BYTES


def pickles_of(path):
    with Container.open(path) as container:
        for record, folder in (("data.pkl", "data"), ("constants.pkl", "constants")):
            if record in container.records:
                sizes = {name: entry.size for name, entry in container.records.items()}
                yield loads(container.read(record)), record, folder, sizes


@pytest.mark.parametrize("path", sorted(ARCHIVES.glob("*.pt")), ids=lambda path: path.stem)
def test_archives_of_torch_have_no_findings(path):
    for value, record, folder, sizes in pickles_of(path):
        found = tensor_findings(
            value, record=record, storage_size=lambda key, s=sizes, f=folder: s.get(f"{f}/{key}")
        )
        assert [f for f in found if f.severity is not Severity.INFO] == []


def test_real_archives_have_no_findings(corpus):
    count = 0
    for path in sorted((CORPUS / "torchscript").rglob("*")):
        if not path.is_file():
            continue
        for value, record, folder, sizes in pickles_of(path):
            count += 1
            assert not list(
                tensor_findings(
                    value, record=record,
                    storage_size=lambda key, s=sizes, f=folder: s.get(f"{f}/{key}"),
                )
            )  # fmt: skip
    assert count > 100


def test_torch_writes_records_of_the_size_that_is_expected():
    """Views of other types leave a storage whose bytes are no multiple of its elements."""

    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            held = torch.arange(7, dtype=torch.uint8)
            self.register_buffer("wide", held[:4].view(torch.int32))

        def forward(self):
            return self.wide

    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(Odd()), buffer)
    buffer.seek(0)
    loaded = tsarchive.load(buffer)
    assert torch.equal(loaded.wide, torch.arange(4, dtype=torch.uint8).view(torch.int32))
