"""Classes that are read as twins of others are what they are when each is read by itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.frontend import described, importer_of
from tsarchive.errors import ArchiveError
from tsarchive.frontend.matching import schema_text
from tsarchive.frontend.structural_sharing import Outline, Template, Twins
from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import annotation

_NUMBERS = (1, 2, 3)
_HEADER = "class Part(Module):\n  __parameters__ = []\n  __buffers__ = []\n"
_FORWARD = """  def forward(self: {own},
    x: Tensor) -> Tensor:
    return torch.relu(x)
"""
_TWINS = {
    "a leaf": 'class Part(Module):\n  __parameters__ = ["w", ]\n  __buffers__ = []\n  w : Tensor\n',
    "constants": f"{_HEADER}  a : Final[int] = 1\n  b : Final[Tuple[int, float]] = (1, 2.)\n",
    "submodules": f'{_HEADER}  first : {{inner}}\n  __annotations__["second part"] = {{inner}}\n',
    "hooks": f'{_HEADER}  __forward_hooks__ = ["hook", ]\n'
    "  def hook(self: {own},\n    x: Tuple[Tensor],\n    y: Tensor) -> Tensor:\n    return y\n",
    "a submodule that nothing defines": f"{_HEADER}  first : {{missing}}\n",
}
_OTHERS = {
    "a list that each may change": f"{_HEADER}  a : Final[List[int]] = [1, 2]\n",
    "a class within a type": f"{_HEADER}  parts : List[{{inner}}]\n",
    "a class that contains itself": f"{_HEADER}  next : Optional[{{own}}]\n",
    "a method that names a class": f"{_HEADER}  def other(self: {{own}},\n    x: {{inner}}) -> int:"
    "\n    return 1\n",
    "a mark in the text": f"{_HEADER}  a : Final[str] = '\0'\n",
    "a hook that is not there": f'{_HEADER}  __forward_hooks__ = ["gone", ]\n',
}


def _records(text: str) -> dict[str, str]:
    """Return three records with a class of this text, and three with a class that they name."""
    records = {}
    for number in _NUMBERS:
        folder = "code/__torch__/___torch_mangle_"
        names = {
            "{own}": f"__torch__.___torch_mangle_{number}.Part",
            "{inner}": f"__torch__.___torch_mangle_{number}0.Inner",
            # Only the last one is not there.
            "{missing}": f"__torch__.___torch_mangle_{number}{number // 3}.Inner",
        }
        made = text + _FORWARD
        for mark, name in names.items():
            made = made.replace(mark, name)
        records[f"{folder}{number}.py"] = f"\n{made}" if number == 2 else made
        records[f"{folder}{number}0.py"] = f"{_HEADER.replace('Part', 'Inner')}  flag : bool\n"
    return records


def _read(text: str) -> list[Any]:
    """Return what the three classes are, or what is wrong with them."""
    importer = importer_of(_records(text))
    found: list[Any] = []
    for number in _NUMBERS:
        try:
            class_ = importer.find_class(f"__torch__.___torch_mangle_{number}.Part")
        except ArchiveError as error:
            found.append(str(error))
        else:
            assert isinstance(class_, ClassType)
            found.append(_described(class_))
    return found


def _described(class_: ClassType) -> Any:
    functions = [*class_.methods.values(), *class_.forward_hooks]
    return (
        class_.qualified_name,
        [(a.name, annotation(a.type), *a[2:]) for a in class_.attributes.values()],
        class_.constants,
        [hook.qualified_name for hook in class_.forward_hooks],
        [(f.qualified_name, schema_text(f.schema), f.original.qualified_name) for f in functions],
        [str(described(function.graph)) for function in functions],
    )


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the classes that are read as twins from now on."""
    names: list[str] = []
    find = Twins.find

    def noted(self: Twins, name: str, outline: Outline) -> Template | None:
        template = find(self, name, outline)
        if template is not None and name.endswith("Part"):
            names.append(name)
        return template

    monkeypatch.setattr(Twins, "find", noted)
    return names


def _alone(monkeypatch: pytest.MonkeyPatch, text: str) -> list[Any]:
    monkeypatch.setattr(Twins, "find", lambda self, name, outline: None)
    return _read(text)


@pytest.mark.parametrize("text", _TWINS.values(), ids=_TWINS)
def test_a_twin_is_what_its_text_says(text, found, monkeypatch):
    read = _read(text)
    assert [name.split(".")[1][-1] for name in found] == ["2", "3"]
    assert read == _alone(monkeypatch, text)


@pytest.mark.parametrize("text", _OTHERS.values(), ids=_OTHERS)
def test_other_classes_have_no_twins(text, found, monkeypatch):
    read = _read(text)
    assert not found
    assert read == _alone(monkeypatch, text)


def test_a_name_that_is_no_submodule_is_read_by_itself(found):
    records = _records(_TWINS["submodules"])
    enum = "class Inner(Enum):\n  a = 1\n"
    records["code/__torch__/___torch_mangle_20.py"] = enum
    importer = importer_of(records)
    types = []
    for number in _NUMBERS:
        class_ = importer.find_class(f"__torch__.___torch_mangle_{number}.Part")
        assert isinstance(class_, ClassType)
        types.append([type(a.type).__name__ for a in class_.attributes.values()])
        assert class_.methods["forward"].original.qualified_name.count("_2.") == (number == 2)
    assert types == [["ClassType"] * 2, ["EnumType"] * 2, ["ClassType"] * 2]
    assert len(found) == 2


def test_a_method_of_another_class_makes_no_twin(found, monkeypatch):
    """What stands behind ``self`` does not count, but the class is not like the others then."""
    records = _records(_TWINS["a leaf"])
    record = "code/__torch__/___torch_mangle_2.py"
    records[record] = records[record].replace("___torch_mangle_2.Part", "___torch_mangle_3.Part")
    importer = importer_of(records)
    for number in _NUMBERS:
        importer.find_class(f"__torch__.___torch_mangle_{number}.Part")
    assert [name.split(".")[1][-1] for name in found] == ["3"]
