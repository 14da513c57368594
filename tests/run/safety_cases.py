"""Calls in archive code that reached outside of their tensors, or ended the process.

Run as a script, it makes each call in a child process, from the archive on, and prints how each
ended: the words of the error, ``fine``, or the signal.
"""

from __future__ import annotations

import io
import json
import resource
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch

import tsarchive
from tests.support.archives import TORCH
from tests.support.children import Ended, Say, answers
from tests.support.registry_calls import archive_of

HEADER = "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
FINE = "fine"
INT_MIN, INT64_MIN = -(2**31), -(2**63)


@dataclass(frozen=True)
class Case:
    """A call of ``f``: its parameters, its lines, what it is given, and a word of the error."""

    parameters: str
    lines: str
    given: Callable[[], list[Any]]
    error: str

    def run(self) -> None:
        head = ", ".join(filter(None, ("self: __torch__.M", self.parameters)))
        body = "\n".join(f"    {line}" for line in self.lines.splitlines())
        code = f"{HEADER}  def f({head}):\n{body}\n"
        module = tsarchive.load(io.BytesIO(archive_of(code)))
        for _ in range(2):  # the second call finds what an error of the first one left
            told = _error_of(module.f, self.given())
        if told is not None:
            raise told


def _error_of(function: Callable[..., Any], given: list[Any]) -> Exception | None:
    try:
        function(*given)
    except Exception as error:
        return error
    return None


