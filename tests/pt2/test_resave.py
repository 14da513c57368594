"""Modules that were loaded from PT2 archives, saved again."""

from __future__ import annotations

import io
import os

import pytest
import torch

import tsarchive
from tests.support.archives import CORPUS, export_saved, loaded, records_of, saved
from tests.support.features import stores_weights_apart
from tests.support.pt2_archives import MODEL, PROGRAMS, fixture, nested, shared

EXPORTED = sorted((CORPUS / "generated").glob("pt2_*.pt2")) + sorted((CORPUS / "pt2").glob("*.pt2"))
# These change: fake weights become the zeros that they load as, layouts become those of today.
CHANGING = {"pt2_fake.pt2", "pt2_legacy27.pt2", "pt2_legacy28.pt2"}


def files(paths):
    missing = pytest.mark.skip("the corpus of real archives is not beside the repository")
    return [pytest.param(path, id=path.name) for path in paths] or [
        pytest.param(None, marks=missing)
    ]


@stores_weights_apart
@pytest.mark.sample(1, gaps="other tests save each program")
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_torch_saved_comes_back_byte_for_byte(name):
    data = export_saved(PROGRAMS[name](), extra_files={"b": "1", "a": "2"})
    assert records_of(saved(loaded(data))) == records_of(data)


@pytest.mark.parametrize("path", files(EXPORTED))
def test_files_of_the_corpus_come_back(path):
    try:
        module = tsarchive.load(path)
    except tsarchive.ArchiveError as refusal:
        pytest.skip(f"not loaded: {refusal}")
    if path.name == "pt2_opaque.pt2":  # torch did not write its object
        with pytest.raises(tsarchive.SaveError, match=r"broken: .*_custom_obj_0"):
            saved(module)
        return
    data = saved(module)
    if path.name not in CHANGING:
        assert list(records_of(data).items()) == list(records_of(path.read_bytes()).items())
    assert saved(loaded(data)) == data


@stores_weights_apart
@pytest.mark.parametrize("path", files([path for path in EXPORTED if "legacy" in path.name]))
def test_torch_loads_files_that_were_brought_up_to_date(path):
    module = tsarchive.load(path)
    program = torch.export.load(io.BytesIO(saved(module)))
    assert {k: v.shape for k, v in program.state_dict.items()} == {
        k: v.shape for k, v in module.state_dict().items()
    }
    for key, tensor in module.state_dict().items():
        assert torch.equal(program.state_dict[key], tensor)


@stores_weights_apart
def test_changed_weights_are_written():
    module = loaded(export_saved(shared()))
    with torch.no_grad():
        module.linear.weight.fill_(2.0)
    module.norm.running_mean = torch.full((3,), 7.0)
    again = torch.export.load(io.BytesIO(saved(module))).state_dict
    assert again["linear.weight"].eq(2).all()
    assert again["tied"].eq(2).all()
    assert again["norm.running_mean"].eq(7).all()
    assert torch.equal(again["column"], again["grid"][:, 1])


@pytest.mark.parametrize("name", ["linear-2.4", "linear-2.8"])
def test_changed_weights_of_older_layouts_are_written(name):
    """Their tensors are views of a file inside of the file, whose checksums no longer hold."""
    module = tsarchive.load(fixture(name))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(2.0)
    again = loaded(saved(module))
    assert all(parameter.eq(2).all() for parameter in again.parameters())


def test_the_other_models_of_a_file_stay():
    both = saved({"first": shared(), "second": shared()})
    module = tsarchive.load(io.BytesIO(both), model="first")
    with torch.no_grad():
        module.linear.bias.zero_()
    changed = saved(module)
    before, after = records_of(both), records_of(changed)
    assert list(before) == list(after)
    different = {name for name in before if before[name] != after[name]}
    assert len(different) == 2
    assert ".data/serialization_id" in different
    assert tsarchive.load(io.BytesIO(changed), model="second").linear.bias.any()


@stores_weights_apart
def test_a_tensor_of_its_own_gets_a_record_of_its_own():
    module = loaded(export_saved(shared()))
    module.tied = torch.nn.Parameter(module.tied.detach().clone() + 1)
    data = saved(module)
    again = loaded(data)
    assert torch.equal(again.tied, again.linear.weight + 1)
    assert saved(again) == data
    assert torch.equal(torch.export.load(io.BytesIO(data)).state_dict["tied"], again.tied)


def test_extra_files_are_kept_unless_replaced():
    module = loaded(export_saved(nested(), extra_files={"a": "old", "b": "old"}))
    records = records_of(saved(module, extra_files={"a": "new", "c": "new"}))
    found = {name: data for name, data in records.items() if name.startswith("extra/")}
    assert found == {"extra/a": b"new", "extra/b": b"old", "extra/c": b"new"}
    canonical = records_of(saved(module, canonical=True))
    assert not any(name.startswith("extra/") for name in canonical)
    assert b"stack_trace" not in canonical[MODEL]


def test_a_program_without_origins():
    module = loaded(export_saved(shared()))
    text = records_of(saved(module, debug=False))[MODEL]
    assert b"stack_trace" not in text
    assert os.path.basename(__file__).encode() not in text
    x = torch.ones(3, 4)
    torch.testing.assert_close(loaded(saved(module, debug=False))(x), module(x), rtol=0, atol=0)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda module: setattr(module, "column", torch.ones(4)),
        lambda module: setattr(module, "brief", torch.ones(3)),
        lambda module: module._parameters.pop("tied"),
        lambda module: module._modules.pop("linear"),
        lambda module: module.half(),
    ],
)
def test_a_module_that_its_program_does_not_fit_is_refused(spoil):
    module = loaded(export_saved(shared()))
    spoil(module)
    with pytest.raises(tsarchive.SaveError):
        saved(module)


def test_a_part_of_a_program_is_refused():
    with pytest.raises(tsarchive.SaveError):
        saved(loaded(export_saved(shared())).linear)
