"""Real archives: every method that torch.jit runs gives the same results here."""

from __future__ import annotations

import io

import pytest
import torch

import tsarchive
from tests.support.archives import CORPUS, records_of, torch_loaded, torch_saved
from tests.support.comparing import equal
from tests.support.corpus_inputs import arguments_for, call

PATHS = sorted((CORPUS / "torchscript").glob("*")) if CORPUS.is_dir() else []
STATE_METHODS = {"__getstate__", "__setstate__"}
pytestmark = [
    pytest.mark.skipif(
        not PATHS, reason="the corpus of real archives is not beside the repository"
    ),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
by_path = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)


def by_torch(path):
    try:
        return torch.jit.load(path, map_location="cpu")
    except RuntimeError as error:
        pytest.skip(f"torch.jit does not load it: {str(error).strip().splitlines()[0][:100]}")


@pytest.mark.sample(2)
@by_path
def test_results_equal_those_of_torch(path):
    """Of one call of each method after the other, on one module of each."""
    probe, theirs, ours = by_torch(path), by_torch(path), tsarchive.load(path, map_location="cpu")
    compared = 0
    for method in probe._c._method_names():
        arguments = None if method in STATE_METHODS else arguments_for(path.name, probe, method)
        if arguments is None:
            continue
        expected, result = call(theirs, method, arguments), call(ours, method, arguments)
        if isinstance(expected, torch.nn.Module | torch.ScriptObject):
            continue
        if not equal(expected, result):
            # Its optimiser has gradient formulas of its own, which may differ in the last bit.
            with torch.jit.optimized_execution(False):
                expected = call(by_torch(path), method, arguments)
            result = call(tsarchive.load(path, map_location="cpu"), method, arguments)
        assert equal(expected, result), method
        compared += 1
    if not compared:
        pytest.skip("no arguments are known that torch.jit takes")


@by_path
def test_saving_what_was_loaded_is_stable(path):
    by_torch(path)
    first, second = io.BytesIO(), io.BytesIO()
    tsarchive.save(tsarchive.load(path, map_location="cpu"), first)
    first.seek(0)
    tsarchive.save(tsarchive.load(first, map_location="cpu"), second)
    assert first.getvalue() == second.getvalue()
    assert torch_loaded(first.getvalue())


@by_path
def test_data_of_what_was_loaded_is_pickled_as_torch_does(path):
    theirs = records_of(torch_saved(by_torch(path)))
    file = io.BytesIO()
    tsarchive.save(tsarchive.load(path, map_location="cpu"), file)
    ours = records_of(file.getvalue())
    assert ours["data.pkl"] == theirs["data.pkl"]
    storages = [name for name in theirs if name.startswith("data/")]
    assert [name for name in ours if name.startswith("data/")] == storages
    assert all(ours[name] == theirs[name] for name in storages)
