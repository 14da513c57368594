"""Weights and constants of PT2 archives: described as torch loads them, refused where it lies."""

from __future__ import annotations

import json
import zipfile

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from tests.support.archives import TORCH, torch_pickled
from tests.support.features import stores_weights_apart
from tests.support.pt2_archives import ROW_META, corpus_files, fixture, payload, records_in, write
from tsarchive.container import Container
from tsarchive.errors import FormatError, MissingRecordError, PickleError
from tsarchive.formats.pt2.payloads import (
    Kind,
    PickledPayload,
    Saved,
    StoredView,
    saved_payload,
    stored_payloads,
)
from tsarchive.formats.pt2.records import CONSTANTS, WEIGHTS, Layout, Records
from tsarchive.formats.pt2.schema import DTYPES, SCALAR_TYPES
from tsarchive.pickler import Global, Reduce, dumps

CONFIG = "data/weights/model_weights_config.json"
LOADABLE = ("control_flow", "mutating", "shared", "extra_files", "linear")


def opened(records: dict[str, bytes], tmp_path) -> Records:
    return Records(Container.open(write(tmp_path / "a.pt2", records)))


def configured(tmp_path, entries: dict, records: dict[str, bytes], **options) -> Records:
    """An archive with these weights and without constants."""
    made = {
        **{f"data/weights/{name}": data for name, data in records.items()},
        CONFIG: json.dumps({"config": entries}).encode(),
        "data/constants/model_constants_config.json": b'{"config": {}}',
        "models/model.json": b"{}",
    }
    return opened({**made, **options}, tmp_path)


def stored(records: Records, model: str, kind: type) -> dict:
    """The payloads of one kind among weights and constants."""
    weights, constants = (stored_payloads(records, name, model) for name in (WEIGHTS, CONSTANTS))
    return {name: item for name, item in (weights | constants).items() if isinstance(item, kind)}


def tensors(records: Records, model: str) -> dict[str, StoredView]:
    return stored(records, model, StoredView)


def objects(records: Records, model: str) -> dict[str, PickledPayload]:
    return stored(records, model, PickledPayload)


def as_torch(view) -> torch.Tensor:
    data = view.storage.data() if view.has_data else bytes(1 << 12)
    dtype = getattr(torch, DTYPES[view.dtype].dtype)
    flat = torch.frombuffer(bytearray(data), dtype=dtype)
    return flat.as_strided(view.shape, view.strides, view.offset)


def compare(records: Records, model: str, program) -> None:
    """Every tensor and flag, and which of them share memory."""
    ours = tensors(records, model)
    theirs = {**program.state_dict, **program.constants}
    theirs = {name: value for name, value in theirs.items() if isinstance(value, torch.Tensor)}
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        view = ours[name]
        assert torch.equal(as_torch(view), tensor.detach())
        assert view.strides == tensor.stride()
        assert view.requires_grad == tensor.requires_grad
        assert view.is_parameter == isinstance(tensor, torch.nn.Parameter)
    shared = [[a for a in ours if ours[a].storage == ours[b].storage] for b in ours]
    pointers = {name: value.untyped_storage().data_ptr() for name, value in theirs.items()}
    assert shared == [[a for a in ours if pointers[a] == pointers[b]] for b in ours]


@stores_weights_apart
@pytest.mark.parametrize("name", LOADABLE)
def test_tensors_are_those_that_torch_loads(name):
    program = torch.export.load(fixture(name))
    with Container.open(fixture(name)) as container:
        records = Records(container)
        assert records.layout is Layout.RAW
        compare(records, "model", program)
        assert objects(records, "model") == {}


@stores_weights_apart
@pytest.mark.parametrize("name", ["linear", "mutating", "shared"])
def test_layout_of_one_file_for_all_weights(name):
    program = torch.export.load(fixture(f"{name}-2.8"))
    records = Records(Container.open(fixture(f"{name}-2.8")))
    assert records.layout is Layout.WHOLE
    compare(records, "model", program)


