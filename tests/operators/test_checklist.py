"""The rows of the security checklist on operators, by name, on both sides of each boundary."""

from __future__ import annotations

import io

import pytest
import torch

import tsarchive
from tests.support.registry_calls import archive_of
from tsarchive import Policy, PolicyError
from tsarchive.errors import ScriptError
from tsarchive.operators.risks import row_of
from tsarchive.run.operators import implementation, operator_schemas

HEADER = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
LSTM = torch.nn.LSTM(3, 2)
STATES = [torch.zeros(1, 2, 2), torch.zeros(1, 2, 2)]
REST = (True, 1, 0.0, False, False)


def module_of(line: str, policy: Policy | None = None, result: str = "x"):
    code = f"{HEADER}  def f(self: __torch__.M,\n    x: Tensor, n: int):\n    {line}\n"
    return tsarchive.load(io.BytesIO(archive_of(f"{code}    return {result}\n")), policy=policy)


def operator(full_name: str):
    """What runs for an operator, as generated code calls it."""
    name, _, overload = full_name.partition(".")
    schema = next(s for s in operator_schemas(name) if s.overload == overload)
    return implementation(schema)


@pytest.mark.parametrize(
    "line",
    [
        'torch.save(x, "written")',
        'x = torch.from_file("written", True, 4)',
        "torch.manual_seed(n)",
        "x = torch.set_(x, x)",
        "x = torch.resize_(x, [n])",
        "x = torch._reshape_alias(x, [n], [1])",
        "x = torch._unsafe_index(x, [x])",
        'x = ops._c10d_functional.all_reduce(x, "sum", "0")',
        "x = ops.symm_mem.memset32_(x, 0, 0, 1)",
        "x = ops.inductor._reinterpret_tensor(x, [n], [1], 0)",
        "x = ops._test.leaky_relu(x)",
    ],
)
def test_side_effecting_and_memory_unsafe_operators_are_refused(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((PolicyError, tsarchive.UnknownOperatorError)) as caught:
        module_of(line).f(torch.ones(4), 2)
    named = line.partition("(")[0].split()[-1].replace("torch.", "aten::").replace("ops.", "")
    assert row_of(named.replace(".", "::")).is_refused
    if isinstance(caught.value, PolicyError):
        assert caught.value.operator.partition(".")[0] == named.replace(".", "::")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "x = torch.add(x, n)",
        "x = torch.view(x, [n, n])",
        "x = torch.as_strided(x, [n], [1])",
        "x = torch.dropout(x, 0.5, True)",
        "x = torch._convolution(torch.view(x, [1, 1, 4]), torch.view(x, [1, 1, 4]), None, "
        "[1], [0], [1], False, [0], 1, False, False, True, True)",
        'torch.warn("careful", 2)',
        "print(x)",
    ],
)
def test_what_models_use_is_allowed(line):
    module = module_of(line)
    if "warn" in line:
        with pytest.warns(UserWarning, match="careful"):
            module.f(torch.ones(4), 2)
    else:
        module.f(torch.ones(4), 2)


@pytest.mark.parametrize("number", [-1, 46, 50, 100, 255, 300, 2**40])
@pytest.mark.parametrize(
    "line",
    ["x = torch.zeros([2], dtype=n)", "x = torch.to(x, n)", "x = torch.sum(x, dtype=n)",
     "x = torch.softmax(x, 0, n)"],
)  # fmt: skip
def test_a_number_that_is_no_dtype_reaches_no_operator(line, number):
    with pytest.raises(ScriptError, match=f"{number} is not the number of a ScalarType"):
        module_of(line).f(torch.ones(2), number)


@pytest.mark.parametrize("text", ["-1", "46", "255"])
def test_a_literal_that_is_no_dtype_reaches_no_operator(text):
    with pytest.raises(ScriptError, match=f"{text} is not the number of a ScalarType"):
        module_of(f"x = torch.zeros([2], dtype={text})").f(torch.ones(2), 0)


