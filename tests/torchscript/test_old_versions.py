"""Archives that torch 1.4 to 2.12 wrote: they load, run, and are saved as torch 2.13 has it."""

from __future__ import annotations

import copy
import hashlib
import io
import json
from functools import cache

import pytest
import torch

import tsarchive
from tests.support.archives import ROOT, torch_loaded
from tests.support.comparing import equal

OLD = ROOT / "fixtures" / "old"
MANIFESTS = {path.parent.name: json.loads(path.read_text()) for path in OLD.glob("*/manifest.json")}
# Layers of torch.jit.quantized are in ``natives/test_fbgemm.py``: torch runs them after _unpack.
CASES = sorted(
    (version, name)
    for version in MANIFESTS
    for name in MANIFESTS[version]["cases"]
    if not name.startswith("jit_quantized_")
)

# torch 2.13 refuses them: scales of channels were lists, packed weights of an LSTM tensors.
REFUSED = {
    *(
        ("1.4.0", name)
        for name in (
            "dynamic_lstm",
            "quantized_conv",
            "quantized_conv_relu_traced",
            "quantized_tensors",
        )
    ),
    ("1.5.1", "dynamic_lstm"),
    ("1.5.1", "dynamic_lstm_traced"),
}
# torch 2.13 has no layers packed for phones, and ours are not to the bit those of torch 2.12.
PACKED = {case for case in CASES if case[1].startswith("phone_") and "plain" not in case[1]}
ACCEPTED = [case for case in CASES if case not in REFUSED | PACKED]
# Free functions and forks mean the operators of today, in torch 2.13 as here: integers are
# divided truly, and a whole number fills with whole numbers.
MEANT_OTHERWISE = {
    *((version, "div_integers", name) for version in ("1.4.0", "1.5.1")
      for name in ("by_function", "in_fork")),
}  # fmt: skip
# Results of old kernels differ in the last bits, those of quantized ones by a step.
TOLERANCES = {"dynamic": {"rtol": 0.0, "atol": 0.01}, "quantized": {"rtol": 0.0, "atol": 0.2}}
USUAL = {"rtol": 1e-3, "atol": 1e-5}

pytestmark = [
    pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
by_case = pytest.mark.parametrize(
    ("version", "name"), CASES, ids=[f"{version}-{name}" for version, name in CASES]
)
accepted = pytest.mark.parametrize(
    ("version", "name"),
    ACCEPTED,
    ids=[f"{version}-{name}" for version, name in ACCEPTED],
)


def path_of(version, name, part="archive"):
    return OLD / version / MANIFESTS[version]["cases"][name][part]["file"]


def recorded(version, name):
    return torch.load(path_of(version, name, "results"), weights_only=True)


def plain(value):
    """A copy without gradients, with named tuples as tuples, as the old torch recorded it."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return {k: plain(item) for k, item in value.items()} if isinstance(value, dict) else value


def called(module, method, arguments):
    """The result; None where the call raises, since messages differ between versions."""
    function = module if method == "forward" else getattr(module, method)
    try:
        return plain(function(*copy.deepcopy(arguments)))
    except (RuntimeError, AssertionError, torch.jit.Error):
        return None


def results(module, version, name):
    return [
        (method, called(module, method, call["args"])) for method, call in recorded(version, name)
    ]


def expected(version, name):
    return [(method, call.get("expected")) for method, call in recorded(version, name)]


def near(one, two, tolerance):
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        same = (one.dtype, one.shape) == (two.dtype, two.shape)
        return same and torch.allclose(one, two, **tolerance)
    if isinstance(one, list | tuple) and type(one) is type(two) and len(one) == len(two):
        return all(near(a, b, tolerance) for a, b in zip(one, two, strict=True))
    return equal(one, two)


@cache
def saturates():
    """Whether the kernels add int8 products in 16 bits, as FBGEMM does on x86 without VNNI."""
    tensor = torch.quantize_per_tensor(torch.full((1, 2), 2.55), 0.01, 0, torch.quint8)
    weight = torch.quantize_per_tensor(torch.full((1, 2), 1.27), 0.01, 0, torch.qint8)
    packed = torch.ops.quantized.linear_prepack(weight)
    return torch.ops.quantized.linear(tensor, packed, 0.1, 0).dequantize().item() < 6


def check_near(found, version, name):
    tolerance = TOLERANCES.get(name.partition("_")[0], USUAL)
    for (method, result), (_, old) in zip(found, expected(version, name), strict=True):
        is_near = near(result, old, tolerance)
        assert is_near != ((version, name, method) in MEANT_OTHERWISE), (method, result, old)


@pytest.mark.parametrize("version", sorted(MANIFESTS))
def test_the_manifest_tells_every_file(version):
    listed = {"manifest.json"}
    for case in MANIFESTS[version]["cases"].values():
        for part in (case["archive"], case["results"]):
            listed.add(part["file"])
            data = (OLD / version / part["file"]).read_bytes()
            assert hashlib.sha256(data).hexdigest() == part["sha256"]
    assert {path.name for path in (OLD / version).iterdir()} == listed


def test_versions_of_archives():
    """With the hand-written ones of ``test_upgraders_by_version`` all of 1 to 10 are there."""
    cases = [case for manifest in MANIFESTS.values() for case in manifest["cases"].values()]
    assert {case["format_version"] for case in cases} == {1, 2, 3, 4, 5, 8, 9, 10}


@accepted
def test_runs_as_in_torch(version, name):
    theirs = results(torch.jit.load(path_of(version, name)), version, name)
    ours = results(tsarchive.load(path_of(version, name)), version, name)
    assert equal(theirs, ours)


@by_case
def test_gives_what_the_old_torch_gave(version, name):
    if name.startswith("dynamic_") and saturates():
        pytest.skip("the processor that recorded the results has other kernels for int8")
    check_near(results(tsarchive.load(path_of(version, name)), version, name), version, name)


@pytest.mark.parametrize(("version", "name"), sorted(REFUSED))
def test_torch_refuses_them(version, name):
    with pytest.raises(RuntimeError):
        torch.jit.load(path_of(version, name))


@pytest.mark.parametrize("canonical", [False, True], ids=["usual", "canonical"])
@by_case
def test_saved_again_it_stays_the_same(version, name, canonical):
    first, second = io.BytesIO(), io.BytesIO()
    tsarchive.save(tsarchive.load(path_of(version, name)), first, canonical=canonical)
    first.seek(0)
    ours = tsarchive.load(first)
    tsarchive.save(ours, second, canonical=canonical)
    assert first.getvalue() == second.getvalue()
    before = results(tsarchive.load(path_of(version, name)), version, name)
    assert equal(results(ours, version, name), before)
    if (version, name) in ACCEPTED:
        assert equal(results(torch_loaded(first.getvalue()), version, name), before)


@accepted
def test_check_jitter_finds_none(version, name):
    assert tsarchive.check_jitter(path_of(version, name)).stable
