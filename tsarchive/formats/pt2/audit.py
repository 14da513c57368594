"""Programs of torch.export: what torch evaluates, unpickles, imports and calls for them, and when.

JSON is read here without its schema, so that what torch finds in a file that breaks a rule is
found as well, in fields that stand twice too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from tsarchive.errors import FormatError
from tsarchive.findings import Finding, Nature, Severity, broken
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.operators.risks import Risk, row_of
from tsarchive.scanning.collecting import Collected
from tsarchive.scanning.report import (
    SEVERITIES,
    EntryPoint,
    OperatorUse,
    Place,
    When,
    operator_findings,
    ordered,
)
from tsarchive.strict_json import check_depth

from .metadata import operator_name
from .program_checks import TextFault, expression_fault, guard_fault
from .records import AOTINDUCTOR, CONSTANTS, FLAT_PROGRAM, MODELS, OBJECTS, WEIGHTS

# An operator as AOTInductor writes it.
_COMPILED: Final = re.compile(r"(\w+::\w+)(?:\.\w+)?", re.ASCII)
# Functions of Python for numbers: those that torch's verifier of programs takes.
_NUMBERS: Final = frozenset(
    {
        *(f"_operator.{name}" for name in (
            "getitem", "add", "mul", "sub", "truediv", "ge", "le", "gt", "lt", "eq", "ne",
            "floordiv", "mod", "and_", "or_", "not_", "pow", "neg", "pos", "abs", "lshift",
            "rshift",
        )),
        *(f"math.{name}" for name in ("ceil", "floor", "trunc")),
        *(f"torch.sym_{name}" for name in (
            "int", "float", "ite", "max", "min", "not", "sqrt", "sum",
        )),
        "torch._sym_sqrt", "builtins.round", "round",
    }
)  # fmt: skip
# Those that run graphs, of the program, and nothing else; operators that they are given are
# listed as well.
_PLAIN: Final = (
    "associative_scan", "auto_functionalized", "auto_functionalized_v2", "cond", "flat_apply",
    "hints_wrapper", "invoke_subgraph", "map", "map_impl", "out_dtype", "run_const_graph",
    "scan", "strict_mode", "tag_activation_checkpoint", "while_loop", "with_effects", "wrap",
    "wrap_activation_checkpoint", "wrap_with_autocast", "wrap_with_set_grad_enabled",
)  # fmt: skip
_NATIVE: Final = (
    "aoti_call_delegate", "executorch_call_delegate", "inline_asm_elementwise",
    "triton_kernel_wrapper_functional", "triton_kernel_wrapper_mutation",
)  # fmt: skip
_TAKING_GRAPHS: Final = {
    **dict.fromkeys(_PLAIN, (Risk.COMPUTE, "runs graphs of the program")),
    **dict.fromkeys(
        _NATIVE, (Risk.NATIVE_CODE, "runs a program that the file, or this process, brings")
    ),
    "call_torchbind": (Risk.FOREIGN, "calls a method of an object that is bound from C++"),
}
_MOST_PLACES: Final = 1000
_SHOWN: Final = 120


class Calls:
    """Takes targets, each with its place, and tells what they are."""

    def __init__(self) -> None:
        self._places: dict[str, list[Place]] = {}
        self._strange: dict[str, Place] = {}

    def add(self, target: str, place: Place) -> None:
        match = _COMPILED.fullmatch(operator_name(target))
        if match is not None:
            places = self._places.setdefault(match[1], [])
            if len(places) < _MOST_PLACES:
                places.append(place)
        elif target not in _NUMBERS:
            self._strange.setdefault(target, place)

    def uses(self) -> Iterator[OperatorUse]:
        """The operators of libraries, and those of graphs."""
        for name, places in self._places.items():
            risk, reason = _risk(name)
            yield OperatorUse(name, risk, reason, tuple(places))

    def findings(self) -> Iterable[Finding]:
        """One for each target that is no operator."""
        for target, place in self._strange.items():
            yield Finding(
                "program-target",
                Severity.ERROR,
                Nature.HOSTILE,
                f"{place.function} calls {target[:_SHOWN]!r}, which is no operator",
                place.record,
                hint="torch.export.load looks such names up in Python's modules",
            )


def _risk(operator: str) -> tuple[Risk, str]:
    namespace, _, name = operator.partition("::")
    if namespace == "higher_order":
        return _TAKING_GRAPHS.get(name, (Risk.UNKNOWN, "takes graphs, and is not known here"))
    row = row_of(operator)
    return row.risk, row.reason


class _Object(list[tuple[str, Any]]):
    """The fields of an object in their order."""


class _Place(NamedTuple):
    around: _Place | None
    step: str

    def __str__(self) -> str:
        steps = []
        place: _Place | None = self
        while place is not None:
            steps.append(place.step)
            place = place.around
        return "".join(reversed(steps)).removeprefix(".")


class JsonField(NamedTuple):
    """A field of an object; ``value`` has objects as dicts where it is asked for."""

    key: str
    value: Any
    place: object
    siblings: frozenset[str]

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The texts in a list, with their places; none where it is no list."""
        is_list = isinstance(self.value, list) and not isinstance(self.value, _Object)
        items = enumerate(self.value) if is_list else ()
        return [(f"{self.place}[{n}]", item) for n, item in items if isinstance(item, str)]


