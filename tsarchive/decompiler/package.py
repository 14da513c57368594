"""An archive as a package of Python modules: its files, and the bodies of its definitions."""

from __future__ import annotations

import ast
import dataclasses
import io
import keyword
import os
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO

import torch

from tsarchive.container.opening import open_source
from tsarchive.describing.text import plural
from tsarchive.describing.written import releases_of
from tsarchive.errors import CallError, UnsupportedError
from tsarchive.formats.base import LoadOptions, OpenedArchive
from tsarchive.formats.registry import opened_zip, zip_format
from tsarchive.formats.torchscript.tensors import given_device
from tsarchive.ir.classes import ClassType, Function, InterfaceType
from tsarchive.ir.constants import GeneratorSeed
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import (
    ANY,
    EnumType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    annotation,
)
from tsarchive.policy import Guard, Policy
from tsarchive.remote import is_url, located
from tsarchive.renaming import renamed, renamed_fields
from tsarchive.reports import Report
from tsarchive.run.modules import ArchiveModule
from tsarchive.run.slots import SHARED_SLOTS
from tsarchive.steps import Step, no_step

from . import syntax
from .control_flow import EXCEPTIONS, finish_function
from .copied_natives import runtime_module
from .declaring import declare
from .formatting import formatted
from .layout import Comments, Definition, Layout, Module, make_paths_unique, written
from .libraries import LibraryModules
from .naming import (
    OF_CONTAINERS,
    Members,
    Pool,
    container_base,
    identifier,
    is_plain,
    members_of,
    method_name,
)
from .objects import Instances, ObjectValues, TensorFile
from .program import CONSTANTS, Program, shown_type
from .syntax import HELPERS, OBJECTS, WEIGHTS, reference_of
from .translation import Translation

if TYPE_CHECKING:
    from .checking import CodeCheck

_SUPPORT = Path(__file__).parent / "support"
_MODEL = "_model"
_LOAD = "load"
_SMALL = 16
_FITTING = (torch.float32, torch.float64, torch.int64, torch.int32, torch.bool)
_LOAD_TEXT = (
    "The model. Its tensors and those of ``_constants`` go to ``device``; the code stays as it is."
)
_TABLES = (CONSTANTS, EXCEPTIONS, OBJECTS, WEIGHTS, HELPERS, _MODEL, "weights", "__init__")


@renamed_fields(directory="out")
@dataclass(frozen=True, slots=True, repr=False)
class DecompileReport(Report):
    """The files that :func:`decompile` wrote. ``root`` is the class of the model: the name that
    ``out`` has it under, or its qualified name where it is of a library.

    ``untranslated`` names calls of operators that Python cannot run, with the function that holds
    them: they raise RuntimeError when they are reached. ``libraries`` gives, by the names of
    operators and classes that were not registered here, what registers them: the package looks for
    them where it runs. ``definitions`` leads from classes and functions of the package
    ("module:name") to their qualified names in the archive, and ``operators`` from functions that
    the package brings along to the operators that they stand for. ``copies`` counts the modules
    that are named after a class of a library, but not proven to be of it: their classes are in the
    package, as the archive has them. ``check`` is set where one was asked for.

        >>> done = tsarchive.decompile("net.pt", "source")
        >>> done.root, done.untranslated
        (..., ())
    """

    _COLUMNS = "file", "nbytes"

    out: str
    root: str
    files: tuple[WrittenFile, ...]
    untranslated: tuple[str, ...] = ()
    libraries: Mapping[str, str] = dataclasses.field(default_factory=dict)
    definitions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    operators: Mapping[str, str] = dataclasses.field(default_factory=dict)
    copies: Mapping[str, int] = dataclasses.field(default_factory=dict)
    check: CodeCheck | None = None

    @property
    def copied(self) -> str:
        """A sentence about the ``copies``; "" without any."""
        if not self.copies:
            return ""
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.copies.items()))
        return f"layers that stay the archive's code, as docs/library-modules.md says: {counts}"

    @property
    def ok(self) -> bool:
        """Whether a check was not asked for, or found all code again."""
        return self.check is None or self.check.same

    def _headline(self) -> str:
        checked_ = "" if self.check is None else f"; {self.check._headline()}"
        return f"{self.out}: {self.root} in {plural(len(self.files), 'file')}{checked_}"

    def _rows(self) -> Sequence[Sequence[object]]:
        return [(file.name, file.nbytes) for file in self.files]