@pytest.mark.parametrize(("number", "dtype"), [(0, torch.uint8), (6, torch.float32)])
def test_a_number_of_a_dtype_does(number, dtype):
    assert module_of("x = torch.zeros([2], dtype=n)").f(torch.ones(2), number).dtype == dtype


@pytest.mark.parametrize(
    ("number", "is_known"), [(-1, False), (0, True), (3, False), (7, True), (8, False)]
)
def test_numbers_of_layouts(number, is_known):
    module = module_of("x = torch.empty([2], layout=n)")
    if is_known and number:
        pytest.skip("this layout has no empty tensor of this kind")
    if is_known:
        assert module.f(torch.ones(1), number).layout == torch.strided
    else:
        with pytest.raises(ScriptError, match=f"{number} is not the number of a Layout"):
            module.f(torch.ones(1), number)


@pytest.mark.parametrize(("number", "is_known"), [(-1, False), (0, True), (3, True), (4, False)])
def test_numbers_of_memory_formats(number, is_known):
    module = module_of("x = torch.clone(x, memory_format=n)")
    x = torch.ones(1, 1, 1, 1, 1)
    if is_known:
        assert torch.equal(module.f(x, number), x)
    else:
        with pytest.raises(ScriptError, match=f"{number} is not the number of a MemoryFormat"):
            module.f(x, number)


X = torch.arange(12.0).reshape(2, 2, 3)
PACKED = torch.nn.utils.rnn.pack_padded_sequence(X, torch.tensor([2, 1]))
LABELS = torch.tensor([[1, 2]])
FAR = torch.tensor([[1, 10**9]])
LIST = torch.tensor
MATRICES = (torch.ones(8, 16), torch.ones(2, 16, 8))
WEIGHTS = (torch.ones(9, 3), torch.ones(9), torch.ones(3, 3), torch.ones(3))
ZEROS, ONES = torch.zeros(2), torch.ones(2)
IMAGE, GRID = torch.ones(1, 1, 4, 4), torch.zeros(1, 2, 2, 2)
QUANTIZED_IMAGE = torch.quantize_per_tensor(IMAGE, 1.0, 0, torch.quint8)


def by_channel(axis: int, dtype: torch.dtype = torch.qint8) -> torch.Tensor:
    """A matrix of four rows and two columns with a scale for each."""
    count = 2 if axis else 4
    zeros = torch.zeros(count, dtype=torch.int64 if dtype == torch.qint8 else torch.float32)
    return torch.quantize_per_channel(torch.ones(4, 2), torch.ones(count), zeros, axis, dtype)


