"""Saving what was loaded: nothing is lost, nothing that torch cannot read is written."""

from __future__ import annotations

import enum
import io

import pytest
import torch

import tsarchive
from tests.support.archives import records_of, saved, torch_loaded, torch_saved


class Shade(enum.Enum):
    DARK = 1
    LIGHT = 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Shade.DARK
        self.second = Shade.DARK
        self.count = 3
        self.names = ["a"]
        self.body = torch.nn.Linear(2, 2)
        self.act = torch.nn.ReLU()

    def forward(self, x: torch.Tensor):
        return self.act(self.body(x)) * self.count, self.first == self.second, self.names


def loaded(**options):
    data = io.BytesIO()
    tsarchive.save(torch.jit.script(Net()), data, **options)
    data.seek(0)
    return tsarchive.load(data)


def test_one_enum_member_in_two_places_is_stable():
    assert tsarchive.check_jitter(torch.jit.script(Net())).stable


@pytest.mark.parametrize("count", [1, 2, 3, 20, 100])
def test_extra_files_keep_their_order(count):
    files = {f"file{number}": str(number) for number in range(count)}
    module = loaded(extra_files=files)
    first = saved(module)
    assert [n for n in records_of(first) if n.startswith("extra/")]
    assert saved(tsarchive.load(io.BytesIO(first))) == first


def test_an_extra_file_can_be_replaced():
    records = records_of(saved(loaded(extra_files={"a": "1", "b": "2"}), extra_files={"a": "3"}))
    assert (records["extra/a"], records["extra/b"]) == (b"3", b"2")


def test_an_extra_file_of_another_type_is_refused():
    with pytest.raises(tsarchive.SaveError, match="'a' is neither"):
        saved(loaded(), extra_files={"a": 5})


@pytest.mark.parametrize(
    ("name", "value"),
    [("count", 2.5), ("count", "text"), ("count", True), ("names", 5), ("names", [1]),
     ("training", "x"), ("first", 1)],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(name, value):
    module = loaded()
    vars(module)[name] = value  # setattr would refuse it
    with pytest.raises(tsarchive.SaveError, match=name):
        saved(module)


def test_a_module_of_another_class_is_refused():
    module = loaded()
    module.body = module.act
    with pytest.raises(tsarchive.SaveError, match="body"):
        saved(module)


def test_what_was_added_is_not_lost_silently():
    module = loaded()
    module.register_buffer("more", torch.ones(1))
    with pytest.raises(tsarchive.SaveError, match="more"):
        saved(module)


def test_what_was_removed_is_missed():
    module = loaded()
    del module.body
    with pytest.raises(tsarchive.SaveError, match="body"):
        saved(module)


@pytest.mark.parametrize("version", [b"0\n", b"11\n", b"99\n"])
def test_versions_that_torch_does_not_read_are_refused(version):
    from tsarchive.container import NewRecord, write_container

    records = records_of(saved(torch.jit.script(Net())))
    records["version"] = version
    data = io.BytesIO()
    kept = [NewRecord(n, c) for n, c in records.items() if n != ".data/serialization_id"]
    write_container(data, kept)
    data.seek(0)
    with pytest.raises(tsarchive.UnsupportedError, match="format version"):
        tsarchive.load(data)


def test_constants_that_code_wrote_to_are_saved_as_they_are_now():
    class Adds(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.total = torch.zeros(2)

        def forward(self, x):
            self.total.add_(x)
            return self.total + 0

    traced = torch.jit.trace(Adds(), (torch.ones(2),), check_trace=False)
    module = tsarchive.load(io.BytesIO(torch_saved(traced)))
    now = module(torch.ones(2))
    assert torch.equal(torch_loaded(saved(module))(torch.zeros(2)), now)


def coo(edges):
    return torch.sparse_coo_tensor(edges, torch.ones(2), (3, 3), is_coalesced=True)


def csr(edges):
    return torch.sparse_csr_tensor(torch.tensor([0, 1, 2, 2]), edges[1], torch.ones(2), (3, 3))


def indices_of(sparse):
    return sparse._indices() if sparse.is_sparse else sparse.col_indices()


class Adjacent(torch.nn.Module):
    """A sparse buffer, whose indices are a buffer as well, and part of a larger one."""

    def __init__(self, make):
        super().__init__()
        edges = torch.tensor([[9, 9], [0, 1], [1, 2]])
        self.register_buffer("edges", edges)
        self.register_buffer("adjacent", make(edges[1:]))

    def forward(self):
        return self.adjacent.to_dense(), self.edges


class Weighted(torch.nn.Module):
    """A sparse parameter, which is a buffer as well, and another tensor at the same indices."""

    def __init__(self, make):
        super().__init__()
        edges = torch.tensor([[9, 9], [0, 1], [1, 2]])
        self.weight = torch.nn.Parameter(make(edges[1:]))
        self.register_buffer("same", self.weight)
        self.register_buffer("other", make(edges[1:]))

    def forward(self):
        return self.weight.to_dense()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("make", [coo, csr])
class TestSparseIndices:
    def test_views_of_other_tensors_stay_views(self, make):
        first = saved(torch.jit.script(Adjacent(make)))
        again = saved(tsarchive.load(io.BytesIO(first)))
        assert records_of(first) == records_of(again)

    def test_parameters_stay_themselves(self, make):
        first = saved(torch.jit.script(Weighted(make)))
        module = tsarchive.load(io.BytesIO(first))
        assert module.weight.is_leaf
        assert module.weight.requires_grad
        assert records_of(first) == records_of(saved(module))

    def test_a_storage_is_copied_once_for_all_that_view_it(self, make):
        module = tsarchive.load(io.BytesIO(saved(torch.jit.script(Weighted(make)))))
        storages = [indices_of(t).untyped_storage() for t in (module.weight, module.other)]
        assert storages[0]._cdata == storages[1]._cdata

    def test_what_code_cannot_write_to_does_not_change(self, make):
        first = saved(torch.jit.script(Adjacent(make)))
        module = tsarchive.load(io.BytesIO(first))
        expected = module()[0].clone()
        module.edges.fill_(10**9)
        assert torch.equal(module()[0], expected)
        dense, edges = torch.jit.load(io.BytesIO(saved(module)))()
        assert torch.equal(dense, expected)
        assert torch.equal(edges, module.edges)
