"""Archives that call operators which torch removed give what the last torch that had them gave."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
import torch

import tsarchive
from tests.support.archives import ROOT, loaded, records_of, saved
from tests.support.frontend import importer_of, walk
from tests.support.processes import torch_process
from tests.support.running import hide_operators, trusting
from tsarchive.errors import LimitError, PolicyError, UnknownOperatorError
from tsarchive.operators.libraries import last_with
from tsarchive.run.conversion import type_of_class

FOLDER = ROOT / "fixtures" / "removed"
RECORDED = {path.name[: -len(".pt")]: path for path in FOLDER.glob("*[0-9].pt")}
RESULTS = {
    version: torch.load(path.with_suffix(".io.pt"), weights_only=True)
    for version, path in RECORDED.items()
}
# They have their code elsewhere.
LEGACY = {"1.0", "1.1", "1.2"}
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
    hide_operators(monkeypatch, "aten::cholesky", "aten::qr")
    check(getattr(archive("1.13"), name), RESULTS["1.13"][name])


def test_torch_runs_its_own_where_it_has_them():
    matrix = torch.eye(3, dtype=torch.float64) * 2 + 0.1
    if torch._C._jit_get_schemas_for_operator("aten::cholesky"):
        assert torch.equal(archive("1.13").cholesky(matrix), torch.cholesky(matrix))


@pytest.mark.parametrize("version", sorted(set(RECORDED) - LEGACY))
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


def test_they_are_compiled():
    record = RESULTS["1.11"]["solve_gradient"]
    solve = archive("1.11").solve_gradient
    found = torch.compile(solve, backend="eager", fullgraph=True)(*record["arguments"])
    assert_near(found, record["expected"])


def test_limits_count_what_they_are_made_of():
    def run(steps):
        module = tsarchive.load(RECORDED["1.7"], limits=tsarchive.Limits(steps=steps))
        return module.multinomial_alias_setup(torch.full([64], 1 / 64))

    assert len(run(10_000)) == 2
    with pytest.raises(LimitError):
        run(100)


class Factors(torch.nn.Module):
    def forward(self, x):
        return torch.cholesky(x), torch.qr(x)[1]


@pytest.mark.skipif(
    not torch._C._jit_get_schemas_for_operator("aten::cholesky"),
    reason="this torch does not write such programs",
)
def test_programs_of_torch_export_call_them(tmp_path, monkeypatch):
    matrix = torch.eye(3) * 4 + 1
    path = tmp_path / "factors.pt2"
    torch.export.save(torch.export.export(Factors(), (matrix,)), path)
    expected = Factors()(matrix)
    hide_operators(monkeypatch, "aten::cholesky", "aten::qr")
    torch.testing.assert_close(tsarchive.load(path)(matrix), expected)


def test_nothing_is_missing_where_functions_stand_for_it():
    for version, path in RECORDED.items():
        assert not tsarchive.missing(path), version


def test_packages_hold_the_functions(tmp_path, monkeypatch):
    tsarchive.decompile(RECORDED["1.11"], tmp_path / "package_of_1_11")
    monkeypatch.syspath_prepend(tmp_path)
    module = import_module("package_of_1_11").load()
    for name, record in RESULTS["1.11"].items():
        check(getattr(module, name), record)


@pytest.mark.parametrize("weights", [[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])
def test_draws_have_the_distribution_that_they_had(weights):
    text = """\
def draw(p: Tensor, n: int) -> Tensor:
  alias, kept = torch._multinomial_alias_setup(p)
  return torch._multinomial_alias_draw(kept, alias, n)
