"""Forms of TorchScript expressions by result type; see ``holes`` for the notation.

Values stay small: sequences and strings are truncated where an operator lengthens them, so that
they cannot grow without bound in a loop.
"""

from __future__ import annotations

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

LOOPS: tuple[str, ...] = (
    "for <+int> in range(3)", "for <+int> in range(<int> % 4)", "for <+int> in range(1, <int> % 5)",
    "for <+int> in range(4, 0, -2)", "for <+int> in <List[int]>", "for <+Tensor> in <List[Tensor]>",
    "for <+str> in <List[str]>", "for <+int>, <+Tensor> in enumerate(<List[Tensor]>)",
    "for <+int>, <+int> in enumerate(<List[int]>, 1)",
    "for <+int>, <+str> in zip(<List[int]>, <List[str]>)",
    "for <+int>, (<+int>, <+float>) in enumerate(zip(<List[int]>, <List[float]>))",
    "for <+str> in <Dict[str, int]>", "for <+str>, <+int> in <Dict[str, int]>.items()",
    "for <+Tensor> in <Dict[int, Tensor]>.values()", "for <+str> in <str>",
    "for <+Tensor> in <Tensor>", "for <+int>, <+str> in <List[Tuple[int, str]]>",
    "for <+int> in <List[int]>[::-1]", "for <+List[int]> in <List[List[int]]>",
)  # fmt: skip

# Loops that are unrolled: nothing may leave their body.
UNROLLED: tuple[str, ...] = (
    "for <+Tensor> in (<Tensor>, <Tensor>)",
    "for <+int>, <+Tensor> in enumerate((<Tensor>, <Tensor>))",
)  # fmt: skip

WITH: tuple[str, ...] = (
    "with torch.no_grad()",
    "with torch.autograd.profiler.record_function('a name')",
)
