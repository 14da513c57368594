"""Hypothesis strategies for whole programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from .definitions import Definitions
from .functions import Signature
from .models import Models
from .program import Program
from .values import arguments
from .vocabulary import TYPES, Vocabulary

_CALLS = 2
_HEADER = """\
import math
from enum import Enum
from typing import Dict, Final, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

"""
_TENSORS = st.sampled_from(("Tensor", "Tuple[Tensor, Tensor]", "List[Tensor]"))


@st.composite
def programs(
    draw: st.DrawFn,
    *,
    types: Sequence[str] = TYPES,
    result: st.SearchStrategy[str] | None = None,
    least: int = 0,
) -> Program:
    """Draw well-typed programs, which torch.jit.script accepts.

    ``types`` are the types of the parameters of ``forward``, as annotation text, of which there are
    ``least`` at least; ``result`` is a strategy for its return type. Calls may raise: lists are too
    short, shapes do not fit.
    """
    outside = Definitions(draw, Vocabulary())
    lines = outside.definitions()
    model = Models(draw, outside.vocabulary.copy())
    if model.chance(3):
        lines += model.add_part()
    parameters = model.parameters(types, by_name=False, least=least)
    values = [t for t in model.vocabulary.types if t not in model.vocabulary.objects]
    returned = draw(result) if result is not None else model.pick([*values, "None"])
    lines += model.module_class("Model", Signature("forward", parameters, returned, "self"))
    calls = st.tuples(*(arguments(parameter.type) for parameter in parameters))
    inputs: list[tuple[Any, ...]] = draw(st.lists(calls, min_size=_CALLS, max_size=_CALLS))
    return Program(_HEADER + "\n".join(lines), tuple(inputs))


def traceable_programs() -> st.SearchStrategy[Program]:
    """Draw programs from tensors to tensors, for torch.jit.trace; some of them raise."""
    return programs(types=("Tensor",), result=_TENSORS, least=1)
