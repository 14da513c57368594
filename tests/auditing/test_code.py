"""What an audit says of code: operators by risk, when they run, and with which file names."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Tuple  # noqa: UP035 (torch.jit reads annotations of hooks in this form only)

import pytest
import torch

from tests.support.archives import torch_saved
from tests.support.auditing import archive_with, audited, audited_code, rules_of
from tsarchive import Severity
from tsarchive.operators.risks import Risk
from tsarchive.pickler import dumps
from tsarchive.scanning.report import When

HEADER = """class Net(Module):
  __parameters__ = []
  __buffers__ = []
"""


def net(*methods: str, head: str = "", tail: str = "") -> str:
    """The text of a class Net with these methods; ``head`` and ``tail`` stand around it."""
    return f"{head}{HEADER}{''.join(methods)}{tail}"


def method(body: str, *, name: str = "forward", arguments: str = "x: Tensor") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"  def {name}(self: __torch__.Net, {arguments}) -> Tensor:\n{lines}    return x\n"


def uses_of(report, risk=Risk.FILES):
    return [use for use in report.operators if use.risk is risk]


def files_of(report) -> set[str]:
    return {name for use in uses_of(report) for place in use.places for name in place.files}


class Forward(torch.nn.Module):
    def forward(self, x):
        torch.save(x, "forward.pt")
        return x


class AtLoad(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.zeros(4)

    @torch.jit.export
    def __getstate__(self):
        return self.weight, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[torch.Tensor, bool]):  # noqa: UP006
        made = torch.from_file("mapped.bin", shared=True, size=4)
        torch.save(made, "load.pt")
        self.weight = state[0]
        self.training = state[1]

    def forward(self, x):
        return x + self.weight


class Plain(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def writing_hook(self, input: Tuple[torch.Tensor]) -> Tuple[torch.Tensor]:  # noqa: UP006
    torch.save(input[0], "hook.pt")
    return input


def hooked() -> torch.nn.Module:
    module = Plain()
    module.register_forward_pre_hook(writing_hook)
    return module


class Exported(torch.nn.Module):
    def forward(self, x):
        return x

    @torch.jit.export
    def dump(self, x):
        torch.save(x, "exported.pt")
        return x


@pytest.mark.parametrize(
    ("module", "when", "files"),
    [
        (Forward(), When.CALL, {"forward.pt"}),
        (AtLoad(), When.LOAD, {"mapped.bin", "load.pt"}),
        (hooked(), When.HOOK, {"hook.pt"}),
        (Exported(), When.CALL, {"exported.pt"}),
    ],
    ids=["forward", "load", "hook", "another method"],
)
def test_file_writers_that_torch_saved(module, when, files):
    report = audited(torch_saved(torch.jit.script(module)))
    assert not report.ok
    assert {use.when for use in uses_of(report)} == {(when,)}
    assert files_of(report) == files
    found = [finding for finding in report.findings if finding.rule == "operator-files"]
    assert {finding.severity for finding in found} == {Severity.ERROR}
    assert all(finding.record.startswith("code/") and finding.line for finding in found)
    assert all(any(name in finding.message for finding in found) for name in files)


def test_a_module_that_computes_has_no_findings():
    report = audited(torch_saved(torch.jit.script(Plain())))
    assert report.ok
    assert report.findings == ()
    assert [use.operator for use in report.operators] == ["aten::relu"]
    assert [entry.when for entry in report.entry_points] == [When.CALL]


WRITING = 'torch.save(x, "f")'
HELPER = """  def helper(self: __torch__.Net, x: Tensor) -> Tensor:
    torch.save(x, "f")
    return x
"""
FUNCTION = 'def helper(x: Tensor) -> Tensor:\n  torch.save(x, "f")\n  return x\n'
OTHER = """class Other(Module):
  __parameters__ = []
  __buffers__ = []
  def work(self: __torch__.Other, x: Tensor) -> Tensor:
    torch.save(x, "f")
    return x
  def __len__(self: __torch__.Other) -> int:
    torch.save(torch.zeros([1]), "f")
    return 0
