"""Tensors of ExecuTorch programs that are in data files beside them."""

from __future__ import annotations

import io

import pytest

import tsarchive
from fixtures.executorch_programs import file_of
from fixtures.executorch_samples import data_file
from tests.support.executorch_files import FIXTURES, external, external_data


def test_tensors_of_a_data_file(tmp_path):
    file, data = file_of(external()), external_data()
    path = tmp_path / "data.ptd"
    path.write_bytes(data)
    other = data_file({"segments": [], "named_data": []}, b"")
    for given in (path, str(path), io.BytesIO(data), [io.BytesIO(other), path]):
        module = tsarchive.load(io.BytesIO(file), data=given)
        assert module().flatten().tolist() == list(range(12))
        assert "net.weight" in module.state_dict()


def test_a_tensor_that_no_data_file_has():
    file = io.BytesIO(file_of(external()))
    with pytest.raises(tsarchive.MissingRecordError, match=r"'net.weight'.*in a data file"):
        tsarchive.load(file)
    other = io.BytesIO(data_file({"segments": [], "named_data": []}, b""))
    with pytest.raises(tsarchive.MissingRecordError, match=r"'net.weight'.*in none of"):
        tsarchive.load(io.BytesIO(file_of(external())), data=other)


@pytest.mark.parametrize("more", [{"dim_order": [1, 0]}, {"scalar_type": 3}])
def test_a_tensor_that_has_another_layout_in_the_data_file(more):
    file = io.BytesIO(file_of(external(**more)))
    with pytest.raises(tsarchive.FormatError, match=r"'net\.weight' is float32"):
        tsarchive.load(file, data=io.BytesIO(external_data()))


def test_data_for_other_files():
    data = io.BytesIO(external_data())
    with pytest.raises(tsarchive.CallError, match="only programs of ExecuTorch"):
        tsarchive.load(FIXTURES.parent / "pt2" / "linear.pt2", data=data)
    with pytest.raises(tsarchive.CallError, match="should be a data file"):
        tsarchive.load(FIXTURES / "linear.pte", data=FIXTURES / "linear.pte")


def test_what_changes_begins_with_what_the_data_file_has():
    made = external(at=(1, 0))
    module = tsarchive.load(io.BytesIO(file_of(made)), data=io.BytesIO(external_data()))
    assert module().flatten().tolist() == list(range(12))
