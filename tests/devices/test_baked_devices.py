"""Devices that code names move with the tensors: ``map_location`` reaches into the code."""

from __future__ import annotations

import pytest

import tsarchive
from tests.devices.subjects import (
    CPU,
    GPU,
    STORAGE_ON_GPU,
    archive,
    function,
    moved,
)
from tsarchive.errors import PickleError, SourceError
from tsarchive.pickler import Global, Object, dumps

# Statements as torch prints them, and what they are on the CPU.
TO_CPU = {
    "a factory": (
        'return torch.zeros([2], dtype=6, layout=0, device=torch.device("cuda:0"))',
        'return torch.zeros([2], dtype=6, layout=0, device=torch.device("cpu"))',
    ),
    "a conversion": ('return torch.to(x, torch.device("cuda"))', f"return torch.to(x, {CPU})"),
    "with an index": (
        'return torch.to(x, torch.device("cuda", 1), 6)', f"return torch.to(x, {CPU}, 6)"
    ),
    "single quotes": ("return torch.to(x, torch.device('cuda'))", f"return torch.to(x, {CPU})"),
    "two on a line": (f"return g({GPU}, {GPU}, )", f"return g({CPU}, {CPU}, )"),
    "over lines": ('return torch.to(x, torch.device(\n    "cuda"))',
                   'return torch.to(x, torch.device(\n    "cpu"))'),
    "behind other letters": (f'y = ("é", {GPU})', f'y = ("é", {CPU})'),
    "a method": ("return torch.cuda(x)", f"return torch.to(x, {CPU})"),
    "a method with a comma": ("return torch.cuda(x, )", f"return torch.to(x,  {CPU})"),
    "a method inside": (
        "return torch.add(torch.cuda(torch.cuda(x)), 1)",
        f"return torch.add(torch.to(torch.to(x, {CPU}), {CPU}), 1)",
    ),
    "a list": (f"y = [{GPU}, {CPU}]", f"y = [{CPU}, {CPU}]"),
    "an extension": ('return torch.to(x, torch.device("npu:3"))', f"return torch.to(x, {CPU})"),
    "a generator": (
        f"y = torch.Generator(device={GPU})", f"y = torch.Generator(device={CPU})"
    ),
    "a seeded generator": (
        'y = torch.Generator(device="cuda:0", seed=7)', 'y = torch.Generator(device="cpu", seed=7)'
    ),
    "pinned": (
        "y = torch.zeros([2], device=None, pin_memory=True)",
        "y = torch.zeros([2], device=None, pin_memory=False)",
    ),
    "pinning": ("return torch.pin_memory(x)", "return (x)"),
    "pinning as a trace has it": (f"return torch._pin_memory(x, {GPU})", "return (x)"),
    "pinning for a device": (f"return torch.pin_memory(x, {GPU})", "return (x)"),
    "a variable": ('d = "cuda"\nreturn torch.to(x, torch.device(d))',
                   'd = "cpu"\nreturn torch.to(x, torch.device(d))'),
    "either of two": (
        'if c:\n  d = "cuda"\nelse:\n  d = "cpu"\nreturn torch.to(x, torch.device(d))',
        'if c:\n  d = "cpu"\nelse:\n  d = "cpu"\nreturn torch.to(x, torch.device(d))',
    ),
    "an element": (
        '_0 = ["cuda:0", "cuda:1"]\nd = _0[1]\nreturn torch.to(x, torch.device(d))',
        '_0 = ["cpu", "cpu"]\nd = _0[1]\nreturn torch.to(x, torch.device(d))',
    ),
    "a comparison": (
        f"_0 = torch.eq(ops.prim.device(x), {GPU})", f"_0 = torch.eq(ops.prim.device(x), {CPU})"
    ),
    "a comparison the other way": (
        f"_0 = torch.ne({GPU}, ops.prim.device(x))", f"_0 = torch.ne({CPU}, ops.prim.device(x))"
    ),
    "one of a list": (
        f"y = torch.__contains__([{GPU}], ops.prim.device(x))",
        f"y = torch.__contains__([{CPU}], ops.prim.device(x))",
    ),
    "a list that is filled": (
        'l = annotate(List[str], [])\n_0 = torch.append(l, "cuda")\ny = torch.device(l[0])',
        'l = annotate(List[str], [])\n_0 = torch.append(l, "cpu")\ny = torch.device(l[0])',
    ),
    "a variable with an index": (
        't = "cuda"\ny = torch.device(t, 1)', f't = "cuda"\ny = {CPU}'
    ),
    "a cast": (
        'e = annotate(Optional[str], "cuda")\nd = unchecked_cast(str, e)\ny = torch.device(d)',
        'e = annotate(Optional[str], "cpu")\nd = unchecked_cast(str, e)\ny = torch.device(d)',
    ),
    "a formatted string": ('y = torch.device(torch.format("cuda:{}", i))', f"y = {CPU}"),
    "an added string": ('y = torch.device(torch.add("cuda:", str(i)))', f"y = {CPU}"),
    "a string in parts": (
        's = "cuda"\ny = torch.device(torch.format("{}:{}", s, 0))',
        f's = "cuda"\ny = {CPU}',
    ),
    "several at once": ('a, b = "cuda", "cuda"\ny = torch.device(b)',
                        'a, b = "cuda", "cpu"\ny = torch.device(b)'),
}  # fmt: skip