"""
INTERFACE = """class Working(ModuleInterface):
  def work(self: __torch__.Working, x: Tensor) -> Tensor:
    pass
"""


@pytest.mark.parametrize(
    "code",
    [
        net(method(WRITING)),
        net(method("_0 = (self).helper(x, )"), HELPER),
        net(method('_0 = getattr(self, "helper")(x, )'), HELPER),
        net(method("f = fork((self).helper, x)"), HELPER),
        net(method("_0 = __torch__.helper(x, )"), head=FUNCTION),
        net(method("f = __torch__.helper\n_0 = f(x, )"), head=FUNCTION),
        net(method("f = torch.save\nf(x, 'f')")),
        net(method("t = torch\nu = t\nu.save(x, 'f')")),
        net(method("getattr(torch, 'save')(x, 'f')")),
        net(method("ops.aten.save(x, 'f')")),
        net(method("torch.autograd.save(x, 'f')")),
        net(method("x.save('f')")),
        net(method("torch.save(x, 'f')\ntorch = x")),
        net(method("if bool(x):\n  torch.save(x, 'f')\nelse:\n  pass")),
        net(method("def inner():\n  torch.save(x, 'f')\n  return x\nf = fork(inner)")),
        net("  other : __torch__.Other\n", method("_0 = (self.other).work(x, )"), head=OTHER),
        net("  all : List[__torch__.Other]\n", method("_0 = (self.all)[0].work(x)"), head=OTHER),
        net("  other : __torch__.Working\n", method("_0 = (self.other).work(x, )"),
            head=OTHER + INTERFACE),
        net("  other : __torch__.Other\n", method("n = len(self.other)"), head=OTHER),
        net(method("o = __torch__.Other.__new__(__torch__.Other)\np = o\n_0 = (p).work(x, )"),
            head=OTHER),
        net(method("o = unchecked_cast(__torch__.Other, x)\n_0 = (o).work(x, )"), head=OTHER),
        net(method("", arguments='x: Tensor, n: Tensor=torch.from_file("f", True, 8)')),
        net(method(WRITING), head="import os\nimport a.b as c\n"),
    ],
    ids=[
        "forward", "method", "getattr", "fork of a method", "function", "function by a name",
        "operator by a name", "namespace by a name", "getattr of torch", "ops", "autograd",
        "method of a tensor", "a name that hides torch", "branch", "closure", "submodule",
        "in a list", "interface", "by syntax", "made object", "cast", "default of a parameter",
        "behind imports",
    ],
)  # fmt: skip
def test_every_way_to_an_operator_is_seen(code):
    report = audited_code(code)
    found = [f for f in report.findings if f.rule == "operator-files"]
    assert found, "the operator was not seen"
    assert max(f.severity for f in found) is Severity.ERROR
    assert When.CALL in {when for use in uses_of(report) for when in use.when}


def test_code_where_classes_of_libraries_are_named():
    code = net(method("_0 = __torch__.torch.classes.mine.helper(x, )"))
    record = {"code/__torch__/torch/classes/mine.py": FUNCTION.encode()}
    (use,) = uses_of(audited(archive_with(code, **record)))
    assert (use.operator, use.when) == ("aten::save", (When.CALL,))


def test_the_condition_of_a_loop_is_one_place():
    report = audited_code(net(method("while bool(torch.rand([1])):\n  pass")))
    (use,) = uses_of(report, Risk.RANDOMNESS)
    assert len(use.places) == 1


@pytest.mark.parametrize("branch", ["if False:", "if not True:"])
def test_branches_that_a_literal_rules_out_do_not_count(branch):
    report = audited_code(net(method(f"{branch}\n  torch.save(x, 'f')\nelse:\n  pass")))
    assert report.ok
    assert not uses_of(report)


@pytest.mark.parametrize("code", [net(method(""), head=FUNCTION), net(method(""), head=OTHER)])
def test_code_that_nothing_leads_to_is_a_warning(code):
    report = audited_code(code)
    assert {use.when for use in uses_of(report)} == {(When.NEVER,)}
    assert max(finding.severity for finding in report.findings) is Severity.WARNING


def test_code_without_objects_counts_as_reached():
    report = audited(archive_with(net(method(WRITING)), data=b"\x80\x02}."))
    assert {use.when for use in uses_of(report)} == {(When.CALL,)}


def test_a_method_name_that_several_classes_share_is_uncertain():
    code = net(method("_0 = CONSTANTS.c0.work(x, )"), head=OTHER)
    report = audited_code(code)
    (use,) = [use for use in report.operators if use.operator == "aten::work"]
    assert not use.is_certain
    places = [place for use in uses_of(report) for place in use.places]
    assert [place.when for place in places if place.function.endswith("work")] == [(When.CALL,)]


CALLED_WITH = """  def write(self: __torch__.Net, x: Tensor, name: str) -> Tensor:
    torch.save(x, name)
    return x
