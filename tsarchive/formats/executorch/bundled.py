"""A bundled program (.bpte): a whole program with test calls and their expected results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from tsarchive.errors import FormatError

from .flatbuffer import Buffer, EncodedFile, Table
from .program import Program
from .schema import BUNDLED_PROGRAM
from .values import Layout

RECORD = "bundle"
PROGRAM_PREFIX = "program/"
SUITES = "test_suites/"


@dataclass(frozen=True, slots=True)
class BundledTensor(Layout):
    """A tensor and its bytes, which begin at ``start`` in the file."""

    data: memoryview
    start: int


BundledValue: TypeAlias = BundledTensor | int | bool | float | None


@dataclass(frozen=True, slots=True)
class Case:
    """The arguments and results of one call."""

    inputs: tuple[BundledValue, ...]
    expected_outputs: tuple[BundledValue, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """The calls of one method."""

    method: str
    cases: tuple[Case, ...]


class BundledProgram(EncodedFile):
    """A bundled program; ``version`` is that of the bundle."""

    def root(self) -> Table:
        return Buffer(self.data, BUNDLED_PROGRAM, RECORD).root()

    @cached_property
    def program_data(self) -> memoryview:
        """The bytes of the program: a whole .pte file. Raises FormatError when there is none."""
        found = self._root.data("program")
        if found is None:
            raise FormatError("the bundle has no program", record=RECORD)
        return found

    @cached_property
    def program_start(self) -> int:
        """The offset of the program in the file."""
        return self._root.data_start("program")

    @cached_property
    def program(self) -> Program:
        return Program(self.program_data, PROGRAM_PREFIX, self.program_start)

    @cached_property
    def test_suites(self) -> tuple[Suite, ...]:
        return tuple(map(_suite, self._root.tables("method_test_suites") or ()))

    def tensors(self) -> Iterator[tuple[str, BundledTensor]]:
        """Yield the tensors of all calls by name: ``test_suites/forward/0/inputs/1``."""
        for suite in self.test_suites:
            for number, case in enumerate(suite.cases):
                folder = f"{SUITES}{suite.method}/{number}"
                yield from _tensors(f"{folder}/inputs", case.inputs)
                yield from _tensors(f"{folder}/expected_outputs", case.expected_outputs)


def _tensors(folder: str, values: tuple[BundledValue, ...]) -> Iterator[tuple[str, BundledTensor]]:
    for index, value in enumerate(values):
        if isinstance(value, BundledTensor):
            yield f"{folder}/{index}", value


def _suite(table: Table) -> Suite:
    cases = tuple(
        Case(_values(case, "inputs"), _values(case, "expected_outputs"))
        for case in table.tables("test_cases") or ()
    )
    return Suite(table.label("method_name") or "", cases)


def _values(table: Table, field: str) -> tuple[BundledValue, ...]:
    return tuple(_value(inner.member("val")) for inner in table.tables(field) or ())


def _value(table: Table | None) -> BundledValue:
    if table is None:
        return None
    if table.name == "Tensor":
        data = table.data("data")
        return BundledTensor(
            table.scalar("scalar_type"), table.numbers("sizes") or (),
            table.numbers("dim_order") or (), memoryview(b"") if data is None else data,
            table.data_start("data"),
        )  # fmt: skip
    found: int | bool | float = table.scalar(f"{table.name.lower()}_val")
    return found
