"""Programs of the corpus give what is recorded beside them, to rounding of floating point."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tsarchive
from tests.support.archives import CORPUS
from tests.support.executorch_files import flattened, sound_files
from tsarchive.errors import ArchiveError, PolicyError, UnsupportedError

GENERATED = CORPUS / "generated"
# Sums of float32 in other orders: the most that any program here is apart from its record.
RELATIVE, ABSOLUTE = 1e-5, 2e-5


def programs() -> list[Path]:
    """Those with calls recorded beside them."""
    found = sorted(GENERATED.glob("*.pte")) if GENERATED.is_dir() else []
    return [path for path in found if path.with_suffix(".io.pt").exists()]


def data_of(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.stem}__*.ptd"))


def is_delegated(path: Path) -> bool:
    with tsarchive.open(path) as archive:
        return any(method.delegates for method in archive.executorch.program.methods)


def assert_recorded(module, path):
    recorded = torch.load(path.with_suffix(".io.pt"), weights_only=True)
    compared = 0
    for method, cases in recorded.items():
        for case in cases:
            found = flattened(getattr(module, method)(*case["inputs"]))
            if case["expected"] is not None:
                torch.testing.assert_close(
                    found, list(case["expected"]), rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True
                )
                compared += 1
    if not compared:
        pytest.skip("it runs; only the runtime itself can tell what it should give")


@pytest.mark.parametrize("path", programs(), ids=lambda path: path.stem)
def test_recorded_calls(path):
    if is_delegated(path):
        pytest.importorskip("executorch.runtime", reason="a backend runs parts of it")
    assert_recorded(tsarchive.load(path, data=data_of(path)), path)


def test_recorded_calls_of_a_bundle(corpus):
    module = tsarchive.load(corpus / "generated" / "bundled.bpte")
    assert_recorded(module, corpus / "generated" / "bundled.bpte")


def test_methods_with_backends_say_so(corpus, monkeypatch):
    monkeypatch.setattr("tsarchive.formats.executorch.modules.delegates.can_run", lambda: False)
    path = corpus / "generated" / "xnn_mixed.pte"
    module = tsarchive.load(path)
    message = r"method 'forward', instruction \d+: the backend XnnpackBackend runs a part of it"
    (case, *_) = torch.load(path.with_suffix(".io.pt"), weights_only=True)["forward"]
    with pytest.raises(UnsupportedError, match=rf"{message}.*tsarchive\[executorch\]"):
        module(*case["inputs"])


def test_backends_that_nobody_allowed(corpus):
    """One of them ends the process where the library that it wants is not there."""
    path = corpus / "pte" / "pytorch-executorch__stories260k_hybrid_llama_qnn_198b96e.pte"
    module = tsarchive.load(path)
    with tsarchive.open(path) as archive:
        methods = archive.executorch.program.methods
    (name, *_) = [method.name for method in methods if method.delegates]
    with pytest.raises(PolicyError, match="the backend QnnBackend"):
        module.tsarchive_class.methods[name].graph  # noqa: B018  # made when it is asked for


def test_foreign_programs_load(corpus):
    """Those that load have methods; the others say what is missing."""
    loaded = refused = 0
    for path in sound_files(corpus, "pte"):
        try:
            module = tsarchive.load(path, data=data_of(path) or None)
        except ArchiveError:
            refused += 1
        else:
            loaded += 1
            assert module.tsarchive_class.methods
    assert loaded > 2 * refused


def test_damaged_programs_are_refused_or_run(corpus):
    """What the runtime refuses is refused when it is loaded, or when it is called."""
    for path in sorted((corpus / "generated" / "bad").glob("*.pte")):
        try:
            module = tsarchive.load(path)
            for name in module.tsarchive_class.methods or ["forward"]:
                getattr(module, name)()
        except (ArchiveError, NotImplementedError):
            continue
        pytest.fail(f"{path.name} runs")
