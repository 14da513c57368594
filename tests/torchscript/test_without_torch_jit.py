"""Opening, loading, running and saving in a process in which torch.jit cannot be used."""

from __future__ import annotations

import json

from tests.support.archives import ARCHIVES
from tests.support.processes import torch_output_of
from tests.support.suite import sampled

RUN_ALL = """
import io, json, sys, warnings
import torch
from pathlib import Path
from tsarchive.demo.torch_jit import forbid_torch_jit
from tests.support.comparing import equal
import tsarchive

def results_of(module, path):
    found = []
    for method, examples in torch.load(path.with_suffix(".io.pt"), weights_only=True).items():
        function = module if method == "forward" else getattr(module, method)
        for example in examples:
            torch.manual_seed(0)
            found.append((method, function(*example["args"], **example["kwargs"])))
    return found

warnings.simplefilter("ignore")
paths = [*map(Path, sys.argv[1:])]
# Of this machine: other kinds of processors round otherwise.
expected = [results_of(torch.jit.load(path), path) for path in paths]
forbid_torch_jit()
results = {}
for path, by_torch in zip(paths, expected, strict=True):
    ours = results_of(tsarchive.load(path), path)
    pairs = zip(ours, by_torch, strict=True)
    wrong = [method for (method, found), (_, other) in pairs if not equal(found, other)]
    first, second = io.BytesIO(), io.BytesIO()
    tsarchive.save(tsarchive.load(path), first)
    first.seek(0)
    tsarchive.save(tsarchive.load(first), second)
    results[path.stem] = {"wrong": wrong, "stable": first.getvalue() == second.getvalue()}

for attempt in (
    lambda: torch.jit.load(sys.argv[1]),
    lambda: torch.jit.script(torch.nn.ReLU()),
    lambda: torch._C.import_ir_module(None, sys.argv[1], None, {}, False),
):
    try:
        attempt()
    except RuntimeError as error:
        assert "disabled" in str(error), error
    else:
        raise SystemExit("torch.jit still works")
print(json.dumps(results))
"""


def test_fixtures_load_run_and_save():
    """And torch.jit is really out of use there."""
    paths = sorted(path for path in ARCHIVES.glob("*.pt") if not path.name.endswith(".io.pt"))
    results = json.loads(torch_output_of("-W", "ignore", "-c", RUN_ALL, *sampled(paths, 20)))
    fine = {"wrong": [], "stable": True}
    assert {name: found for name, found in results.items() if found != fine} == {}
