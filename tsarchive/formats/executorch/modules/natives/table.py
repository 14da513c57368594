"""The operators that programs of ExecuTorch have and torch lacks: each one's schema and function.

Programs call those in ``OWN``. Those in ``GLUE`` are put between them by the graphs of methods, and
no file can name them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tsarchive.ir.schema import FunctionSchema, parse_schema
from tsarchive.run.natives.table import N, native

OWN: Final[dict[str, FunctionSchema]] = {
    # torch has these under other names.
    "aten::sym_size.int": parse_schema("aten::size.int(Tensor self, int dim) -> int"),
    "aten::sym_stride.int": parse_schema("aten::stride.int(Tensor self, int dim) -> int"),
    "aten::sym_numel": parse_schema("aten::numel(Tensor self) -> int"),
    "aten::_local_scalar_dense": parse_schema("aten::_local_scalar_dense(Tensor self) -> Scalar"),
    # Its function is that of ``executorch_prim::et_view`` in GLUE, which takes one argument more.
    "executorch_prim::et_view.default": parse_schema(
        "executorch_prim::et_view.default(Tensor(b) self, int[] size, Tensor(a!) out) -> Tensor(a!)"
    ),
}
GLUE: Final[dict[str, FunctionSchema]] = {}


def own(*schemas: str) -> Callable[[N], N]:
    """Register the decorated function for operators that programs call, by their schemas."""
    return _into(OWN, schemas)


def glue(schema: str) -> Callable[[N], N]:
    """Register the decorated function for an operator that graphs of methods alone call."""
    return _into(GLUE, (schema,))


def _into(table: dict[str, FunctionSchema], texts: tuple[str, ...]) -> Callable[[N], N]:
    schemas = {schema.full_name: schema for schema in map(parse_schema, texts)}
    table |= schemas
    return native(*schemas)