def longs(*values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


# Sparse tensors that are not what they claim to be: parameters are c (compressed) or i, p, v.
COO = {
    "beyond the size": ("torch.sparse_coo_tensor(i, v, [3, 3])", longs([0, 7], [0, 1])),
    "far beyond": ("torch.sparse_coo_tensor(i, v, [3, 3])", longs([0, 10**9], [0, 1])),
    "negative": ("torch.sparse_coo_tensor(i, v, [3, 3])", longs([0, -1], [0, 1])),
    "negative, no size": ("torch.sparse_coo_tensor(i, v)", longs([0, -5], [0, 1])),
    "not coalesced": (
        "torch.sparse_coo_tensor(i, v, [3, 3], is_coalesced=True)", longs([2, 0], [1, 0]),
    ),
}  # fmt: skip
CSR = {
    "columns beyond": (
        "torch.sparse_csr_tensor(c, p, v, [3, 3])", longs(0, 1, 2, 2), longs(0, 9),
    ),
    "rows beyond": ("torch.sparse_csr_tensor(c, p, v, [3, 3])", longs(0, 1, 99, 2), longs(0, 1)),
    "columns, no size": ("torch.sparse_csc_tensor(c, p, v)", longs(0, 2, -3, 2), longs(0, 1)),
    "layout by number": (
        "torch.sparse_compressed_tensor(c, p, v, [3, 3], layout=4)",
        longs(0, 1, 2, 2), longs(-1, 10**6),
    ),
}  # fmt: skip
USES = {
    "to_dense": "torch.to_dense(s)",
    "matmul": "torch.matmul(s, d)",
    "addmm": "torch.addmm(d, s, d)",
    "add": "torch.add(d, s)",
    "add_": "torch.add_(d, s)",
    "coalesce": "torch.coalesce(s)",
    "index_select": "torch.index_select(s, 0, torch.tensor([1]))",
    "t": "torch.t(s)",
    "sparse_mask": "torch.sparse_mask(d, s)",
    "_sparse_softmax": "torch._sparse_softmax(s, 1)",
    "_sparse_sum": "torch._sparse_sum(s, [0])",
}
_BROKEN = "indices|index|invalid|uncoalesced|not satisfied|positive|size"


def _parts(*indices: torch.Tensor) -> list[Any]:
    return [*(tensor.clone() for tensor in indices), torch.ones(2), torch.ones(3, 3)]


def _sparse_cases() -> dict[str, Case]:
    found = {}
    for (name, (make, indices)), (use, line) in product(COO.items(), USES.items()):
        lines = f"s = {make}\nreturn {line}"
        given = partial(_parts, indices)
        case = Case("i: Tensor, v: Tensor, d: Tensor", lines, given, _BROKEN)
        found[f"coo {name}, {use}"] = case
    for (name, (make, c, p)), (use, line) in product(CSR.items(), USES.items()):
        lines = f"s = {make}\nreturn {line}"
        given = partial(_parts, c, p)
        case = Case("c: Tensor, p: Tensor, v: Tensor, d: Tensor", lines, given, _BROKEN)
        found[f"compressed {name}, {use}"] = case
    return found


def _least(dtype: torch.dtype) -> torch.Tensor:
    return torch.full((5,), torch.iinfo(dtype).min, dtype=dtype)


def _division(dtype: torch.dtype, *others: int) -> list[Any]:
    return [_least(dtype), *map(torch.tensor, others)]


def _division_cases() -> dict[str, Case]:
    """The least number by what wraps around to -1."""
    found = {}
    for dtype, other in (
        (torch.int32, -1), (torch.int32, 4294967295), (torch.int64, -1),
    ):  # fmt: skip
        given, with_tensor = partial(_division, dtype), partial(_division, dtype, other)
        for call in ("div", "div_", "divide", "divide_"):
            name = f"{call} of {str(dtype)[6:]} by {other}"
            lines = f'return torch.{call}(x, {other}, rounding_mode="trunc")'
            found[name] = Case("x: Tensor", lines, given, "divided by -1")
            lines = f'return torch.{call}(x, y, rounding_mode="trunc")'
            found[f"{name} in a tensor"] = Case(
                "x: Tensor, y: Tensor", lines, with_tensor, "divided by -1"
            )
    small = (torch.int8, torch.int16, torch.int32, torch.int64)
    for dtype, call in product(small, ("floor_divide", "remainder", "fmod", "div")):
        mode = ', rounding_mode="floor"' if call == "div" else ""
        wraps = min(2 ** (8 * dtype.itemsize), 2**63) - 1
        for other in {-1: "-1", wraps: f"{wraps}", None: "y"}.values():
            lines = (
                f"a = torch.{call}(x, {other}{mode})\nb = torch.{call}_(x, {other}{mode})\n"
                f"return torch.{call}(x, {other}{mode}, out=torch.zeros_like(x))"
            )
            given = partial(_division, dtype, -1)
            is_fine = dtype in small[:2] or other == f"{2**63 - 1}" or TORCH >= (2, 10)
            found[f"{call} of {str(dtype)[6:]} by {other}, rounded down"] = Case(
                "x: Tensor, y: Tensor", lines, given, FINE if is_fine else "divided by -1"
            )
    for dtype in small[:2]:  # divided as int, of which theirs is not the least
        lines = 'return torch.div_(x, -1, rounding_mode="trunc")'
        given = partial(_division, dtype)
        found[f"div of {str(dtype)[6:]} by -1"] = Case("x: Tensor", lines, given, FINE)
    lines = 'return torch.div(torch.to_sparse(x), -1, rounding_mode="trunc")'
    found["div of a sparse tensor"] = Case(
        "x: Tensor", lines, lambda: [_least(torch.int64)], "divided by -1"
    )
    return found


def _image() -> list[Any]:
    return [torch.ones(1, 1, 4, 4)]


SAVED = {
    "data": "i.data",
    "detached data": "torch.data(i)",
    "view": "torch._unsafe_view(i, [-1])",
    "part": "torch.unsafe_chunk(i, 1)[0]",
}


def _saved_cases() -> dict[str, Case]:
    """Indices that a formula trusts, written to where torch does not notice."""
    calls = {
        "max_pool2d_with_indices": "y, i = torch.max_pool2d_with_indices(x, [2, 2])",
        "adaptive_max_pool2d": "y, i = torch.adaptive_max_pool2d(x, [2, 2])",
        "embedding_bag": "i = torch.tensor([1, 2])\n"
        "y, a, b, c = torch.embedding_bag(x[0][0], i, torch.tensor([0]))",
    }
    sparse = {
        "embedding": "i = torch.tensor([1, 2])\ny = torch.embedding(x, i, -1, False, True)",
        "gather": "i = torch.tensor([[1, 2]])\ny = torch.gather(x, 0, i, sparse_grad=True)",
    }
    found = {}
    for (name, call), (way, written) in product(calls.items(), SAVED.items()):
        lines = (
            f"{call}\n_ = torch.fill_({written}, 1000000000000)\n"
            "torch.backward(torch.sum(y))\nreturn y"
        )
        found[f"{name}, written through its {way}"] = Case("x: Tensor", lines, _trained, FINE)
    for (name, call), (way, written) in product(sparse.items(), SAVED.items()):
        lines = (
            f"{call}\ng = unchecked_cast(Tensor, torch.grad([torch.sum(y)], [x])[0])\n"
            f"_ = torch.fill_({written}, 1000000000000)\nreturn torch.to_dense(g)"
        )
        given = partial(_leaf, 8, 8)
        found[f"sparse {name}, written through its {way}"] = Case("x: Tensor", lines, given, FINE)
    return found


def _leaf(*sizes: int) -> list[Any]:
    return [torch.rand(*sizes).requires_grad_()]


def _trained() -> list[Any]:
    return _leaf(1, 1, 8, 8)


def _quantized() -> list[Any]:
    return [torch.quantize_per_tensor(torch.ones(4), 0.1, 3, torch.quint8)]


def _of_tensors(lines: str, error: str, *given: Any) -> Case:
    """A call with tensors a, b and c, as many as are given."""
    names = ", ".join(f"{name}: Tensor" for name in "abc"[: len(given)])
    return Case(names, lines, lambda: [tensor.clone() for tensor in given], error)


def _trained_with(call: str, error: str, *given: torch.Tensor) -> Case:
    """A call and its gradient for a, which is a leaf."""
    lines = f"y = {call}\ntorch.backward(torch.sum(y))\nreturn a"
    case = _of_tensors(lines, error, *given)
    return Case(case.parameters, lines, lambda: [_as_leaf(given[0]), *given[1:]], error)


def _as_leaf(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone().requires_grad_()


def _window_cases() -> dict[str, Case]:
    image, row = torch.randn(2, 3, 5, 5), torch.randn(2, 3, 8)
    least = torch.full((1, 2, 6, 6), INT64_MIN)
    far = 2**63 - 1
    pooled = "of a pool"
    return {
        "replication of a huge number": _of_tensors(
            f"return torch.replication_pad2d(a, [{far}, {far}, 0, 0])", "padding by", image,
        ),
        "replication of a volume": _of_tensors(
            f"return torch.replication_pad3d(a, [{far}, {far}, 0, 0, 0, 0])", "padding by",
            torch.randn(1, 2, 3, 3, 3),
        ),
        "padding by a huge number": _of_tensors(
            f"return torch.pad(a, [{far}, {far}, 0, 0], \"replicate\")", "padding by", image,
        ),
        "the least integers averaged by -1": _of_tensors(
            "return torch.avg_pool2d(a, [1, 1], [1, 1], [0, 0], False, True, -1)",
            "divided by -1", least,
        ),
        "a volume of the least integers averaged by -1": _of_tensors(
            "return torch.avg_pool3d(a, [1, 1, 1], [1, 1, 1], [0, 0, 0], False, True, -1)",
            "divided by -1", least,
        ),
        "a pool of a huge kernel": _of_tensors(
            f"return torch.max_pool1d(a, [{far}], [], [0], [1], True)", pooled, row,
        ),
        "a pool of far apart elements": _of_tensors(
            "return torch.max_pool2d(a, [3, 3], [1, 1], [1, 1], [1, 2147483647])", pooled, image,
        ),
        "a gradient of windows beyond the input": _trained_with(
            "torch.max_pool2d(a, [2, 2], [], [0, 1], [1, 2], True)", pooled,
            torch.randn(1, 2, 5, 1),
        ),
        "a gradient of windows beyond a row": _trained_with(
            "(torch.max_pool1d_with_indices(a, [2], [], [1], [2], True))[0]", pooled,
            torch.randn(2, 1),
        ),
        "windows that begin in the last column": _trained_with(
            "torch.max_pool2d(a, [2, 2], [], [0, 1], [1, 2], True)", FINE,
            torch.randn(1, 2, 5, 2),
        ),
        "steps of a transposed convolution": _of_tensors(
            "return torch.conv_transpose1d(a, b, c, [65536], [229378], [1])", "a convolution",
            torch.randn(2, 16, 8), torch.randn(16, 16, 5), torch.randn(16),
        ),
        "rows of a transposed convolution times its stride": _of_tensors(
            "return torch.conv_transpose2d(a, b, None, [2, 4000], [0, 2])", "a convolution",
            torch.randn(2, 32, 3, 14), torch.randn(32, 16, 1, 1),
        ),
        "a long stride without a gradient": _of_tensors(
            "return torch.conv1d(a, b, None, [5000])", FINE,
            torch.ones(1, 1, 100000), torch.ones(2, 1, 5000),
        ),
        "rows that are padded up to the stride": _of_tensors(
            "return torch.conv_transpose2d(a, b, None, [1, 4095])", "a convolution",
            torch.randn(2, 512, 3, 1), torch.randn(512, 512, 1, 1),
        ),
        "rows of a gradient times the stride": _trained_with(
            "torch.conv1d(a, b, None, [900])", "a convolution",
            torch.randn(2, 128, 53201), torch.randn(128, 128, 5),
        ),
        "steps of a convolution": _trained_with(
            "torch.conv2d(a, b, None, [2, 1073741824], [1, 1], [1, 1])", "a convolution",
            torch.randn(1, 4, 8, 2, dtype=torch.bfloat16),
            torch.randn(2, 4, 1, 3, dtype=torch.bfloat16),
        ),
    }  # fmt: skip


def _table_cases() -> dict[str, Case]:
    table, indices = torch.randn(7, 33), longs(2, 3, 2, 6, 6, 1)
    head = "torch.embedding_bag(a, b, c, False"
    return {
        "no bags for indices": _of_tensors(
            f"return ({head}, 2, False, None, True))[0]", "offsets of bags",
            table, indices, longs(0),
        ),
        "bags that end before the indices": _trained_with(
            f"({head}, 0, False, None, True))[0]", "offsets of bags",
            table, indices, longs(0, 4, 5),
        ),
        "bags that begin behind the first index": _trained_with(
            f"({head}, 0))[0]", "offsets of bags", table, indices, longs(1, 4),
        ),
        "labels that are padded": _of_tensors(
            "return torch.ctc_loss(torch.log_softmax(a, 2), b, c, torch.tensor([2, 1]))", FINE,
            torch.ones(5, 2, 4), longs([1, 2, -1], [3, -1, -1]), longs(5, 5),
        ),
        "distances of no rows": _trained_with(
            "torch.pdist(a)", "distances of no rows", torch.randn(0, 3),
        ),
        "a pool of a quantized tensor into an out": Case(
            "x: Tensor, o: Tensor", "return torch.adaptive_avg_pool3d(x, [1, 1, 1], out=o)",
            lambda: [_eighths(1, 2, 3, 3, 3), torch.zeros(1)], "quantized tensor beside the out",
        ),
    }  # fmt: skip


def _eighths(*sizes: int) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(sizes), 0.125, 3, torch.quint8)


def _counted_cases() -> dict[str, Case]:
    """Numbers that kernels multiply, convert or count down to."""
    far = 2**61
    ones = torch.ones(7, dtype=torch.bfloat16)
    wide = "torch.expand(torch.ones([1, 1]), [4, 1152921504606846976])"
    nested = "n = torch._nested_tensor_from_mask(a, b)\n"
    return {
        "columns beyond 64 bits": _of_tensors(
            f"return torch.im2col(a, [1, 1], [1, 1], [{far}, 0], [1, 1])", "of columns",
            torch.ones(1, 1, 4, 4),
        ),
        "an image beyond 64 bits": _of_tensors(
            f"return torch.col2im(a, [2, 2], [1, 1], [1, 1], [{far}, 0], [1, 1])", "of columns",
            torch.ones(1, 1, 4),
        ),
        "padding beyond 64 bits": _of_tensors(
            f"return torch.conv2d(a, b, None, [1, 1], [{far}, 0])", "a convolution",
            torch.ones(1, 1, 4, 4), torch.ones(1, 1, 1, 1),
        ),
        "more bins than a dtype tells apart": _of_tensors(
            "return torch.histc(a, 8225, 0, 1)", "does not tell apart", ones,
        ),
        "a histogram of more bins than a dtype tells apart": _of_tensors(
            "return (torch.histogram(a, 8225, range=[0., 1.]))[0]", "does not tell apart", ones,
        ),
        "bins in two dimensions that a dtype does not tell apart": _of_tensors(
            "return (torch.histogramdd(a, [8225, 3]))[0]", "does not tell apart",
            torch.ones(7, 2, dtype=torch.bfloat16),
        ),
        "a nested tensor normalized over nothing": _of_tensors(
            f"{nested}return torch.layer_norm(n, [0], torch.ones([0]), torch.ones([0]))",
            "are none", torch.ones(2, 3, 0), torch.ones(2, 3, dtype=torch.bool),
        ),
        "combinations of very many": _of_tensors(
            "return torch.combinations(a, 100000, True)", "combinations of", torch.ones(1),
        ),
        "a power to the least integer": _of_tensors(
            f"return torch.matrix_power(a, {INT64_MIN})", "no opposite", torch.ones(1, 1),
        ),
        "a sparse product beyond 64 bits": _of_tensors(
            f"return torch.smm(torch.to_sparse(a), {wide})", "a product of", torch.ones(4, 4),
        ),
        "blocks beyond the dtype of the indices": _of_tensors(
            "s = torch.sparse_csr_tensor(a, b, c, [2, 1610612736], dtype=1)\n"
            "return torch.to_sparse_bsr(s, [2, 536870912])", "indices of 32 bits",
            torch.tensor([0, 3, 3], dtype=torch.int32),
            torch.tensor([0, 2**29, 2**30], dtype=torch.int32), torch.ones(3, dtype=torch.int8),
        ),
    }  # fmt: skip


def _matrix_cases() -> dict[str, Case]:
    huge = torch.randn(17, 17, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    huge[0, 0] = 1e308
    pivots = torch.tensor([*range(1, 18), -18], dtype=torch.int32)
    eye = torch.eye(18)
    return {
        "eigenvectors that LAPACK does not find": _of_tensors(
            "return (torch.linalg_eig(a))[1]", "failed to converge", huge,
        ),
        "eigenvectors of reals into an out": Case(
            "a: Tensor, b: Tensor, c: Tensor",
            "d, e = torch.linalg_eig(a, eigenvalues=b, eigenvectors=c)\nreturn d",
            lambda: [eye, torch.zeros(18).cfloat(), eye.cfloat()], "into an out",
        ),
        "half a pair of pivots": _of_tensors(
            "return torch.linalg_ldl_solve(a, b, c)", "pivots that", eye, pivots, eye[:, :1],
        ),
        "least squares for no columns": _of_tensors(
            "return (torch.linalg_lstsq(a, b, driver=\"gelss\"))[0]", "right side",
            eye, torch.ones(18, 0),
        ),
        "a product of very many matrices": Case(
            "a: Tensor", "return torch.linalg_multi_dot([a, a] * 5000)", lambda: [torch.ones(1, 1)],
            "a product of 10000",
        ),
    }  # fmt: skip


def _packed_cases() -> dict[str, Case]:
    packing = "p = ops.quantized.conv2d_prepack(b, None, [1, 2], [0, 1], [1, 2], 1)\n"
    transposing = (
        "p = ops.quantized.conv_transpose2d_prepack(b, None, [2, 2], [0, 0], [0, 0], [1, 1], 1)\n"
    )
    return {
        "a packed weight with windows in the padding": Case(
            "a: Tensor, b: Tensor",
            f"{packing}return ops.quantized.conv2d(a, p, 0.1, 0)",
            lambda: [_eighths(3, 16, 5, 1), _weight(4, 16, 2, 1)], "wider than a window",
        ),
        "a transposed quantized convolution of nothing": Case(
            "a: Tensor, b: Tensor",
            f"{transposing}return ops.quantized.conv_transpose2d(a, p, 0.1, 0)",
            lambda: [_eighths(1, 8, 5, 0), _weight(8, 8, 2, 2)], "of no elements",
        ),
        "a quantized norm of groups of nothing": Case(
            "a: Tensor",
            "return ops.quantized.group_norm(a, 2, None, None, 0.1, 0.1, 0)",
            lambda: [_eighths(2, 0, 3)], "of no elements",
        ),
        "a quantized norm of nothing": Case(
            "a: Tensor",
            "return ops.quantized.instance_norm(a, None, None, 0.1, 0.1, 0)",
            lambda: [_eighths(2, 0, 3)], "of no elements",
        ),
    }  # fmt: skip


def _weight(*sizes: int) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.ones(sizes), 0.125, 0, torch.qint8)


def _target_cases() -> dict[str, Case]:
    """Targets that a formula trusts, written to where torch does not notice."""
    losses = {
        "nll_loss": "torch.nll_loss(x, i)",
        "nll_loss_nd": "torch.nll_loss_nd(x, i)",
        "cross_entropy_loss": "torch.cross_entropy_loss(x, i)",
        "multi_margin_loss": "torch.multi_margin_loss(x, i)",
        "embedding by frequency": "torch.embedding(x, i, -1, True)",
    }
    found = {}
    for (name, loss), (way, written) in product(losses.items(), SAVED.items()):
        lines = (
            f"i = torch.tensor([1, 2, 0, 2])\ny = {loss}\n"
            f"_ = torch.fill_({written}, 1000000000000)\ntorch.backward(torch.sum(y))\nreturn y"
        )
        case = Case("x: Tensor", lines, partial(_leaf, 4, 3), FINE)
        found[f"{name}, written through its {way}"] = case
    return found


def _scale_cases() -> dict[str, Case]:
    found = {}
    kinds = {"nearest": (1, 2, 3), "nearest_exact": (1, 2, 3), "bicubic": (2,), "bilinear": (2,)}
    kinds |= {"linear": (1,), "trilinear": (3,)}
    for kind, ranks in kinds.items():
        for rank in ranks:
            name = f"{'_' if 'exact' in kind else ''}upsample_{kind}{rank}d"
            corners = "" if "nearest" in kind else " False,"
            scales = ", ".join(["None"] * (rank - 1) + ["1e-300"])
            call = f"return torch.{name}(a, {[4] * rank},{corners} {scales})"
            image = torch.ones(1, 8, *[3] * rank)
            found[f"{name} by a tiny scale"] = _of_tensors(call, "a scale of", image)
    return found


CASES: dict[str, Case] = {
    **_saved_cases(),
    **_window_cases(),
    **_table_cases(),
    **_counted_cases(),
    **_matrix_cases(),
    **_packed_cases(),
    **_target_cases(),
    **_scale_cases(),
    "bytes of a quantized tensor in another dtype": Case(
        "x: Tensor", "return torch.view_copy(x, dtype=0)", _quantized, "quantized tensor",
    ),
    "several elements a byte": Case(
        "x: Tensor", "y = torch.quantize_per_tensor(x, 0.1, 0, 16)\n"
        "return torch.dequantize(torch.narrow(y, 0, 399, 1))",
        lambda: [torch.rand(400, 100)], "16 is not the number of a ScalarType",
    ),
    "a copy to no dtype": Case(
        "x: Tensor", "return torch.to(x, None, False, True)",
        lambda: [torch.ones(4)], "needs a dtype",
    ),
    "a copy to no dtype and device": Case(
        "x: Tensor", "return torch.to(x, None, None, True, True)",
        lambda: [torch.ones(4)], "needs a dtype",
    ),
    "sums to more dimensions": Case(
        "x: Tensor, n: List[int]", "return torch._grad_sum_to_size(x, n)",
        lambda: [torch.zeros(3), [1] * 1000], "is not summed",
    ),
    "a scale of more elements than there are": Case(
        "x: Tensor", "s, z = torch.choose_qparams_optimized(x, 5000, 200, 0.1, 8)\nreturn s",
        lambda: [torch.ones(4)], "do not fit",
    ),
    "nothing expanded to a negative size": Case(
        "x: Tensor, n: List[int]", "return torch.expand(x, n)",
        lambda: [torch.ones(0), [1, -2, -1]], "negative size",
    ),
    "a negative stride of nothing": Case(
        "x: Tensor", "return torch.as_strided(x, [0, -5], [1, 1])",
        lambda: [torch.ones(4)], "negative size",
    ),
    "groups of other sizes": Case(
        "x: Tensor",
        "a, b, c = torch.native_group_norm(x, None, None, 1, 64, 4096, 2, 0.1)\nreturn a",
        lambda: [torch.ones(1, 2, 2)], "for sizes",
    ),
    **_sparse_cases(),
    **_division_cases(),
    "arange": Case(
        "", f"return torch.arange(0, {INT64_MIN}, -1)", list, "divided by -1",
    ),
    "arange out": Case(
        "x: Tensor", f"return torch.arange(0, {INT64_MIN}, -1, out=x)",
        lambda: [longs(1)], "divided by -1",
    ),
    "range": Case(
        "", f"return torch.range(0, {INT64_MIN}, -1, dtype=4)", list, "divided by -1",
    ),
    "range out": Case(
        "x: Tensor", f"return torch.range(0, {INT64_MIN}, -1, out=x)",
        lambda: [longs(1)], "divided by -1",
    ),
    "range without a step": Case("", "return torch.range(0, 5, 0, dtype=4)", list, "nonzero"),
    **{
        f"{name} without a size": Case(
            "x: Tensor, n: List[int]", f"return torch.__{name}(x, n, None)",
            lambda: [*_image(), []], "for an input of 4",
        )
        for name in ("interpolate", "upsample", "upsample_bilinear", "upsample_nearest")
    },
    "interpolate by no scale": Case(
        "x: Tensor, n: List[float]", "return torch.__interpolate(x, None, n)",
        lambda: [*_image(), []], "for an input of 4",
    ),
    "interpolate by one scale of two": Case(
        "x: Tensor, n: List[float]", "return torch.__interpolate(x, None, n)",
        lambda: [*_image(), [2.0]], "for an input of 4",
    ),
    "upsample_bilinear by no scale": Case(
        "x: Tensor, n: List[int]", "return torch.__upsample_bilinear(x, None, n)",
        lambda: [*_image(), []], "for an input of 4",
    ),
    "eigenvalues of nan": Case(
        "x: Tensor", "return torch.linalg_eigvals(x)",
        lambda: [torch.full((5, 5), float("nan"))], "infs or NaNs",
    ),
    "a sparse tensor transposed beneath another": Case(
        "x: Tensor",
        "a = torch.to_sparse(x)\nb = torch.detach(a)\nc = torch.t_(a)\nreturn torch.to_dense(b)",
        lambda: [torch.ones(2, 1000)], "transposed in place",
    ),
    "32 bits with zero points of floats": Case(
        "x: Tensor, s: Tensor, z: Tensor", "return torch.quantize_per_channel(x, s, z, 0, 14)",
        lambda: [torch.ones(2, 3), torch.ones(2), torch.zeros(2)], "no integers",
    ),
    "an out of a negative size": Case(
        "x: Tensor", "r = torch.zeros([-1, 0], out=x)\nreturn torch.size(x)",
        lambda: [torch.ones(2, 3)], "negative",
    ),
    "indices added up beneath another": Case(
        "x: Tensor",
        "v = torch.sparse_coo_tensor(torch.tensor([[0, 0], [0, 0]]), torch.ones([2]), [2, 900])\n"
        "w = torch.permute(v, [0, 1])\n_ = torch.div_(v, 1, rounding_mode=\"floor\")\n"
        "return torch.to_dense(w)",
        lambda: [torch.ones(2, 900)], "coalesced before",
    ),
    "a multiple of what is the least integer when it is narrowed": Case(
        "x: Tensor, y: Tensor", "return torch.lcm(x, y)",
        lambda: [torch.tensor(2**31), torch.full((3,), 2**31 - 1, dtype=torch.int32)],
        "least common multiple",
    ),
    "a high order beside nan": Case(
        "x: Tensor, n: Tensor", "return torch.special_laguerre_polynomial_l(x, n)",
        lambda: [torch.tensor([0.3, 0.3]), torch.tensor([float("nan"), 1e18])], "order",
    ),
    "random floats from the largest integer": Case(
        "x: Tensor", "return torch.random_(x, 9223372036854775807, None)",
        lambda: [torch.zeros(3)], "draw from",
    ),
    **{
        f"a nested tensor: {name}": Case(
            "x: Tensor, m: Tensor",
            f"n = torch._nested_tensor_from_mask(x, m)\nreturn {line}",
            lambda: [torch.ones(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)], "nested tensor",
        )
        for name, line in (
            ("selected from its end", "torch.select(n, -1, 0)"),
            ("its integral", "torch.trapezoid(n)"),
            ("quantized", "torch.to(n, 13, False, False, 0)"),
            ("quantized zeros", "torch.zeros_like(n, dtype=13, memory_format=0)"),
        )
    },
    "lists of several lengths": Case(
        "x: Tensor",
        "y = torch.mul(x, 1)\nn = [y, y]\ntorch._foreach_mul_(n, [y])\nreturn n",
        lambda: _leaf(3), "lists of 1 and 2",
    ),
    "nan throws of a coin": Case(
        "x: Tensor", "return torch.binomial(x, torch.ones_like(x))",
        lambda: [torch.tensor([float("nan")])], "count of nan",
    ),
    **{
        f"bounds in the dtype of a small integer: {line}": Case(
            "x: Tensor, n: Tensor", f"return torch.{line}",
            lambda: [torch.tensor([0.5, 2.0]), torch.tensor([2, 1], dtype=torch.uint8)], FINE,
        )
        for line in ("special_laguerre_polynomial_l(x, n)", "special_zeta(x, n)")
    },
    "zeta from far below": Case(
        "x: Tensor, q: Tensor", "return torch.special_zeta(x, q)",
        lambda: [torch.tensor([2.0]).double(), torch.tensor([-1e15 + 0.5]).double()], "below",
    ),
    "polygamma from far below": Case(
        "x: Tensor", "return torch.polygamma(2, x)",
        lambda: [torch.tensor([-1e15 + 0.5]).double()], "below",
    ),
    "an order of two thousand million": Case(
        "x: Tensor", "return torch.special_laguerre_polynomial_l(x, 2147483647)",
        lambda: [torch.ones(2, 3)], "order",
    ),
    "an out that could not grow": Case(
        "x: Tensor, o: Tensor",
        "r = torch.sparse_coo_tensor([4096, 4096, 1048576], out=o)\nreturn r",
        lambda: [torch.ones(2), SHARED], "memory",
    ),
}  # fmt: skip
SHARED = torch.ones(3)


def outcome(case: Case) -> str:
    """The error, or ``fine``; what the process tells when it is not ended by a signal."""
    try:
        case.run()
    except Exception as error:
        room = SHARED.untyped_storage().nbytes() // 4
        return "too large" if SHARED.numel() > room else f"{type(error).__name__}: {error}"
    return FINE


def ending(case: Case, _: Say) -> str:
    return outcome(case)


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    outcome(CASES["arange"])  # imports what each process would import again
    found = answers(list(CASES.values()), ending, patience=60)
    for name, answer in zip(CASES, found, strict=True):
        print(json.dumps([name, answer.how if isinstance(answer, Ended) else answer]), flush=True)


if __name__ == "__main__":
    main()
