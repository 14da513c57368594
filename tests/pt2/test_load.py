"""Loading PT2 archives: files of the corpus run as torch runs them, or say why they cannot."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.utils._pytree as pytree

import tsarchive
from tests.support.archives import ROOT
from tests.support.features import exports_generators, stores_weights_apart
from tests.support.pt2_archives import write
from tests.support.pt2_corpus import (
    FILES,
    GENERATED,
    NOT_BY_TORCH,
    REFUSED_AT_LOAD,
    REFUSED_WHEN_CALLED,
    RUNNING,
    Fields,
    by_torch,
    cases,
    leaves,
)
from tsarchive.errors import (
    UnsupportedError,
)

OLDER = ROOT / "fixtures" / "pt2"


def assert_same(found, expected):
    """Equal leaves of equal types."""
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-5, atol=1e-6)
    else:
        assert found == expected


@pytest.mark.parametrize("path", RUNNING, ids=lambda path: path.stem)
def test_outputs_are_the_expected_ones(path):
    module = tsarchive.load(path)
    for args, kwargs, expected in cases(path):
        if expected is not None:
            found = leaves(module(*args, **kwargs))
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                assert_same(one, other)


@stores_weights_apart
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "path", [path for path in RUNNING if path.stem not in NOT_BY_TORCH], ids=lambda path: path.stem
)
def test_module_is_that_of_torch(path):
    """Results with their structure, names, order, sharing and flags of tensors."""
    module, expected = tsarchive.load(path), by_torch(path)
    assert_same_state(module, expected)
    for args, kwargs, _ in cases(path):
        given = copy.deepcopy((args, kwargs))
        torch.manual_seed(0)
        found = module(*args, **kwargs)
        torch.manual_seed(0)
        wanted = expected(*given[0], **given[1])
        assert pytree.tree_structure(found) == pytree.tree_structure(wanted)
        for one, other in zip(leaves((found, args)), leaves((wanted, given[0])), strict=True):
            assert_same(one, other)
    assert_same_state(module, expected)


def assert_same_state(module, expected):
    assert module.state_dict().keys() == expected.state_dict().keys()
    for named in ("named_parameters", "named_buffers"):
        found, wanted = dict(getattr(module, named)()), dict(getattr(expected, named)())
        assert found.keys() == wanted.keys()
        for name, tensor in wanted.items():
            assert found[name].requires_grad == tensor.requires_grad
            assert found[name].stride() == tensor.stride()
            assert_same(found[name], tensor)
    assert sharing(module) == sharing(expected)


def sharing(module):
    """The names of tensors that share a storage."""
    groups = {}
    for name, tensor in module.state_dict().items():
        if tensor.untyped_storage().nbytes():
            groups.setdefault(tensor.untyped_storage().data_ptr(), set()).add(name)
    return sorted(map(sorted, groups.values()))


@pytest.mark.parametrize("path", sorted(OLDER.glob("*-2.*.pt2")), ids=lambda path: path.stem)
def test_layouts_of_older_versions(path):
    """The same module in the layout of an older torch, with the state that it had when saved."""
    newer = tsarchive.load(path.with_name(f"{path.stem.partition('-')[0]}.pt2"))
    module = tsarchive.load(path)
    assert module.state_dict().keys() == newer.state_dict().keys()
    assert sharing(module) == sharing(newer)
    assert dict(module.named_buffers()).keys() == dict(newer.named_buffers()).keys()
    newer.load_state_dict(module.state_dict())
    for name, buffer in newer.named_buffers():
        buffer.data.copy_(module.get_buffer(name))
    for args, kwargs in older_cases(path):
        given = copy.deepcopy((args, kwargs))
        found, wanted = module(*args, **kwargs), newer(*given[0], **given[1])
        for one, other in zip(leaves((found, args)), leaves((wanted, given[0])), strict=True):
            assert_same(one, other)


def older_cases(path):
    """Arguments with their structure, but for named tuples, which are plain ones there."""
    beside = path.with_name(f"{path.stem.partition('-')[0]}.io.pt")
    for case in torch.load(beside)["model"]:
        args = [Fields(*one) if type(one) is tuple else one for one in case["args"]]
        yield args, case["kwargs"]


def test_named_tuples_of_programs_that_do_not_tell_their_fields_count_them():
    module = tsarchive.load(OLDER / "nested-2.4.pt2")
    ((args, kwargs),) = older_cases(OLDER / "nested-2.4.pt2")
    with pytest.raises(tsarchive.CallError, match=r"Pair with 2 fields for arg_2, not tuple"):
        module(*[tuple(one) if type(one) is Fields else one for one in args], **kwargs)


@pytest.mark.parametrize("stem", REFUSED_AT_LOAD)
def test_what_cannot_be_loaded_says_why(stem, corpus):
    (path,) = [path for path in FILES if path.stem == stem]
    kind, text = REFUSED_AT_LOAD[stem]
    with pytest.raises(kind, match=text):
        tsarchive.load(path)


@pytest.mark.parametrize("model", [None, "model", "m"])
def test_compiled_code_alone_is_no_program_of_any_name(model, tmp_path):
    records = {"archive_format": b"pt2", "data/aotinductor/m/a.wrapper.so": b"\x7fELF"}
    path = write(tmp_path / "compiled.pt2", records)
    with pytest.raises(UnsupportedError, match=r"AOTInductor compiled \(m\)"):
        tsarchive.load(path, model=model)
    with pytest.raises(UnsupportedError, match=r"AOTInductor compiled \(m\)"):
        tsarchive.compat(path)


@pytest.mark.parametrize("stem", REFUSED_WHEN_CALLED)
def test_what_cannot_run_says_why(stem, corpus):
    (path,) = [path for path in FILES if path.stem == stem]
    kind, text = REFUSED_WHEN_CALLED[stem]
    module = tsarchive.load(path)
    args, kwargs, _ = next(cases(path))
    with pytest.raises(kind, match=text):
        module(*args, **kwargs)


def test_programs_that_compute_gradients_give_them_behind_the_result(corpus):
    module = tsarchive.load(GENERATED / "pt2_joint.pt2")
    x, y = torch.randn(1, 2), torch.tensor([1])
    loss, *gradients = module(x, y)
    weight, bias = module.l.weight, module.l.bias
    expected = torch.nn.functional.cross_entropy(torch.nn.functional.linear(x, weight, bias), y)
    torch.testing.assert_close(loss, expected)
    for found, wanted in zip(gradients, torch.autograd.grad(expected, (weight, bias)), strict=True):
        torch.testing.assert_close(found, wanted)


@exports_generators
def test_objects_of_python_are_refused_by_name(tmp_path):
    """torch keeps a Generator as a pickle."""

    class Random(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.generator = torch.Generator()

        def forward(self, x):
            return torch.rand(x.shape, generator=self.generator) + x

    path = tmp_path / "net.pt2"
    tsarchive.save(torch.export.export(Random(), (torch.ones(2),)), path)
    with pytest.raises(UnsupportedError, match=r"Python class torch\._C\.Generator") as caught:
        tsarchive.load(path)
    assert "torch.export.load" in caught.value.hint