@renamed(directory="out")
def decompile(
    f: str | os.PathLike[str] | BinaryIO,
    out: str | os.PathLike[str],
    *,
    force: bool = False,
    full_paths: bool = False,
    map_location: str | torch.device | None = None,
    policy: Policy | None = None,
    step: Step | None = None,
    check: bool = False,
    imports: Sequence[str] = (),
) -> DecompileReport:
    """Write the archive ``f`` as a Python package that needs torch alone.

    ``out`` becomes a package with the classes of the archive, its weights, and ``load``,
    which gives the model as an ``nn.Module``. Comments name lines of the original program that the
    code differs from, with the names of files or, with ``full_paths``, whole paths.
    ``force`` allows a directory that is not empty; files of other names stay there. ``step`` is
    called with what is being done.

    Devices in the code stay as they are in the file, whether this machine has them or not; with
    ``map_location`` they move as :func:`tsarchive.load` moves them. The weights are written
    without a device: ``load`` puts them on the CPU, or on ``map_location``, or where it is told.

    ``policy`` is what code may reach that runs while the archive is loaded, as for
    :func:`tsarchive.load`. The package is plain Python, which no policy holds back: read what it
    calls before you run that of a stranger.

    With ``check``, a process of its own imports the package and lets torch.jit script the model;
    the report's ``check`` tells which methods have the code of the archive again. That process runs
    the package, as whoever imports it does, and before that imports what ``imports`` names:
    modules, or paths of shared libraries, that register operators.

    What differs from TorchScript: ints are Python's and do not wrap at 2**63, but in functions
    that compute with large ones (constants beyond 32 bits or factors beyond 24, left shifts, a
    value that a loop or an attribute carries and that grows in it by factors), and in those that
    get such values from them.
    ``int``, ``floor`` and ``ceil`` of a float, ``int`` of a tensor, and ``abs`` are Python's, and
    raise or give larger ints for what 64 bits do not hold. ``x[i] = number`` raises where a tensor
    of ints does not hold the number, of which TorchScript keeps the low bits. Faults are Python's
    exceptions. Arguments are not converted.

    Raises ArchiveError where the archive cannot be loaded, UnsupportedError for what has no
    Python form, CallError for a directory that is not empty or that no package can be in, and
    for a ``map_location`` that is no device; OSError when nothing can be written.

        >>> done = tsarchive.decompile("net.pt", "source", force=True)
        >>> sorted(file.name for file in done.files)[0]
        '__init__.py'
    """
    target = _destination(out, force=force)
    device = given_device(map_location)
    if check and not isinstance(f, str | os.PathLike):  # which is read twice
        f = io.BytesIO(bytes(open_source(f).data))
    tell = step or no_step
    tell("reading")
    guard = Guard(policy or Policy.default())
    root, about = _read(f, device, guard)
    tell(f"comparing {sum(1 for _ in root.modules())} modules with torch.nn")
    package = _Package(root, device, about, full_paths=full_paths)
    tell("translating")
    files = package.files()
    tell("writing")
    untranslated = tuple(package.program.untranslated)
    written_files = _written(target, files)
    report = DecompileReport(
        str(out), package.root_name, written_files, untranslated,
        package.program.libraries, package.definitions, package.operators,
        package.program.modules_of_libraries.copies,
    )  # fmt: skip
    if not check:
        return report
    tell("scripting")
    from .checking import checked

    if not isinstance(f, str | os.PathLike):
        f.seek(0)
    foreign = tuple(package.program.foreign)
    check_ = checked(f, out, report.definitions, report.operators, foreign, imports)
    return dataclasses.replace(report, check=check_)


