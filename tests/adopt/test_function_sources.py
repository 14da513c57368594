"""Functions are found in a file that is parsed in pieces, as in one that is parsed whole."""

import ast

import pytest

from tsarchive.adopt.function_sources import sources_at

TEXT = '''"""Of this file.

def not_one(): a line of a docstring
"""
import math  # def neither

if math:
    def inside(x):
        return x

@first
@second(
    1
)
def decorated(x):
    r"""It's said: \\" """
    def inner(y):
        return """
@here
class There:
"""
    return inner

class Net:
    text = 'it\\'s', "\\
def f():"

    def forward(self):
        return (1
@ self)

def product(x):
    return x \\
@ x

async \\
def continued():
    return 1

async def waits():
    def below():
        return 1

def last():
    return "#", '"'  # it's "so
'''


def expected(line: int) -> list[int]:
    """The first lines of the functions around a line, inner before outer."""
    found = []
    for node in ast.walk(ast.parse(TEXT)):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            if first <= line <= node.end_lineno:
                found.append(first)
    return found[::-1]


@pytest.mark.parametrize("line", range(TEXT.count("\n") + 2))
def test_functions_around_a_line(tmp_path, line):
    file = tmp_path / "file.py"
    file.write_text(TEXT)
    found = sources_at(str(file), line, "none_of_these")
    assert [source.first_line for source in found] == expected(line)


def test_a_piece_that_is_no_code_is_seen_in_the_whole_file(tmp_path):
    file = tmp_path / "file.py"
    file.write_text("table = (1\n@ 2)\ndef f():\n    return 1\n")
    assert [source.first_line for source in sources_at(str(file), 4, "f")] == [3]


def test_a_file_that_is_not_there_has_no_functions(tmp_path):
    assert sources_at(str(tmp_path / "none.py"), 1, "f") == []
