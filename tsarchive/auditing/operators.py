"""Operators that the code names, by what they can do and when."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from tsarchive.auditing.file_names import FileNames, PickledText
from tsarchive.auditing.reaching import Reach
from tsarchive.operators.risks import Risk, row_of
from tsarchive.scanning.report import OperatorUse, Place, When, ordered, use_of

# Code can name an operator in each of a million lines, and nobody reads that many: beyond these,
# places are kept that run at another moment.
_MOST_PLACES: Final = 1000


def operators_of(
    reach: Reach, renamed: Mapping[str, str], pickled: PickledText
) -> tuple[OperatorUse, ...]:
    """Every operator that functions of the archive name, the most dangerous first."""
    files = FileNames(reach.program, reach.walked, pickled)
    places: dict[tuple[str, bool], list[Place]] = {}
    moments: set[tuple[str, bool, tuple[When, ...]]] = set()
    for name, walked in reach.walked.items():
        function = reach.program.functions[name]
        record = reach.program.record_of(function)
        for named in walked.operators:
            operator = renamed.get(named.operator, named.operator)
            risk = row_of(operator).risk
            if risk is Risk.UNKNOWN and not isinstance(named.node, ast.Call):
                continue  # a constant, such as a dtype
            texts = files.given_to(function, named.node) if risk is Risk.FILES else ()
            place = Place(record, named.line, name, reach.when[name], texts)
            found = places.setdefault((operator, named.is_certain), [])
            moment = operator, named.is_certain, place.when
            if len(found) < _MOST_PLACES or moment not in moments:
                moments.add(moment)
                found.append(place)
    return ordered(use_of(op, tuple(found), sure) for (op, sure), found in places.items())