@pytest.mark.parametrize("version", ["2.4", "2.5", "2.7"])
def test_flat_layouts_hold_the_same_weights(version):
    flat = Records(Container.open(fixture(f"linear-{version}")))
    raw = Records(Container.open(fixture("linear")))
    assert flat.layout is Layout.FLAT
    ours, same = tensors(flat, "model"), tensors(raw, "model")
    assert ours.keys() == same.keys()
    for name, view in ours.items():
        assert torch.equal(as_torch(view), as_torch(same[name]))
        assert (view.is_parameter, view.requires_grad) == (True, True)


def test_each_model_has_its_own_weights():
    records = Records(Container.open(fixture("two_models")))
    assert records.models == ("first", "second")
    assert set(tensors(records, "first")) == {"layer.weight", "layer.bias"}
    assert "embedding.weight" in tensors(records, "second")


@pytest.mark.parametrize(("note", "is_plain"), [("_dynamo_kind", True), ("mine", False)])
def test_what_dynamo_leaves_on_parameters_is_passed_over(note, is_plain, tmp_path):
    """torch 2.7 and older store parameters with it where programs were exported strictly."""
    weight = torch.nn.Parameter(torch.ones(2))
    setattr(weight, note, "x")
    path = write(tmp_path / "net.pt2", {"weights": torch_pickled({"weight": weight})})
    with Container.open(path) as container:
        saved = Saved(container, "weights")
        (value,) = saved.root.values()
        found = saved_payload(saved, value)
    assert isinstance(found, StoredView) == is_plain


def test_every_type_of_elements_has_torchs_size():
    known = [row for row in DTYPES.values() if hasattr(torch, row.dtype)]
    assert len(known) == len(DTYPES) or TORCH < (2, 8)
    assert {getattr(torch, row.dtype).itemsize == row.itemsize for row in known} == {True}
    assert {SCALAR_TYPES[row.dtype] for row in DTYPES.values()} == set(DTYPES)


def test_every_file_of_the_corpus(corpus):
    for path in corpus_files():
        records = Records(Container.open(path))
        for model in records.models:
            for view in tensors(records, model).values():
                assert (
                    not view.has_data or view.storage.nbytes >= view.nbytes > 0 or not view.nbytes
                )


# What is pickled is described


def test_a_subclass_is_described_and_not_unpickled(tmp_path):
    data = torch_pickled(TwoTensor(torch.ones(3), torch.zeros(3)))
    entry = payload("weight_0", ROW_META, use_pickle=True, is_param=True)
    records = configured(tmp_path, {"w": entry}, {"weight_0": data})
    found = objects(records, "model")["w"]
    assert found.kind is Kind.TENSOR
    assert found.class_name == "torch.testing._internal.two_tensor.TwoTensor"
    assert (found.record, found.is_parameter) == ("data/weights/weight_0", True)
    assert tensors(records, "model") == {}


def test_a_plain_tensor_that_is_pickled_is_a_view(tmp_path):
    tensor = torch.arange(6.0).reshape(2, 3).t()
    entry = payload("weight_0", ROW_META, use_pickle=True)
    records = configured(tmp_path, {"w": entry}, {"weight_0": torch_pickled(tensor)})
    view = tensors(records, "model")["w"]
    assert torch.equal(as_torch(view), tensor)
    assert view.storage.name == "data/weights/weight_0/data/0"


CALL = dumps(Reduce(Global("os", "system"), ("id",)))


@pytest.mark.parametrize(
    ("name", "data", "kind", "class_name"),
    [
        ("opaque_obj_0", CALL, "opaque object", "os.system"),
        ("opaque_obj_0", b"not a pickle", "opaque object", None),
        ("custom_obj_0", b"not a zip", "custom object", None),
        ("custom_obj_0", torch_pickled({"a": 1}), "custom object", "dict"),
    ],
)  # fmt: skip
def test_objects_are_described_and_not_made(tmp_path, name, data, kind, class_name):
    entry = payload(name, use_pickle=True)
    records = configured(tmp_path, {"held": entry}, {name: data})
    found = objects(records, "model")["held"]
    assert (found.kind.value, found.class_name) == (kind, class_name)


