"""Archives that call operators which torch removed give what the last torch that had them gave."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
import torch

import tsarchive
from tests.support.archives import ROOT, loaded, records_of, saved
from tests.support.command_line import run as run_command
from tests.support.frontend import importer_of
from tsarchive.errors import PolicyError, UnknownOperatorError
from tsarchive.operators.overloads import old_overloads_of

FOLDER = ROOT / "fixtures" / "removed"
RECORDED = {path.name[: -len(".pt")]: path for path in FOLDER.glob("*[0-9].pt")}
RESULTS = {
    version: torch.load(path.with_suffix(".io.pt"), weights_only=True)
    for version, path in RECORDED.items()
}
CALLS = [(version, name) for version in sorted(RESULTS) for name in RESULTS[version]]
TOLERANCES = {torch.float64: (1e-9, 1e-10), torch.float32: (1e-5, 1e-6)}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def archive(version):
    return tsarchive.load(RECORDED[version], policy=tsarchive.Policy.trusted())


def plain(value):
    """A copy without gradients, with tuples as lists, as it was recorded."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def assert_near(found, expected):
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_near(*pair)
    elif isinstance(expected, torch.Tensor):
        relative, absolute = TOLERANCES.get(expected.dtype, (0.0, 0.0))
        torch.testing.assert_close(
            found, expected, rtol=relative, atol=absolute, equal_nan=True, check_stride=False
        )
    else:
        assert found == expected
        assert type(found) is type(expected)


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in tensors(item)] if isinstance(value, list | tuple) else []


def loss(result):
    """A number that each result counts in, in its own way, as it was recorded."""
    total = torch.zeros((), dtype=torch.double)
    for tensor in tensors(result):
        if tensor.requires_grad:
            weights = torch.arange(tensor.numel(), dtype=torch.double).cos().reshape(tensor.shape)
            total = total + (tensor * weights).sum()
    return total


def check(call, record):
    arguments = plain(record["arguments"])
    assert_near(plain(call(*arguments)), record["expected"])
    if record["left"] is not None:
        assert_near(arguments, record["left"])
    if record["gradients"] is not None:
        given = [value.clone().requires_grad_() for value in record["arguments"]]
        loss(call(*given)).backward()
        assert_near([value.grad for value in given], record["gradients"])


@pytest.mark.parametrize(("version", "name"), CALLS, ids=[f"{v}-{n}" for v, n in CALLS])
def test_gives_what_the_last_torch_gave(version, name):
    check(getattr(archive(version), name), RESULTS[version][name])


# torch 2.13 has them still, and runs its own.
IN_2_13 = ("cholesky", "cholesky_upper", "cholesky_batch", "cholesky_out", "qr", "qr_complete")


@pytest.mark.parametrize("name", [*IN_2_13, "qr_out"])
def test_functions_stand_for_what_this_torch_may_have(name, monkeypatch):
    from tsarchive.run import operators

    hidden = dict.fromkeys(("aten::cholesky", "aten::qr"), ())
    monkeypatch.setattr(operators, "_known", hidden_in(operators._known, hidden))
    check(getattr(archive("1.13"), name), RESULTS["1.13"][name])


def hidden_in(known, names):
    """The overloads that are known, without some operators; an empty tuple is an answer, too."""
    return {**known, **names}


def test_torch_runs_its_own_where_it_has_them():
    matrix = torch.eye(3, dtype=torch.float64) * 2
    if torch._C._jit_get_schemas_for_operator("aten::cholesky"):
        expected = torch.cholesky(matrix)
        assert torch.equal(archive("1.13").cholesky(matrix), expected)
    source = importer_of(records_of(RECORDED["1.13"].read_bytes())[code_record("1.13")].decode())
    assert source is not None


def code_record(version):
    names = records_of(RECORDED[version].read_bytes())
    return next(name for name in names if name.endswith(".py"))


@pytest.mark.parametrize("version", RECORDED)
def test_code_is_saved_as_it_was(version):
    before = records_of(RECORDED[version].read_bytes())
    after = records_of(saved(archive(version)))
    assert {n: d for n, d in before.items() if n.startswith("code/")} == {
        n: d for n, d in after.items() if n.startswith("code/")
    }


@pytest.mark.parametrize("version", RECORDED)
def test_no_jitter(version):
    assert tsarchive.check_jitter(RECORDED[version]).stable


@pytest.mark.parametrize("version", RECORDED)
def test_the_canonical_form_calls_what_was_called(version):
    module = archive(version)
    first = saved(module, canonical=True)
    again = loaded(first, policy=tsarchive.Policy.trusted())
    assert saved(again, canonical=True) == first
    name = next(iter(RESULTS[version]))
    check(getattr(again, name), RESULTS[version][name])


def test_the_audit_names_them_and_allows_them():
    report = tsarchive.audit(RECORDED["1.11"])
    used = {use.operator: use for use in report.operators}
    assert used["aten::solve"].reason.startswith("was removed from torch")
    assert not [finding for finding in report.findings if "solve" in finding.message]


def test_a_policy_may_forbid_them():
    policy = tsarchive.Policy.default().forbid("aten::solve")
    module = tsarchive.load(RECORDED["1.11"], policy=policy)
    with pytest.raises(PolicyError, match="aten::solve"):
        module.solve(torch.ones(2, 1), torch.eye(2))


def test_a_policy_may_forbid_what_they_are_made_of():
    policy = tsarchive.Policy.default().forbid("aten::linalg_lu_factor")
    module = tsarchive.load(RECORDED["1.11"], policy=policy)
    with pytest.raises(PolicyError, match="linalg_lu_factor"):
        module.solve(torch.ones(2, 1), torch.eye(2))


class Solver(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = archive("1.11")

    def forward(self, b, a):
        return self.inner.solve_gradient(b, a) * 2


def test_they_are_exported():
    record = RESULTS["1.11"]["solve_gradient"]
    program = torch.export.export(Solver(), tuple(record["arguments"]))
    assert_near(program.module()(*record["arguments"]), record["expected"] * 2)


def test_the_last_torch_is_told(tmp_path):
    found = run_command("info", str(RECORDED["1.11"]), "--json")
    assert "1.11" in found.output


REFUSED = {
    "torch.align_to(x, ['N'])": ("by its name", "2.12"),
    "torch.sum(x, ['N'])": ("by its name", "2.12"),
    "ops._caffe2.Gelu(x, False)": ("Caffe2", "1.10"),
    "ops.prim.view_copy(x, [1])": ("no kernel", "2.1"),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_nothing_stands_for_is_refused_with_the_reason(call):
    reason, last = REFUSED[call]
    text = f"def f(x: Tensor) -> Tensor:\n  return {call}\n"
    with pytest.raises(UnknownOperatorError, match=reason) as raised:
        _ = importer_of(text).find("__torch__.f").function.graph
    assert f"torch {last} is the last that runs it" in raised.value.hint


def test_the_fixtures_are_those_of_the_manifest():
    script = str(ROOT / "fixtures" / "make_removed.py")
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.stdout == "nothing differs\n", done.stderr


def test_calls_are_recorded_with_the_last_torch_that_has_the_operator():
    assert old_overloads_of("aten::solve")
    assert io is not None
