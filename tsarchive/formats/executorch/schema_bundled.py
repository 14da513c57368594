"""The schema of bundled programs (.bpte): ``bundled_program_schema.fbs``, unchanged since 2023."""

from __future__ import annotations

from typing import Final

from .schema import Field, Schema

BUNDLED_PROGRAM: Final = Schema(
    identifier=b"BP08",
    root="BundledProgram",
    tables={
        "BundledProgram": (
            Field("version", "u32"),
            Field("method_test_suites", "[BundledMethodTestSuite]"),
            Field("program", "[u8]", align=32),
        ),
        "BundledMethodTestSuite": (
            Field("method_name", "text"),
            Field("test_cases", "[BundledMethodTestCase]"),
        ),
        "BundledMethodTestCase": (
            Field("inputs", "[Value]"),
            Field("expected_outputs", "[Value]"),
        ),
        "Value": (Field("val", "ValueUnion"),),
        "Tensor": (
            Field("scalar_type", "i8"),
            Field("sizes", "[i32]"),
            Field("data", "[u8]", align=16),
            Field("dim_order", "[u8]"),
        ),
        "Int": (Field("int_val", "i64"),),
        "Bool": (Field("bool_val", "bool"),),
        "Double": (Field("double_val", "f64"),),
    },
    unions={"ValueUnion": ("Tensor", "Int", "Bool", "Double")},
)
