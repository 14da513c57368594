"""The summary of a value as indented lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tsarchive.describing.text import shape


def lines(label: str, document: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Lines for a document of ``values.summary``, one per tensor, scalar and container."""
    kind = document["type"]
    if kind == "tensor":
        yield f"{indent}{label}: {_tensor(document)}"
        return
    parts = _parts(document)
    if parts is None:
        shown = repr(document["value"]) if "value" in document else document["text"]
        yield f"{indent}{label}: {kind} {shown}" if kind != "NoneType" else f"{indent}{label}: None"
        return
    yield f"{indent}{label}: {document.get('name', kind)} of {len(parts)}"
    for name, part in parts:
        yield from lines(name, part, indent + "  ")


def _parts(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]] | None:
    """The named parts of a container; None when it is none."""
    if "fields" in document:
        return list(document["fields"].items())
    if "items" not in document:
        return None
    if document["type"] == "dict":
        return [(repr(item["key"]), item["value"]) for item in document["items"]]
    return [(str(index), item) for index, item in enumerate(document["items"])]


def _tensor(document: dict[str, Any]) -> str:
    text = f"{document['dtype']} {shape(document['shape'])}"
    if document["device"] != "cpu":
        text += f" on {document['device']}"
    if document["mean"] is not None:
        text += f", min {_number(document['min'])}, mean {_number(document['mean'])}"
        text += f", max {_number(document['max'])}"
    first = ", ".join(map(_number, document["first"]))
    more = ", ..." if _elements(document["shape"]) > len(document["first"]) else ""
    return f"{text}, values [{first}{more}]"


def _elements(sizes: list[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
