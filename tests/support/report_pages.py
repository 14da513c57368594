"""What tests of pages share: a strict reader of HTML, and files with hostile names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

from fixtures.executorch_samples import (
    EXTERNAL,
    kernel,
    number,
    plan,
    program,
    tensor,
)
from fixtures.executorch_samples import instructions as chain

VOID = {"meta", "input", "br", "col"}
HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "a\u202egnp.exe",
    "<!--",
    "]]>&lt;\u2028\x00\x1b[31m",
    "\ud800",
)


@dataclass
class Element:
    name: str
    attributes: dict[str, str | None]
    parent: Element | None
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def walk(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            yield from child.walk()

    def all(self, name: str, class_: str | None = None) -> list[Element]:
        found = [element for element in self.walk() if element.name == name]
        return [e for e in found if class_ is None or class_ in (e["class"] or "").split()]

    def one(self, name: str, class_: str | None = None) -> Element:
        (found,) = self.all(name, class_)
        return found

    def by_id(self, id_: str) -> Element:
        (found,) = [element for element in self.walk() if element["id"] == id_]
        return found

    def __getitem__(self, attribute: str) -> str | None:
        return self.attributes.get(attribute)


class _Reader(HTMLParser):
    """Every end tag must close the element that is open, and each attribute stand once."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {}, None)
        self.open = self.root
        self.comments: list[str] = []

    def handle_starttag(self, tag, attrs):
        self._start(tag, attrs)
        if tag not in VOID:
            self.open = self.open.children[-1]

    def handle_startendtag(self, tag, attrs):
        self._start(tag, attrs)

    def _start(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.open.children.append(Element(tag, dict(attrs), self.open))

    def handle_endtag(self, tag):
        assert tag == self.open.name, f"</{tag}> closes <{self.open.name}>"
        self.open = self.open.parent

    def handle_data(self, data):
        element = self.open
        while element is not None:
            element.texts.append(data)
            element = element.parent

    def handle_comment(self, data):
        self.comments.append(data)


def read(html: str) -> Element:
    """The document. Fails where it is not well-formed."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open is reader.root, f"<{reader.open.name}> is not closed"
    assert not reader.comments
    return reader.root


def data_of(page: Element):
    """What the script of the page is given."""
    return json.loads(page.by_id("page-data").text)


def hostile_program() -> bytes:
    """A program whose names are meant to end what they stand in."""
    first, second, third, fourth, fifth, _ = HOSTILE
    values = [
        tensor([2], at=(1, 0)),
        number(1),
        tensor([2], at=(1, 16)),
        tensor([2], extra_tensor_info={"fully_qualified_name": second, "location": EXTERNAL}),
    ]
    frames = [{"items": [{"filename": third, "lineno": 3, "name": fourth, "context": fifth}]}]
    made = plan(
        first,
        values=values,
        inputs=[0],
        outputs=[2],
        operators=[{"name": f"aten::{second}", "overload": third}],
        chains=chain(kernel(0, 0, 3, 1, 2, 2), stacktrace=frames),
        non_const_buffer_sizes=[0, 32],
    )
    return program({"execution_plan": [made], "named_data": [{"key": fifth, "segment_index": 0}]})


def program_with_a_view() -> bytes:
    """``y = relu(view(relu(x)))``, whose view no instruction makes."""
    values = [tensor([4], at=(1, 0)), tensor([4], at=(1, 16)), tensor([2, 2], at=(1, 16)),
              tensor([2, 2], at=(1, 32))]  # fmt: skip
    made = plan(
        "forward",
        values=values,
        inputs=[0],
        outputs=[3],
        operators=[{"name": "aten::relu", "overload": "out"}],
        chains=chain(kernel(0, 0, 1, 1), kernel(0, 2, 3, 3)),
        non_const_buffer_sizes=[0, 64],
    )
    return program({"execution_plan": [made]})
