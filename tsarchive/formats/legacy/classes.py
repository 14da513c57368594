"""Classes for the modules of ``model.json``, which has none: each module gets its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tsarchive.errors import INCOMPLETE, FormatError, MissingRecordError, SourceError
from tsarchive.formats.torchscript.code_records import CodeRecords
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.context import Dialect
from tsarchive.frontend.splitting import Piece, split_class, split_record
from tsarchive.ir.classes import Attribute, ClassType
from tsarchive.ir.names import untaken_name
from tsarchive.ir.types import BOOL, TENSOR
from tsarchive.operators.upgraders import DTYPES, FLAGS, FUNCTIONS, MASKS, RENAMED

from .model import MODEL, AttributeDef, ModuleDef

# The importers of these releases ignored ``op_version_set``; operators have their meaning before
# the first change that archives count.
OPERATOR_VERSION = 1
LIBRARIES = "libs"
DIALECT = Dialect(
    folder=LIBRARIES,
    free_version=OPERATOR_VERSION - 1,
    functions=FUNCTIONS,
    renamed=RENAMED,
    dtypes=DTYPES,
    masks=MASKS,
    flags=FLAGS,
)
CODE_FOLDERS = ("code/", f"{LIBRARIES}/")

# Present in torch.nn.Module, but in models of these releases only once it was changed.
_TRAINING = Attribute("training", BOOL)
_NOT_OF_A_NAME = re.compile(r"\W", re.ASCII)


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the model with its class and its submodules."""

    definition: ModuleDef
    class_: ClassType
    submodules: tuple[Module, ...]


def module_of(main: ModuleDef, code: CodeImporter, records: CodeRecords) -> Module:
    """Return the main module with its classes, which are registered with ``code``.

    Raises MissingRecordError for a module whose code is missing, SourceError for code other than
    methods, FormatError for a module that has two parts of one name.
    """
    return _Classes(code, records).module(main, "__torch__")


class _Classes:
    def __init__(self, code: CodeImporter, records: CodeRecords) -> None:
        self._code = code
        self._records = records
        self._taken = {
            name
            for record in records
            if record.startswith(LIBRARIES)
            for name in code.definitions(record)
        }

    def module(self, definition: ModuleDef, qualifier: str) -> Module:
        name = self._new_name(qualifier, definition.name)
        class_ = ClassType(name, is_module=True)
        inner = tuple([self.module(submodule, name) for submodule in definition.submodules])
        for module in inner:
            self._add(class_, Attribute(module.definition.name, module.class_))
        for parameter in definition.parameters:
            is_buffer = parameter.is_buffer
            self._add(class_, Attribute(parameter.name, TENSOR, not is_buffer, is_buffer))
        for attribute in definition.attributes:
            self._add_attribute(class_, attribute)
        if definition.code is not None:
            self._add_methods(class_, definition.code)
        if not class_.has_state_methods:  # otherwise __setstate__ sets everything
            class_.attributes.setdefault(_TRAINING.name, _TRAINING)
        self._code.add(class_)
        return Module(definition, class_, inner)

    def _new_name(self, qualifier: str, own: str) -> str:
        """Return a unique class name derived from the path of its module."""
        atom = _NOT_OF_A_NAME.sub("_", own)
        if not atom or atom[0].isdigit():
            atom = f"_{atom}"
        return untaken_name(f"{qualifier}.{atom}", self._taken)

    def _add(self, class_: ClassType, attribute: Attribute) -> None:
        if attribute.name in class_.attributes:
            raise FormatError(
                f"{class_.qualified_name} has two parts called {attribute.name!r}", record=MODEL
            )
        class_.attributes[attribute.name] = attribute

    def _add_attribute(self, class_: ClassType, definition: AttributeDef) -> None:
        known = class_.attributes.get(definition.name)
        if known is not None and known.is_buffer:
            return  # a buffer that is listed again among the attributes
        try:
            type_ = self._code.parse_type(definition.type)
        except SourceError as error:
            error.record = error.record or MODEL
            raise
        # Every tensor other than a parameter was a buffer.
        attribute = Attribute(definition.name, type_, is_buffer=type_ == TENSOR)
        self._add(class_, attribute)

    def _add_methods(self, class_: ClassType, record: str) -> None:
        if record not in self._records:
            raise MissingRecordError(
                f"the archive has no such record, which holds the methods of "
                f"{class_.qualified_name}",
                record=record,
                hint=INCOMPLETE,
            )
        for name, piece in _methods(self._records[record], record).items():
            class_.methods[name] = self._code.method(class_, piece, OPERATOR_VERSION)


def _methods(text: str, record: str) -> dict[str, Piece]:
    """Return the methods in the record of a module.

    They are top-level functions; in files from between two releases, they are in a class.
    """
    pieces = split_record(text, record)
    classes = [piece for piece in pieces.values() if piece.is_class]
    if not classes:
        return pieces
    if len(pieces) > 1:
        raise classes[0].fail("the code of a module holds methods, or one class")
    return split_class(classes[0]).methods
