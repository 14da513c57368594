"""Modules of programs that run as a whole in the ExecuTorch runtime.

They have methods like other programs, and no buffers: weights are data of backends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsarchive.errors import UnsupportedError
from tsarchive.formats.executorch.methods import Method
from tsarchive.formats.executorch.program import Program
from tsarchive.formats.executorch.regions import Regions
from tsarchive.ir.classes import ClassType, Function
from tsarchive.policy import NO_LIMITS, Guard
from tsarchive.run.calls_from_python import PublicMethod
from tsarchive.run.classes import Classes
from tsarchive.run.compiler import Compiler
from tsarchive.run.objects import new_object
from tsarchive.run.slots import set_slot

from .calling_convention import MEMORY, Arguments, result_of, signature_of, with_lock
from .data import Data
from .delegates import Backends, check_sound
from .importer import CLASS, TRAINING, failing_method
from .xnnpack import check_constants

if TYPE_CHECKING:
    from tsarchive.run.modules import ArchiveModule


_NO_GRAPH = "it runs in the runtime of ExecuTorch, and has no graph here"


class DelegatedImporter:
    """Loads the program of a ``.pte`` or ``.bpte`` whose methods call backends.

    Raises FormatError for an invalid file, MissingRecordError for a constant that is in no data
    file, UnsupportedError for limits, which cannot be enforced in native code.
    """

    def __init__(self, regions: Regions, guard: Guard, data: Data | None) -> None:
        if guard.limits != NO_LIMITS:
            raise UnsupportedError("limits do not hold for parts that backends run")
        self.container: Any = regions
        self.program: Program = regions.require_program()
        self.classes = Classes(regions, guard)
        self.code = self
        self._data = Data() if data is None else data
        self._files = tuple(map(bytes, self._data.contents))
        self.type = self._class()

    def find(self, qualified_name: str) -> ClassType | None:
        """Return the only class."""
        return self.type if qualified_name == CLASS else None

    def _class(self) -> ClassType:
        made = ClassType(CLASS, is_module=True)
        made.attributes[TRAINING.name] = TRAINING
        methods = [self.program.methods[index] for index in self.program.indices.values()]
        for method in methods:
            made.methods[method.name] = failing_method(made, method, UnsupportedError(_NO_GRAPH))
        class_ = self.classes.python_class(made)
        for method in methods:
            if method.name in vars(class_):
                public = _Method(method, made.methods[method.name], self.classes.compiler)
                public.place(class_, method.name)
        return made

    def load(self) -> ArchiveModule:
        """Return the module; the runtime loads the program when a method is first called."""
        content = bytes(self.program.data)
        for checked in (content, *self._files):
            check_sound(checked)
        check_constants(self.program, self._data)
        made = new_object(self.classes.python_class(self.type))
        made.__dict__[MEMORY] = Backends(content, self._files)
        set_slot(made, TRAINING, False)
        return made  # type: ignore[no-any-return]


class _Method(PublicMethod):
    """A method for callers in Python, run by the runtime."""

    def __init__(self, method: Method, function: Function, compiler: Compiler) -> None:
        super().__init__(function, compiler)
        self._of_program = method

    def _made(self) -> Any:
        method = self._of_program
        taken, finish = Arguments(method), result_of(method)

        def call(module: Any, *given: Any, **keywords: Any) -> Any:
            leaves = taken.flat(given, keywords)
            # A string leaves no trace in a program.
            plain = [None if isinstance(leaf, str) else leaf for leaf in leaves]
            outputs = module.__dict__[MEMORY].run(method.name, plain)
            return finish(outputs[0] if len(outputs) == 1 else tuple(outputs))

        call.__name__ = call.__qualname__ = method.name
        call.__signature__ = signature_of(taken)  # type: ignore[attr-defined]
        return with_lock(call)