def fields_of(data: bytes, record: str) -> Iterator[JsonField]:
    """Every field of every object, with its place.

    Raises FormatError for what is nested too deeply, ValueError and RecursionError for what is
    not JSON.
    """
    text = data.decode()
    check_depth(text, record)
    pending: list[tuple[Any, _Place | None]] = [(json.loads(text, object_pairs_hook=_Object), None)]
    while pending:
        value, place = pending.pop()
        if isinstance(value, _Object):
            siblings = frozenset(key for key, _ in value)
            for key, inner in reversed(value):
                inside = _Place(place, f".{key}")
                yield JsonField(key, inner, inside, siblings)
                pending.append((inner, inside))
        elif isinstance(value, list):
            pending += [
                (inner, _Place(place, f"[{number}]"))
                for number, inner in enumerate(value)
                if isinstance(inner, list)
            ]


_AT_LOAD: Final = "torch.export.load evaluates it, when it loads the file"
_AT_CALL: Final = "torch makes it source code of a function, and runs that at a call of the module"
_NEVER: Final = "Never give this file to torch.export.load; tsarchive evaluates none of its text"
_BUILTINS: Final = "builtins"


def is_json(record: str) -> bool:
    """Return whether torch reads a record of this name as JSON of a program or its payloads."""
    if record == FLAT_PROGRAM or record.startswith((MODELS, AOTINDUCTOR)):
        return record.endswith(".json")
    return record.startswith((WEIGHTS, CONSTANTS)) and record.endswith("_config.json")