def test_objects_of_a_file_of_all_constants(tmp_path):
    constants = torch_pickled({"t": torch.ones(2), "s": torch.ones(2).to_sparse()})
    records = records_in(fixture("linear-2.8")) | {"data/constants/model.pt": constants}
    found = opened(records, tmp_path)
    assert set(stored_payloads(found, CONSTANTS, "model")) == {"t", "s"}
    assert objects(found, "model")["s"].kind is Kind.TENSOR


# What is refused


def meta(**changes) -> dict:
    return {**ROW_META, **changes}


def ints(*values: int) -> list[dict]:
    return [{"as_int": value} for value in values]


SYMBOL = {"as_expr": {"expr_str": "Symbol('s0')", "hint": None}}
REFUSED = {
    "beyond the record": (meta(sizes=ints(2, 4), strides=ints(4, 1)), "reaches element 7 of 6"),
    "offset beyond": (meta(storage_offset={"as_int": 1}), "reaches element 6 of 6"),
    "stride beyond": (meta(strides=ints(4, 1)), "reaches element 6 of 6"),
    "negative size": (meta(sizes=ints(-2, 3)), "no size"),
    "negative stride": (meta(strides=ints(-3, 1)), "no size"),
    "negative offset": (meta(storage_offset={"as_int": -1}), "no size"),
    "symbolic size": (meta(sizes=[SYMBOL, {"as_int": 3}]), "no size"),
    "rank": (meta(strides=ints(1)), r"sizes \[2, 3\] and the strides \[1\]"),
    "huge rank": (meta(sizes=ints(*[1] * 65), strides=ints(*[1] * 65)), "65 dimensions"),
    "overflow": (meta(sizes=ints(1 << 62, 1 << 62), strides=ints(0, 0)), "beyond what memory"),
    "overflow of an empty one": (meta(sizes=ints(0, 1 << 62), strides=ints(1, 1)), "beyond what"),
    "unknown type": (meta(dtype=0), "type of its elements"),
    "no such type": (meta(dtype=27), "no ScalarType"),
    "sparse": (meta(layout=1), "layout sparse_coo"),
    "gradient of integers": (meta(dtype=4, requires_grad=True), "requires a gradient"),
    "device": (meta(device={"type": "cpu\n", "index": None}), "unknown device"),
    "device number": (meta(device={"type": "cuda", "index": 300}), "unknown device"),
    "no description": (None, "no tensor_meta"),
}  # fmt: skip


@pytest.mark.parametrize("way", REFUSED)
def test_what_does_not_fit_its_record_is_refused(tmp_path, way):
    described, message = REFUSED[way]
    records = configured(tmp_path, {"w": payload("weight_0", described)}, {"weight_0": bytes(24)})
    with pytest.raises(FormatError, match=message) as error:
        stored_payloads(records, WEIGHTS, "model")
    assert error.value.record == CONFIG


def test_a_record_has_elements_of_one_type(tmp_path):
    entries = {"a": payload("weight_0", meta()), "b": payload("weight_0", meta(dtype=4))}
    records = configured(tmp_path, entries, {"weight_0": bytes(24)})
    with pytest.raises(FormatError, match="elements of another type"):
        stored_payloads(records, WEIGHTS, "model")


def test_a_record_without_bytes_is_a_tensor_without_data(tmp_path):
    entries = {"a": payload("weight_0", meta()), "b": payload("weight_0", meta(dtype=4))}
    records = configured(tmp_path, entries, {"weight_0": b""})
    found = tensors(records, "model")
    assert [view.has_data for view in found.values()] == [False, False]
    empty = {"a": payload("weight_0", meta(sizes=ints(0, 3)))}
    records = configured(tmp_path, empty, {"weight_0": b""})
    assert tensors(records, "model")["a"].has_data


