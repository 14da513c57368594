"""Where torch writes what it does not read back: what we write instead, or refuse.

Each test here proves the row of docs/deviations.md that names it.
"""

import enum
import io
import re
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

import tsarchive
from tests.support.archives import ROOT, TORCH, records_of, saved, torch_loaded, torch_saved
from tests.support.deviating import (
    AssignsAccent,
    AssignsKeyword,
    Both,
    CallsAnnotate,
    ChildNamed,
    Children,
    Clipped,
    ConstantNamed,
    Convolution,
    Data,
    FunctionAccent,
    HidesAnnotate,
    HidesRange,
    HidesTorch,
    HoldsAnything,
    KeywordOnlyLast,
    LateRange,
    MakesTotal,
    MaybeMarker,
    MaybeNothing,
    MaybePoint,
    MemberAccent,
    MethodAccent,
    MethodKeyword,
    NumbersOrText,
    OddParameters,
    PropertyAccent,
    ReadsReturn,
    Scale,
    Shrunk,
    Total,
    TwoElementTypes,
    UnitedByUnion,
    Ünit,
    of_module,
)
from tests.torchscript.deviating_tuples import (
    Appends,
    AppendsNone,
    BranchesToLists,
    BranchesToTuples,
    CarriesList,
    CarriesTuple,
    HidesAnnotateInTuples,
    Indexes,
    KeepsVariable,
    LongReturn,
    Nests,
    ReadsBack,
    Searches,
    SetsAttribute,
    SetsItem,
)
from tests.torchscript.deviating_values import (
    CarriageReturns,
    EnumInfinity,
    EnumNan,
    EnumNegativeZero,
    EnumStrings,
    WholeFloatAsScalar,
    WholeFloats,
    ZerosInConstant,
    ZerosInDefaults,
    ZerosInTuple,
)

X = torch.tensor([1.0, -2.0])
AS_IS: tuple[tuple[Any, ...], ...] = ((),)


def shown(value: Any) -> str:
    """A result as text in which signs of zeros, types and required gradients can be seen."""
    match value:
        case Tensor():
            return f"{value.dtype} {value.requires_grad} {value.tolist()}"
        case list() | tuple():
            return f"{type(value) is list} {[shown(item) for item in value]}"
        case dict():
            return str([(shown(key), shown(item)) for key, item in value.items()])
        case enum.Enum():
            return f"{value.name} {value.value!r}"
    return repr(value)


def results(module, calls) -> list[str]:
    return [shown(module(*arguments)) for arguments in calls]


def reads_back(data: bytes, expected: list[str], calls) -> bool:
    """Whether torch loads ``data`` as a module that gives these results."""
    try:
        return results(torch_loaded(data), calls) == expected
    except (RuntimeError, UnicodeDecodeError, IndexError):
        return False


def check_written(module, calls=AS_IS) -> str:
    """torch's own archive does not read back and ours does; gives our code."""
    scripted = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)
    expected = results(scripted, calls)
    assert not reads_back(torch_saved(scripted), expected, calls)
    ours = saved(scripted)
    assert reads_back(ours, expected, calls)
    assert list(torch_loaded(ours).state_dict()) == list(scripted.state_dict())
    mine = tsarchive.load(io.BytesIO(ours), policy=tsarchive.Policy.trusted())
    assert results(mine, calls) == expected
    assert records_of(saved(mine)) == records_of(ours)
    return "".join(c.decode() for name, c in records_of(ours).items() if name.endswith(".py"))