class _Package:
    """The files of one package, by name."""

    def __init__(
        self, root: ArchiveModule, device: torch.device | None, about: str, *, full_paths: bool
    ) -> None:
        self._device = device
        self._about = about
        self._comments = Comments(full_paths=full_paths)
        self.program = Program(LibraryModules(root), self._comments, body_of)
        self._tensors = TensorFile()
        self.operators: dict[str, str] = {}
        self._instances = Instances(self.program, root, self._tensors)
        self._root = self.program.reference(root.tsarchive_class)
        self._library_root = self.program.modules_of_libraries.name_of(root.tsarchive_class)

    def files(self) -> dict[str, bytes]:
        constants = self._constants()
        entry = self._entry()
        archive_modules = list(self.program.modules.values())
        make_paths_unique(archive_modules, _TABLES, SHADOWING)
        modules = [*archive_modules, *constants, entry]
        layout = Layout(modules, self._comments.all)
        texts = {f"{'/'.join(module.path)}.py": layout.text(module) for module in modules}
        texts |= self._support(layout)
        texts["__init__.py"] = self._interface()
        for name in list(texts):
            for folder in Path(name).parents:
                texts.setdefault(str(folder / "__init__.py"), "")
        encoded = {name: text.encode() for name, text in formatted(texts).items()}
        return encoded | self._tensors.written()

    @property
    def root_name(self) -> str:
        """The class of the model as the package has it, or the qualified name of a library's."""
        if self._library_root is not None:
            return self._library_root
        return Pool([_LOAD], fold=False).unique(self._root_definition.name)

    @property
    def _root_definition(self) -> Definition:
        reference = reference_of(self._root)
        assert reference is not None
        assert isinstance(reference.definition, Definition)
        return reference.definition

    @property
    def definitions(self) -> dict[str, str]:
        """The qualified names in the archive of what the package defines as "module:name"."""
        found = {
            f"{'.'.join(module.path)}:{definition.name}": definition.qualified_name
            for module in self.program.modules.values()
            for definition in module.definitions
        }
        exceptions = self.program.exceptions.items()
        return found | {f"{EXCEPTIONS}:{name}": qualified for name, qualified in exceptions}

    def _constants(self) -> list[Module]:
        """Return the module of the constants, each of which is one object for all code."""
        body: list[ast.stmt] = []
        values = ObjectValues(self.program, self._tensors)
        for name, value in self.program.constants.items():
            path = f"{CONSTANTS}.{name}"
            match value:
                case torch.Tensor():
                    shown = self._small_tensor(value) or values.tensor(value, path)
                case GeneratorSeed(device, seed):
                    shown = values.generator(device, seed)
                case _:
                    shown = values.value(value, ANY, path)
            body.append(syntax.assign([name], shown))
        about = "Constants of the code: each is one object for all that names it."
        return [_module((CONSTANTS,), about, body)] if body else []

    def _small_tensor(self, tensor: torch.Tensor) -> ast.expr | None:
        """Return ``torch.tensor([...])`` for a few plain numbers; None for other tensors."""
        is_plain = tensor.layout == torch.strided and tensor.dtype in _FITTING
        if not is_plain or tensor.numel() > _SMALL or tensor.requires_grad or tensor.is_meta:
            return None
        if tensor.numel() == 0 or not tensor.is_contiguous():
            return None
        numbers = syntax.literal(tensor.tolist())
        return syntax.form(f"torch.tensor(_0, dtype={tensor.dtype})", numbers)

    def _entry(self) -> Module:
        """Return the module with the function that builds the model."""
        build = syntax.imported(WEIGHTS, "build")
        arguments = [_maker(self._instances.root), syntax.name("device")]
        constants = self.program.constants.items()
        tensors = [name for name, value in constants if isinstance(value, torch.Tensor)]
        if tensors:
            moved = [syntax.imported(CONSTANTS, name) for name in tensors]
            arguments.append(ast.List([*moved], ast.Load()))
        body = [ast.Expr(syntax.literal(_LOAD_TEXT)), ast.Return(syntax.call(build, arguments))]
        default = syntax.literal("cpu" if self._device is None else str(self._device))
        device = ast.arg("device", syntax.form("torch.device | str"))
        load = syntax.function(_LOAD, [device], [default], body, self._root)
        return _module((_MODEL,), "Builds the model.", [load])

    def _interface(self) -> str:
        """Return ``__init__.py``: ``load``, and the class of the model if the package has it.

        Nothing else: the modules of the package are names in there, too.
        """
        names = [_LOAD]
        body = [syntax.docstring(self._about), ast.ImportFrom(_MODEL, [ast.alias(_LOAD)], 1)]
        if self._library_root is None:
            own, shown = self._root_definition.name, self.root_name
            alias = ast.alias(own, None if shown == own else shown)
            body.append(ast.ImportFrom(".".join(self._root_definition.path), [alias], 1))
            names.append(shown)
        return written([*body, syntax.assign(["__all__"], syntax.literal(sorted(names)))])

    def _support(self, layout: Layout) -> dict[str, str]:
        """Return the texts of modules that are copied as they are, where something uses them."""
        used = layout.used
        texts = {f"{WEIGHTS}.py": (_SUPPORT / "weights.py").read_text(encoding="utf-8")}
        if any(reference.home == OBJECTS for reference in used):
            texts[f"{OBJECTS}.py"] = (_SUPPORT / "objects.py").read_text(encoding="utf-8")
        if self.program.exceptions:
            bases: list[ast.expr] = [syntax.name("RuntimeError")]
            classes = [syntax.class_(name, bases, []) for name in self.program.exceptions]
            texts[f"{EXCEPTIONS}.py"] = written([*classes])
        keys = sorted(reference.name for reference in used if reference.home == HELPERS)
        if keys:
            texts[f"{HELPERS}.py"] = written(runtime_module(keys))
        self.operators = {f"{HELPERS}:{syntax.helper_name(key)}": key for key in keys}
        return texts


