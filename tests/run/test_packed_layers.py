"""Layers that optimize_for_mobile packs for XNNPACK run as linear, conv2d and conv_transpose2d.

``fixtures/old`` has archives of three releases, with what these gave; here stand their strides,
gradients, states, and what other ways of running the archives make of them.
"""

from __future__ import annotations

import copy
import importlib
import pickle
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import tsarchive
from tests.support.archives import ROOT, loaded
from tests.support.auditing import archive_with
from tests.support.comparing import equal
from tsarchive.errors import ArchiveError, PickleError
from tsarchive.pickler import Global, MarkedTuple, Object, PersistentId, Reduce, dumps

OLD = ROOT / "fixtures" / "old"
PATHS = [path for path in sorted(OLD.glob("*/phone_*.pt*")) if not path.name.endswith(".io.pt")]
TRACED = ("phone_linears", "phone_convolutions", "phone_transposed", "phone_lite")
USUAL = {"rtol": 1e-4, "atol": 1e-5}
# torch 1.13 exports what it has recorded with gradients; 2.13 has no other.
by_path = pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
by_traced = pytest.mark.parametrize(
    "path",
    [path for path in PATHS if path.stem in TRACED],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)


def recorded(path):
    """The calls that gave a result: method, arguments and result."""
    calls = torch.load(path.with_name(f"{path.stem}.io.pt"), weights_only=True)
    return [(name, call["args"], call["expected"]) for name, call in calls if "expected" in call]


def called(module, method, arguments):
    arguments = copy.deepcopy(arguments)
    return module(*arguments) if method == "forward" else getattr(module, method)(*arguments)


def results(module, path):
    return [called(module, method, arguments) for method, arguments, _ in recorded(path)]


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def strides(tensor):
    """Of dimensions with more than one element: the others say nothing."""
    return [s for size, s in zip(tensor.size(), tensor.stride(), strict=True) if size > 1]


@by_path
def test_results_lie_in_memory_as_those_of_torch(path):
    expected = tensors([result for _, _, result in recorded(path)])
    for ours, theirs in zip(tensors(results(tsarchive.load(path), path)), expected, strict=True):
        assert strides(ours) == strides(theirs)


@by_path
def test_copies_and_pickles_give_the_same(path):
    module = tsarchive.load(path)
    expected = results(module, path)
    assert equal(results(copy.deepcopy(module), path), expected)
    assert equal(results(pickle.loads(pickle.dumps(module)), path), expected)


@by_traced
def test_exported_programs_give_the_same(path):
    for method, arguments, _ in recorded(path):
        module = tsarchive.load(path)
        if method == "forward" and all(argument.numel() for argument in arguments):
            program = tsarchive.to_exported_program(module, tuple(arguments))
            assert equal(program.module()(*arguments), module(*arguments))
            targets = {str(node.target) for node in program.graph.nodes}
            assert not any("prepacked" in target for target in targets)


@by_traced
def test_torch_compile_takes_them_whole(path):
    method, arguments, _ = recorded(path)[0]
    module = tsarchive.load(path)
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    assert equal(compiled(*arguments), module(*arguments))


@by_path
def test_decompiled_they_give_the_same(path, tmp_path, monkeypatch):
    name = f"phone_{path.parent.name.replace('.', '_')}_{path.stem}"
    tsarchive.decompile(path, tmp_path / name)
    monkeypatch.syspath_prepend(str(tmp_path))
    package = importlib.import_module(name)
    try:
        assert equal(results(package.load(), path), results(tsarchive.load(path), path))
    finally:
        for known in [known for known in sys.modules if known.partition(".")[0] == name]:
            del sys.modules[known]