UNCHANGED = {
    "the same device": f"return torch.to(x, {CPU})",
    "no tensors at all": 'return torch.to(x, torch.device("meta"))',
    "a string": 'y = "cuda"',
    "a string that holds code": "y = 'torch.device(\"cuda\")'",
    "what is no device": 'y = torch.device("cuda:x")',
    "the type of a device": '_0 = torch.eq(ops.prim.type(ops.prim.device(x)), "cuda")',
    "is it": 'y = torch.__contains__(["cpu", "cuda", "meta"], ops.prim.type(d))',
    "is_cuda": "_0 = ops.prim.is_cuda(x)",
    "to the host": "return torch.cpu(x)",
    "casts": 'y = (_0).__init__("cuda", None, True, None, )',
    "what a caller gives": "return torch.to(x, torch.device(d))",
    "what a function gives": "y = torch.device(g(x, ))",
    "what a string is made of by a call": 'y = torch.device(torch.add("cuda:", g(x, )))',
    "a string that is printed": 'd = "cuda"\nprint(d)\ny = torch.device("cpu")',
    "not pinned": "y = torch.zeros([2], device=None, pin_memory=False)",
}


@pytest.mark.parametrize("form", TO_CPU)
def test_a_form_moves_to_the_cpu(form):
    before, after = TO_CPU[form]
    assert moved(function(before), "cpu") == function(after)


@pytest.mark.parametrize("form", UNCHANGED)
def test_a_form_stays(form):
    text = function(UNCHANGED[form], "x: Tensor,\n    d: str")
    assert moved(text, "cpu") == text


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("cuda:1", f'torch.to(torch.to(x, torch.device("cuda:1")), {CPU})'),
        ("cpu", f"torch.to(torch.to(x, {CPU}), {CPU})"),
        ("meta", 'torch.to(torch.to(x, torch.device("meta")), torch.device("meta"))'),
    ],
)
def test_who_names_another_device_means_the_cpu(target, expected):
    text = function(f"return torch.to(torch.to(x, {GPU}), {CPU})")
    assert moved(text, target) == function(f"return {expected}")


@pytest.mark.parametrize("record", ["data", "constants"])
def test_tensors_elsewhere_name_another_device(record):
    text = function(f"return torch.to(x, {CPU})")
    assert moved(text, "cuda:0") == function(f"return torch.to(x, {GPU})")
    there = {record: dumps((STORAGE_ON_GPU,))}
    assert moved(text, "cuda:0", **there) == text


def test_lengths_of_packed_sequences_stay_on_the_cpu():
    body = (
        "a = torch.as_tensor(n, dtype=4, device={})\n"
        "b, c = a, torch.zeros([1], device={})\n"
        "d, e = torch._pack_padded_sequence(x, b, True)"
    )
    assert moved(function(body.format(CPU, CPU)), "cuda:0") == function(body.format(CPU, GPU))


def test_lengths_that_were_made_elsewhere_move():
    body = (
        "a = torch.to(torch.sum(torch.to(x, {0}), [1]), {1})\n"
        "d, e = torch._pack_padded_sequence(torch.to(x, {0}), a, True)"
    )
    text = function(body.format(GPU, CPU))
    assert moved(text, "cpu") == function(body.format(CPU, CPU))
    assert moved(text, "cuda:1") == text.replace("cuda:0", "cuda:1")


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("cuda:0", "y = torch.zeros([2], device=None, pin_memory=True)"),
        ("cuda:0", "return torch.pin_memory(x)"),
        ("meta", 'y = torch.Generator(device="cpu", seed=7)'),
    ],
)
def test_what_another_device_needs_on_the_host_stays(target, body):
    assert moved(function(body), target) == function(body)


def test_nothing_pinned_is_made_on_another_device():
    body = "y = torch.zeros([2], device={}, pin_memory={})"
    assert moved(function(body.format(CPU, True)), "cuda:0") == function(body.format(GPU, False))


