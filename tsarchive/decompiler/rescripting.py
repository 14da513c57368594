"""A process that imports a decompiled package and lets torch.jit script its model.

``checking`` starts it with the path of a :class:`Request` as JSON. It writes what was scripted as
an archive, and as JSON what could not be. The package is code of a file, and runs here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import linecache
import re
import sys
import textwrap
import typing
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, TypeGuard

import torch

from tsarchive.adopt import torch_jit
from tsarchive.operators.upgraders import OLDER, OLDER_SCHEMAS
from tsarchive.saving import save

from .naming import ACCESSOR, STATE_METHODS

WHOLE: Final = ""
"""The name, among those that could not be scripted, of the model as a whole."""
_NAMES: Final = {shown: name for name, shown in STATE_METHODS.items()}
_OVERLOAD: Final = re.compile(r"(?P<operator>\btorch\.ops(?:\.\w+){2})\.\w+(?=\()")
_FOREIGN: Final = re.compile(r"\boperator\(\s*\"(?P<name>\w+::\w+)\",\s*\".*\",?\s*\)\(")
_TYPE_TEST: Final = re.compile(r"\btype\((?P<value>\w+)\) (?P<test>is|is not) (?P<type>\w+)\b")
_CHOSEN: Final = re.compile(r"\._modules\[str\((?P<key>[^()]+)\)\]")
_HANDLE: Final = re.compile(r"\b(?P<kind>Future)\[")
_FRAME: Final = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Request:
    """What to script: the folder of a ``package``, whose definitions ("module:name") have other
    ``names`` in the archive.

    What ``operators`` names stands for these, and its own code is not compiled. ``foreign`` are
    schemas of operators that are registered where no library has done so. ``methods`` are
    compiled although nothing may call them. What is scripted goes to the file ``archive``, and
    what could not be to ``failures``.
    """

    package: str
    names: Mapping[str, str]
    operators: Mapping[str, str]
    foreign: Sequence[str]
    methods: Sequence[str]
    archive: str
    failures: str

    def written(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class _Source:
    """A function of the package by its name in the archive, the lines where it stands, and the
    class that it is a method of."""

    name: str
    function: FunctionType
    file: str
    lines: range
    owner: type | None = None

    def is_at(self, file: str, line: int) -> bool:
        return self.file == file and line in self.lines


class _Rescripting:
    """Scripts the model of a package without the bodies that do not compile."""

    def __init__(self, request: Request, libraries: Sequence[Any]) -> None:
        self._request = request
        self._libraries = libraries  # whose operators are registered as long as these exist
        self._package = importlib.import_module(Path(request.package).name)
        self._definitions: dict[Any, str] = {}
        self._interfaces: dict[type, type] = {}
        self._functions = [*self._sources()]
        self._let_operators_stand()
        self._attempts = 0
        self._hidden: dict[str, str] = {}
        self._undeclared: set[str] = set()
        self.failures: dict[str, str] = {}

    def scripted(self) -> Any:
        """Return the scripted model, None where torch.jit refuses all of it."""
        model = self._package.load()
        constants = {each.__name__: _rewrite_for_compiler(each) for each in self._modules()}
        for module in model.modules():
            for name, value in constants.get(type(module).__module__, {}).items():
                setattr(module, name, value)
        for protocol in filter(_is_protocol, self._definitions):
            self._interfaces[protocol] = self._form_of(protocol, model)
        self._compile_methods_of_interfaces()
        hooks = [*_hooks_of(model)]
        for class_ in {type(module) for module in model.modules()}:
            _name_as_archive(class_)
        found = self._compiled(model)
        if found is None:
            return None
        # Methods that are compiled together do not know the defaults of each other: those that
        # others call are compiled when these are.
        for choose in (_uncalled, list):
            wanted = [each for each in self._left(model, found) if each.function not in hooks]
            for source in choose(wanted):
                torch_jit.compile_always(source.function)
            found = self._compiled(model) if wanted else found
        return self._with_constants(found)

    def _compile_methods_of_interfaces(self) -> None:
        """Let modules have the methods of interfaces, whether or not code calls them."""
        members = {name for protocol in self._interfaces for name in vars(protocol)}
        named = {name for name in members if not name.startswith("__")}
        for source in self._functions:
            is_of_module = source.owner is not None and issubclass(source.owner, torch.nn.Module)
            if is_of_module and source.function.__name__ in named:
                torch_jit.compile_always(source.function)

    def _left(self, model: torch.nn.Module, scripted: Any) -> Iterator[_Source]:
        """Yield the functions that are asked for and were not compiled when a model was."""
        compiled = set() if scripted is None else torch_jit.compiled_methods(model, scripted)
        asked = {*self._request.methods} - self.failures.keys()
        for source in self._functions:
            is_compiled = (source.owner, source.name.rpartition(".")[2]) in compiled
            if source.name in asked and not is_compiled:
                yield source

    def _with_constants(self, scripted: Any) -> Any:
        if scripted is not None:
            torch_jit.let_be_constants(scripted, _ATTRIBUTE)
        return scripted

    def _compiled(self, model: torch.nn.Module) -> Any:
        """Return a model with all methods that compile, None where torch.jit refuses all of it."""
        while WHOLE not in self.failures:
            self._attempts += 1
            try:
                return torch_jit.scripted(
                    model, self._definitions, self._interfaces, self._attempts
                )
            except Exception as error:
                if not self._exclude(error) and not self._hide(error):
                    self.failures[WHOLE] = _reason(error)
        return None

    def _named(self, place: str) -> Any:
        """Return what has a name ("module:name") in the package."""
        module, _, own = place.partition(":")
        return getattr(importlib.import_module(f"{self._package.__name__}.{module}"), own)

    def _let_operators_stand(self) -> None:
        """Let functions be taken for operators, but one that stands for several of other names."""
        meant: dict[Any, set[str]] = {}
        for place, operator in self._request.operators.items():
            form = torch_jit.special_forms().get(operator.rpartition(":")[2])
            if form is not None:
                _replace(self._named(place), form, self._modules())
                continue
            meant.setdefault(self._named(place), set()).add(operator.partition(".")[0])
        for function, operators in meant.items():
            if len(operators) == 1:
                torch_jit.stands_for(function, *operators)

    def _sources(self) -> Iterator[_Source]:
        """Note the definitions of the package, and yield their functions."""
        for place, name in self._request.names.items():
            found = self._named(place)
            if isinstance(found, type) and issubclass(found, Exception):
                found.__module__ = name.rpartition(".")[0]  # which torch.jit names it by
                continue
            # torch asserts that functions have the names that their text has.
            folder = name.rpartition(".")[0]
            is_function = isinstance(found, FunctionType)
            self._definitions[found] = f"{folder}.{found.__name__}" if is_function else name
            if isinstance(found, FunctionType):
                yield _source(name, found)
            if _is_protocol(found):
                continue
            _drop_accessors(found)
            for key, function in _methods(found):
                yield _source(f"{name}.{_NAMES.get(key, key)}", function, found)

    def _form_of(self, protocol: type, model: torch.nn.Module) -> type:
        """Return a protocol as torch.jit reads an interface."""
        number = len(self._interfaces)
        file = Path(self._request.archive).with_name(f"interface_{number}.py")
        is_module = any(
            typing.get_type_hints(type(owner)).get(name) is protocol
            for owner in model.modules()
            for name in owner._modules
        )
        text = _interface_text(protocol, is_module=is_module)
        made = ModuleType(file.stem)
        made.__file__ = str(file)
        sys.modules[made.__name__] = made
        names = vars(sys.modules[protocol.__module__])
        vars(made).update({name: names[name] for name in names if not name.startswith("__")})
        made.__dict__["Module"] = torch.nn.Module
        exec(_compiled(text, file), vars(made))
        form: type = vars(made)[protocol.__name__]
        return form

    def _exclude(self, error: Exception) -> bool:
        """Give the function where an error is a body that compiles; return whether there is one.

        Where its signature is what fails, nothing compiles it but for what calls it.
        """
        behind = (source for source in self._behind(error) if source.name not in self.failures)
        source = next(behind, None)
        if source is None:
            return False
        if source.name not in self._undeclared:
            self._undeclared.add(source.name)
            if _drop_declarations(source):
                return True
        self.failures[source.name] = self._told(error)
        return _without_body(source.function, self._stub())

    def _hide(self, error: Exception) -> bool:
        """Put what does not compile where a helper is that an error is in; return whether one is.

        Of a signature that does not compile torch tells no caller, as it does of a body.
        """
        modules = self._modules()
        for frame in _FRAME.finditer(str(error)):
            helper = _defined_at(frame["file"], int(frame["line"]), modules)
            if helper is not None:
                file = Path(self._request.archive).with_name(f"hidden_{len(self._hidden)}.py")
                self._hidden[str(file)] = _reason(error)
                _replace(helper, _not_compiled(helper.__name__, file), modules)
                return True
        return False

    def _modules(self) -> list[ModuleType]:
        """Return the modules of the package."""
        prefix = f"{self._package.__name__}."
        return [module for name, module in sys.modules.items() if name.startswith(prefix)]

    def _told(self, error: Exception) -> str:
        """Return the message of an error, that of a helper where this is hidden now."""
        frame = _FRAME.search(str(error))
        return self._hidden.get(frame["file"] if frame else "") or _reason(error)

    def _stub(self) -> Path:
        """Return the file for another function without its body."""
        return Path(self._request.archive).with_name(f"excluded_{len(self.failures)}.py")

    def _behind(self, error: Exception) -> Iterator[_Source]:
        """Yield the functions of the places that an error names, innermost first."""
        for frame in _FRAME.finditer(str(error)):
            place = frame["file"], int(frame["line"])
            yield from (source for source in self._functions if source.is_at(*place))


def _rewrite_for_compiler(module: ModuleType) -> Mapping[str, Any]:
    """Let torch.jit read code of a module as it takes it; return the attributes that are read.

    It chooses overloads by itself, and has no ``type``. Of tensors that are constants it only
    knows attributes.
    """
    file = str(module.__file__)
    text = _FOREIGN.sub(_registered, "".join(linecache.getlines(file)))
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    constants = {
        k: v for k, v in vars(module).items() if isinstance(v, torch.Tensor | torch.ScriptObject)
    }
    used: dict[str, Any] = {}
    for name, owner in reversed(_names_in_methods(b"".join(lines))):
        if name.id in constants:
            line, attribute = lines[name.lineno - 1], f"{_ATTRIBUTE}{name.id}"
            shown = f"{owner}.{attribute}".encode()
            lines[name.lineno - 1] = line[: name.col_offset] + shown + line[name.end_col_offset :]
            used[attribute] = constants[name.id]
    written = [_as_compiled(line.decode()) for line in lines]
    # Without a time of its own, this is what the file holds for those who read its lines.
    linecache.cache[file] = (0, None, written, file)
    return used


def _registered(match: re.Match[str]) -> str:
    """Return what begins the call of an operator in the place of ``operator(name, advice)(``."""
    lines = "\n" * match[0].count("\n")
    return f"torch.ops.{match['name'].replace('::', '.')}({lines}"


def _as_compiled(line: str) -> str:
    """Return a line as torch.jit takes it, whose isinstance goes by the very type."""

    def test(match: re.Match[str]) -> str:
        negation = "not " if match["test"] == "is not" else ""
        return f"{negation}isinstance({match['value']}, {match['type']})"

    line = _CHOSEN.sub(r"[\g<key>]", line)
    line = _HANDLE.sub(r"torch.jit.\g<kind>[", line)
    return _TYPE_TEST.sub(test, _OVERLOAD.sub(r"\g<operator>", line))


def _names_in_methods(text: bytes) -> list[tuple[ast.Name, str]]:
    """Return what the methods of classes name, in order, each with the name of the object."""
    classes = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    methods = (node for class_ in classes for node in class_.body)
    found = [
        (name, method.args.args[0].arg)
        for method in methods
        if isinstance(method, ast.FunctionDef) and method.args.args
        for name in ast.walk(method)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)
    ]
    return sorted(found, key=lambda pair: (pair[0].lineno, pair[0].col_offset))


_ATTRIBUTE: Final = "constant_in_code_"
"""What names of attributes begin with that stand for constants."""


def _methods(found: Any) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions of a class; those that enums and tuples inherit are torch's affair."""
    if isinstance(found, type) and not issubclass(found, tuple):
        for key, value in vars(found).items():
            function = value.__func__ if isinstance(value, staticmethod) else value
            if isinstance(function, FunctionType):
                yield key, function


def _drop_accessors(found: Any) -> None:
    """Take getters and setters of properties out of a class, which torch.jit makes by itself."""
    for name, value in list(vars(found).items()) if isinstance(found, type) else ():
        shown = getattr(vars(found).get(getattr(value, "__name__", "")), "fget", None)
        if ACCESSOR.fullmatch(name) and shown is not None:
            delattr(found, name)


def _name_as_archive(class_: type) -> None:
    """Give the methods of a class for states of modules the names that they have in archives."""
    for name, shown in STATE_METHODS.items():
        if shown in vars(class_):
            setattr(class_, name, vars(class_)[shown])
            delattr(class_, shown)


def _hooks_of(model: torch.nn.Module) -> Iterator[Any]:
    """Yield the functions that a model and those in it are called with."""
    for module in model.modules():
        for hook in (*module._forward_pre_hooks.values(), *module._forward_hooks.values()):
            yield getattr(hook, "__func__", hook)


def _uncalled(sources: Sequence[_Source]) -> Iterator[_Source]:
    """Yield the methods that none of the others names."""
    texts = [(source, inspect.getsource(source.function)) for source in sources]
    for source in sources:
        call = re.compile(rf"\.{re.escape(source.function.__name__)}\b")
        if not any(call.search(text) for other, text in texts if other is not source):
            yield source


def _drop_declarations(source: _Source) -> bool:
    """Take declarations out of a function whose values are not None; return whether it had any.

    Where ``x: T | None`` has a T, type checkers take it for a T, and torch.jit for a ``T | None``.
    """
    text = linecache.getlines(source.file)
    lines = [line.encode() for line in text]
    found = [node for node in ast.walk(ast.parse("".join(text))) if _is_declared_wide(node)]
    found = [node for node in found if node.lineno in source.lines]
    for node in found:
        line, note = lines[node.lineno - 1], node.annotation
        rest = line[note.end_col_offset :]
        lines[node.lineno - 1] = line[: node.target.end_col_offset] + b" " + rest.lstrip()
    linecache.cache[source.file] = (0, None, [line.decode() for line in lines], source.file)
    return bool(found)


def _is_declared_wide(node: ast.AST) -> TypeGuard[ast.AnnAssign]:
    match node:
        case ast.AnnAssign(annotation=ast.BinOp(right=ast.Constant(None)), value=value):
            is_plain = isinstance(value, ast.Constant | ast.List | ast.Dict | None)
            return not is_plain and node.lineno == node.annotation.end_lineno
    return False


def _defined_at(file: str, line: int, modules: Sequence[ModuleType]) -> Any:
    """Return the function or class that stands at a line of one of these modules, if any."""
    for module in modules:
        for value in vars(module).values() if module.__file__ == file else ():
            is_own = getattr(value, "__module__", None) == module.__name__
            if is_own and isinstance(value, type | FunctionType):
                lines, first = inspect.getsourcelines(value)
                if first <= line < first + len(lines):
                    return value
    return None


def _replace(value: Any, other: Any, modules: Sequence[ModuleType]) -> None:
    """Let all names of a value in these modules be those of another."""
    for module in modules:
        for name in [name for name, found in vars(module).items() if found is value]:
            setattr(module, name, other)


def _is_protocol(found: Any) -> bool:
    return getattr(found, "_is_protocol", False)


def _interface_text(protocol: type, *, is_module: bool) -> str:
    """Return the text of an interface: one of modules, which have a ``forward`` if any has."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(protocol))).body[0]
    assert isinstance(definition, ast.ClassDef)
    methods = [each for each in definition.body if isinstance(each, ast.FunctionDef)]
    is_module |= any(each.name == "forward" for each in methods)
    for method in methods:
        method.body = [ast.Pass()]
    definition.bases = [ast.Name("Module", ast.Load())] if is_module else []
    definition.body = [*methods]
    return f"from __future__ import annotations\n\n{ast.unparse(definition)}\n"


def _not_compiled(name: str, file: Path) -> Any:
    """Return a function of which torch.jit compiles the signature and not the body."""
    found: dict[str, Any] = {"__name__": file.stem}
    exec(_compiled(f"def {name}() -> int:\n    return not_compiled\n", file), found)
    return found[name]


def _compiled(text: str, file: Path) -> CodeType:
    """Return the code of a text, which stands in a file for those who read its lines."""
    file.write_text(text, encoding="utf-8")
    return compile(text, str(file), "exec", dont_inherit=True)


def _source(name: str, function: FunctionType, owner: type | None = None) -> _Source:
    lines, first = inspect.getsourcelines(function)
    return _Source(
        name, function, function.__code__.co_filename, range(first, first + len(lines)), owner
    )


def _without_body(function: FunctionType, file: Path) -> bool:
    """Let a function raise; return whether Python allows that."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.body = ast.parse("raise RuntimeError('not compiled')").body
    definition.decorator_list = []
    code = _compiled(ast.unparse(definition), file)
    try:
        function.__code__ = next(c for c in code.co_consts if isinstance(c, CodeType))
    except ValueError:  # it has variables of a function around it
        return False
    torch_jit.compile_when_called(function)
    return True


def _reason(error: Exception) -> str:
    """Return the message of an error of the compiler, and the line where it is."""
    text = str(error)
    frame = _FRAME.search(text)
    message = (text[: frame.start()] if frame else text).strip().splitlines() or [""]
    said = (
        f"{message[0].rstrip(':')}" if isinstance(error, RuntimeError) else _named(error, message)
    )
    return f"{said} | {_marked(text[frame.end() :])}" if frame else said


def _named(error: Exception, message: list[str]) -> str:
    return f"{type(error).__name__}: {message[0].rstrip(':')}"


def _marked(shown: str) -> str:
    """Return the line above the mark with which the compiler points at code."""
    lines = shown.splitlines()
    marks = (index for index, line in enumerate(lines) if line.endswith("<--- HERE"))
    return lines[max(next(marks, 1) - 1, 0)].strip()


def _older(request: Request) -> Iterator[Any]:
    """Register operators of older releases that the package has functions for."""
    library: Any = torch.library  # which has no types
    made = library.Library(OLDER, "FRAGMENT")
    for name in OLDER_SCHEMAS.keys() & {*request.operators.values()}:
        made.define(OLDER_SCHEMAS[name].partition("::")[2])
    yield made


def _foreign(request: Request) -> Iterator[Any]:
    """Register the operators that no library here has registered."""
    library: Any = torch.library
    forms: dict[str, list[str]] = {}
    for schema in request.foreign:
        name, _, rest = schema.partition("(")
        forms.setdefault(name, []).append(rest)
    for name, texts in forms.items():
        namespace, _, short = name.partition("::")
        if not torch_jit.has_operator(name):
            made = library.Library(namespace, "FRAGMENT")
            for number, rest in enumerate(texts):
                made.define(f"{short}{f'.form_{number}' if number else ''}({rest}")
            yield made


def main(path: str) -> None:
    """Script the package of a request, and write an archive and what could not be scripted."""
    request = Request(**json.loads(Path(path).read_text(encoding="utf-8")))
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path(request.package).parent))
    found = _Rescripting(request, [*_older(request), *_foreign(request)])
    scripted = found.scripted()
    if scripted is not None:
        save(scripted, request.archive)
    Path(request.failures).write_text(json.dumps(found.failures), encoding="utf-8")
