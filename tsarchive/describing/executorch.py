"""The facts about files of ExecuTorch, also in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .text import NAMES_SHOWN, OPERATORS_SHOWN, Lines, counts_text, listed, plural, size


@dataclass(frozen=True, slots=True)
class MethodFacts:
    """A method of a program of ExecuTorch. ``operators`` counts calls, ``delegates`` bytes of the
    programs of each backend; ``arenas`` are the bytes of the memory plan."""

    name: str
    signature: str
    values: int
    instructions: int
    operators: Mapping[str, int]
    delegates: Mapping[str, int]
    arenas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExecutorchFacts:
    """A file of ExecuTorch. ``header_nbytes`` is None where it has no extended header; ``external``
    are the keys that a data file must have; ``test_cases`` counts the calls of a bundle."""

    header_nbytes: int | None
    is_data_of_06: bool
    methods: tuple[MethodFacts, ...]
    named_data: tuple[str, ...]
    external: tuple[str, ...]
    test_cases: Mapping[str, int]


def executorch_lines(facts: ExecutorchFacts) -> Lines:
    bytes_text = "none" if facts.header_nbytes is None else f"{facts.header_nbytes} bytes"
    yield "header", bytes_text
    if facts.is_data_of_06:
        yield "layout", "of ExecuTorch 0.6, which later runtimes do not read"
    for method in facts.methods:
        yield from _method_lines(method)
    if facts.named_data:
        yield "named data", listed(facts.named_data, NAMES_SHOWN)
    if facts.external:
        yield "needs data", f"{listed(facts.external, NAMES_SHOWN)}: in a data file (.ptd)"
    for method_name, cases in facts.test_cases.items():
        yield "test suite", f"{method_name}: {plural(cases, 'call')} with expected results"


def _method_lines(method: MethodFacts) -> Lines:
    yield "method", method.signature
    yield "", f"{plural(method.values, 'value')}, {plural(method.instructions, 'instruction')}"
    if method.operators:
        yield "", counts_text(method.operators, OPERATORS_SHOWN)
    for backend, nbytes in method.delegates.items():
        yield "", f"delegate to {backend}: {size(nbytes)}"
    if any(method.arenas):
        yield "", f"memory plan: {', '.join(size(nbytes) for nbytes in method.arenas)}"