def check_refused(tmp_path, module, reason: str, calls=AS_IS, since=(0,), until=(99,)) -> None:
    """torch's own archive does not read back; our save fails and leaves the old file alone.

    ``until`` is the first torch that reads it; those before it would still misread the file, from
    ``since`` on.
    """
    scripted = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)
    is_read = reads_back(torch_saved(scripted), results(scripted, calls), calls)
    assert is_read == (not since <= TORCH < until)
    path = tmp_path / "model.pt"
    path.write_bytes(b"old")
    with pytest.raises(tsarchive.SaveError, match=reason):
        tsarchive.save(scripted, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


# --- numbers ---


@pytest.mark.parametrize("make", [WholeFloats, WholeFloatAsScalar])
def test_whole_floats(make):
    assert "10000000000." in check_written(make())


@pytest.mark.parametrize("make", [ZerosInTuple, ZerosInConstant, ZerosInDefaults])
def test_zeros_of_both_signs(tmp_path, make):
    check_refused(tmp_path, make(), r"0\.0 and -0\.0 in one constant", until=(2, 15))


# --- strings ---


def test_carriage_returns():
    assert r'"\015"' in check_written(CarriageReturns())


# --- enums ---


def test_enum_strings():
    text = check_written(EnumStrings())
    assert 'DOUBLE = "say \\"a\\""' in text
    assert 'LINES = "a\\nb"' in text


def test_enum_infinities():
    assert "LOW = -1e999\n  HIGH = 1e999" in check_written(EnumInfinity())


def test_enum_negative_zeros():
    assert "BELOW = -0." in check_written(EnumNegativeZero())


def test_enum_nans(tmp_path):
    check_refused(tmp_path, EnumNan(), "nan has no literal")


# --- names ---


TORCHSCRIPT_KEYWORDS = [
    "and",
    "as",
    "assert",
    "break",
    "class",
    "continue",
    "def",
    "del",
    "elif",
    "else",
    "Ellipsis",
    "False",
    "for",
    "global",
    "if",
    "import",
    "in",
    "is",
    "None",
    "NoneType",
    "not",
    "or",
    "pass",
    "raise",
    "return",
    "True",
    "while",
    "with",
]


@pytest.mark.parametrize("name", TORCHSCRIPT_KEYWORDS)
def test_attributes_named_like_keywords(name):
    text = check_written(Children("a", name, "b"), ((X,),))
    assert f'__annotations__["{name}"] = ' in text
    assert f'getattr(parts, "{name}")' in text


ODD_NAMES = ['a"b', "a\\b", "a\nb", "a\n  b : int\nc", '"', "\\"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_attributes_with_quotes_and_line_breaks(name):
    check_written(Children("a", name, "b"), ((X,),))
    check_written(Data(name))


def test_attributes_with_carriage_returns():
    assert '"a\\015b"' in check_written(ReadsReturn())


@pytest.mark.parametrize("name", ["é", "日本語", "\U0001f600", "naïve"])
def test_attributes_outside_ascii(name):
    octal = "".join(f"\\{b:03o}" if b > 127 else chr(b) for b in name.encode())
    assert f'"{octal}"' in check_written(Children(name), ((X,),))


METADATA = ["__parameters__", "__buffers__", "__forward_hooks__", "__forward_pre_hooks__"]


@pytest.mark.parametrize("name", METADATA)
def test_attributes_named_like_class_metadata(name):
    assert f'__annotations__["{name}"] = ' in check_written(ChildNamed(name))


@pytest.mark.parametrize("make", [AssignsKeyword, AssignsAccent])
def test_assignments_to_such_attributes(tmp_path, make):
    check_refused(tmp_path, make(), "the name of an assigned attribute '(NoneType|é)' has no form")


@pytest.mark.parametrize("name", ["pass", "0", "a b", 'a"b', "a\nb", "é", "__parameters__"])
def test_constants_of_such_names(tmp_path, name):
    check_refused(tmp_path, ConstantNamed(name), "the constant name .* has no form")


BADLY_NAMED = [
    MethodKeyword, MethodAccent, FunctionAccent, MemberAccent, PropertyAccent, Ünit,
]  # fmt: skip


@pytest.mark.parametrize("make", BADLY_NAMED)
def test_definitions_of_such_names(tmp_path, make):
    reason = "(name|part) '.*' has no form that torch.jit reads back"
    check_refused(tmp_path, make(), reason)


@pytest.mark.parametrize(
    "path", ["models.v1.5", "a.import.b", "モデル", "a b", "torch.classes.mine"]
)
def test_modules_of_such_names(tmp_path, path):
    check_refused(tmp_path, of_module(path), re.escape(f"__torch__.{path}."), ((X,),))


def test_values_of_modules_with_a_dash(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, Total.__module__, sys.modules[MakesTotal.__module__])
    check_refused(tmp_path, MakesTotal(), "in __torch__.my-model.Total, the part 'my-model'")


def test_types_of_modules_with_a_dash_are_written():
    scripted = torch.jit.script(of_module("my-model"))
    assert reads_back(torch_saved(scripted), results(scripted, ((X,),)), ((X,),))
    theirs, ours = records_of(torch_saved(scripted)), records_of(saved(scripted))
    (name,) = {name for name in theirs if name.endswith("my-model.py")}
    assert ours[name] == theirs[name]


def test_parameters_of_such_names():
    assert "NoneType0: int,\n    __: int" in check_written(OddParameters(), ((1, 2),))


@pytest.mark.parametrize(
    ("make", "arguments", "text"),
    [
        (HidesTorch, (X, X), "torch0: Tensor"),
        (HidesRange, ([1, 2],), "range0 = "),
        (HidesAnnotate, (2,), "annotate0 = "),
    ],
)
def test_values_that_hide_builtins(make, arguments, text):
    assert text in check_written(make(), (arguments,))


def test_values_behind_the_last_use_of_a_builtin_keep_their_names():
    scripted = torch.jit.script(LateRange())
    assert (
        records_of(saved(scripted))["code/__torch__/tests/support/deviating.py"]
        == (records_of(torch_saved(scripted))["code/__torch__/tests/support/deviating.py"])
    )


def test_functions_that_hide_builtins(tmp_path):
    check_refused(tmp_path, CallsAnnotate(), "the function 'annotate' needs the builtin")


# --- types ---


def test_classes_without_a_body():
    assert "class Marker:\n  __annotations__ = []\n" in check_written(MaybeMarker())


@pytest.mark.parametrize("make", [MaybeNothing, HoldsAnything])
def test_named_tuples_and_interfaces_without_a_body(tmp_path, make):
    check_refused(tmp_path, make(), "has neither fields nor methods")


def test_unions_with_all_numbers():
    text = check_written(NumbersOrText(), (("a",), (2.5,)))
    assert "Union[str, number]" in text
    assert "Union[Tensor, number]" in text


def test_branches_that_a_union_unites():
    text = check_written(UnitedByUnion(), ((X,), (-X,)))
    assert "a : Union[int, str] = 1" in text


STEPS = "List[Tuple[int, Optional[Tensor]]]"


@pytest.mark.parametrize(
    ("make", "shown_type"),
    [
        (Appends, f"annotate({STEPS}, [(1, None)])"),
        (AppendsNone, f"annotate({STEPS}, [(1, x)])"),
        (SetsItem, 'annotate(Dict[str, Tuple[int, Optional[Tensor]]], {"a": (1, None)})'),
        (SetsAttribute, f"annotate({STEPS}, [(1, None)])"),
        (Nests, f"annotate({STEPS}, [(1, None)])"),
        (BranchesToLists, f"annotate({STEPS}, [(1, None)])"),
        (KeepsVariable, "annotate(List[Tuple[Optional[Tensor], int]], [(None, 1)])"),
        (CarriesList, f"annotate({STEPS}, [(1, None)])"),
        (HidesAnnotateInTuples, f"annotate({STEPS}, [(annotate0, None)])"),
        (LongReturn, f"_0 : {STEPS} = [(1, x), (2, x), "),
    ],
)
def test_literals_of_wide_tuples(make, shown_type):
    assert shown_type in check_written(make(), ((X,), (X.repeat(2),)))


def test_variables_of_wide_tuples():
    text = check_written(CarriesTuple(), ((X,), (X, 0)))
    assert "step0: Tuple[int, Optional[Tensor]] = step" in text
    text = check_written(BranchesToTuples(), ((X,), (X.repeat(2),)))
    assert text.count("_0 : Tuple[int, Union[int, str], Union[int, str]] = ") == 2


def test_wide_tuples_that_nothing_declares(tmp_path):
    check_refused(tmp_path, Indexes(), "wider declared types", ((1,),))


def test_a_search_with_beams():
    check_written(Searches(), ((X,), (X, 0)))


def test_canonical_form_of_wide_tuples():
    module = torch.jit.script(Searches())
    data = io.BytesIO()
    tsarchive.save(module, data, canonical=True)
    assert reads_back(data.getvalue(), results(module, ((X,),)), ((X,),))


def test_wide_tuples_that_read_back():
    """They keep torch's text."""
    module = torch.jit.script(ReadsBack())
    theirs, ours = torch_saved(module), saved(module)
    assert reads_back(theirs, results(module, ((X,),)), ((X,),))
    name = "code/__torch__/tests/torchscript/deviating_tuples.py"
    assert records_of(ours)[name] == records_of(theirs)[name]


def test_keyword_only_parameters_behind_defaults(tmp_path):
    check_refused(tmp_path, KeywordOnlyLast(), "'scale' of 'scaled' stands behind", ((X,),))


def test_types_of_one_name_from_two_files():
    one = torch_saved(torch.jit.script(MaybePoint()))
    both = Both(torch_loaded(one), torch_loaded(one))
    text = check_written(both, ((3,), (-1,)))
    assert "Optional[__torch__.tests.support.deviating.___torch_mangle_" in text


# --- tensors ---


def test_tensor_constants_that_require_grad():
    module = Scale()
    traced = torch.jit.trace(module, (X,))
    module.by.requires_grad_(True)
    text = check_written(traced, ((X,),))
    assert "torch.requires_grad_(torch.detach(CONSTANTS.c0))" in text


needs_mkldnn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this build of torch has no MKL-DNN"
)


@needs_mkldnn
def test_tensors_optimised_for_inference():
    module = torch.jit.optimize_for_inference(torch.jit.script(Convolution().eval()))
    with pytest.warns(UserWarning, match="such as aten::to_mkldnn"):
        text = check_written(module, ((torch.ones(1, 1, 5, 5),),))
    assert "torch.to_mkldnn(CONSTANTS.c0)" in text


@needs_mkldnn
def test_operators_with_attributes(tmp_path):
    module = torch.jit.optimize_for_inference(torch.jit.script(Clipped().eval()))
    reason = "holds max_val, min_val, which code cannot say"
    check_refused(tmp_path, module, reason, ((torch.ones(1, 1, 5, 5),),))


def test_tensors_of_two_types_over_one_storage():
    check_written(TwoElementTypes())


def test_tensors_beyond_their_storage(tmp_path):
    check_refused(tmp_path, Shrunk(), "needs a larger storage than it has", since=(2, 13))


# --- the table ---


ABOUT_NO_ROW = {
    "test_a_search_with_beams",
    "test_canonical_form_of_wide_tuples",
    "test_wide_tuples_that_read_back",
    "test_types_of_modules_with_a_dash_are_written",
    "test_values_behind_the_last_use_of_a_builtin_keep_their_names",
    "test_each_row_has_its_test",
    "test_rows_about_running_have_tests_elsewhere",
}


def test_each_row_has_its_test():
    table = (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")
    named = re.findall(r"^\|.*\| `(test_\w+)` \|$", table, re.MULTILINE)
    here = [name for name in globals() if name.startswith("test_")]
    assert named == [name for name in here if name not in ABOUT_NO_ROW]


def test_rows_about_running_have_tests_elsewhere():
    table = (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)` \|$", table, re.MULTILINE)
    assert named
    for file, name in named:
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")