"""


@pytest.mark.parametrize(
    ("code", "files"),
    [
        (net(method('torch.save(x, "literal")')), {"literal"}),
        (net(method('torch.save(x, filename="keyword")')), {"keyword"}),
        (net(method('n = "local"\ntorch.save(x, n)')), {"local"}),
        (net(method('torch.save(x, torch.add("/tmp/", str(int(x))))')), {"/tmp/{...}"}),
        (net(method('torch.save(x, torch.format("a{}b", x))')), {"a{}b"}),
        (net(method("torch.save(x, str(x))")), {"{...}"}),
        (net(method('_0 = (self).write(x, "one")\n_1 = (self).write(x, "two")'), CALLED_WITH),
         {"one", "two"}),
        (net('  path : Final[str] = "fixed"\n', method("torch.save(x, self.path)")), {"fixed"}),
        (net("  path : str\n", method('self.path = "set"\ntorch.save(x, self.path)')), {"set"}),
    ],
    ids=["literal", "keyword", "local", "joined", "format", "computed", "parameter", "constant",
         "attribute"],
)  # fmt: skip
def test_file_names_are_followed_to_where_they_are_written(code, files):
    assert files_of(audited_code(code)) == files


def test_a_file_name_in_the_pickled_state():
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.path = "pickled.pt"

        def forward(self, x):
            torch.save(x, self.path)
            return x

    report = audited(torch_saved(torch.jit.script(Named())))
    assert files_of(report) == {"pickled.pt"}


@pytest.mark.parametrize(
    ("call", "risk", "severity"),
    [
        ("torch.save(x, 'f')", Risk.FILES, Severity.ERROR),
        ("_0 = rpc_sync('a', x)", Risk.PROCESSES, Severity.ERROR),
        ("_0 = ops.c10d.allreduce_(x)", Risk.NETWORK, Severity.ERROR),
        ("_0 = torch.set_(x)", Risk.MEMORY, Severity.WARNING),
        ("torch.manual_seed(1)", Risk.GLOBAL_STATE, Severity.WARNING),
        ("_0 = ops.aten._no_such_operator_(x)", Risk.UNKNOWN, Severity.WARNING),
        ("_0 = ops.mine.thing(x)", Risk.FOREIGN, Severity.INFO),
        ("print(x)", Risk.OUTPUT, Severity.INFO),
        ("_0 = torch.rand([1])", Risk.RANDOMNESS, Severity.INFO),
        ("_0 = torch.relu(x)", Risk.COMPUTE, None),
    ],
)
def test_severity_of_each_risk(call, risk, severity):
    report = audited_code(net(method(call)))
    found = {f.severity for f in report.findings}
    assert [use.risk for use in report.operators] == [risk]
    assert found == (set() if severity is None else {severity})
    assert report.ok == (severity in (None, Severity.INFO))


def test_bytecode_that_says_otherwise_than_the_code():
    tables = (("instructions", ()), ("operators", (("aten::save", ""), ("aten::add", "Tensor"))))
    bytecode = dumps((4, ("__torch__.Net.forward", tables)))
    report = audited(archive_with(net(method("")), **{"bytecode.pkl": bytecode}))
    (use,) = uses_of(report)
    assert (use.operator, use.places[0].record) == ("aten::save", "bytecode.pkl")
    assert not report.ok


def test_torchbind_classes_are_named():
    code = net("  packed : __torch__.torch.classes.mine.Thing\n", method(""))
    report = audited_code(code)
    assert report.classes == ("mine.Thing",)
    assert "code-native-class" in rules_of(report)


@pytest.mark.parametrize(
    "line",
    [
        'f = open("x")',
        '__import__("os")',
        'setattr(x, "a", x)',
        'torch.ops.load_library("x.so")',
        "torch.utils.cpp_extension.load(x)",
        'c = getattr(x, "__globals__")',
        "c = getattr(x, str(x))",
        'c = getattr(x, "__foo__")',
        'c = getattr(self, "__class____torch__")',
    ],
)
def test_names_that_mean_nothing_are_warnings(line):
    report = audited_code(net(method(line)))
    assert "code-unknown-name" in rules_of(report)
    assert not report.ok


def test_names_that_mean_something_are_not():
    code = (
        "n = len([x])\nm = max(1, 2)\nfor i in range(n):\n  print(int(x))\n_0 = isinstance(x, int)"
    )
    assert audited_code(net(method(code))).ok


@pytest.mark.parametrize("line", ["x = (", "import os", "c = x.__class__", "x = [y for y in x]"])
def test_code_that_is_no_torchscript_is_a_finding(line):
    report = audited_code(net(method(line)))
    assert "code-unreadable" in rules_of(report)
    assert not report.ok


@pytest.mark.parametrize(
    "code",
    [
        net(method("f = g\ng = f\nh = f\n_0 = h(x, )")),
        net(method("_0 = (self).forward(x, )")),
        net(method("x = " + "(" * 60 + "x" + ")" * 60)),
        net(method("x = " + "torch.relu(" * 80 + "x" + ")" * 80)),
        net(method("\n".join(f"a{i} = a{i + 1}" for i in range(200)))),
        net(method("x = " + ".".join(["x"] * 100))),
        net(method("".join(f"n{i} = n{i + 1}\n" for i in range(20)) * 40 + "torch.save(x, n0)")),
        net(method("n = n + n\n" * 300 + "torch.save(x, n)")),
    ],
    ids=[
        "aliases of each other",
        "recursion",
        "parentheses",
        "calls",
        "chain",
        "attributes",
        "many values of many names",
        "text that doubles",
    ],
)
def test_twisted_code_gives_a_report(code):
    assert audited_code(code).kind == "torchscript"


def test_calls_in_a_circle_are_walked_once():
    code = net(
        method("_0 = (self).back(x, )"),
        method("_0 = (self).forward(x, )\ntorch.save(x, 'f')", name="back"),
    )
    assert {use.when for use in uses_of(audited_code(code))} == {(When.CALL,)}


def test_torch_is_not_imported(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(archive_with(net(method(WRITING))))
    script = (
        "import sys, tsarchive\n"
        f"report = tsarchive.audit({str(path)!r})\n"
        "assert not report.ok\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)


def test_a_path_and_a_file_object_give_the_same_report(tmp_path):
    data = archive_with(net(method(WRITING)))
    path = tmp_path / "model.pt"
    path.write_bytes(data)
    import tsarchive

    assert tsarchive.audit(path) == tsarchive.audit(io.BytesIO(data))