def _maker(made: ast.expr) -> ast.expr:
    """Return a function of no arguments that gives what an expression makes."""
    match made:
        case ast.Call(class_, [], []):
            return class_
    return syntax.lambda_(made)


def _module(path: tuple[str, ...], about: str, body: list[ast.stmt]) -> Module:
    """Return a module of the package without a record in the archive."""
    return Module(path, about, [Definition(0, "", path, "", body)])


SHADOWING = frozenset({"numpy", "torch"} | sys.stdlib_module_names)
"""Modules that the package or torch imports: a file or folder of such a name would hide them."""

_NAME_HINT = "Name a directory as an import statement can, such as my_model"


@renamed_fields(size="nbytes")
@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of the package: its path inside of it, and its size in bytes.

    For example:

        >>> done = tsarchive.decompile("net.pt", "source", force=True)
        >>> "__init__.py" in [file.name for file in done.files]
        True
    """

    name: str
    nbytes: int


def _destination(directory: str | os.PathLike[str], *, force: bool) -> Path:
    """Return the directory of the package.

    Raises CallError for a file, for a directory that is not empty unless ``force``, and for a
    name that no import statement can have or that hides a module which the package imports.
    """
    shown = os.fspath(directory)
    if not shown:
        raise CallError("the directory of the package has no name", hint=_NAME_HINT)
    if is_url(located(shown)):
        raise CallError("a package is written to a directory, not to a URL", hint=_NAME_HINT)
    target = Path(shown)
    for folder in (target, *target.parents):
        if folder.exists() and not folder.is_dir():
            hint = "Name another directory, or move the file away"
            raise CallError(f"{str(folder)!r} is a file, not a directory", hint=hint)
    _check_name(Path(os.path.abspath(target)).name, shown)
    if not force and target.exists() and any(target.iterdir()):
        hint = "Name another one, or write into it with force=True"
        raise CallError(f"{shown!r} exists and is not an empty directory", hint=hint)
    return target


def _check_name(name: str, shown: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise CallError(f"Python cannot import a package named {name!r}", hint=_NAME_HINT)
    if name in SHADOWING:
        message = f"a package in {shown!r} would hide the module {name!r} of Python or torch"
        hint = "Name a directory that no other module is named after, such as my_model"
        raise CallError(message, hint=hint)


def _written(target: Path, files: Mapping[str, bytes]) -> tuple[WrittenFile, ...]:
    """Write all files beside the directory, then move them there.

    A new directory comes whole or not at all. Into one that exists files are moved one by one, each
    of them whole: what ends the process between two moves leaves those before it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".tsarchive-", dir=target.parent) as folder:
        made = Path(folder, "package")  # which has the permissions of a new directory
        for name, content in files.items():
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if not target.exists():
            os.replace(made, target)
        else:
            for name in files:
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(made / name, target / name)
    return tuple(WrittenFile(name, len(content)) for name, content in sorted(files.items()))