class Exported:
    """The JSON of an archive. ``unpickled`` are the records that torch unpickles."""

    def __init__(self, records: Iterable[str], read: Callable[[str], bytes]) -> None:
        self.unpickled: set[str] = {name for name in records if _is_pickled(name)}
        self._findings: list[Finding] = []
        self._entries: list[EntryPoint] = []
        self._classes: set[str] = set()
        self._calls = Calls()
        for record in filter(is_json, records):
            self._look_at(record, read(record))

    def add_to(self, found: Collected) -> None:
        """Add what the JSON tells to the findings."""
        found.findings.add(self._findings)
        found.findings.add(self._calls.findings())
        uses = ordered(self._calls.uses())
        found.operators += uses
        found.findings.add(operator_findings(uses))
        found.entry_points += self._entries
        found.classes |= self._classes
        found.findings.add(map(_class_finding, sorted(self._classes)))
        found.findings.add(self._at_load(found))

    def _at_load(self, found: Collected) -> Iterator[Finding]:
        """Yield pickles that name what is not known to be harmless, where torch unpickles them."""
        strange = {name.record for name in found.pickled_names if name.reason is None}
        for record in sorted(self.unpickled):
            if any(name and f"{name}/".startswith(f"{record}/") for name in strange):
                yield Finding(
                    "record-unpickled",
                    Severity.WARNING,
                    Nature.ABILITY,
                    "torch.export.load unpickles it with whatever it names, when it loads the file",
                    record,
                    hint="See what the pickle names; tsarchive.load never unpickles it",
                )

    def _look_at(self, record: str, data: bytes) -> None:
        try:
            for field in fields_of(data, record):
                self._field(field, record)
        except (FormatError, ValueError, RecursionError):
            message = "it is no JSON that can be read: what it makes torch do is unknown"
            self._findings.append(broken("code-unreadable", message, record))
        if record == FLAT_PROGRAM or record.startswith(MODELS):
            model = record.removeprefix(MODELS).removesuffix(".json")
            prefix = "" if record == FLAT_PROGRAM or model == "model" else f"{model}."
            self._entries.append(EntryPoint(When.CALL, f"{prefix}forward"))

    def _add_ability(self, rule: str, message: str, record: str, hint: str) -> None:
        self._findings.append(
            Finding(rule, Severity.WARNING, Nature.ABILITY, message, record, hint=hint)
        )

    def _field(self, field: JsonField, record: str) -> None:
        match field.key, field.value:
            case "expr_str", str(text):
                self._expression(text, str(field.place), record)
            case "range_constraints", _Object() as pairs:
                for key, _ in pairs:
                    self._expression(key, "a key of range_constraints", record)
            case "guards_code", _:
                for place, text in field.texts:
                    self._text("code-guard", place, text, guard_fault(text), _AT_CALL, record)
            case "target", str(target) if "inputs" in field.siblings:
                self._call(target, field, record)
            case "as_operator", str(target):
                self._call(target, field, record)
            case "class_fqn", str(name) if name.startswith(NATIVE_PREFIX):
                self._classes.add(name.removeprefix(NATIVE_PREFIX))
            case (("in_spec" | "out_spec"), str(text)):
                self._tree(text, str(field.place), record)
            case "use_pickle", value if value:
                self._unpickle(record)
            case "path_name", str(path) if path.startswith(OBJECTS):
                self._unpickle(record)

    def _expression(self, text: str, place: str, record: str) -> None:
        self._text("code-expression", place, text, expression_fault(text), _AT_LOAD, record)

    def _text(
        self, rule: str, place: str, text: str, fault: TextFault | None, when: str, record: str
    ) -> None:
        if fault is None:
            return
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        message = f"{place}: {shown!r} is no plain arithmetic; {when}"
        severity = Severity.ERROR if fault.nature is Nature.HOSTILE else Severity.WARNING
        self._findings.append(Finding(rule, severity, fault.nature, message, record, hint=_NEVER))

    def _call(self, target: str, field: JsonField, record: str) -> None:
        where = str(field.place).removeprefix("graph_module.").removesuffix(f".{field.key}")
        self._calls.add(target, Place(record, None, where, (When.CALL,)))

    def _unpickle(self, record: str) -> None:
        message = "it tells the reader to unpickle a record, whatever that may call"
        hint = "torch.export.load has no way to refuse: see what the pickles name"
        self._add_ability("record-use-pickle", message, record, hint)

    def _tree(self, text: str, place: str, record: str) -> None:
        """Default factories in a tree specification, which torch imports."""
        for module in _imported(text, record):
            message = f"{place}: torch.export.load imports the module {module[:_SHOWN]!r}"
            self._add_ability("program-import", message, record, "Importing a module runs its code")


def _is_pickled(record: str) -> bool:
    """Return whether torch reads the whole record as a pickle, whatever configurations say."""
    name = record.rpartition("/")[2]
    if record.startswith("serialized_") or record.startswith("data/sample_inputs/"):
        return record.endswith(".pt")
    if record.startswith((WEIGHTS, CONSTANTS)):
        return record.endswith(".pt") or name.startswith(OBJECTS)
    return False


def _imported(text: str, record: str) -> Iterator[str]:
    """Contexts are JSON as text, in JSON."""
    pending: list[Any] = [text]
    while pending:
        try:
            found = list(fields_of(pending.pop().encode(), record))
        except (FormatError, ValueError, RecursionError):
            continue  # torch does not read it either, and verifying tells of it
        for field in found:
            if field.key == "default_factory_module" and field.value != _BUILTINS:
                yield field.value if isinstance(field.value, str) else json.dumps(field.value)
            elif field.key == "context" and isinstance(field.value, str):
                pending.append(field.value)


def _class_finding(name: str) -> Finding:
    row = row_of(name)
    severity = Severity.INFO if row.risk is Risk.NATIVE_CODE else SEVERITIES[row.risk]
    message = f"the class {name} is bound from C++: {row.reason}"
    return Finding("code-native-class", severity or Severity.INFO, Nature.ABILITY, message)