"""
    torch.manual_seed(0)
    found = compiled(text, "draw")(torch.tensor(weights), 20_000)
    counts = torch.bincount(found, minlength=4) / 20_000
    torch.testing.assert_close(counts, torch.tensor(weights), rtol=0.0, atol=0.02)


def compiled(text, name):
    function = importer_of(text).find(f"__torch__.{name}").function
    return trusting().compiler.function(function)


STRIDE, PADDING, DILATION, GROUPS = [2, 1], [1, 0], [1, 2], 2
_GIVEN = f"{PADDING}, {STRIDE}, {DILATION}, {GROUPS}"
_OF_TRANSPOSED = f"{PADDING}, [1, 0], {STRIDE}, {DILATION}, {GROUPS}"
_ALL = "[True, True, True]"
# Kernels of other libraries, for the gradients of the input and the weight.
OF_LIBRARIES = {
    "cudnn_convolution_backward": f"x, g, w, {_GIVEN}, False, False, [True, True]",
    "cudnn_convolution_backward-tf32": f"x, g, w, {_GIVEN}, False, False, True, [True, True]",
    "miopen_convolution_backward": f"x, g, w, {_GIVEN}, False, False, {_ALL}",
    "mkldnn_convolution_backward": f"x, g, w, {_GIVEN}, {_ALL}",
}
OF_TRANSPOSED = {
    "cudnn_convolution_transpose_backward":
        f"x, g, w, {_OF_TRANSPOSED}, False, False, [True, True]",
    "miopen_convolution_transpose_backward": f"x, g, w, {_OF_TRANSPOSED}, False, False, {_ALL}",
}  # fmt: skip


def gradients_of(call, arguments):
    text = f"def f(x: Tensor, w: Tensor, g: Tensor) -> Tuple[Tensor, Tensor]:\n{call}"
    return compiled(text, "f")(*(value.detach() for value in arguments))


def checked_gradients(name, given, convolution):
    x = torch.sin(torch.arange(4 * 4 * 36, dtype=torch.double)).reshape(4, 4, 6, 6)
    w = torch.cos(torch.arange(4 * 2 * 9, dtype=torch.double)).reshape(4, 2, 3, 3)
    x.requires_grad_(), w.requires_grad_()
    out = convolution(x, w)
    g = torch.sin(torch.arange(out.numel(), dtype=torch.double) ** 2).reshape(out.shape)
    expected = torch.autograd.grad(out, (x, w), g)
    operator = name.partition("-")[0]
    rest = ", _" if "True, True, True" in given else ""
    call = f"  a, b{rest} = torch.{operator}({given})\n  return (a, b)\n"
    assert_near(list(gradients_of(call, (x, w, g))), list(expected))


@pytest.mark.parametrize("name", OF_LIBRARIES)
def test_gradients_of_convolutions_that_had_kernels_of_libraries(name):
    checked_gradients(
        name,
        OF_LIBRARIES[name],
        lambda x, w: torch.conv2d(x, w, None, STRIDE, PADDING, DILATION, GROUPS),
    )


@pytest.mark.parametrize("name", OF_TRANSPOSED)
def test_gradients_of_transposed_convolutions_that_had_kernels_of_libraries(name):
    checked_gradients(
        name,
        OF_TRANSPOSED[name],
        lambda x, w: torch.conv_transpose2d(x, w, None, STRIDE, PADDING, [1, 0], GROUPS, DILATION),
    )


REFUSED = {
    "torch.align_to(x, ['N'])": ("by its name", "2.12"),
    "torch.sum(x, ['N'])": ("by its name", "2.12"),
    "ops._caffe2.Gelu(x, False)": ("Caffe2", "1.10"),
    "ops.prim.view_copy(x, [1])": ("no kernel", "2.1"),
    "(torch.pstrf(x))[0]": ("chose its pivots", "1.1"),
    "ops.quantized.fbgemm_linear_prepack(x)": ("prototype", "1.2"),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_nothing_stands_for_is_refused_with_the_reason(call):
    reason, last = REFUSED[call]
    if last == "2.12" and torch._C._jit_get_schemas_for_operator("aten::align_to"):
        pytest.skip("this torch finds dimensions by their names")
    text = f"def f(x: Tensor) -> Tensor:\n  return {call}\n"
    with pytest.raises(UnknownOperatorError, match=reason) as raised:
        _ = importer_of(text).find("__torch__.f").function.graph
    assert f"torch {last} is the last that runs it" in raised.value.hint


def test_the_fixtures_are_those_of_the_manifest(tmp_path):
    done = torch_process(ROOT / "fixtures" / "make_removed.py", "--check", cwd=tmp_path)
    assert done.stdout == "nothing differs\n", done.stderr


# cholesky and qr have been the same since torch 1.13; torch 2.3 and 2.4 were not at hand; and
# stft without return_complex may be either, which is the same of real tensors.
RECORDED_WITH_ANOTHER = {("1.13", "2.13"), ("2.1", "2.3"), ("1.13", "1.6")}
LAST = re.compile(r"(\d+\.\d+) is the last")


@pytest.mark.parametrize("version", RECORDED)
def test_calls_are_recorded_with_the_last_torch_of_an_overload(version):
    source = archive(version)
    for name in RESULTS[version]:
        for node in walk(function_of_method(source, name)):
            if node.stand_in is not None:
                last = LAST.search(last_with(node.schema))[1]
                assert last == version or (version, last) in RECORDED_WITH_ANOTHER, name


def function_of_method(module, name):
    return type_of_class(type(module)).methods[name].graph
