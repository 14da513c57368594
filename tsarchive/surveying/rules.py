"""Policies: rules over the files of a survey, and exemptions from them, as TOML has them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from tsarchive.describing.text import listed
from tsarchive.errors import FormatError
from tsarchive.findings import Severity

from .conditions import (
    Condition,
    Pattern,
    Table,
    TextCondition,
    conditions,
    known_keys,
    texts,
)
from .listing import SIGNATURES
from .rows import FileRow

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_RULE: Final = ("name", "where", "deny", "require", "severity", "message", "hint")
_EXCEPTION: Final = ("rule", "path", "digest", "until", "reason")
_SIGNED: Final = ("suffixes", "digests", "file")


@dataclass(frozen=True, slots=True)
class Rule:
    """Files that fulfil ``where`` must not fulfil all of ``deny``, and must fulfil ``require``.

    ``message`` says what is wrong with a file that does not, or is empty, and ``hint`` what to do.
    """

    name: str
    where: tuple[Condition, ...]
    deny: tuple[Condition, ...]
    require: tuple[Condition, ...]
    severity: Severity
    message: str
    hint: str | None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions of the rule."""
        return (*self.where, *self.deny, *self.require)


@dataclass(frozen=True, slots=True)
class Exemption:
    """Files that may violate rules, ``until`` a day, which is the last one; None is for ever."""

    rules: Pattern
    paths: Pattern
    digests: frozenset[str] | None
    until: date | None
    reason: str

    def covers(self, rule: Rule, row: FileRow) -> bool:
        """Return whether it is for this file and rule, whatever the day."""
        if rule.name not in self.rules or row.path not in self.paths:
            return False
        return self.digests is None or not self.digests.isdisjoint((row.sha256, row.model))


UNREAD: Final = Rule(
    "unread",
    where=(),
    deny=(TextCondition("status", Pattern("refused", "failed", "crashed", "timeout")),),
    require=(),
    severity=Severity.ERROR,
    message="not all that the file holds is known",
    hint="Look at it with 'tsarchive verify'",
)
"""The rule that policies have unless one of theirs has its name: what was not read passes none."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Rules that the files of a survey must keep, and exemptions from them.

    ``signed`` are digests of files that are signed elsewhere, ``suffixes`` the ends of names of
    signatures.

        >>> gate = tsarchive.Gate.of('''
        ... [[rule]]
        ... name = "licence"
        ... message = "There is no licence in the file"
        ... require = { extra_names = ["LICENSE*"] }
        ... ''')
        >>> gate.rules[0].name
        'licence'
    """

    rules: tuple[Rule, ...]
    exemptions: tuple[Exemption, ...] = ()
    signed: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = SIGNATURES

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Gate:
        """Read a policy. Files that it names are beside it.

        Raises FormatError for one that is not valid, which says what is wrong; OSError.
        """
        try:
            text = Path(path).read_text("utf-8")
            return Gate.of(text, Path(path).parent)
        except UnicodeDecodeError:
            error = FormatError("the policy is not UTF-8 text")
        except FormatError as found:
            error = found
        error.filename = os.fsdecode(path)
        raise error

    @staticmethod
    def of(text: str, folder: Path = Path()) -> Gate:
        """Read a policy from text. Files that it names are in ``folder``.

        Unless it has a rule ``unread``, it gets the rule ``UNREAD``.
        """
        try:
            document = tomllib.loads(text)
        except ValueError as error:
            raise FormatError(f"the policy is no TOML: {error}") from None
        except RecursionError:
            raise FormatError("the policy is nested too deeply") from None
        return _gate(document, folder)


