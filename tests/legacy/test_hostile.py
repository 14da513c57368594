"""Broken archives of before torch 1.3 give errors that name the record and what is wrong."""

from __future__ import annotations

import copy
import io
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tsarchive
from tests.support.legacy_archives import FORWARD, archive, model_of
from tests.support.suite import examples

_TENSOR = model_of()["tensors"][0]
_MAIN = model_of()["mainModule"]
_ATTRIBUTE = {"type": "int", "name": "n", "id": "0"}


def with_tensor(**changes):
    return model_of(tensors=[_TENSOR | changes])


def with_main(**changes):
    return model_of(mainModule=_MAIN | changes)


def nested(depth):
    module = {"name": "a"}
    for _ in range(depth):
        module = {"name": "a", "submodules": [module]}
    return model_of(mainModule=module)


# A model, the record that the error names, and what it says.
BROKEN = {
    "field_twice": (b'{"protoVersion": "5", "protoVersion": "2"}', "model.json", "field twice"),
    "half_a_character": (
        with_main(name="\ud800"), "model.json", r"mainModule.name has half a surrogate pair",
    ),
    "place_of_state_negative": (
        with_main(getStateAttributeId="-1"), "model.json", "no __setstate__",
    ),
    "tensor_over_code": (
        with_tensor(data={"key": "code/m.py"}), "model.json", "lies in 'code/m.py'",
    ),
    "tensor_over_nothing": (
        with_tensor(data={"key": "tensors/../x"}), "tensors/../x", "no such record",
    ),
    "not_json": (b"{", "model.json", "not JSON"),
    "many_brackets": (b"[" * 300_000, "model.json", "nested too deeply"),
    "not_an_object": (b"[]", "model.json", "not a JSON object"),
    "not_text": (b"\xff\xfe\x00", "model.json", "not JSON"),
    "nested_json": (b"[" * 100_000, "model.json", "nested too deeply"),
    "version": (model_of(protoVersion="6"), "model.json", "protoVersion 6"),
    "version_text": (model_of(protoVersion="five"), "model.json", "protoVersion is 'five'"),
    "version_huge": (model_of(protoVersion=1 << 80), "model.json", "64 bits"),
    "no_main": ({"protoVersion": "5"}, "model.json", "mainModule is missing"),
    "main_list": (model_of(mainModule=[1]), "model.json", r"mainModule is \[1\], not an object"),
    "tensors_dict": (model_of(tensors={"a": 1}), "model.json", "tensors is .*not a list"),
    "tensor_number": (model_of(tensors=[3]), "model.json", r"tensors\[0\] is 3, not an object"),
    "dims": (with_tensor(dims=["x"]), "model.json", r"tensors\[0\].dims is 'x'"),
    "dims_bool": (with_tensor(dims=[True]), "model.json", r"tensors\[0\].dims is True"),
    "dims_negative": (with_tensor(dims=["-2"]), "model.json", "negative"),
    "offset_negative": (with_tensor(offset="-1"), "model.json", "negative"),
    "strides": (with_tensor(strides=["1", "1"]), "model.json", "2 entries"),
    "dims_huge": (with_tensor(dims=["4611686018427387904"]), "model.json", "element .* of 2"),
    "offset_huge": (with_tensor(offset="9223372036854775807"), "model.json", "element .* of 2"),
    "dtype": (with_tensor(dataType="STRING"), "model.json", "dataType is 'STRING'"),
    "dtype_number": (with_tensor(dataType=99), "model.json", "dataType is 99"),
    "dtype_list": (with_tensor(dataType=[]), "model.json", r"dataType is \[\]"),
    "quantized": (with_tensor(isQuantized=True), "model.json", "cannot be quantized"),
    "quantized_text": (with_tensor(isQuantized="yes"), "model.json", "isQuantized is 'yes'"),
    "scale": (
        with_tensor(dataType="UINT8", isQuantized=True, scale="x"), "model.json", "scale is 'x'",
    ),
    "no_data": (with_tensor(data=None), "model.json", "data.key is missing"),
    "no_record": (with_tensor(data={"key": "tensors/9"}), "tensors/9", "no such record"),
    "no_device": (with_tensor(device=""), "model.json", "device is missing"),
    "device": (with_tensor(device="toaster"), "model.json", "unknown device 'toaster'"),
    "shared_dtypes": (
        model_of(tensors=[_TENSOR, _TENSOR | {"dataType": "INT32"}])
        | {"mainModule": _MAIN | {"parameters": [
            {"name": "weight", "tensorId": 0}, {"name": "other", "tensorId": 1}]}},
        "tensors/0", "differ in element type",
    ),
    "tensor_id": (
        with_main(parameters=[{"name": "w", "tensorId": "7"}]), "model.json", "but there are 1",
    ),
    "tensor_id_negative": (
        with_main(parameters=[{"name": "w", "tensorId": "-1"}]), "model.json", "is -1",
    ),
    "name": (with_main(name=3), "model.json", "mainModule.name is 3, not a string"),
    "two_of_a_name": (
        with_main(submodules=[{"name": "weight"}]), "model.json", "two parts called 'weight'",
    ),
    "no_code": (with_main(torchscriptArena={"key": "code/x.py"}), "code/x.py", "methods of"),
    "code_number": (with_main(torchscriptArena=7), "model.json", "torchscriptArena is 7"),
    "attribute_id": (
        with_main(attributes=[_ATTRIBUTE | {"id": "3"}]), "attributes.pkl", "no value 3",
    ),
    "attribute_type": (
        with_main(attributes=[_ATTRIBUTE | {"type": "Nothing["}]), "model.json", "Nothing",
    ),
    "attribute_class": (
        with_main(attributes=[_ATTRIBUTE | {"type": "__torch__.a.B"}]), "libs/__torch__/a.py", "B",
    ),
    "state": (with_main(getStateAttributeId="0"), "model.json", "a state and no __setstate__"),
    "deep": (nested(150), "model.json", "nested too deeply"),
    "very_deep": (nested(400), "model.json", "nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_models(name):
    model, record, message = BROKEN[name]
    with pytest.raises(tsarchive.ArchiveError, match=message) as raised:
        tsarchive.load(archive(model))
    assert raised.value.record == record


# Other records that are broken, the record of the error, and what it says.
RECORDS = {
    "code_is_not_code": ({"code/m.py": "x = 1\n"}, "code/m.py", "classes and functions only"),
    "code_does_not_parse": ({"code/m.py": f"{FORWARD}  return (\n"}, "code/m.py", "parse"),
    "code_of_two_kinds": (
        {"code/m.py": f"{FORWARD}  return x\nclass A:\n  a : int\n"}, "code/m.py", "one class",
    ),
    "constant": (
        {"code/m.py": f"{FORWARD}  return CONSTANTS.c5\n"}, "model.json", "no tensor 5",
    ),
    "attributes_are_no_pickle": ({"attributes.pkl": b"\x00"}, "attributes.pkl", "PROTO"),
    "attributes_are_no_table": ({"attributes.pkl": b"\x80\x02N."}, "attributes.pkl", "not a table"),
    "attributes_call": (
        {"attributes.pkl": b"\x80\x02(cos\nsystem\n(X\x02\x00\x00\x00lstRt."},
        "attributes.pkl", "os.system",
    ),
    "attributes_of_no_tensor": (
        {"attributes.pkl": b"\x80\x02(ctorch.jit._pickle\nbuild_tensor_from_id\n(K\x09tRt."},
        "model.json", "no tensor 9",
    ),
    "attributes_deep": (
        {"attributes.pkl": b"\x80\x02(" + b"(" * 5000 + b"t" * 5000 + b"t."},
        "attributes.pkl", "nested too deeply",
    ),
    "attributes_of_a_bool": (
        {"attributes.pkl": b"\x80\x02(ctorch.jit._pickle\nbuild_tensor_from_id\n(\x88tRt."},
        "attributes.pkl", "not an integer",
    ),
    "attributes_with_a_tensor": (
        {"attributes.pkl": b"\x80\x02(ctorch._utils\n_rebuild_tensor_v2\n)Rt."},
        "attributes.pkl", "the number of one is expected",
    ),
    "attributes_with_a_list_for_a_key": (
        {"attributes.pkl": b"\x80\x02(}c__main__\nIntList\n)\x81]bNst."},
        "attributes.pkl", "key of a dict",
    ),
    "attributes_with_a_name": (
        {"attributes.pkl": b"\x80\x02(cos\nsystem\nt."}, "attributes.pkl", "os.system",
    ),
    "attributes_of_another_type": (
        {"attributes.pkl": b"\x80\x02(\x88t."}, "model.json", "declared int, but is a bool",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_broken_records(name):
    records, record, message = RECORDS[name]
    model = with_main(attributes=[_ATTRIBUTE])
    values = {"attributes.pkl": b"\x80\x02(K\x01t."} | records
    with pytest.raises(tsarchive.ArchiveError, match=message) as raised:
        _read_whole(archive(model, **values))
    assert raised.value.record == record


def _read_whole(source):
    for method in tsarchive.load(source).tsarchive_class.methods.values():
        assert method.graph is not None


def test_a_slot_that_setstate_leaves_unset():
    code = "op_version_set = 1\ndef __setstate__(self,\n    state: int) -> None:\n  return None\n"
    model = with_main(attributes=[_ATTRIBUTE | {"id": "-1"}], getStateAttributeId="0")
    values = {"attributes.pkl": b"\x80\x02(K\x01t.", "code/m.py": code}
    with pytest.raises(tsarchive.PickleError, match="leaves 'n' unset"):
        tsarchive.load(archive(model, **values))


_JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 300), st.sampled_from(["", "0", "-1", "x", "cpu"]),
    st.just([]), st.just({}), st.just([[]]), st.just({"key": "a"}), st.floats(), st.just([{}]),
)  # fmt: skip


def _places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list):
            yield from _places(item, (*path, key))
        else:
            yield (*path, key)


_WHOLE = with_main(
    attributes=[_ATTRIBUTE],
    submodules=[{"name": "s", "optimize": True}],
    torchscriptDebugArena={"key": "debug/m.pkl"},
)
_ALL_PLACES = [path for path in _places(_WHOLE) if path]


@settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))
@given(st.sampled_from(_ALL_PLACES), _JUNK)
def test_any_change_of_a_model_is_read_or_refused(place, junk):
    model = copy.deepcopy(_WHOLE)
    target = model
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = junk
    data = archive(json.dumps(model), **{"attributes.pkl": b"\x80\x02(K\x01t."}).getvalue()
    for read in (_looked_at, _loaded):
        assert _refused_record(read, data) != ""


def _refused_record(read, data):
    """The record that an error names, "" for one that names none; None where none is raised."""
    try:
        read(data)
    except tsarchive.ArchiveError as error:
        return error.record or ""
    return None


def _looked_at(data):
    with tsarchive.open(io.BytesIO(data)) as opened:
        opened.tree()
        dict(opened.tensors)


def _loaded(data):
    tsarchive.load(io.BytesIO(data))
