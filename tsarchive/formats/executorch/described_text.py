"""The facts of a file of ExecuTorch in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tsarchive.describing.facts import ExecutorchFacts, MethodFacts
from tsarchive.describing.text import plural, size

Lines = Iterator[tuple[str, str]]
Counts = Callable[[Mapping[str, int]], str]

_NAMES_SHOWN = 12


def executorch_lines(facts: ExecutorchFacts, counts: Counts) -> Lines:
    """A label and a text each; ``counts`` shows how often each of several things occurs."""
    bytes_text = "none" if facts.header_bytes is None else f"{facts.header_bytes} bytes"
    yield "header", bytes_text
    if facts.is_data_of_06:
        yield "layout", "of ExecuTorch 0.6, which later runtimes do not read"
    for method in facts.methods:
        yield from _method_lines(method, counts)
    if facts.named_data:
        yield "named data", _shown(facts.named_data)
    if facts.external:
        yield "needs data", f"{_shown(facts.external)}: in a data file (.ptd)"
    for method_name, cases in facts.test_cases.items():
        yield "test suite", f"{method_name}: {plural(cases, 'call')} with expected results"


def _method_lines(method: MethodFacts, counts: Counts) -> Lines:
    yield "method", method.signature
    yield "", f"{plural(method.values, 'value')}, {plural(method.instructions, 'instruction')}"
    if method.operators:
        yield "", counts(method.operators)
    for backend, nbytes in method.delegates.items():
        yield "", f"delegate to {backend}: {size(nbytes)}"
    if any(method.arenas):
        yield "", f"memory plan: {', '.join(size(nbytes) for nbytes in method.arenas)}"


def _shown(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _NAMES_SHOWN
    text = ", ".join(listed[:_NAMES_SHOWN])
    return f"{text} and {more:,} more" if more > 0 else text
