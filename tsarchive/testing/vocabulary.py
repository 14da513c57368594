"""The forms, arguments and literals from which programs are drawn; definitions add their own forms.

A form is a piece of source with typed holes, such as ``(<int> + len(<str>))``:

| hole | stands for |
|---|---|
| ``<int>`` | an expression of the type |
| ``<int|i:str>`` | an expression that may use the variable ``i`` of the second type as well |
| ``<.int>`` | a variable of the type |
| ``<=int>`` | a variable of the type that may be assigned |
| ``<+int>`` | a new variable of the type |
| ``<.int:v>``, then ``<:v>`` | a variable, and the same variable again |

Types are annotation text, with patterns over them such as ``Dict[str, T]``.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    import torch


# Forms by result type. Values stay small: sequences and strings are truncated where an operator
# lengthens them, so that they cannot grow without bound in a loop.

# Leaves: variables aside, literals and other expressions without holes.
LEAVES: dict[str, tuple[str, ...]] = {
    "Tensor": (
        "torch.ones(3)", "torch.zeros(2, 3)", "torch.tensor([1., 2., 3.])", "torch.arange(3)",
        "torch.full([3], 0.5)", "torch.tensor(2)", "torch.empty(0)", "torch.eye(3)",
        "torch.tensor([[1, 2, 3], [4, 5, 6]])", "torch.ones([3], dtype=torch.float64)",
        "torch.tensor(True)",
    ),
    "List[T]": ("[<T>, <T>]", "[<T>]", "torch.jit.annotate(List[T], [])"),
    "Dict[str, T]": ("{'a': <T>, 'b': <T>}", "torch.jit.annotate(Dict[str, T], {})"),
    "Dict[int, T]": ("{0: <T>, 1: <T>}", "torch.jit.annotate(Dict[int, T], {})"),
    "Tuple[T, U]": ("(<T>, <U>)",),
    "Optional[T]": ("<T>", "None"),
    "Union[T, U]": ("<T>", "<U>"),
}  # fmt: skip

CONCRETE: dict[str, tuple[str, ...]] = {
    "int": (
        "(<int> + <int>)", "(<int> - <int>)", "(<int> * <int>)", "(<int> // 3)", "(<int> % 4)",
        "(-<int>)", "(<int> & <int>)", "(<int> | <int>)", "(<int> ^ <int>)", "(<int> << 2)",
        "(<int> >> 1)", "abs(<int>)", "min(<int>, <int>)", "max(<int>, <int>)", "int(<bool>)",
        "int(<int> / 2)", "len(<str>)", "sum(<List[int]>)", "min(<List[int]>)",
        "max([<int>, <int>, <int>])", "math.floor(<int> / 2)", "math.ceil(<int> / 2)",
        "math.gcd(<int>, <int>)", "divmod(<int>, 3)[1]", "ord('a')", "len('über')",
        "{'ä': <int>, 'ö': 2}['ä']", "<str>.find('a')", "<str>.count('a')",
        "<List[int]>.count(<int>)", "<List[int]>.index(<int>)", "<Tensor>.dim()",
        "<Tensor>.size(0)", "<Tensor>.shape[-1]", "<Tensor>.numel()", "len(<Tensor>)",
        "int(<Tensor>.sum())", "int(<Tensor>.numel() / 2)", "<Tensor>.ndim", "int('7')",
        "int(<Tensor>.sum().item())", "len(<Tensor>.shape)",
    ),
    "float": (
        "(<float> + <float>)", "(<float> - <int>)", "(<int> * <float>)", "(<float> / 4)",
        "(<int> / 2)", "(<float> ** 2)", "(<int> ** 2.)", "(<float> // 2)", "(<float> % 3)",
        "(-<float>)", "float(<int>)", "float(<bool>)", "float('0.5')", "math.sqrt(abs(<float>))",
        "math.pi", "float('inf')", "round(<float>)", "max(<int>, <float>)", "min(<float>, <float>)",
        "abs(<float>)", "abs(<complex>)", "float(<Tensor>.sum())", "sum(<List[float]>)",
        "float(<Tensor>.max().item())", "math.exp(-abs(<float>))", "pow(<float>, 2)",
        "math.copysign(<float>, <float>)", "divmod(<float>, 2.)[0]",
    ),
    "bool": (
        "(<int> < <int>)", "(<int> == <int>)", "(<int> <= <int> < <int>)", "(<float> > <float>)",
        "(<int> != <float>)", "(<bool> and <bool>)", "(<bool> or <bool>)", "(not <bool>)",
        "(<str> == <str>)", "(<str> == 'größer')", "(<str> < <str>)", "(<str> in <List[str]>)",
        "('a' in <str>)", "(<int> in <List[int]>)", "(<int> not in <Dict[int, Tensor]>)",
        "bool(<int>)", "bool(<Tensor>.sum() > 0)", "(<bool> == <bool>)", "any(<List[bool]>)",
        "all(<List[bool]>)", "<str>.startswith('a')", "<Tensor>.is_floating_point()",
        "math.isnan(<float>)", "isinstance(<int>, int)", "(<List[int]> == <List[int]>)",
        "torch.jit.is_scripting()", "(<Tensor>.dtype == torch.float32)",
        "(<Tensor>.device == torch.device('cpu'))", "torch.is_grad_enabled()",
        "<Tensor>.requires_grad", "<str>.isdigit()", "(<bool> ^ <bool>)", "(<bool> & <bool>)",
        "(<Tensor> is <Tensor>)", "isinstance(<Union[int, str]>, str)",
        "(<Tensor>.shape == <Tensor>.shape)",
    ),
    "str": (
        "(<str> + <str>)[:8]", "str(<int>)", "str(<float>)[:8]", "str(<bool>)", "<str>.upper()",
        "<str>.strip()", "<str>.replace('a', 'bc')[:8]", "'-'.join(<List[str]>)[:8]", "<str>[1:]",
        "f'{<.int>}'", "f'{<.str>}: {<.float>}!'[:8]", "'{} {}'.format(<int>, <str>)[:8]",
        "('%d' % <int>)", "('%s %s' % (<str>, <int>))[:8]", "str(<List[int]>)[:8]", "chr(97)",
        "<str>.split('b')[0]", "<str>[::2]", "str(<Tuple[int, float]>)[:8]", "<str>.center(4)[:8]",
        "str(<complex>)[:8]", "<str>.lower()", "str(<Dict[str, int]>)[:8]",
    ),
    "complex": (
        "complex(<float>, <float>)", "(<complex> + <complex>)", "(<complex> * <float>)",
        "(<complex> - <int>)",
    ),
    "Tensor": (
        "(<Tensor> + <Tensor>)", "(<Tensor> - <Tensor>)", "(<Tensor> * <Tensor>)",
        "(<Tensor> + <int>)", "(<int> - <Tensor>)", "(<float> * <Tensor>)", "(2 / <Tensor>)",
        "(<Tensor> / 2)", "(<Tensor> ** 2)", "(-<Tensor>)", "(<Tensor> > <Tensor>)",
        "(<Tensor> > <int>)", "(<Tensor> == <float>)", "(<Tensor> // 2)", "(<Tensor> % 2)",
        "torch.relu(<Tensor>)", "<Tensor>.abs()", "<Tensor>.sum()", "<Tensor>.sum(0)",
        "<Tensor>.sum(dim=-1, keepdim=True)", "torch.sum(<Tensor>, dtype=torch.float64)",
        "<Tensor>.mean(dtype=torch.float32)", "torch.add(<Tensor>, <Tensor>, alpha=2)",
        "torch.cat([<Tensor>, <Tensor>])[:4]", "torch.stack([<Tensor>, <Tensor>]).sum(0)",
        "torch.stack(<List[Tensor]>).sum(0)", "<Tensor>.reshape(-1)[:4]", "<Tensor>.view(-1)[:4]",
        "<Tensor>[0]", "<Tensor>[-1]", "<Tensor>[1:]", "<Tensor>[..., 0]", "<Tensor>[None]",
        "<Tensor>[:, 1]", "<Tensor>[::2]", "<Tensor>[<int>]", "<Tensor>[<Tensor> > 0]",
        "<Tensor>.t()", "<Tensor>.T", "<Tensor>.unsqueeze(0)", "<Tensor>.squeeze()",
        "<Tensor>.clone()", "<Tensor>.to(torch.float64)", "<Tensor>.float()", "<Tensor>.long()",
        "<Tensor>.clamp(min=0)", "torch.clamp(<Tensor>, <float>, max=2.)", "<Tensor>.detach()",
        "torch.where(<Tensor> > 0, <Tensor>, <Tensor>)", "F.relu(<Tensor>)",
        "F.leaky_relu(<Tensor>, 0.2)", "F.softmax(<Tensor>.float(), dim=-1)", "F.gelu(<Tensor>)",
        "F.dropout(<Tensor>, p=0.5, training=False)", "F.pad(<Tensor>, [1, 1])[..., :3]",
        "torch.max(<Tensor>, dim=0)[0]", "<Tensor>.max(0).values", "torch.zeros_like(<Tensor>)",
        "torch.full_like(<Tensor>, <float>)", "<Tensor>.masked_fill(<Tensor> > 1, <float>)",
        "torch.full([2, 3], <float>)", "torch.tensor(<int>)", "torch.tensor(<List[float]>)",
        "torch.tensor([<int>, <int>])", "torch.as_tensor(<float>)", "<Tensor>.add_(<int>)",
        "<Tensor>.clone().mul_(<Tensor>)", "<Tensor>.expand(2, 3)", "<Tensor>.chunk(2)[0]",
        "<Tensor>.split(1)[0]", "<Tensor>.type_as(<Tensor>)", "torch.sort(<Tensor>)[1]",
        "torch.arange(<int> % 4)", "torch.zeros(<Tensor>.shape)", "<Tensor>.new_zeros(3)",
        "torch.add(<Tensor>, 1, out=torch.empty(0))", "(<Tensor> @ <Tensor>)",
        "<Tensor>.permute(1, 0)", "<Tensor>.transpose(0, 1)", "torch.ones(<int> % 4, 3)",
        "<Tensor>.flatten(0)[:4]", "(~(<Tensor> > 0))", "((<Tensor> > 0) & (<Tensor> < 2))",
        "torch.einsum('i,i->', <Tensor>, <Tensor>)",
        "F.interpolate(<Tensor>[None, None], scale_factor=2.)[0, 0]",
        "<Tensor>.to(dtype=torch.float32, copy=True)", "torch.zeros(2, 3, device=<Tensor>.device)",
        "torch.add(<Tensor>, <Tensor>, alpha=<int>)", "<Tensor>.norm(p=2)",
        "torch.linalg.norm(<Tensor>.float())", "torch.special.expit(<Tensor>)",
        # Tracing a fork may crash the process.
        "(torch.jit.wait(torch.jit.fork(F.relu, <Tensor>)) if torch.jit.is_scripting()"
        " else <Tensor>)",
    ),
    "List[int]": (
        "list(range(<int> % 4))", "<Tensor>.shape", "<Tensor>.size()", "sorted(<List[int]>)",
        "[<int|i:int> for i in range(<int> % 4)]", "[<int|t:Tensor> for t in <List[Tensor]>]",
        "[<int|s:str> for s in <List[str]>]", "list(<Dict[int, Tensor]>.keys())",
        "list(<Dict[str, int]>.values())",
    ),
    "List[float]": (
        "[<float|i:int> for i in <List[int]>]", "[float(i) for i in range(3)]",
    ),
    "List[str]": (
        "<str>.split('a')", "<str>.splitlines()", "list(<Dict[str, int]>.keys())",
        "[<str|i:int> for i in <List[int]>]", "sorted(<List[str]>)",
    ),
    "List[Tensor]": (
        "<Tensor>.unbind(0)", "torch.split(<Tensor>, 1)", "[<Tensor|i:int> for i in range(3)]",
        "<Tensor>.chunk(2)", "torch.broadcast_tensors(<List[Tensor]>)",
    ),
    "List[Tuple[int, str]]": (
        "list(enumerate(<List[str]>))", "list(zip(<List[int]>, <List[str]>))",
    ),
    "Dict[int, Tensor]": ("{i: <Tensor|i:int> for i in range(3)}",),
    "Dict[str, int]": (
        "{s: <int|s:str> for s in <List[str]>}", "dict([('a', <int>), ('b', <int>)])",
    ),
    "Tuple[int, float]": ("(1, <float>)", "(<int>, 0.5)"),
    "Tuple[Tensor, Tensor]": (
        "torch.max(<Tensor>, dim=0)", "torch.sort(<Tensor>)", "torch.topk(<Tensor>, 1)",
    ),
}  # fmt: skip

# Forms for every type that fits the pattern: (pattern, result, forms).
GENERIC: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("T", "T", ("(<T> if <bool> else <T>)",)),
    ("List[T]", "T", ("<List[T]>[0]", "<List[T]>[-1]", "<List[T]>[<int>]", "<=List[T]>.pop()")),
    ("List[T]", "List[T]", (
        "<List[T]>[1:]", "<List[T]>[:<int>]", "<List[T]>[::2]", "(<List[T]> + <List[T]>)[:4]",
        "([<T>] * (<int> % 3))", "<List[T]>.copy()", "[<T>, <T>, <T>]", "list(<List[T]>)",
    )),
    ("List[T]", "int", ("len(<List[T]>)",)),
    ("List[List[T]]", "List[T]", ("<List[List[T]]>[0]",)),
    ("Dict[T, U]", "U", (
        "<Dict[T, U]>[<T>]", "<Dict[T, U]>.get(<T>, <U>)", "<=Dict[T, U]>.pop(<T>)",
    )),
    ("Dict[T, U]", "Optional[U]", ("<Dict[T, U]>.get(<T>)",)),
    ("Dict[T, U]", "List[T]", ("list(<Dict[T, U]>.keys())", "list(<Dict[T, U]>.keys())[:2]")),
    ("Dict[T, U]", "bool", ("(<T> in <Dict[T, U]>)",)),
    ("Dict[T, U]", "int", ("len(<Dict[T, U]>)",)),
    ("Dict[T, U]", "Dict[T, U]", ("<Dict[T, U]>.copy()", "dict(<Dict[T, U]>)")),
    ("Tuple[T, U]", "T", ("<Tuple[T, U]>[0]", "<Tuple[T, U]>[-2]")),
    ("Tuple[T, U]", "U", ("<Tuple[T, U]>[1]", "<Tuple[T, U]>[-1]")),
    ("Tuple[T, U]", "Tuple[T, U]", ("<Tuple[T, U]>[0:2]", "(<Tuple[T, U]> + (<int>,))[:2]")),
    ("Optional[T]", "T", (
        "(<.Optional[T]:v> if <:v> is not None else <T>)",
        "(<T> if <.Optional[T]:v> is None else <:v>)", "torch.jit._unwrap_optional(<.Optional[T]>)",
    )),
    ("Optional[T]", "bool", ("(<Optional[T]> is None)", "(<Optional[T]> is not None)")),
    ("Optional[T]", "Optional[T]", ("(<T> if <bool> else None)",)),
)  # fmt: skip


SIMPLE_STATEMENTS: tuple[str, ...] = (
    "<=int> += <int>", "<=int> -= <int>", "<=int> *= <int>", "<=float> += <float>", "<=float> /= 2",
    "<=float> *= <int>", "<=str> += <str>[:2]", "<=Tensor> += <Tensor>", "<=Tensor> *= <int>",
    "<=Tensor> -= 1", "<=Tensor> /= 2", "<=Tensor> = <=Tensor> + <Tensor>",
    "<=int>, <=float> = <int>, <float>", "<+int> = <+int> = <int>", "<+int>, <+str> = <int>, <str>",
    "<+int>, <+float> = <Tuple[int, float]>",
    "<+int>, (<+float>, <+str>) = <int>, (<float>, <str>)", "<+int>, <+int> = <List[int]>",
    "<+Tensor>, <+Tensor> = <Tensor>.unbind(0)",
    "<+Tensor>, <+Tensor> = torch.max(<Tensor>, dim=0)", "<+int>, <+int> = <Tensor>.shape",
    "<+List[int]>: List[int] = <Tensor>.long().reshape(-1)[:3].tolist()",
    "<+float>: float = <Tensor>.float().sum().tolist()", "<=Tensor>[0] = <int>",
    "<=Tensor>[:1] = <Tensor>", "<=Tensor>[..., 0] += <int>", "<=Tensor>[<Tensor> > 0] = <float>",
    "<=List[int]>[0] += <int>", "<=List[int]>[-1] = <int>", "<=Dict[str, int]>['a'] += <int>",
    "print(<str>, <int>, 'grün')", "assert <bool>, 'ungültig'", "assert <bool>",
    "assert <bool>, <str>", "assert <int> < 9, f'{<.int>}'", "pass", "<Tensor>.add_(1)",
    "'a comment that stands alone'", "del <=List[int]>[0]", "<=List[int]>.sort()",
    "<=List[str]>.sort(reverse=True)", "torch.manual_seed(1)", "<=List[int]> += <List[int]>[:2]",
    "<=List[int]>, <=List[int]> = <List[int]>, <List[int]>", "torch._assert(<bool>, 'message')",
)  # fmt: skip

GENERIC_STATEMENTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("T", ("<+T> = <.T>", "<=T> = <T>", "<+T>: T = <T>")),
    ("Union[T, U]", (
        "<=Union[T, U]> = <Union[T, U]>", "<+Union[T, U]>: Union[T, U] = <Union[T, U]>",
    )),
    ("List[T]", (
        "<=List[T]>.append(<T>)", "<=List[T]>.extend(<List[T]>[:2])", "<=List[T]>.insert(0, <T>)",
        "<=List[T]>.reverse()", "<=List[T]>.clear()", "<=List[T]>[0] = <T>",
        "<+T> = <=List[T]>.pop()",
    )),
    ("Dict[T, U]", (
        "<=Dict[T, U]>[<T>] = <U>", "del <=Dict[T, U]>[<T>]", "<=Dict[T, U]>.update(<Dict[T, U]>)",
        "<=Dict[T, U]>.clear()", "<=Dict[T, U]>.setdefault(<T>, <U>)",
    )),
    ("Tuple[T, U]", ("<+T>, <+U> = <Tuple[T, U]>", "<+T>, *<+Tuple[U]> = <Tuple[T, U]>")),
)  # fmt: skip


_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-3, 6),
    "float": st.sampled_from((0.5, -1.5, 2.0, 0.1)),
    "bool": st.booleans(),
    "str": st.text("abc ", max_size=5),
    "complex": st.sampled_from((1j, 2 - 0.5j)),
}
_SHAPES = ((3,), (2, 3), (), (3, 3), (0,))


def _tensor(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    import torch

    count = torch.Size(shape).numel()
    return (torch.arange(count) - 1).reshape(shape).to(getattr(torch, dtype))


def arguments(type_: str) -> st.SearchStrategy[Any]:
    """Draw values for a parameter annotated with ``type_``."""
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if type_ == "Tensor":
        dtypes = st.sampled_from(("float32", "float32", "int64", "float64", "bool"))
        return st.builds(_tensor, st.sampled_from(_SHAPES), dtypes)
    head, inner = split(type_)
    inside = [arguments(part) for part in inner]
    match head:
        case "List":
            return st.lists(*inside, min_size=1, max_size=3)
        case "Dict":
            return st.dictionaries(*inside, min_size=1, max_size=3)
        case "Tuple":
            return st.tuples(*inside)
        case "Optional":
            return st.none() | inside[0]
    return st.one_of(inside)


_SMALL = st.integers(-3, 9)
_WHOLE = st.one_of(_SMALL, _SMALL, st.sampled_from((100, 2**31, 2**40, -(2**62))))


def _is_kept(value: float) -> bool:
    # TorchScript writes 1e10 as `10000000000`, which it reads back as an int.
    return math.isfinite(value) and not (1e10 <= abs(value) < 1e18)


_FLOATS = st.one_of(
    st.sampled_from((0.5, 2.0, -1.5, 0.0, 1.0, 1e-5, 3e20, 0.1)),
    st.floats(-4, 4),
    st.floats(allow_nan=False).filter(_is_kept),
)
# Carriage returns do not read back. TorchScript counts bytes, so non-ASCII text appears only in
# forms that do not slice it.
_TEXT = st.one_of(
    st.text("abc ", max_size=4),
    st.text("a'\"\\\n\t\x01\x7f{}%", max_size=4),
    st.sampled_from(("a text that is too long to stand inside an expression", "")),
)


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


LITERALS: dict[str, st.SearchStrategy[str]] = {
    "int": _WHOLE.map(str).map(_signed),
    "float": _FLOATS.map(repr).map(_signed),
    "bool": st.booleans().map(str),
    "str": _TEXT.map(repr),
    "complex": st.sampled_from(("1j", "(2+0.5j)", "complex(1, -1)")),
}


PLAIN_TYPES = ("int", "float", "Tensor", "bool", "str", "complex")
TYPES = (
    *PLAIN_TYPES,
    "List[int]", "List[Tensor]", "Optional[int]", "Optional[Tensor]", "Tuple[int, float]",
    "Dict[str, int]", "List[str]", "List[float]", "List[bool]", "List[List[int]]",
    "List[Tuple[int, str]]", "Dict[int, Tensor]", "Dict[str, List[int]]", "Tuple[Tensor, Tensor]",
    "Tuple[int, Tuple[float, str]]", "Tuple[float, str]", "Optional[str]", "Optional[List[int]]",
    "Optional[float]", "Tuple[List[int], bool]", "Union[int, str]",
)  # fmt: skip


def _bindings(pattern: str, types: Iterable[str] = TYPES) -> Iterator[dict[str, str]]:
    """Yield the bindings of the types that fit a pattern."""
    return (bound for type_ in types if (bound := match(pattern, type_)) is not None)


def _forms_by_type() -> dict[str, list[str]]:
    found = defaultdict(list, {type_: list(texts) for type_, texts in CONCRETE.items()})
    for pattern, result, texts in GENERIC:
        for bound in _bindings(pattern):
            found[substitute(result, bound)] += [substitute(text, bound) for text in texts]
    return found


@cache
def _leaves(type_: str) -> list[str]:
    return [
        substitute(text, bound)
        for pattern, texts in LEAVES.items()
        for bound in _bindings(pattern, [type_])
        for text in texts
    ]


def _statements() -> list[str]:
    generic = [
        substitute(text, bound)
        for pattern, texts in GENERIC_STATEMENTS
        for bound in _bindings(pattern)
        for text in texts
    ]
    return [*SIMPLE_STATEMENTS, *generic]


@dataclass(slots=True)
class Vocabulary:
    """The available forms.

    ``types`` are those a new variable or parameter may have; ``objects`` those of them that are
    script classes, ``names`` all definitions.
    """

    types: list[str] = field(default_factory=lambda: list(TYPES))
    expressions: dict[str, list[str]] = field(default_factory=_forms_by_type)
    leaves: dict[str, list[str]] = field(default_factory=dict)
    statements: list[str] = field(default_factory=_statements)
    names: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)

    def leaves_of(self, type_: str) -> list[str]:
        """Return forms that build a value from simpler ones: constructors and displays."""
        return self.leaves.get(type_) or _leaves(type_)

    def add(self, type_: str, *texts: str) -> None:
        self.expressions.setdefault(type_, []).extend(texts)

    def copy(self) -> Vocabulary:
        """Return a copy to extend: forms that only methods may use stay with the methods."""
        return Vocabulary(
            list(self.types),
            {type_: list(texts) for type_, texts in self.expressions.items()},
            {type_: list(texts) for type_, texts in self.leaves.items()},
            list(self.statements),
            set(self.names),
            set(self.objects),
        )


_HOLE = re.compile(
    r"<(?P<marker>[.=+]?)(?P<type>[A-Za-z][\w\[\], .]*)?(?::(?P<label>\w+))?"
    r"(?:\|(?P<name>\w+):(?P<extra>[\w\[\], ]+))?>"
)


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a form; ``type`` is empty where a label is used again."""

    marker: str
    type: str
    label: str
    extra: tuple[str, str] | None

    @property
    def needs_variable(self) -> bool:
        return self.marker in (".", "=") and self.type != ""