def _gate(document: Table, folder: Path) -> Gate:
    known_keys(document, ("rule", "exempt", "signed"), "the policy")
    rules = [_rule(table, f"rule {number}") for number, table in _tables(document, "rule")]
    if not rules:
        raise FormatError("the policy has no rules", hint="Write one under [[rule]]")
    names = [rule.name for rule in rules]
    if twice := {name for name in names if names.count(name) > 1}:
        raise FormatError(f"two rules are called {min(twice)!r}", hint="Give each its own name")
    if UNREAD.name not in names:
        rules.append(UNREAD)
        names.append(UNREAD.name)
    exempt = [_exemption(table, f"exempt {n}", names) for n, table in _tables(document, "exempt")]
    signed = document.get("signed", {})
    known_keys(signed, _SIGNED, "signed")
    suffixes = texts(signed.get("suffixes", list(SIGNATURES)), "signed.suffixes", may_be_none=True)
    if not all(suffixes):
        hint = "Give ends of names, such as '.sig'"
        raise FormatError("signed.suffixes has an empty one, which all names end with", hint=hint)
    return Gate(tuple(rules), tuple(exempt), _digests(signed, folder), suffixes)


def _tables(document: Table, name: str) -> Iterator[tuple[int, Any]]:
    """Yield the tables of a list of them, counted from 1."""
    found = document.get(name, [])
    if not isinstance(found, list):
        raise FormatError(f"{name} is no list of tables", hint=f"Write [[{name}]], not [{name}]")
    return iter(enumerate(found, 1))


def _rule(table: Any, where: str) -> Rule:
    known_keys(table, _RULE, where)
    name = _one_text(table, "name", where)
    if name is None:
        raise FormatError(f"{where} has no name", hint="Give it one, such as name = 'no-files'")
    where = f"rule {name!r}"
    if ("deny" in table) is ("require" in table):
        hint = "Give 'deny' or 'require': what files must not fulfil, or what they must"
        raise FormatError(
            f"{where} has {'both' if 'deny' in table else 'no'} deny and require", hint=hint
        )
    found = {
        part: conditions(table[part], f"{where}: {part}") if part in table else ()
        for part in ("where", "deny", "require")
    }
    message = _one_text(table, "message", where) or ""
    return Rule(name, **found, severity=_severity(table, where), message=message,
                hint=_one_text(table, "hint", where))  # fmt: skip


def _severity(table: Table, where: str) -> Severity:
    given = table.get("severity", Severity.ERROR.value)
    names = [severity.value for severity in Severity]
    if given not in names:
        raise FormatError(f"{where}: severity is {given!r}", hint=f"Give one of {', '.join(names)}")
    return Severity(given)


def _one_text(table: Table, name: str, where: str) -> str | None:
    given = table.get(name)
    if given is not None and not (isinstance(given, str) and given):
        raise FormatError(f"{where}: {name} is {given!r}", hint="Give a text")
    return given


def _exemption(table: Any, where: str, rules: Sequence[str]) -> Exemption:
    known_keys(table, _EXCEPTION, where)
    patterns = texts(table.get("rule", "*"), f"{where}.rule")
    for pattern in patterns:
        if not any(name in Pattern(pattern) for name in rules):
            hint = f"Rules are {listed(rules, 12)}"
            raise FormatError(f"{where} names no rule: {pattern!r}", hint=hint)
    if not ("path" in table or "digest" in table):
        raise FormatError(f"{where} is for all files", hint="Give the path or digest of some")
    reason, until = _one_text(table, "reason", where), table.get("until")
    if reason is None:
        raise FormatError(f"{where} has no reason", hint="Say why these files may do so")
    if until is not None and type(until) is not date:
        raise FormatError(f"{where}: until is {until!r}", hint="Give a day, such as 2030-01-31")
    paths = Pattern(*texts(table.get("path", "*"), f"{where}.path"))
    has_digests = "digest" in table
    digests = frozenset(texts(table["digest"], f"{where}.digest")) if has_digests else None
    return Exemption(Pattern(*patterns), paths, digests, until, reason)


def _digests(signed: Table, folder: Path) -> frozenset[str]:
    """Return the digests that are listed in the policy, and in the file that it names."""
    found = texts(signed.get("digests", []), "signed.digests", may_be_none=True)
    file = _one_text(signed, "file", "signed")
    if file is not None:
        try:
            lines = (folder / file).read_text("utf-8").splitlines()
        except ValueError:  # of its name, or of what is in it
            hint = "Name a file of UTF-8 text, with a digest in each line"
            raise FormatError(f"signed.file is {file!r}, which is no text", hint=hint) from None
        found += tuple(w[0] for line in lines if (w := line.partition("#")[0].split()))
    return frozenset(found)