_HOST = torch.device("cpu")


def _read(
    f: str | os.PathLike[str] | BinaryIO, device: torch.device | None, guard: Guard
) -> tuple[ArchiveModule, str]:
    """Load an archive with its tensors on the CPU and the code as it is for ``device``.

    The text says which archive it is, and which torch wrote it.
    By default the devices that code, constants and attributes name are those of the file.
    """
    source = open_source(f)
    source.fetch_all()
    container = opened_zip(source)
    found = zip_format(container.records)
    if not found.has_code:
        raise found.not_torchscript(container.records)
    options = LoadOptions(device, guard, tensors_on=_HOST, infers_foreign=True)
    root = found.importer(container, options).load()
    return root, _about(f, OpenedArchive(container, found))


def _about(f: str | os.PathLike[str] | BinaryIO, archive: OpenedArchive) -> str:
    """Return a sentence for whoever finds the package, the same for the same file."""
    name = f" {Path(os.fspath(f)).name}" if isinstance(f, str | os.PathLike) else ""
    written_by = archive.written_by
    writer = "" if written_by is None else f", written by {releases_of(written_by)}"
    return f"Decompiled by tsarchive from the TorchScript archive{name}{writer}."


def body_of(program: Program, key: Type | Function, definition: Definition) -> list[ast.stmt]:
    """Return the statements that define a class, an enum, a named tuple or a function."""
    match key:
        case Function():
            made = _function(program, key, definition.name, is_method=False)
            definition.line = program.comments.line(key) or 0
            return [_documented(made, definition.origin, program.comments.origin(key))]
        case ClassType(is_native=False):
            return _class_body(program, key, definition)
        case EnumType():
            return _enum_body(program, key, definition)
        case TupleType(qualified_name=str()):
            return _named_tuple_body(program, key, definition)
        case InterfaceType():
            return _protocol_body(program, key, definition)
    raise UnsupportedError(f"{annotation(key)} has no Python class")