CLASSES = """\
class Part(Module):
  name : str
  def forward(self: __torch__.Part,
    x: Tensor) -> Tensor:
    return x
class Whole(Module):
  k : Final[Device] = torch.device("cuda:0")
  part : __torch__.Part
  def forward(self: __torch__.Whole,
    x: Tensor,
    d: Device=torch.device("cuda:0")) -> Tensor:
    part = self.part
    name = part.name
    _0 = __torch__.helper
    y = _0(x, "cuda:1", "cuda", )
    (self).again(y, "cuda", )
    self.part.name = "cuda:0"
    return torch.to(x, torch.device(name))
  def again(self: __torch__.Whole,
    x: Tensor,
    device: str="cuda") -> Tensor:
    return __torch__.helper(x, device, "cuda", )
def helper(x: Tensor,
    d: str,
    other: str) -> Tensor:
  print(other)
  return torch.to(x, torch.device(d))
"""


def test_strings_are_followed_through_calls_and_attributes():
    expected = CLASSES
    for before, after in (
        ('Final[Device] = torch.device("cuda:0")', 'Final[Device] = torch.device("cpu")'),
        ('d: Device=torch.device("cuda:0")', 'd: Device=torch.device("cpu")'),
        ('_0(x, "cuda:1", "cuda", )', '_0(x, "cpu", "cuda", )'),
        ('again(y, "cuda", )', 'again(y, "cpu", )'),
        ('part.name = "cuda:0"', 'part.name = "cpu"'),
        ('device: str="cuda"', 'device: str="cpu"'),
    ):
        assert before in expected
        expected = expected.replace(before, after)
    assert moved(CLASSES, "cpu") == expected


def test_strings_are_followed_through_results():
    text = (
        "class Picks(Module):\n  def forward(self: __torch__.Picks,\n    x: Tensor) -> Tensor:\n"
        "    return torch.to(x, torch.device((self).pick(__torch__.name(1, ), )))\n"
        "  def pick(self: __torch__.Picks,\n    n: str) -> str:\n"
        '    if torch.eq(n, "a"):\n      return "cuda:1"\n    return __torch__.name(2, )\n'
        'def name(n: int) -> str:\n  _0 = "cuda"\n  return _0\n'
    )
    assert moved(text, "cpu") == text.replace('"cuda:1"', '"cpu"').replace('"cuda"', '"cpu"')


def test_values_that_follow_themselves_come_to_an_end():
    text = function(
        'a = "cuda"\nfor i in range(3):\n  b = a\n  a = b\n'
        "  n = n.next\nreturn torch.to(x, torch.device(a), torch.device(n.name))"
    )
    assert moved(text, "cpu") == text.replace('"cuda"', '"cpu"')


HOSTILE = (
    "class Net(Module):\n  d : List[str]\n"
    "  def forward(self: __torch__.Net) -> Device:\n    return torch.device(self.d[0])\n"
)


@pytest.mark.long("test_values_that_follow_themselves_come_to_an_end")
def test_values_that_are_referred_to_very_often_are_visited_once():
    inner = ["cuda"]
    for _ in range(20):
        inner = [inner, inner]
    data = dumps(Object(Global("__torch__", "Net"), {"d": inner}))
    text = HOSTILE.replace("List[str]", f"{'List[' * 21}str{']' * 21}")
    module = tsarchive.load(archive(text, data=data), map_location="cpu")
    found = module.d
    for _ in range(20):
        assert found[0] is found[1]
        found = found[0]
    assert found == ["cpu"]


def test_values_that_are_nested_too_deeply_are_refused():
    inner = ["cuda"]
    for _ in range(5000):
        inner = [inner]
    data = dumps(Object(Global("__torch__", "Net"), {"d": inner}))
    with pytest.raises(PickleError, match="nested too deeply"):
        tsarchive.load(archive(HOSTILE, data=data), map_location="cpu")


def test_code_with_very_many_ways_is_read_in_time():
    """Each name has two sources, so there are very many paths and few names."""
    lines = [f"if c:\n  a{n} = a{n + 1}\nelse:\n  a{n} = b{n + 1}\nb{n} = a{n}"
             for n in range(60)]  # fmt: skip
    text = function("\n".join([*lines, "y = torch.device((a0).name)"]))
    assert moved(text, "cpu") == text


def test_code_that_is_nested_too_deeply_is_refused():
    name = ".".join(["self", *["a"] * 4000])
    with pytest.raises(SourceError, match="nested too deeply"):
        moved(function(f"y = torch.device({name})"), "cpu")