def packed_rows(count: int) -> torch.ScriptObject:
    weight = torch.quantize_per_tensor(torch.ones(count, 2), 0.1, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(weight, None)


def observed(rows: int, count: int) -> tuple:
    """A moving average over ``rows`` rows that has ``count`` places."""
    one = torch.ones(1, dtype=torch.int64)
    numbers = [torch.zeros(count), torch.ones(count), torch.ones(count)]
    zeros = torch.zeros(count, dtype=torch.int32)
    return torch.ones(rows, 3), one, one, *numbers, zeros, 0.1, 0, 255, 0, rows > 1, False


ROWS, COLUMNS = by_channel(0), by_channel(1)
EMBEDDING, EMBEDDING_BY_COLUMNS = by_channel(0, torch.quint8), by_channel(1, torch.quint8)
KERNEL = torch.quantize_per_tensor(torch.ones(2, 1, 3, 3), 0.1, 0, torch.qint8)


@pytest.mark.parametrize(
    ("name", "fits", "trusts"),
    [
        ("aten::lstm.input", (X, STATES, LSTM._flat_weights, *REST, False),
         (X, STATES, [], *REST, False)),
        ("aten::lstm.input", (X, STATES, LSTM._flat_weights, *REST, False),
         (X, STATES[:1], LSTM._flat_weights, *REST, False)),
        ("aten::lstm.input", (X, STATES, LSTM._flat_weights, *REST, False),
         (X, STATES, LSTM._flat_weights, True, 2, 0.0, False, False, False)),
        ("aten::lstm.data",
         (PACKED.data, PACKED.batch_sizes, STATES, LSTM._flat_weights, *REST),
         (PACKED.data, LIST([10**9, 1]), STATES, LSTM._flat_weights, *REST)),
        ("aten::lstm.data",
         (PACKED.data, PACKED.batch_sizes, STATES, LSTM._flat_weights, *REST),
         (PACKED.data, PACKED.batch_sizes.float(), STATES, LSTM._flat_weights, *REST)),
        ("aten::_pad_packed_sequence", (torch.ones(3, 2), LIST([2, 1]), False, 0.0, -1),
         (torch.ones(3, 2), LIST([1, 2]), False, 0.0, -1)),
        ("aten::_weight_norm", (torch.ones(2, 3), torch.ones(2, 1), 0),
         (torch.ones(2, 3), torch.ones(1), 0)),
        ("aten::_weight_norm", (torch.ones(2, 3), torch.ones(1, 3), 1),
         (torch.ones(0, 3), torch.ones(1, 3), 1)),
        ("aten::ctc_loss.IntList", (torch.ones(3, 1, 4), LABELS, [3], [2]),
         (torch.ones(3, 1, 4), FAR, [3], [2])),
        ("aten::ctc_loss.Tensor", (torch.ones(3, 1, 4), LABELS, LIST([3]), LIST([2])),
         (torch.ones(3, 1, 4), LABELS, LIST([3]), LIST([-(10**9)]))),
        ("aten::embedding_bag", (torch.ones(4, 2), LIST([0, 1]), LIST([0, 1])),
         (torch.ones(4, 2), LIST([0, 1]), LIST([0, 10**9]))),
        ("aten::embedding_bag", (torch.ones(4, 2), LIST([0, 1]), LIST([0]), False, 2),
         (torch.ones(4, 2), LIST([0, 1]), LIST([0]), False, 7)),
        ("aten::_native_multi_head_attention", (X, X, X, 3, 3, *WEIGHTS),
         (X, X, X, 3, 0, *WEIGHTS)),
        ("aten::_grouped_mm", (*MATRICES, LIST([4, 8], dtype=torch.int32)),
         (*MATRICES, LIST([4, 10**9], dtype=torch.int32))),
        ("aten::native_batch_norm", (X, None, None, None, None, True, 0.1, 0.1),
         (X, None, None, None, None, False, 0.1, 0.1)),
        ("aten::range.step", (0, 2, 1.5), (0, 2, 0.5)),
        ("aten::native_batch_norm", (X, None, None, ZEROS, ONES, False, 0.1, 0.1),
         (X, None, None, ZEROS[:1], ONES, False, 0.1, 0.1)),
        ("aten::lstm.input", (X, STATES, LSTM._flat_weights, *REST, False),
         (X, STATES, [weight[:2] for weight in LSTM._flat_weights], *REST, False)),
        ("aten::lstm.input", (X, STATES, LSTM._flat_weights, *REST, False),
         (X, [torch.cat([state, state], 1) for state in STATES], LSTM._flat_weights, *REST, False)),
        ("aten::lstm.input", (X, STATES, LSTM._flat_weights, *REST, False),
         (X, [STATES[0], torch.cat([STATES[1]] * 2, 1)], LSTM._flat_weights, *REST, False)),
        ("aten::lstm.input", (X, STATES, LSTM._flat_weights, *REST, False),
         (torch.ones(2, 2, 99), STATES, LSTM._flat_weights, *REST, False)),
        ("aten::lstm.input", (X, STATES, LSTM._flat_weights, *REST, False),
         (X, STATES, [weight[:, :1] if weight.dim() > 1 else weight
                      for weight in LSTM._flat_weights], *REST, False)),
        ("aten::gru_cell", (X[0], X[0], torch.ones(9, 3), torch.ones(9, 3)),
         (X[0], X[0], torch.ones(1, 3), torch.ones(1, 3))),
        ("aten::scaled_dot_product_attention", (X, X, X), (X, X, torch.ones(2, 99, 3))),
        ("aten::grid_sampler_2d", (IMAGE, GRID, 0, 0, True), (IMAGE, GRID, 7, 0, True)),
        ("aten::repeat_interleave.Tensor", (LIST([1, 2]),), (LIST([2**62] * 4 + [3]),)),
        ("aten::rrelu_with_noise", (-IMAGE, IMAGE.clone(), 0.1, 0.3, True),
         (-IMAGE, torch.ones(1).expand(1, 1, 4, 4), 0.1, 0.3, True)),
        ("aten::_upsample_bicubic2d_aa", (IMAGE, [6, 6], False, 1.5, 1.5),
         (IMAGE, [8, 8], False, 1e-5, 1e-5)),
        ("aten::_upsample_bilinear2d_aa", (IMAGE, [6, 6], False, None, None),
         (IMAGE, [17, 100], False, 1.7, 0.9)),
        ("aten::upsample_nearest2d", (QUANTIZED_IMAGE, [6, 6], 1.5, 1.5),
         (QUANTIZED_IMAGE, [8, 8], 1e-300, 1e-300)),
        ("aten::div.Tensor_mode", (LIST([-5]), LIST([-1])), (LIST([-(2**63)]), LIST([-1]))),
        ("aten::div.Scalar_mode", (LIST([-5]), -1), (LIST([-(2**63)]), -1)),
        ("aten::lcm", (LIST([4]), LIST([6])), (LIST([-(2**63)]), LIST([5]))),
        ("aten::lu_unpack", (torch.eye(2), LIST([1, 2], dtype=torch.int32)),
         (torch.eye(2), LIST([], dtype=torch.int32))),
        ("aten::fused_moving_avg_obs_fake_quant", observed(2, 2), observed(2, 1)),
        ("aten::fused_moving_avg_obs_fake_quant", observed(1, 1), observed(1, 0)),
        ("quantized::linear_prepack_fp16", (torch.ones(2, 2), None), (torch.ones(0, 2), None)),
        ("quantized::linear_prepack_fp16", (torch.ones(2, 2), torch.ones(2)),
         (torch.ones(2, 2), torch.ones(1))),
        ("quantized::linear_prepack", (ROWS, None), (COLUMNS, None)),
        ("quantized::embedding_bag_prepack", (EMBEDDING,), (EMBEDDING_BY_COLUMNS,)),
        ("quantized::conv2d_prepack", (KERNEL, None, [1, 1], [0, 0], [1, 1], 1),
         (KERNEL, None, [0, 0], [0, 0], [1, 1], 1)),
        ("quantized::conv2d_prepack", (KERNEL, ONES, [1, 1], [0, 0], [1, 1], 1),
         (KERNEL, ONES[:1], [1, 1], [0, 0], [1, 1], 1)),
        ("quantized::conv_transpose2d_prepack",
         (KERNEL, None, [2, 2], [0, 0], [1, 1], [1, 1], 1),
         (KERNEL, None, [1, 1], [0, 0], [50, 50], [1, 1], 1)),
        ("quantized::batch_norm2d", (QUANTIZED_IMAGE, *[torch.ones(1)] * 4, 0.1, 1.0, 0),
         (QUANTIZED_IMAGE, *[torch.ones(9)] * 4, 0.1, 1.0, 0)),
        ("quantized::quantized_gru_cell_dynamic",
         (torch.ones(1, 2), torch.ones(1, 2), *[packed_rows(6)] * 2, *[torch.ones(6)] * 2),
         (torch.ones(1, 2), torch.ones(1, 2), *[packed_rows(2)] * 2, *[torch.ones(2)] * 2)),
    ],
)  # fmt: skip
def test_operators_that_trust_their_arguments_are_given_what_fits(name, fits, trusts):
    run = operator(name)
    options = {"dtype": 4} if "range" in name else {}
    if name.endswith("_mode"):
        options = {"rounding_mode": "trunc"}
    run(*fits, **options)
    with pytest.raises(ScriptError):
        run(*trusts, **options)


@pytest.mark.filterwarnings("ignore:Sparse CS")
@pytest.mark.parametrize("is_csr", [False, True])
def test_nothing_writes_to_the_indices_of_a_sparse_tensor(is_csr):
    dense = torch.eye(3)
    sparse = dense.to_sparse_csr() if is_csr else dense.to_sparse().coalesce()
    for name in ("crow_indices", "col_indices") if is_csr else ("indices",):
        operator(f"aten::{name}")(sparse).fill_(10**9)
    assert torch.equal(sparse.to_dense(), dense)


@pytest.mark.filterwarnings("ignore:Sparse CS")
@pytest.mark.parametrize(
    ("name", "indices"),
    [
        ("aten::sparse_coo_tensor.indices_size", [[[0, 1, 2], [0, 1, 2]]]),
        ("aten::sparse_csr_tensor.crow_col_value_size", [[0, 1, 2, 3], [0, 1, 2]]),
        ("aten::sparse_csc_tensor.ccol_row_value_size", [[0, 1, 2, 3], [0, 1, 2]]),
    ],
)
def test_a_sparse_tensor_does_not_share_the_indices_it_is_made_of(name, indices):
    given = [torch.tensor(each) for each in indices]
    sparse = operator(name)(*given, torch.ones(3), [3, 3])
    for each in given:
        each.fill_(10**9)
    assert torch.equal(sparse.to_dense(), torch.eye(3))


@pytest.mark.parametrize(
    ("name", "args", "outs"),
    [
        ("aten::range.out", (0, 5, 0.5), {"out": torch.zeros(1, dtype=torch.int32)}),
        ("aten::native_batch_norm.out", (X, None, None, None, None, False, 0.1, 0.1),
         {"out": torch.ones(1), "save_mean": torch.ones(1), "save_invstd": torch.ones(1)}),
    ],
)  # fmt: skip
def test_every_overload_of_an_operator_is_guarded(name, args, outs):
    with pytest.raises(ScriptError):
        operator(name)(*args, **outs)


def test_an_out_that_is_not_contiguous_gets_what_is_written():
    memory = torch.zeros(3, 8)
    out = memory[:, ::2]
    result = operator("aten::_softmax.out")(torch.zeros(3, 4), 1, False, out=out)
    assert result is out
    assert torch.equal(out, torch.full((3, 4), 0.25))
    assert torch.equal(memory[:, 1::2], torch.zeros(3, 4))


def test_the_elements_of_an_out_have_memory_of_their_own():
    with pytest.raises(RuntimeError, match="single memory location"):
        operator("aten::_softmax.out")(torch.zeros(5), 0, False, out=torch.zeros(1).expand(5))


@pytest.mark.parametrize("out", [torch.eye(2).to_sparse(), QUANTIZED_IMAGE])
def test_an_out_is_dense(out):
    with pytest.raises(ScriptError, match="sparse or quantized"):
        operator("aten::cat.out")([], 0, out=out)


def test_a_bias_that_was_packed_stays_where_it_is():
    bias = torch.ones(2)
    packed = operator("quantized::conv2d_prepack")(KERNEL, bias, [1, 1], [0, 0], [1, 1], 1)
    for held in (bias, operator("quantized::conv2d_unpack")(packed)[1]):
        with pytest.raises(ScriptError, match="cannot grow"):
            operator("aten::zeros.out")([100000], out=held)
        assert held.size() == bias.size()


def bags(*, weights=None, mapping=None, pruned=False):
    packed = torch.ops.quantized.embedding_bag_prepack(EMBEDDING)
    indices = torch.arange(4)
    run = operator("quantized::embedding_bag_byte")
    return run(packed, indices, LIST([0]), False, 0, pruned, weights, mapping, False)


def test_quantized_bags_have_all_rows_and_a_weight_for_each_index():
    assert bags().shape == bags(weights=torch.ones(4)).shape == (1, 2)
    for options in (
        {"weights": torch.ones(1)},
        {"pruned": True},
        {"pruned": True, "mapping": torch.full((4,), 10**6, dtype=torch.int32)},
    ):
        with pytest.raises(ScriptError):
            bags(**options)