def _class_body(program: Program, class_: ClassType, definition: Definition) -> list[ast.stmt]:
    """Return a class without its ``__init__``, which depends on what its objects hold."""
    members = members_of(class_)
    body: list[ast.stmt] = []
    is_container = container_base(class_) is not None
    for attribute in class_.attributes.values():
        if attribute.name in SHARED_SLOTS or is_container:
            continue
        shown = shown_type(program, attribute.type)
        name = members.slots[attribute.name]
        annotation = ast.AnnAssign(ast.Name(name, ast.Store()), shown, None, 1)
        if class_.is_module:
            definition.types.append(ast.dump(annotation))
        else:
            body.append(annotation)
    for function in _methods(program, class_, members):
        if is_container and function.name in OF_CONTAINERS:
            continue
        name = members.methods[function.name]
        made = _function(program, function, name, is_method=True)
        if function.name in members.getters:
            made.decorator_list = [syntax.builtin("property")]
        elif function.name in members.setters:
            made.decorator_list = [syntax.attribute(syntax.name(name), "setter")]
        elif name in _COMPARISONS and not class_.is_module:
            body.append(program.comments.ignored("override"))
        told = {name for name in map(_declared_attribute, ast.walk(made)) if name}
        body = [one for one in body if not _declares(one, told)]
        body.append(_documented(made, program.comments.origin(function)))
    if "__eq__" in class_.methods and class_.is_module:
        body.append(syntax.assign(["__hash__"], syntax.form("object.__hash__")))
    lines = map(program.comments.line, class_.methods.values())
    definition.line = min(filter(None, lines), default=0)
    base = f"nn.{container_base(class_) or 'Module'}"
    bases = [syntax.form(base)] if class_.is_module else []
    class_definition = syntax.class_(definition.name, bases, body)
    return [_documented(class_definition, definition.origin), *_accessors(definition, class_)]


_COMPARISONS = frozenset({"__eq__", "__ne__"})
"""Methods that take any object, where torch.jit wants the class of the other one."""


def _declared_attribute(node: ast.AST) -> str:
    """Return the name of an attribute of ``self`` that a statement annotates; "" for others."""
    match node:
        case ast.AnnAssign(ast.Attribute(ast.Name("self"), name)):
            return name
    return ""


def _declares(statement: ast.stmt, names: Container[str]) -> bool:
    """Return whether a statement of a class annotates one of these attributes."""
    match statement:
        case ast.AnnAssign(ast.Name(name)):
            return name in names
    return False


def _accessors(definition: Definition, class_: ClassType) -> Iterator[ast.stmt]:
    """Yield getters and setters by their names in the archive, which Python mangles in classes."""
    members = members_of(class_)
    for name in members.accessors():
        own = syntax.name(definition.name)
        found = syntax.attribute(own, members.methods[name])
        if name in members.getters or name in members.setters:
            # Type checkers do not know the parts of a property.
            shown = syntax.literal(members.methods[name])
            found = syntax.form("vars(_0)[_1]", own, shown)
            found = syntax.attribute(found, "fget" if name in members.getters else "fset")
        given = syntax.name(definition.name), syntax.literal(name), found
        yield syntax.statement("setattr(_0, _1, _2)", *given)


def _methods(program: Program, class_: ClassType, members: Members) -> Iterator[Function]:
    """Yield methods and hooks, each once, in the order of the original lines where all have some.

    ``__init__`` stands first, and the setter of a property behind its getter.
    """
    methods = {method.name: method for method in (*class_.methods.values(), *class_.hooks())}
    setters = {shown: methods[name] for name, shown in members.setters.items()}
    lines = {name: program.comments.line(method) for name, method in methods.items()}
    is_known = None not in lines.values()
    order = {name: (name != "__init__", (line or 0) * is_known) for name, line in lines.items()}
    for name, function in sorted(methods.items(), key=lambda item: order[item[0]]):
        if name not in members.setters:
            yield function
            setter = setters.get(members.getters.get(name, ""))
            yield from () if setter is None else (setter,)


def _function(
    program: Program, function: Function, name: str, *, is_method: bool
) -> ast.FunctionDef:
    with program.comments.of(function):
        translation = Translation(function, function.graph, program)
        graph = translation.graph
        arguments: list[ast.arg] = []
        defaults: list[ast.expr] = []
        for index, argument in enumerate(function.schema.arguments):
            value = graph.params[index]
            shown = translation.variables.parameter(value, argument.name)
            translation.hold(shown, value)
            is_self = index == 0 and is_method and isinstance(argument.type, ClassType)
            type_ = None if is_self else shown_type(program, argument.type)
            arguments.append(ast.arg(shown, type_))
            if argument.has_default:
                defaults.append(_default(translation, argument))
            else:
                # Old archives lack defaults that are lists, and have others before them. A call by
                # position gives those before, too, and the calls of the archive give all.
                defaults.clear()
        finish_function(translation, graph)
        variables = translation.variables
        types = {name: shown_type(program, type_) for name, type_ in variables.types.items()}
        own = {each.arg for each in arguments}
        attributes = _attributes_of(program, function, name)
        ignored = program.comments.ignored
        declare(translation.statements, types, variables.mixed, own, ignored, attributes)
        returns = shown_type(program, function.schema.return_type)
        return syntax.function(name, arguments, defaults, translation.statements, returns)


