"""A file as lines of text in which a comparison of lines finds what changed of the model.

Nothing of how the file is packed is in them: a model that is saved again has the same lines, as far
as its code has the same text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from tsarchive.analyses.encoding import Plain
from tsarchive.diffing.definitions import roles_of
from tsarchive.diffing.plain_values import as_written
from tsarchive.errors import ArchiveError
from tsarchive.fingerprinting import Readable, fingerprint_of, readable_contents, sha256_of
from tsarchive.formats.contents import Body, Contents, Definition, ModuleContent, Outline, Routine
from tsarchive.ir.names import unmangled_text

# Enough to tell tensors apart, and short enough for a line.
_DIGITS: Final = 16
_MOST_TEXT: Final = 1 << 14


def lines_of(path: str) -> Iterator[str]:
    """Yield the lines of a file of any kind; of one that cannot be read, its digest and why.

    Raises OSError where the path cannot be read.
    """
    try:
        with readable_contents(path) as found:
            lines = [*_lines(found)]
    except ArchiveError as error:
        with open(path, "rb") as stream:
            digest = sha256_of(stream)
        lines = [f"sha256 {digest}", f"no model that can be compared: {error.message}"]
    yield from lines


def _lines(found: Readable) -> Iterator[str]:
    contents = found.contents
    yield from _program(contents.outline)
    yield from _tensors(contents, fingerprint_of(contents, found.reading).tensors)
    yield from _extra_files(contents.extra_files)


def _program(outline: Outline) -> Iterator[str]:
    classes: dict[int, Definition] = {}
    for path, module in outline.modules.items():
        classes.setdefault(id(module.definition), module.definition)
        yield from _module(path, module)
    for definition in (*classes.values(), *outline.definitions):
        yield from _definition(definition)


def _module(path: str, module: ModuleContent) -> Iterator[str]:
    yield f"module {path or '(root)'}: {module.definition.name}".rstrip()
    for name, value in module.attributes.items():
        if not _is_tensor(value):
            yield f"  {name or 'value'} = {_value(value)}"


def _is_tensor(value: Plain) -> bool:
    """Return whether a value is told with the tensors."""
    return isinstance(value, Mapping) and "tensor" in value


def _definition(definition: Definition) -> Iterator[str]:
    yield ""
    yield f"{definition.traits.get('kind', 'class')} {definition.name}".rstrip()
    for name, trait in definition.traits.items():
        if name != "kind" and trait not in ([], ()):
            yield f"  {name}: {_value(trait)}"
    for name, slot in definition.attributes.items():
        yield f"  {name}: {_slot(slot)}"
    for name, constant in definition.constants.items():
        yield f"  {name} = {_value(constant)}"
    for name, routine in definition.routines.items():
        yield from _routine(name, routine)


def _slot(slot: Any) -> str:
    return ", ".join([str(slot[0]), *roles_of(slot)])


def _routine(name: str, routine: Routine) -> Iterator[str]:
    """Yield the text of a function or, where it has none, its operations."""
    lines = [unmangled_text(place.text) for place in routine.lines()]
    if not lines:
        yield f"  def {name}({_listed(routine.arguments)}) -> {_listed(routine.returns)}".rstrip()
        yield from (f"    {line}" for line in _body(routine.body))
        return
    indent = len(lines[0]) - len(lines[0].lstrip())
    for line in lines:
        yield f"  {line[indent:]}".rstrip()


def _body(body: Body) -> Iterator[str]:
    """Yield operations, whose inputs are constants and the numbers of values."""
    for operation in body.operations:
        named = [f"{name}={_value(value)}" for name, value in operation.attributes.items()]
        yield f"{operation.operator}({', '.join([*map(_value, operation.inputs), *named])})"
        for inner in operation.bodies:
            yield from (f"  {line}" for line in _body(inner))
    yield f"return {_listed(body.results)}".rstrip()


def _listed(values: Sequence[Plain]) -> str:
    return ", ".join(map(_value, values))


def _tensors(contents: Contents, digests: Mapping[str, str]) -> Iterator[str]:
    yield ""
    for name, tensor in contents.tensors.items():
        digest = digests[name].partition(":")[2][:_DIGITS]
        yield f"tensor {name}: {_meaning(tensor.meaning)} {digest}"


def _meaning(meaning: Any) -> str:
    kind, *rest = meaning
    told = [str(as_written(item)) for item in rest if item not in ([], ())]
    return " ".join(told if kind == "dense" else [kind, *told])


def _extra_files(files: Mapping[str, bytes]) -> Iterator[str]:
    for name, data in files.items():
        digest = hashlib.sha256(data).hexdigest()[:_DIGITS]
        yield f"extra file {name}: {len(data):,} bytes {digest}"
        yield from (f"  {line}" for line in _text(data).splitlines())


def _text(data: bytes) -> str:
    """Return the text of a file, "" for what is long or no text."""
    with suppress(UnicodeDecodeError):
        return data.decode() if len(data) <= _MOST_TEXT and b"\0" not in data else ""
    return ""


def _value(value: Plain) -> str:
    written = as_written(value)
    return written if isinstance(written, str) and not isinstance(value, str) else repr(written)
