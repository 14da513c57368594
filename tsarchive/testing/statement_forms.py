"""Forms of TorchScript statements; see ``holes`` for the notation."""

from __future__ import annotations

SIMPLE: tuple[str, ...] = (
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

GENERIC: tuple[tuple[str, tuple[str, ...]], ...] = (
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
