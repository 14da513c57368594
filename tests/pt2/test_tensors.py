"""Tensors and objects of PT2 archives: every element type, zeros for what has no data, refusals."""

from __future__ import annotations

import io
import json
import warnings
import zipfile

import pytest
import torch
from torch._export.serde.serialize import _TORCH_TO_SERIALIZE_DTYPE

import tsarchive
from tests.support.pt2_archives import saved_today
from tsarchive.container import NewRecord, write_container
from tsarchive.errors import (
    ArchiveError,
    FormatError,
    LimitError,
    MissingRecordError,
    UnknownClassError,
    UnsupportedError,
)

MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"

NAMES = {
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32",
    "complex64", "complex128", "bool", "bfloat16", "uint16", "uint32", "uint64", "float8_e4m3fn",
    "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
}  # fmt: skip
DTYPES = [
    dtype for dtype in _TORCH_TO_SERIALIZE_DTYPE if str(dtype).removeprefix("torch.") in NAMES
]


class Holder(torch.nn.Module):
    def __init__(self, **buffers):
        super().__init__()
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)

    def forward(self, x):
        return x, *self.buffers()


def records_of(module, *args):
    """The records of what torch writes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = saved_today(torch.export.export(module, args or (torch.ones(2),)))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    found.pop(".data/serialization_id")
    return found


def archive(records):
    file = io.BytesIO()
    write_container(file, [NewRecord(name, data) for name, data in records.items()])
    file.seek(0)
    return file


def load(records, **options):
    return tsarchive.load(archive(records), **options)


def edited(records, name, change):
    values = json.loads(records[name])
    change(values)
    return {**records, name: json.dumps(values).encode()}


def some_bytes(dtype, count=6):
    data = torch.arange(count * dtype.itemsize, dtype=torch.uint8)
    return (data % 2 if dtype == torch.bool else data).view(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_every_element_type(dtype):
    tensor = some_bytes(dtype).view(2, 3).t()
    module = load(records_of(Holder(b=tensor)))
    found = module.b
    assert (found.dtype, found.shape, found.stride()) == (dtype, (3, 2), (1, 3))
    assert found.untyped_storage().tolist() == tensor.untyped_storage().tolist()
    assert module(torch.ones(2))[1] is found


def test_views_of_one_storage_share_it():
    whole = torch.arange(12.0)
    buffers = {"whole": whole, "part": whole[3:9].view(2, 3), "column": whole[1::4]}
    module = load(records_of(Holder(**buffers)))
    module.whole.zero_()
    assert not module.part.any()
    assert not module.column.any()
    assert (module.part.storage_offset(), module.column.stride()) == (3, (4,))


def test_empty_tensors():
    module = load(records_of(Holder(b=torch.empty(0, 3), c=torch.empty(2, 0, dtype=torch.int32))))
    assert (module.b.shape, module.c.shape, module.c.dtype) == ((0, 3), (2, 0), torch.int32)


def without_data(*sizes):
    records = records_of(Holder(b=torch.ones(2, 3)))

    def change(config):
        meta = config["config"]["b"]["tensor_meta"]
        meta["sizes"] = [{"as_int": size} for size in sizes]
        meta["strides"] = [{"as_int": sizes[1]}, {"as_int": 1}]

    return {**edited(records, WEIGHTS, change), "data/weights/weight_0": b""}


def test_tensors_without_data_are_zeros():
    module = load(without_data(2, 3))
    assert torch.equal(module.b, torch.zeros(2, 3))


def test_zeros_are_bounded():
    with pytest.raises(LimitError, match=r"too much memory.*map_location='meta'"):
        load(without_data(1 << 20, 1 << 20))
    assert load(without_data(1 << 20, 1 << 20), map_location="meta").b.shape == (1 << 20, 1 << 20)


@pytest.mark.parametrize("size", [-1, 1 << 63, 1 << 70])
def test_sizes_are_checked_before_torch_sees_them(size):
    with pytest.raises(FormatError, match=WEIGHTS):
        load(without_data(2, size))


def test_map_location_moves_all_tensors():
    records = records_of(Holder(b=torch.ones(2), c=torch.ones(2)[:1]))
    module = load(records, map_location="meta")
    assert all(tensor.is_meta for tensor in module.buffers())
    with pytest.raises(UnsupportedError, match="map_location='cpu'"):
        load(records, map_location="cuda" if not torch.cuda.is_available() else "xpu")


def on_a_gpu(records):
    def to_gpu(config):
        for entry in config["config"].values():
            entry["tensor_meta"]["device"] = {"type": "cuda", "index": 0}

    return edited(records, WEIGHTS, to_gpu)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a process without a GPU is tested")
def test_devices_that_are_not_there():
    records = on_a_gpu(records_of(Holder(b=torch.ones(2))))
    with pytest.raises(UnsupportedError, match=r"cuda:0.*map_location='cpu'"):
        load(records)
    assert load(records, map_location="cpu").b.tolist() == [1, 1]


def test_a_record_that_is_missing_is_named():
    records = records_of(Holder(b=torch.ones(2)))
    del records["data/weights/weight_0"]
    with pytest.raises(MissingRecordError, match="data/weights/weight_0"):
        load(records)


def test_a_tensor_that_is_not_listed_is_named():
    records = records_of(Holder(b=torch.ones(2)))
    with pytest.raises(MissingRecordError, match="does not hold the buffer 'b'"):
        load(edited(records, WEIGHTS, lambda config: config["config"].clear()))


@pytest.mark.parametrize(
    "name", ["", ".", "b.", ".b", "a..b", "forward", "training", "__class__", "a." * 300 + "b"]
)
def test_names_that_are_odd_do_no_harm(name):
    """They are refused, or kept where they hide nothing."""
    records = records_of(Holder(b=torch.ones(2)))

    def in_program(program):
        spec = program["graph_module"]["signature"]["input_specs"][0]["buffer"]
        spec["buffer_name"] = name

    records = edited(records, MODEL, in_program)
    records = edited(records, WEIGHTS, lambda c: c["config"].update({name: c["config"].pop("b")}))
    try:
        module = load(records)
    except ArchiveError:
        return
    assert module(torch.zeros(2))[1].tolist() == [1, 1]
    assert module.training in (True, False)
    assert isinstance(module, torch.nn.Module)


def test_a_name_is_of_one_thing():
    records = records_of(Holder(b=torch.ones(2), c=torch.ones(2)))

    def nested(program):
        specs = program["graph_module"]["signature"]["input_specs"]
        specs[1]["buffer"]["buffer_name"] = "b.c"

    with pytest.raises(FormatError, match="a module and a tensor"):
        load(edited(records, MODEL, nested))


# Objects

PACKED = "__torch__.torch.classes.quantized.LinearPackedParamsBase"


class Quantized(torch.nn.Module):
    """Takes the place of a program with packed weights, which torch.export cannot trace."""

    def forward(self, x):
        return torch.relu(x)


@pytest.fixture
def packed():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weight = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(weight, torch.zeros(3))


def with_object(data, *, class_fqn=PACKED, path_name="custom_obj_0"):
    """A program that runs a layer whose packed weights are an object of the archive."""

    def change(program):
        module = program["graph_module"]
        held = {"name": "packed", "class_fqn": class_fqn}
        spec = {"custom_obj": {"arg": held, "custom_obj_name": "layer.packed"}}
        module["signature"]["input_specs"].insert(0, spec)
        module["graph"]["inputs"].insert(0, {"as_custom_obj": held})
        (node,) = module["graph"]["nodes"]
        node["target"] = "torch.ops.quantized.linear_dynamic.default"
        node["inputs"] = [
            {"name": "X", "arg": node["inputs"][0]["arg"], "kind": 1},
            {"name": "W_prepack", "arg": {"as_custom_obj": held}, "kind": 1},
        ]

    def listed(config):
        config["config"]["layer.packed"] = {
            "path_name": path_name, "is_param": False, "use_pickle": True, "tensor_meta": None,
        }  # fmt: skip

    records = records_of(Quantized(), torch.ones(2, 4))
    records = edited(edited(records, MODEL, change), CONSTANTS, listed)
    return {**records, f"data/constants/{path_name}": data}


def test_objects_are_made_of_their_state(packed):
    records = with_object(torch._C._pickle_save(packed))
    x = torch.randn(2, 4)
    module = load(records)
    assert isinstance(module.layer.packed, torch.ScriptObject)
    expected = torch.ops.quantized.linear_dynamic(x.expand(2, 4), packed)
    assert torch.equal(module(x), expected)


def test_objects_need_their_class(packed):
    name = "__torch__.torch.classes.nolib.Nothing"
    records = with_object(torch._C._pickle_save(packed), class_fqn=name)
    with pytest.raises(ArchiveError, match=r"nolib\.Nothing is not registered"):
        load(records)


def test_objects_of_other_classes_than_said(packed):
    """The class that is made is the one that the pickle names."""
    with zipfile.ZipFile(io.BytesIO(torch._C._pickle_save(packed))) as inside:
        records = {name.partition("/")[2]: inside.read(name) for name in inside.namelist()}
    del records[".data/serialization_id"]
    changed = records["data.pkl"].replace(b"LinearPackedParamsBase", b"LinearPackedParamsNone")
    data = archive({**records, "data.pkl": changed}).read()
    with pytest.raises(UnknownClassError, match=r"ParamsNone is not registered.*custom_obj_0"):
        load(with_object(data))


HARM = b"cos\nsystem\n(S'true'\ntR."


@pytest.mark.parametrize("path_name", ["custom_obj_0", "opaque_obj_0"])
def test_pickles_that_run_code_are_not_read(path_name, packed):
    data = HARM if path_name.startswith("opaque") else archive({"data.pkl": HARM}).read()
    with pytest.raises(ArchiveError, match=f"data/constants/{path_name}"):
        load(with_object(data, path_name=path_name))
