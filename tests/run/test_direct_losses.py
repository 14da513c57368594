"""Losses through Python bindings of torch, whose parser takes the default reduction for none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support.comparing import equal
from tsarchive.adopt.torch_jit import adopt_function
from tsarchive.policy import Guard, Limits, Policy
from tsarchive.run.calls_from_python import public_function
from tsarchive.run.classes import Classes
from tsarchive.run.direct import binding_of
from tsarchive.run.operators import operator_schemas

aten = torch.ops.aten
LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "binary_cross_entropy": lambda x, y: aten.binary_cross_entropy(x, x),
    "binary_cross_entropy_with_logits": lambda x, y: aten.binary_cross_entropy_with_logits(x, x),
    "cosine_embedding_loss": lambda x, y: aten.cosine_embedding_loss(x, x, y),
    "cross_entropy_loss": lambda x, y: aten.cross_entropy_loss(x, y),
    "ctc_loss": lambda x, y: aten.ctc_loss(x[:, None], y[None, 1:], [2], [1]),
    "hinge_embedding_loss": lambda x, y: aten.hinge_embedding_loss(x, x),
    "huber_loss": lambda x, y: aten.huber_loss(x, x.t()),
    "kl_div": lambda x, y: aten.kl_div(x, x),
    "l1_loss": lambda x, y: aten.l1_loss(x, x.t()),
    "margin_ranking_loss": lambda x, y: aten.margin_ranking_loss(x, x.t(), x),
    "mse_loss": lambda x, y: aten.mse_loss(x, x.t()),
    "multi_margin_loss": lambda x, y: aten.multi_margin_loss(x, y),
    "multilabel_margin_loss": lambda x, y: aten.multilabel_margin_loss(x, y.expand(2, 2)),
    "nll_loss": lambda x, y: aten.nll_loss(x, y),
    "nll_loss2d": lambda x, y: aten.nll_loss2d(x.view(1, 2, 2, 1), y.view(1, 2, 1)),
    "nll_loss_nd": lambda x, y: aten.nll_loss_nd(x, y),
    "smooth_l1_loss": lambda x, y: aten.smooth_l1_loss(x, x.t()),
    "soft_margin_loss": lambda x, y: aten.soft_margin_loss(x, x),
    "triplet_margin_loss": lambda x, y: aten.triplet_margin_loss(x, x, x),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("limits", [Limits(), Limits(seconds=1000)], ids=["binding", "overload"])
def test_losses_are_reduced_as_their_schema_says(name, limits):
    given = torch.tensor([[0.25, 0.5], [0.75, 0.125]]), torch.tensor([0, 1])
    function = adopt_function(torch.jit.trace(LOSSES[name], given))
    classes = Classes(guard=Guard(Policy.trusted(), limits))
    run: Any = public_function(function, classes.compiler)
    assert equal(run(*given), LOSSES[name](*given))


def test_all_reductions_by_default_are_tried():
    kinds = {schema.name for schema in torch._C._jit_get_all_schemas()}
    reduced = {
        schema.name.removeprefix("aten::")
        for kind in kinds
        for schema in operator_schemas(kind)
        if any(one.name == "reduction" and one.has_default for one in schema.arguments)
        and binding_of(schema) is not None
    }
    assert reduced <= LOSSES.keys()
