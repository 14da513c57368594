"""Archives for phones as torch without XNNPACK loads them: with packed layers of their own."""

from __future__ import annotations

import copy

import pytest
import torch

import tsarchive
from tests.support.archives import CORPUS, ROOT
from tests.support.comparing import equal
from tsarchive import TargetError

OLD = ROOT / "fixtures" / "old"
PATHS = [path for path in sorted(OLD.glob("*/phone_*.pt*")) if not path.name.endswith(".io.pt")]
REAL = {
    "pytorch-android-demo-app__asl.ptl": (1, 3, 200, 200),
    "pytorch-android-demo-app__vit4mnist_37d6557.pth": (1, 1, 28, 28),
}
by_path = pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")


def results(module, path):
    calls = torch.load(path.with_name(f"{path.stem}.io.pt"), weights_only=True)
    return [
        getattr(module, method)(*copy.deepcopy(call["args"]))
        for method, call in calls
        if "expected" in call
    ]


@by_path
def test_torch_runs_what_they_are_converted_to(path, tmp_path):
    expected = results(tsarchive.load(path), path)
    tsarchive.convert(path, tmp_path / "new.pt", for_torch="2.15")
    assert equal(results(torch.jit.load(tmp_path / "new.pt"), path), expected)
    assert equal(results(tsarchive.load(tmp_path / "new.pt"), path), expected)
    assert tsarchive.verify(tmp_path / "new.pt").ok


@pytest.mark.parametrize("name", REAL)
def test_real_archives(name, tmp_path):
    path = CORPUS / "torchscript" / name
    if not path.exists():
        pytest.skip("the corpus is not here")
    tsarchive.convert(path, tmp_path / "new.pt")
    given = torch.linspace(-1, 1, torch.Size(REAL[name]).numel()).reshape(REAL[name])
    with torch.no_grad():
        expected = tsarchive.load(path)(given)
        assert equal(torch.jit.load(tmp_path / "new.pt")(given), expected)


@by_path
def test_torch_with_these_layers_is_given_them_as_they_were(path, tmp_path):
    tsarchive.convert(path, tmp_path / "new.pt", for_torch="2.12")
    with tsarchive.open(path) as before, tsarchive.open(tmp_path / "new.pt") as after:
        assert after.read("constants.pkl") == before.read("constants.pkl")
        texts = "".join(after.code.values())
        assert "removed_from_torch" not in texts
        assert ("ops.prepacked" in texts) == ("plain" not in path.stem)


def test_bytecode_stays_only_beside_the_code_that_it_was_made_of(tmp_path):
    plain, packed = (OLD / "1.8.1" / f"phone_{name}.ptl" for name in ("plain_lite", "lite"))
    for path, is_kept in ((plain, True), (packed, False)):
        tsarchive.convert(path, tmp_path / "new.pt")
        with tsarchive.open(path) as before, tsarchive.open(tmp_path / "new.pt") as after:
            own = {name for name in before.records if name.startswith("bytecode")}
            assert own
            assert own & set(after.records) == (own if is_kept else set())


def test_torch_1_7_reads_no_objects_among_the_constants(tmp_path):
    path = OLD / "1.13.1" / "phone_transposed.pt"
    with pytest.raises(TargetError, match="constants that are objects"):
        tsarchive.convert(path, tmp_path / "new.pt", for_torch="1.7")


@pytest.mark.parametrize("release", [None, "2.15", "1.12"])
@pytest.mark.parametrize("name", ["dynamic_lstm", "jit_quantized_lstm", "jit_quantized_gru"])
@pytest.mark.parametrize("torch_of", ["1.4.0", "1.5.1"])
def test_recurrent_layers_that_torch_since_1_12_refuses(torch_of, name, release, tmp_path):
    with pytest.raises(TargetError, match=r"torch 1\.11 (does|runs it)") as caught:
        tsarchive.convert(OLD / torch_of / f"{name}.pt", tmp_path / "new.pt", for_torch=release)
    assert all(obstacle.line and obstacle.construct for obstacle in caught.value.obstacles)


def test_recurrent_layers_for_the_last_torch_that_runs_them(tmp_path):
    path = OLD / "1.5.1" / "dynamic_lstm.pt"
    tsarchive.convert(path, tmp_path / "new.pt", for_torch="1.11")
    assert equal(
        results(tsarchive.load(tmp_path / "new.pt"), path), results(tsarchive.load(path), path)
    )