def _attributes_of(program: Program, function: Function, name: str) -> dict[str, ast.expr]:
    """Return the annotations of the attributes that ``__init__`` of an object makes."""
    owner = function.schema.arguments[0].type if function.schema.arguments else ANY
    if name != "__init__" or not isinstance(owner, ClassType):
        return {}
    slots = members_of(owner).slots
    return {slots[key]: shown_type(program, one.type) for key, one in owner.attributes.items()}


def _documented(made: ast.FunctionDef | ast.ClassDef, *facts: str | None) -> ast.stmt:
    """Give a definition a docstring of what is known of its origin, if anything is."""
    told = ", ".join(fact for fact in facts if fact)
    if told:
        body = [] if isinstance(made.body[0], ast.Pass) else made.body
        made.body = [syntax.docstring(f"From {told}."), *body]
    return made


def _default(translation: Translation, argument: Argument) -> ast.expr:
    value = argument.default
    if isinstance(argument.type, ListType) and isinstance(value, int | float):
        value = [value] * (argument.repeat or 1)
    type_ = argument.type
    return translation.value(value, type_.element if isinstance(type_, OptionalType) else type_)


def _enum_body(program: Program, enum: EnumType, definition: Definition) -> list[ast.stmt]:
    names: dict[str, str] = {}
    body: list[ast.stmt] = []
    for name, value in enum.members.items():
        shown = name if is_plain(name) and not name.startswith("_") else identifier(name)
        while shown in names.values() or shown in ("mro", "name", "value"):
            shown += "_"
        names[name] = shown
        body.append(syntax.assign([shown], syntax.literal(value)))
    program.enum_members[enum] = names
    made = syntax.class_(definition.name, [syntax.form("enum.Enum")], body)
    return [_documented(made, definition.origin)]


def _named_tuple_body(program: Program, type_: TupleType, definition: Definition) -> list[ast.stmt]:
    body: list[ast.stmt] = []
    taken: set[str] = set()
    for position, (field, element) in enumerate(zip(type_.fields, type_.elements, strict=True)):
        name = field if is_plain(field) and not field.startswith("_") else f"item_{position}"
        while name in taken:
            name += "_"
        taken.add(name)
        shown = shown_type(program, element)
        body.append(ast.AnnAssign(ast.Name(name, ast.Store()), shown, None, 1))
    made = syntax.class_(definition.name, [syntax.form("NamedTuple")], body)
    return [_documented(made, definition.origin)]


def _protocol_body(
    program: Program, interface: InterfaceType, definition: Definition
) -> list[ast.stmt]:
    """Return the protocol of the classes that have the methods of an interface."""
    body = [_protocol_method(program, interface, each) for each in interface.methods.values()]
    made = syntax.class_(definition.name, [syntax.form("Protocol")], body)
    return [_documented(made, definition.origin)]


def _protocol_method(
    program: Program, interface: InterfaceType, schema: FunctionSchema
) -> ast.stmt:
    name = method_name(schema.name, is_module=interface.is_module)
    own, *others = schema.arguments
    arguments = [ast.arg(own.name)]
    arguments += [ast.arg(identifier(each.name), shown_type(program, each.type)) for each in others]
    defaults = [syntax.literal(each.default) for each in others if each.has_default]
    body: list[ast.stmt] = [ast.Expr(ast.Constant(...))]
    return syntax.function(name, arguments, defaults, body, shown_type(program, schema.return_type))
