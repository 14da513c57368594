"""Validity of record names, and the root folder derived from an archive's path."""

from __future__ import annotations

import re

# No file system takes a longer path, and no writer of archives makes one.
MAX_NAME_BYTES = 4096

# Prefixes that leave the folder that a name is joined to, on any system.
_BAD_STARTS = (
    (r"[/\\]", "is an absolute path"),
    (r"[A-Za-z]:", "begins with a drive letter"),
)
# Patterns here are compiled for the few names that are not plain.
_STEP_OUT = r"(?:\A|[/\\])\.\.(?:[/\\]|\Z)"
# Characters that tools cut or hide: controls, line ends, changes of text direction.
_HIDDEN = r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]"


def is_plain(name: str) -> bool:
    """Return whether a quick check shows that the name is valid and folds to its lower case."""
    return (
        0 < len(name) <= MAX_NAME_BYTES
        and name.isascii()
        and name.isprintable()
        and name[0] not in "/."
        and name[1:2] != ":"
        and name[-1] != "/"
        and not ("\\" in name or "//" in name or "/." in name or ".." in name)
    )


def _may_hide(name: str) -> bool:
    """Return whether a name may hold characters that tools cut or hide; ASCII ones then do."""
    return not (name.isascii() and name.isprintable())


def name_problem(name: str) -> str | None:
    """Return the problem with a name as the predicate of a sentence, None for a valid name."""
    if _may_hide(name) and re.search(_HIDDEN, name):
        return "holds a control character"
    if ".." in name and re.search(_STEP_OUT, name):
        return "steps out of its folder with '..'"
    try:
        size = len(name) if name.isascii() else len(name.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode text"
    if size > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    return start_problem(name)


def start_problem(name: str) -> str | None:
    """Return the problem with the beginning of a name, in the form of ``name_problem``."""
    return next((problem for start, problem in _BAD_STARTS if re.match(start, name)), None)


_NOT_NORMAL = r"\\|//|(?:\A|/)\.(?:/|\Z)|/\Z"


def fold_name(name: str) -> str:
    """Fold names that some reader or file system takes for the same to one text.

    Letter case does not count (torch's own reader ignores it), nor do the kind of slash, empty and
    ``.`` components, and how accents are composed.
    """
    may_fold = "\\" in name or "//" in name or "./" in name or name.endswith(("/", "."))
    if may_fold and re.search(_NOT_NORMAL, name):
        parts = name.replace("\\", "/").split("/")
        name = "/".join(part for part in parts if part not in ("", "."))
    if name.isascii():
        return name.lower()
    from unicodedata import normalize

    return normalize("NFC", normalize("NFD", name).casefold())


def shown(name: str) -> str:
    """Return a name in printable form: no control characters or lone surrogates, bounded length."""
    if len(name) > MAX_NAME_BYTES:
        name = f"{name[:MAX_NAME_BYTES]}..."
    if not _may_hide(name):
        return name
    name = re.sub(_HIDDEN, lambda found: ascii(found[0])[1:-1], name)
    return name.encode("utf-8", "backslashreplace").decode()


_QUOTED_CHARACTERS = 100


def quoted(name: str) -> str:
    """Return the beginning of a name, quoted for a message."""
    if len(name) > _QUOTED_CHARACTERS:
        name = f"{name[:_QUOTED_CHARACTERS]}..."
    return repr(name)


def root_of_path(path: str) -> str:
    r"""Return the root folder of an archive saved to ``path``, as torch derives it.

    The last component, ``/`` and ``\`` both being separators, without the part after its last dot:
    ``out/net.v2.pt`` has the root ``net.v2``. May be empty (``.hidden``).
    """
    base = re.split(r"[/\\]", path)[-1]
    return base.rpartition(".")[0] if "." in base else base
