"""Ranges read from the marked text in which torch shows them, and sources seen in parts."""

from __future__ import annotations

import ast
import inspect
from textwrap import dedent
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, example, given
from hypothesis import strategies as st
from torch._C._jit_tree_views import SourceRangeFactory
from torch._sources import SourceContext
from torch.jit.frontend import build_expr, build_stmt

from tsarchive.adopt.function_sources import Extent, SourceText, ranges_of_function
from tsarchive.adopt.node_ranges import add_lines, agrees, read_highlight, read_marks

FIRST_LINE = 7
LINES = st.sampled_from(
    ["", " ", "    ", "ab", "  a b", "é ü", "x  ", "\tq", "~~~", "  ~~", " ~~ <--- HERE", "é ~"]
)


def shown(text: str, begin: int, end: int):
    factory = SourceRangeFactory(text, "some file.py", FIRST_LINE, 0)
    return read_highlight(factory.make_raw_range(begin, end).highlight())


@st.composite
def ranges(draw):
    text = "\n".join(draw(st.lists(LINES, min_size=1, max_size=9))) + draw(st.sampled_from("\n "))
    source = text.encode()
    begin = draw(st.integers(0, len(source) - 1))
    end = draw(st.integers(begin + 1, len(source)))
    assume(source[begin : begin + 1] not in (b" ", b"\n") and end - begin < len(source))
    # Lines that look like marks can only be told from marks if the end of the range is marked.
    assume("~" not in text or source[end - 1 : end] not in (b" ", b"\n"))
    return text, begin, end


@given(ranges())
@example(("x = 1e9\n        y\n", 4, 16))
def test_marks_give_the_range_without_blanks_at_its_end(found):
    text, begin, end = found
    highlight = shown(text, begin, end)
    assert highlight.file == "some file.py"
    first = highlight.line - FIRST_LINE
    lines = text.removesuffix("\n").split("\n")
    marked = read_marks(highlight, first)
    assert agrees(marked, lines, first)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()) + 1)
    assert starts[first] + marked.begin_column == begin
    last = first + marked.last - marked.first
    visible = starts[last] + marked.end_column
    assert visible <= end
    assert not text.encode()[visible:end].strip(b" \n")
    if visible < end:
        assert text.encode()[visible : visible + 1] == b"\n"


def test_a_range_that_is_the_whole_source_has_no_file():
    highlight = shown("a\n  b\n", 0, 6)
    assert (highlight.file, highlight.text) == (None, "a\n  b\n")


def test_ranges_of_loaded_code_name_the_code_record():
    text = '  File "a.py", line 3\nx\n~ <--- HERE\n'
    highlight = read_highlight(f'{text}Serialized   File "code/b.py", line 9\ny\n~ <--- HERE\n')
    assert (highlight.file, highlight.line, highlight.code_file) == ("a.py", 3, "code/b.py")
    assert highlight.shown == ("x", "~ <--- HERE")


def oracle_ranges(text: str) -> set[tuple[int, int]]:
    """What torch's frontend builds from the statements of a function."""
    dedented = dedent(text)
    indent = len(text.partition("\n")[0]) - len(dedented.partition("\n")[0])
    context = SourceContext(text, "a.py", 1, indent, True, "f")
    found: set[tuple[int, int]] = set()

    class Recording(type(build_expr)):
        def __call__(self, ctx, node):
            tree = super().__call__(ctx, node)
            found.add((tree.range().start, tree.range().end))
            return tree

    (function,) = ast.parse(dedented).body
    with patch.object(torch.jit.frontend, "build_expr", Recording()):
        for statement in function.body:
            tree = build_stmt(context, statement)
            found.add((tree.range().start, tree.range().end))
    return found


FUNCTION = """\
    def f(self, x):
        y = x.view(-1, (3))
        z = y * 1e9
        with torch.no_grad() as q, torch.autograd.profiler.record_function("a"):
            y[0] += x[1:, None, ..., y[:]][:, 0x10]
        for i, (j, k) in enumerate([w for w in {"a": 1}] if False else []):
            if not i == j or -k < 1_000 <= 2j and x.a  .b in ~y:
                assert z, "é" "\\n"
                del y
            elif True: continue
            else: break
        while 0 < y < 5 is not None: raise ValueError(f"{y} a {z.c(k=1)}") from q
        u: List[int] = [a for a in (1, 2,)]
        return (z.a
                .b(1, 2)
                .c)[0
        ], not z, "é" "ab", {k: v for k, v in z}
"""


@pytest.mark.parametrize("text", [FUNCTION, dedent(FUNCTION)], ids=["method", "function"])
def test_ranges_are_those_of_torchs_frontend(text):
    assert oracle_ranges(text) <= set(map(tuple, ranges_of_function(text)))


def test_ranges_of_real_functions_are_those_of_torchs_frontend():
    for function in (F.multi_head_attention_forward, F.batch_norm, F.embedding_bag, F.pad):
        text = inspect.getsource(function)
        assert oracle_ranges(text) <= set(map(tuple, ranges_of_function(text))), function.__name__


def test_deep_expressions_have_ranges():
    text = f"def f(x):\n    return {' + '.join(['x'] * 1000)}\n"
    assert Extent(text.index("x +"), len(text) - 1) in ranges_of_function(text)


def test_escapes_that_python_warns_of_are_read_in_silence():
    assert ranges_of_function('def f():\n    return "\\d"\n')


def test_text_that_is_no_function_has_no_ranges():
    assert ranges_of_function("def f(:\n") == []


def test_the_end_is_the_one_that_torch_shows_lines_after():
    begin = FUNCTION.index("1e9")
    marked = Extent(begin, begin + len("1e9"))
    exact = SourceText(FUNCTION, 1).exact(marked, last_shown=5)
    assert FUNCTION[exact.begin : exact.end] == "1e9\n        "
    assert SourceText(FUNCTION, 1).exact(marked, last_shown=4) == marked


def test_parts_of_one_source_are_put_together():
    views = {}
    first = add_lines(views, ("<string>", "C"), 1, ["def f(self):", "  a", "  b"])
    assert add_lines(views, ("<string>", "C"), 3, ["  b", "  c"]) is first
    assert add_lines(views, ("<string>", "C"), 6, ["def g(self):"]) is first
    assert add_lines(views, ("<string>", "D"), 1, ["def f(self):"]) is not first
    assert first.source.text == "def f(self):\n  a\n  b\n  c\n\ndef g(self):\n"
    assert first.source.first_line == 1


def test_parts_that_contradict_each_other_are_two_sources():
    views = {}
    first = add_lines(views, ("<string>", "C"), 1, ["def __len__(self):", "  return 2"])
    second = add_lines(views, ("<string>", "C"), 1, ["def __contains__(self, k):", "  return True"])
    assert first is not second
    assert second.source.text == "def __contains__(self, k):\n  return True\n"