@cache
def parts(form: str) -> tuple[str | Hole, ...]:
    """Split a form into plain text and holes, in order."""
    found: list[str | Hole] = []
    end = 0
    for match in _HOLE.finditer(form):
        extra = (match["name"], match["extra"]) if match["name"] else None
        hole = Hole(match["marker"], match["type"] or "", match["label"] or "", extra)
        found += [form[end : match.start()], hole]
        end = match.end()
    return (*found, form[end:])


def holes(form: str) -> tuple[Hole, ...]:
    return tuple(part for part in parts(form) if isinstance(part, Hole))


_VARIABLE = re.compile(r"\b([TU])\b")


def split(type_: str) -> tuple[str, tuple[str, ...]]:
    """Split ``Dict[str, List[int]]`` into ``("Dict", ("str", "List[int]"))``."""
    head, bracket, rest = type_.partition("[")
    return head, tuple(_arguments(rest[:-1])) if bracket else ()


def _arguments(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for index, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and not depth:
            yield text[start:index].strip()
            start = index + 1
    yield text[start:].strip()


def match(pattern: str, type_: str) -> dict[str, str] | None:
    """Bind the type variables ``T`` and ``U`` of a pattern to parts of ``type_``.

    They are not bound to unions: an expression has one member of a union as its type.
    """
    if _VARIABLE.fullmatch(pattern):
        return None if type_.startswith("Union[") else {pattern: type_}
    (head, wanted), (found_head, found) = split(pattern), split(type_)
    if head != found_head or len(wanted) != len(found):
        return None
    bound: dict[str, str] = {}
    for one, other in zip(wanted, found, strict=True):
        inner = match(one, other)
        if inner is None:
            return None
        bound |= inner
    return bound


def substitute(text: str, bound: Mapping[str, str]) -> str:
    """Replace the type variables of ``text``."""
    return _VARIABLE.sub(lambda found: bound[found[1]], text)
