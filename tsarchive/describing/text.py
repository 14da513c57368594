"""Numbers, names and hints as people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

_METHODS = {0: "stored", 8: "deflated", 9: "deflate64"}
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")

Lines: TypeAlias = Iterator[tuple[str, str]]
"""Labels and texts; an empty label continues the line before."""

NAMES_SHOWN: Final = 12
OPERATORS_SHOWN: Final = 12

LAYOUT = "\n\t"
"""The control characters that lay out lines of source."""


def size(nbytes: int) -> str:
    """``1.4 MiB``; exact below 1 KiB."""
    amount, unit = float(nbytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{nbytes} bytes"


def duration(seconds: float) -> str:
    """Milliseconds below one second, with thousandths below one of them."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.{1 if seconds >= 1e-3 else 3}f} ms"


def shape(sizes: Sequence[int]) -> str:
    """``1x3x64x64``; ``scalar`` for a tensor without dimensions."""
    return "x".join(map(str, sizes)) or "scalar"


def method_name(method: int) -> str:
    """Return a zip compression method in words."""
    return _METHODS.get(method, f"method {method}")


def plural(number: int, noun: str) -> str:
    """``1 class``, ``2 classes``."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def listed(names: Sequence[str], most: int) -> str:
    """``a, b and 3 more``: the first names, and the number of the others."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")


def counts_text(counts: Mapping[str, int], shown: int | None = None) -> str:
    """``aten::conv2d 20, aten::relu 17 and 3 more``, largest first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{name} {count:,}" for name, count in ordered]
    return listed(texts, len(texts) if shown is None else shown) or "none"


def named(label: str, hints: Mapping[str, str], nothing: str) -> Lines:
    """Yield names under a label; those with the same hint together, and the hint below them."""
    if not hints:
        yield label, nothing
    for hint in dict.fromkeys(hints.values()):
        yield label, ", ".join(name for name, other in hints.items() if other == hint)
        yield "", hint
        label = ""


def visible(text: str, *, keep: str = "\n") -> str:
    """Return the text with escapes in place of what a terminal would act on.

    Names and source come from the file, which may not be friendly.
    """
    if text.isprintable() or text.translate(dict.fromkeys(map(ord, keep))).isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text
    )


def escaped(data: bytes) -> str:
    """Return bytes as ASCII text with escapes."""
    return ascii(data)[2:-1]


def as_json(value: Any) -> Any:
    """Return a value in the forms that JSON has.

    A dataclass becomes an object of its fields, a member of an enumeration its value, and bytes
    ASCII text with escapes. NaN, infinities and complex numbers, which JSON lacks, become strings.
    """
    from dataclasses import fields, is_dataclass

    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return escaped(value)
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value


_NAME = r"'[^']*'|\"[^\"]*\""
# What the library says, and what stands for it; "\1" is the name or number in it.
_WORDS: Final = (
    (r"run 'import ([\w.]+)' first", r"give --import \1"),
    (
        r"import that library first, or load its file with torch\.ops\.load_library",
        "give --import with its name, or with the path of its file",
    ),
    (
        r"load the library of that backend with torch\.ops\.load_library",
        "give --import with the path of the library of that backend",
    ),
    (r"policy=Policy\.trusted\(\)", "--trust"),
    (rf"model=({_NAME})", r"--model \1"),
    (rf"map_location=({_NAME})", r"--map-location \1"),
    (r"force=True", "--force"),
    (r"canonical=True", "--canonical"),
    (r"Limits\((?:n(?=bytes))?(\w+)=\.\.\.\)", r"--max-\1"),
    (r"with tsarchive\.RemoteLimits\(requests=(\d+)\)\.in_force\(\): \.\.\.", r"--max-requests \1"),
    (r"with tsarchive\.RemoteLimits\(nbytes=(\d+)\)\.in_force\(\): \.\.\.", r"--max-fetched \1"),
    (r"them as args and kwargs", "INPUTS, --arg or --random, as to 'tsarchive run'"),
    (r"the argument args", "INPUTS, --arg and --random"),
    (r"the argument backends", "--backend"),
    (r"the argument dynamic_shapes", "--dynamic"),
    (r"the argument map_location", "--map-location"),
    (r"the argument for_torch", "--for-torch"),
    (r"the argument debug", "--no-debug"),
    (r"the argument (\w+)", r"--\1"),
    (r"args, kwargs and dynamic_shapes", "INPUTS, --arg, --random and --dynamic"),
)
_RUNS_HERE: Final = "they run here; for torch.jit: tsarchive convert old.pt new.pt"
_ALLOWING: Final = r"policy=Policy\.default\(\)\.allow\(([^)]*)\)"
_ALLOWED: Final = r'"([^"]*)"'


def in_commands(hint: str) -> str:
    """Translate a hint for the command line."""
    for pattern, words in _WORDS:
        hint = re.sub(pattern, words, hint)
    return re.sub(_ALLOWING, _options, hint)


def _options(allowing: re.Match[str]) -> str:
    from shlex import quote

    return " ".join(f"--allow {quote(name)}" for name in re.findall(_ALLOWED, allowing[1]))


def advice(name: str) -> str:
    """Advise on an operator or torchbind class that does not come with torch."""
    from tsarchive.ir.names import NATIVE_PREFIX
    from tsarchive.operators.libraries import what_registers

    hint = what_registers(name if "::" in name else f"{NATIVE_PREFIX}{name}")
    return in_commands(hint)


def advice_if_removed(name: str) -> str | None:
    """Advise on an operator or torchbind class that torch removed; None for one that it has."""
    from tsarchive.ir.names import NATIVE_PREFIX
    from tsarchive.operators.libraries import last_with
    from tsarchive.operators.removed import defined_classes, is_removed, removed

    if "::" not in name:
        return _RUNS_HERE if f"{NATIVE_PREFIX}{name}" in defined_classes() else None
    if not is_removed(name):
        return None
    overloads = removed(name)
    if any(overload.upgrader for overload in overloads):
        return _RUNS_HERE
    return f"what calls them is refused here; {last_with(overloads[0].schema)}"
