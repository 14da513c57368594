"""Sources that are known in pieces: which of them are one."""

import pytest

from tsarchive.adopt.pieces import Piece, join_pieces

LINES = [f"line {number}" for number in range(20)]
OTHER = [f"{line}!" for line in LINES]


def shown(first: int, stop: int, marked: range, lines: list[str] = LINES) -> Piece:
    """The piece that torch shows for the ``marked`` lines of ``lines[first:stop]``."""
    own = range(marked.start - first, marked.stop - first)
    return Piece("a.py", first, lines[first:stop], own)


def sources(*functions: list[Piece]) -> list[list[tuple[int, str]]]:
    join_pieces(functions)
    found = [[piece.source for piece in pieces] for pieces in functions]
    assert all(source.is_read and source.filename == "a.py" for of in found for source in of)
    return [[(source.first_line, source.text) for source in of] for of in found]


def text(first: int, stop: int, hidden: range = range(0)) -> str:
    return "".join("\n" if n in hidden else f"{LINES[n]}\n" for n in range(first, stop))


def test_pieces_of_one_function_are_one_source():
    pieces = [shown(1, 6, range(3, 4)), shown(4, 9, range(6, 7)), shown(11, 16, range(13, 14))]
    assert sources(pieces) == [[(1, text(1, 16, hidden=range(9, 11)))] * 3]
    assert pieces[0].source is pieces[1].source is pieces[2].source


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(shown(9, 12, range(9, 10)), id="begins behind it"),
        pytest.param(shown(5, 8, range(6, 7), OTHER), id="has other lines"),
    ],
)
def test_what_is_not_of_one_source_is_two(second):
    first = shown(1, 6, range(3, 4))
    sources([first, second])
    assert first.source is not second.source


def test_a_function_ends_where_torch_shows_no_more():
    """Two functions, one behind the other, of which one ends with a marked line."""
    one, other = [shown(1, 6, range(3, 6))], [shown(6, 11, range(8, 9))]
    assert sources(one, other) == [[(1, text(1, 6))], [(6, text(6, 11))]]


def test_functions_that_were_compiled_as_one_text_overlap():
    one, other = [shown(1, 8, range(3, 6))], [shown(6, 11, range(8, 9))]
    assert sources(one, other) == [[(1, text(1, 11))], [(1, text(1, 11))]]
    assert one[0].source is other[0].source


def test_one_line_behind_a_range_is_the_last_or_has_an_empty_one_behind_it():
    alone = shown(1, 5, range(3, 4))
    assert sources([alone], [shown(4, 9, range(6, 7))])[0] == [(1, text(1, 5))]
    goes_on = shown(1, 5, range(3, 4))
    assert sources([goes_on, shown(7, 12, range(9, 10))])[0][0] == (
        1,
        text(1, 12, hidden=range(5, 7)),
    )
