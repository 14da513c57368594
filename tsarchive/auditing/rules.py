"""The rules of an audit: what each finding is about, in one sentence."""

from __future__ import annotations

from typing import Final

from tsarchive.operators.risks import Risk
from tsarchive.scanning.operators import operator_rule

RULES: Final = {
    **{operator_rule(risk): f"The code names an operator of the class '{risk.value}'."
       for risk in Risk if risk is not Risk.COMPUTE},
    "code-native-class": "The code or a pickle names a class that is bound from C++.",
    "code-unknown-name": "Code uses a name that is neither of the archive nor of TorchScript.",
    "code-unreadable": "Code does not parse, so that what it can do is unknown.",
    "pickle-name": "A pickle names a global that is not known to be harmless.",
    "pickle-call": "A pickle calls a global that is not known to be harmless.",
    "pickle-make": "A pickle makes an object of a class that is not known to be harmless.",
    "pickle-change": "A pickle changes a global: attributes or items of it.",
    "pickle-computed-call": "A pickle calls what another call gave it.",
    "pickle-extension": "A pickle names a global by a number of the process's own registry.",
    "pickle-hidden": "A pickle is hidden behind other data, or spelled in text.",
    "pickle-broken": "A pickle breaks off; what stands before the break would run.",
    "pickle-unfinished": "A pickle is too long, or has too many beginnings, to look at all of it.",
    "record-unknown": "A record does not belong to the format of the archive.",
    "record-unread": "A record, or a file, could not be looked into as a whole.",
    "record-native": "There is native code or another program in the file.",
    "record-nested": "Archives are nested more deeply than is looked into.",
    "code-expression": "A size is text that is no arithmetic, which torch evaluates at load.",
    "code-guard": "A condition is text that is no arithmetic, which torch runs at a call.",
    "program-target": "An exported program calls something that is no operator.",
    "program-delegate": "A program hands bytes to a backend of the machine it runs on.",
    "program-data": "A program reads tensors from another file.",
    "program-paths": "A program tells paths of the machine that it was exported on.",
    "program-import": "A reader imports a module that the file names.",
    "record-unpickled": "torch unpickles a record that names what is not known to be harmless.",
    "record-use-pickle": "A record tells the reader to unpickle another.",
    "record-python": "There is Python source that runs when the archive is opened.",
    "file-hidden": "There is another file in the file, which other readers find.",
    "file-kind": "The file is of a kind that is not looked into.",
}  # fmt: skip


def describe_rule(rule: str) -> str:
    """The sentence of a rule; those of ``tsarchive verify`` keep their names."""
    return RULES.get(rule, f"The file is not sound: 'tsarchive verify' finds {rule}.")
