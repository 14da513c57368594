"""Tracebacks that name the user's source: file and line that archive code was compiled from.

Behind each frame of generated code stands one more entry, for the line of user source that the
archive's debug records tell. Generated frames stay, so that a debugger finds their variables;
frames of the runner itself go.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from tsarchive.ir.names import to_identifier

if TYPE_CHECKING:
    from tsarchive.ir.classes import Function
    from tsarchive.ir.graph import Placed
    from tsarchive.ir.source_ranges import Location

PLACES: Final = "__tsarchive_places__"
"""The global of generated code that holds the place of each of its lines, from line 1 on."""

FUNCTION: Final = "__tsarchive_function__"
"""The global of generated code that holds the qualified name of the function."""

LAYERS: Final = "__tsarchive_layers__"
"""The global of generated code that has the method whose operator each of some lines runs."""

GENERATED: Final[WeakValueDictionary[str, Callable[..., Any]]] = WeakValueDictionary()
"""The functions of generated code, by the file names that tracebacks have for them."""

# A frame of generated code in the text of a stack, with the line of code below it.
_GENERATED_FRAME: Final = re.compile(
    r'^ *File "(<tsarchive [^"\n]*>)", line (\d{1,9}), in (.*)(?:\n {4,}.*)*', re.MULTILINE
)
_UNKNOWN: Final = "<unknown>"
# No source has more lines, but an archive may claim so.
_MOST_LINES: Final = 200_000
# Our entries in linecache.
_shown: Final[dict[str, tuple[int, None, list[str], str]]] = {}
_IS_ORIGIN: Final = "__tsarchive_origin__"
_RUNNER: Final = __name__.rpartition(".")[0]
_PACKAGE: Final = f"{__name__.partition('.')[0]}."
# Operators that are Python functions, of whatever format.
_NATIVES: Final = ".natives."
# These stand between generated code and an operator, or run it.
_OF_OPERATORS: Final = tuple(
    f"{_RUNNER}.{name}"
    for name in (
        "checks", "costs", "guards", "layer_checks", "metering", "modules", "packed", "slots",
        "tensor_checks",
    )
)  # fmt: skip


_are_told: Final = ContextVar("_are_told", default=True)


@contextmanager
def without_origins() -> Iterator[None]:
    """Leave tracebacks as they are, for many calls of which some fail: finding lines takes longer
    than most calls."""
    token = _are_told.set(False)
    try:
        yield
    finally:
        _are_told.reset(token)


def with_origins(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback with lines of user source; the same where no archive code takes part."""
    if not _are_told.get():
        return traceback
    entries = list(_entries(traceback))
    if not any(PLACES in entry.tb_frame.f_globals for entry in entries):
        return traceback
    found: TracebackType | None = None
    for position in reversed(range(len(entries))):
        entry = entries[position]
        if str(entry.tb_frame.f_globals.get("__name__", "")).startswith(_RUNNER):
            continue
        is_told = position + 1 < len(entries) and _is_origin(entries[position + 1].tb_frame)
        for name, origin in () if is_told else _origins(entry):
            if 0 < origin.line <= _MOST_LINES:
                found = _entry_at(origin, name, found)
        found = TracebackType(found, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return found


def _origins(entry: TracebackType) -> Iterator[tuple[str, Location]]:
    """Functions of user source and their lines behind an entry, the innermost first.

    These are several where a line runs the operator of a layer in place of its method.
    """
    frame = entry.tb_frame
    return _origins_at(frame.f_globals, entry.tb_lineno, frame.f_code.co_name)


def _origins_at(
    namespace: Mapping[str, Any], line: int, function: str
) -> Iterator[tuple[str, Location]]:
    """The same for a line of a function, in the namespace of its generated code."""
    method = namespace.get(LAYERS, {}).get(line)
    if method is not None:
        yield from _origins_within(method.call.function)
    origin = _origin(_place(namespace, line))
    if origin is not None:
        yield function, origin


def _origins_within(method: Function) -> Iterator[tuple[str, Location]]:
    """Functions of user source on the way from a method to its one operator, the last first."""
    from .passes.layers import layer_of  # few errors are those of layers

    layer = layer_of(method)
    for function, node in reversed(layer.steps if layer is not None else ()):
        range_ = None if node.place is None else node.place.range
        if range_ is not None and range_.location is not None:
            yield to_identifier(function.name).strip("_"), range_.location


def origin_of(frame: FrameType, line: int) -> Location | None:
    """The line of user source behind a line of generated code; None where nothing tells."""
    return _origin(_place(frame.f_globals, line))


def _origin(place: Placed | None) -> Location | None:
    range_ = None if place is None else place.range
    return None if range_ is None else range_.location


def caller_origin() -> Location | None:
    """The line of user source of the innermost call by archive code, such as that of a hook."""
    frame = _calling_frame()
    return None if frame is None else origin_of(frame, frame.f_lineno)


def calling_place() -> str | None:
    """The place of the innermost call by archive code, as :func:`place_of_frame` tells it."""
    frame = _calling_frame()
    return None if frame is None else place_of_frame(frame)


def calling_origin() -> Location | None:
    """The line of user source behind that call; None where nothing tells."""
    frame = _calling_frame()
    return None if frame is None else origin_of(frame, frame.f_lineno)


def place_of_error(error: BaseException) -> str | None:
    """The place of the innermost line of archive code that an error passed; None without one."""
    for entry in reversed([*_entries(error.__traceback__)]):
        if PLACES in entry.tb_frame.f_globals:
            return place_of_frame(entry.tb_frame, entry.tb_lineno)
    return None


def _calling_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and PLACES not in frame.f_globals:
        frame = frame.f_back
    return frame


def _place(namespace: Mapping[str, Any], line: int) -> Placed | None:
    places: Sequence[Placed | None] = namespace.get(PLACES, ())
    return places[line - 1] if 0 < line <= len(places) else None


def origin_of_error(error: BaseException) -> Location | None:
    """The line of user source behind that innermost line; None where nothing tells."""
    for entry in reversed([*_entries(error.__traceback__)]):
        if PLACES in entry.tb_frame.f_globals:
            return origin_of(entry.tb_frame, entry.tb_lineno)
    return None


def place_of_frame(frame: FrameType, line: int | None = None) -> str:
    """The function of the archive whose generated code a frame runs, and where it stands in it.

    The line is that of user source, or of the code record where the archive does not tell. It is
    the one that runs now unless ``line`` is given.
    """
    at = frame.f_lineno if line is None else line
    shown = origin_of(frame, at) or _place(frame.f_globals, at)
    name = str(frame.f_globals[FUNCTION])
    return name if shown is None else f"{name}, {shown}"


def is_of_operator(traceback: TracebackType | None) -> bool:
    """Return whether an operator that archive code called raised, not code of the user."""
    frames = [entry.tb_frame for entry in _entries(traceback)]
    outside = [frame for frame in frames if not _is_within_operator(frame)]
    return bool(outside) and PLACES in outside[-1].f_globals


def _is_within_operator(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    is_native = name.startswith(_PACKAGE) and _NATIVES in f"{name}."
    return is_native or name == "torch._ops" or name.startswith(_OF_OPERATORS)


def with_user_lines(stack: str) -> str:
    """Return the text of a stack, as torch.export records it, with lines of user source.

    They stand behind the frames of generated code of archives that are still loaded, as in
    tracebacks. Text without such frames stays as it is.
    """
    return _GENERATED_FRAME.sub(_with_origins_of, stack)


def _with_origins_of(frame: re.Match[str]) -> str:
    function = GENERATED.get(frame[1])
    namespace = {} if function is None else function.__globals__
    origins = reversed([*_origins_at(namespace, int(frame[2]), frame[3])])
    return "\n".join([frame[0], *(_frame_text(name, origin) for name, origin in origins)])


def _frame_text(function: str, origin: Location) -> str:
    head = f'  File "{origin.filename or _UNKNOWN}", line {origin.line}, in {function}'
    return f"{head}\n    {origin.text}" if origin.text else head


def innermost_origin(error: BaseException) -> Location | None:
    """The last line of user source that the traceback of an error names; None without one."""
    frames = [e for e in _entries(error.__traceback__) if _is_origin(e.tb_frame)]
    if not frames:
        return None
    found: Location = frames[-1].tb_frame.f_globals[_IS_ORIGIN]
    return found


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_origin(frame: FrameType) -> bool:
    return _IS_ORIGIN in frame.f_globals


def _entry_at(origin: Location, function: str, after: TracebackType | None) -> TracebackType:
    _show(origin)
    filename = (origin.filename or _UNKNOWN).replace("\0", "\\0")
    code = _raising(filename, origin.line, function)
    try:
        exec(code, {_IS_ORIGIN: origin, "Exception": Exception})
    except Exception as error:
        *_, raised = _entries(error.__traceback__)
    frame = raised.tb_frame
    return TracebackType(after, frame, frame.f_lasti, origin.line)


@lru_cache(maxsize=256)
def _raising(filename: str, line: int, function: str) -> CodeType:
    """Code that raises on that line, without columns: the text of the line is not known."""
    nowhere: dict[str, Any] = {
        "lineno": line, "end_lineno": line, "col_offset": -1, "end_col_offset": -1,
    }  # fmt: skip
    error = ast.Name("Exception", ast.Load(), **nowhere)
    module = ast.Module([ast.Raise(error, None, **nowhere)], [])
    return compile(module, filename, "exec").replace(co_name=function)


def _show(origin: Location) -> None:
    """Let tracebacks show the recorded text of a line.

    They would open the file, whatever the archive names: that is for sources only that this
    process has imported, or can. Whoever asks for those gets what is in the file.
    """
    filename = origin.filename or _UNKNOWN
    known, ours = linecache.cache.get(filename), _shown.get(filename)
    if known is not ours:
        ours = None
    if ours is not None and ours[2][origin.line - 1 : origin.line] == [f"{origin.text}\n"]:
        return
    if _is_imported(filename) or _is_importable(filename):
        return
    if known is not None and ours is None:
        return  # what others have recorded under this name stays
    lines = [] if ours is None else list(ours[2])
    lines += ["\n"] * (origin.line - len(lines))
    lines[origin.line - 1] = f"{origin.text}\n"
    entry = (sum(map(len, lines)), None, lines, filename)
    linecache.cache[filename] = _shown[filename] = entry


def _is_imported(filename: str) -> bool:
    modules = list(sys.modules.values())
    is_source = any(getattr(module, "__file__", None) == filename for module in modules)
    return is_source and os.path.exists(filename)


def _is_importable(filename: str) -> bool:
    """Return whether it is Python source below a folder that this process imports from."""
    if not filename.endswith(".py"):
        return False
    named = os.path.abspath(filename)
    folders = (os.path.join(os.path.abspath(folder), "") for folder in sys.path)
    return named.startswith(tuple(folders)) and os.path.exists(named)