@pytest.mark.parametrize("name", ["weight_1", "../../models/model.json", "/etc/passwd", ""])
def test_a_record_that_is_missing(tmp_path, name):
    records = configured(tmp_path, {"w": payload(name, meta())}, {"weight_0": bytes(24)})
    with pytest.raises(MissingRecordError) as error:
        stored_payloads(records, WEIGHTS, "model")
    assert error.value.record == f"data/weights/{name}"


def test_a_configuration_that_is_missing(tmp_path):
    records = opened({"models/model.json": b"{}"}, tmp_path)
    with pytest.raises(MissingRecordError, match="model_weights_config"):
        stored_payloads(records, WEIGHTS, "model")


STATE = "data/weights/model.pt"
BROKEN = {
    "no zip": (b"zip", FormatError, STATE),
    "no dict": (torch_pickled([1]), FormatError, STATE),
    "a name that is no string": (torch_pickled({1: torch.ones(1)}), FormatError, STATE),
}  # fmt: skip


@pytest.mark.parametrize("way", BROKEN)
def test_a_broken_file_of_all_weights_names_its_record(tmp_path, way):
    data, kind, record = BROKEN[way]
    records = opened(records_in(fixture("linear-2.8")) | {STATE: data}, tmp_path)
    with pytest.raises(kind) as error:
        stored_payloads(records, WEIGHTS, "model")
    assert error.value.record.startswith(record)


def inner(change, tmp_path) -> bytes:
    """The weights of a fixture with a change to the records inside."""
    weights = tmp_path / "weights.pt"
    weights.write_bytes(records_in(fixture("linear-2.8"))[STATE])
    return write(tmp_path / "changed.pt", change(records_in(weights))).read_bytes()


def without(records, name):
    return {other: data for other, data in records.items() if other != name}


@pytest.mark.parametrize(
    ("change", "kind", "record"),
    [
        (lambda r: {**r, "data/0": r["data/0"][:-4]}, PickleError, "data.pkl"),
        (lambda r: without(r, "data/0"), MissingRecordError, "data/0"),
        (lambda r: {**r, "data.pkl": r["data.pkl"][:-9]}, PickleError, "data.pkl"),
        (lambda r: without(r, "data.pkl"), MissingRecordError, "data.pkl"),
    ],
)  # fmt: skip
def test_broken_records_inside_are_named(tmp_path, change, kind, record):
    data = inner(change, tmp_path)
    records = opened(records_in(fixture("linear-2.8")) | {STATE: data}, tmp_path)
    with pytest.raises(kind) as error:
        stored_payloads(records, WEIGHTS, "model")
    assert error.value.record == f"{STATE}/{record}"


def test_a_file_that_was_cut_is_noticed_inside_as_well(tmp_path):
    path = tmp_path / "a.pt2"
    path.write_bytes(fixture("linear-2.8").read_bytes())
    view = tensors(Records(Container.open(path)), "model")["layer.weight"]
    with path.open("r+b") as file:
        file.truncate(4096)
    with pytest.raises(FormatError, match="when it was opened"):
        view.storage.data()


@pytest.mark.parametrize("name", ["linear", "linear-2.8", "linear-2.4"])
def test_archives_that_were_packed_again_hold_the_same(tmp_path, name):
    """Compressed records are inflated, those inside of others as well."""
    path = tmp_path / "a.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for record, data in records_in(fixture(name)).items():
            archive.writestr(record, data)
    ours = tensors(Records(Container.open(path)), "model")
    same = tensors(Records(Container.open(fixture(name))), "model")
    assert ours.keys() == same.keys()
    assert all(torch.equal(as_torch(ours[key]), as_torch(same[key])) for key in ours)


def test_views_live_on_when_the_archive_is_closed():
    container = Container.open(fixture("linear-2.8"))
    data = tensors(Records(container), "model")["layer.bias"].storage.data()
    before = bytes(data)
    container.close()
    assert bytes(data) == before
    assert len(before) == 12
