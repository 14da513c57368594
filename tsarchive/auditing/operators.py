"""Operators that the code names, by what they can do and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tsarchive.analyses.texts import PickledText, Texts
from tsarchive.auditing.reaching import Reach
from tsarchive.operators.risks import Risk, row_of
from tsarchive.scanning.report import OperatorUse, Place, When, ordered, use_of

# Code can name an operator in each of a million lines, and nobody reads that many: beyond these,
# places are kept that run at another moment.
_MOST_PLACES: Final = 1000


def operators_of(
    reach: Reach, renamed: Mapping[str, str], pickled: PickledText
) -> tuple[OperatorUse, ...]:
    """Return the operators that functions of the archive name, the most dangerous first."""
    program = reach.program
    texts = Texts(program, pickled)
    places: dict[tuple[str, bool], list[Place]] = {}
    moments: set[tuple[str, bool, tuple[When, ...]]] = set()
    for name in program.functions:
        record = program.place_of(name)
        for named in program.facts(name).operators:
            operator = renamed.get(named.operator, named.operator)
            risk = row_of(operator).risk
            if risk is Risk.UNKNOWN and not named.is_called:
                continue  # a constant, such as a dtype
            files = texts.given_to(name, named.node) if risk is Risk.FILES else ()
            place = Place(record, named.line, name, reach.when[name], files)
            found = places.setdefault((operator, named.is_certain), [])
            moment = operator, named.is_certain, place.when
            if len(found) < _MOST_PLACES or moment not in moments:
                moments.add(moment)
                found.append(place)
    return ordered(use_of(op, tuple(found), sure) for (op, sure), found in places.items())
