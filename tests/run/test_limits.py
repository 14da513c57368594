"""Budgets of running code: steps, seconds and bytes, and where a call ends that exceeds one."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from typing import Any

import pytest
import torch

import tsarchive
from tests.support.archives import loaded, torch_saved
from tests.support.command_line import document, run
from tests.support.running import function_saved, hand_written, method
from tsarchive import ArchiveError, CallError, LimitError, Limits, ScriptError
from tsarchive.adopt.torch_jit import adopt_function
from tsarchive.policy import Guard
from tsarchive.run.classes import Classes
from tsarchive.run.linkage import source_of

X = torch.ones(2)
# Enough for every program here that ends, and soon spent by those that do not.
SMALL = {
    "steps": Limits(steps=20_000),
    "seconds": Limits(seconds=0.2),
    "nbytes": Limits(nbytes=30_000),
}
TIGHT = pytest.mark.parametrize("limits", SMALL.values(), ids=SMALL)


@pytest.mark.parametrize("name", ["steps", "seconds", "nbytes"])
@pytest.mark.parametrize("bound", [-1, "1", True, math.nan, math.inf, [1]])
def test_bounds_that_are_none(name, bound):
    with pytest.raises(CallError, match=name):
        Limits(**{name: bound})


@pytest.mark.parametrize("name", ["steps", "nbytes"])
def test_whole_bounds(name):
    with pytest.raises(CallError, match=name):
        Limits(**{name: 1.5})


def test_limits_are_values():
    assert Limits() == Limits(None, None, None)
    assert Limits(1, 0.5, 2) == Limits(steps=1, seconds=0.5, nbytes=2)
    assert pickle.loads(pickle.dumps(Limits(seconds=0))) == Limits(seconds=0)


# Programs that do not end by themselves, and which bounds end them. Loops that hold on to
# nothing take no bytes.
ENDLESS = {
    "counting": ("n = 0\nwhile n >= 0:\n  n = (n + 1) % 7\nreturn n", ("steps", "seconds")),
    "counted loop": (
        "n = 0\nfor i in range(9223372036854775807):\n  n = i\nreturn n",
        ("steps", "seconds"),
    ),
    "nested loops": (
        "n = 0\nfor i in range(100000000):\n  for j in range(100000000):\n    n = i ^ j\nreturn n",
        ("steps", "seconds"),
    ),
    "tensors": ("while True:\n  x = x + 1\nreturn x", ("steps", "seconds", "nbytes")),
    "tensor in place": ("while True:\n  x.add_(1)\nreturn x", ("steps", "seconds")),
    "string": ("s = 'ab'\nwhile len(s) > 0:\n  s = s + s\nreturn s", ("steps", "nbytes")),
    "list": ("a = [1]\nwhile len(a) > 0:\n  a.append(1)\nreturn a", ("steps", "seconds", "nbytes")),
    "list doubled": ("a = [1]\nwhile len(a) > 0:\n  a += a\nreturn a", ("steps", "nbytes")),
    "list times": ("a = [1]\nwhile len(a) > 0:\n  a = a * 3\nreturn a", ("steps", "nbytes")),
    "dict": (
        "d = {0: 1}\nwhile len(d) > 0:\n  d[len(d)] = 1\nreturn d",
        ("steps", "seconds", "nbytes"),
    ),
    "list literal": (
        "n = 1\nwhile n > 0:\n  n = max([n, n + 1, 3])\nreturn n",
        ("steps", "seconds", "nbytes"),
    ),
    "cat": ("while True:\n  x = torch.cat([x, x])\nreturn x", ("nbytes",)),
    "string times": (
        "s = 'ab'\nwhile len(s) > 0:\n  s = s.replace('a', 'abab')\nreturn s",
        ("steps", "nbytes"),
    ),
}


@pytest.mark.parametrize(
    ("name", "bound"), [(name, bound) for name, row in ENDLESS.items() for bound in row[1]]
)
def test_endless_programs_end(name, bound):
    module = loaded(function_saved(ENDLESS[name][0]), limits=SMALL[bound])
    with pytest.raises(LimitError, match=f"{bound} in __torch__") as caught:
        module(X.clone())
    assert caught.value.limit == getattr(SMALL[bound], bound)
    assert "f: " not in str(caught.value)
    assert caught.value.hint


def test_errors_say_each_thing_once():
    code = "while True:\n  x = x + 1\nreturn x"
    endless = loaded(function_saved(code), limits=Limits(steps=4711))
    with pytest.raises(LimitError, match="its budget of steps in __torch__") as caught:
        endless(X.clone())
    told = str(caught.value)
    assert (told.count("4711"), told.count("budget")) == (1, 1)


# One operator takes too much, of bytes and of steps. Sizes are arguments: torch would compute
# with constants while it compiles.
HUGE = {
    "range": "return list(range(n))",
    "list times": "return [1, 2] * n",
    "times list": "return n * [1, 2]",
    "list times in place": "a = [1, 2]\na *= n\nreturn a",
    "ljust": "return s.ljust(n)",
    "rjust": "return s.rjust(n)",
    "center": "return s.center(n)",
    "zfill": "return s.zfill(n)",
    "expandtabs": "return '\\t'.expandtabs(n)",
    "replace nothing": "return s.replace('', 'b', n)",
    "replace": "t = s.ljust(100000, s)\nreturn t.replace(s, t)",
    "join": "t = s.ljust(100000, s)\nreturn t.join(list(t))",
    "format": "t = s.ljust(900000)\nreturn '{}{}{}'.format(t, t, t)",
    "percent": "t = s.ljust(900000)\nreturn '%s%s%s' % (t, t, t)",
    "text of a tensor": "return str(x.expand(1000000000, 2))",
    "list of a tensor": "a: List[List[float]] = x.expand(1000000000, 2).tolist()\nreturn a",
}


@pytest.mark.parametrize("bound", ["steps", "nbytes"])
@pytest.mark.parametrize("name", HUGE)
def test_huge_values_are_not_made(name, bound):
    limits = Limits(steps=3000) if bound == "steps" else Limits(nbytes=1_500_000)
    module = loaded(function_saved(HUGE[name], "f(x: Tensor, s: str, n: int)"), limits=limits)
    with pytest.raises(LimitError, match=bound):
        module(X, "a", 1_000_000_000_000)


def test_slow_natives_count_steps():
    module = loaded(
        function_saved("return math.factorial(n)", "f(n: int)"), limits=Limits(steps=1000)
    )
    assert module(20) == 2432902008176640000
    with pytest.raises(LimitError, match="steps"):
        module(1_000_000_000)


def nested(depth: int) -> str:
    """Lists of which each holds the one before twice."""
    lines, kind = ["a0 = [1, 2]"], "List[int]"
    for level in range(1, depth):
        kind = f"List[{kind}]"
        lines.append(f"a{level}: {kind} = [a{level - 1}, a{level - 1}]")
    return "\n".join(lines)


@pytest.mark.parametrize("result", ["a39", "str(a39)"])
@TIGHT
def test_shared_lists_are_not_spread_out(result, limits):
    module = loaded(function_saved(f"{nested(40)}\nreturn {result}", "f()"), limits=limits)
    with pytest.raises(LimitError):
        module()


# Straight code of as many nodes as it says, and branches and loops that run so many.
COUNTED = {
    "nothing": ("return x", 0),
    "operators": ("y = x + 1\nreturn y * 2", 2),
    "numbers": ("return int(x[0].item()) + 1", 4),
    "branch": ("if x.dim() == 1:\n  y = x + 1\nelse:\n  y = x * 2 - 1\nreturn y", 2 + 1 + 1),
    "loop": ("y = x\nfor i in range(5):\n  y = y * 2 + i\nreturn y", 1 + 5 * (2 + 1)),
    "while": ("n = x.dim()\nwhile n < 3:\n  n = n + 1\nreturn n", 3 + 2 * (2 + 1)),
    "lists": ("a = [x.dim(), 2]\na.append(3)\nreturn a", 3),
    "dead code": ("y = x + 1\nz = x + 2\nreturn z", 1),
    "short strings": ("s = 'a' + str(x.dim())\nreturn s == 'a1'", 4),
}


@pytest.mark.parametrize("name", COUNTED)
def test_steps_are_counted_exactly(name):
    body, steps = COUNTED[name]
    data = function_saved(body)
    expected = loaded(data)(X)
    found = loaded(data, limits=Limits(steps=steps))(X)
    assert torch.equal(found, expected) if isinstance(found, torch.Tensor) else found == expected
    if steps:
        with pytest.raises(LimitError, match="steps"):
            loaded(data, limits=Limits(steps=steps - 1))(X)


def test_each_call_has_a_budget_of_its_own():
    module = loaded(function_saved("return x + 1"), limits=Limits(steps=1, nbytes=8))
    for _ in range(3):
        assert module(X).tolist() == [2.0, 2.0]


def test_no_time_at_all():
    module = loaded(function_saved("return x + 1"), limits=Limits(seconds=0))
    with pytest.raises(LimitError, match=r"budget of seconds .*\(limit 0\)"):
        module(X)


SIMPLE = method("return torch.add(x, self.buffer)")
CALLING = {
    "itself": method("return (self).forward(x)"),
    "each other": method("return (self).other(x)")
    + method("return (self).forward(x)", "other(self, x: Tensor) -> Tensor"),
    "itself twice": method("return torch.add((self).forward(x), (self).forward(x))"),
}


@pytest.mark.parametrize("name", CALLING)
def test_recursion_ends(name):
    data = hand_written(CALLING[name])
    with pytest.raises(LimitError, match="steps"):
        loaded(data, limits=Limits(steps=100))(X)
    with pytest.raises(ScriptError, match="nested too deeply") as caught:
        loaded(data)(X)
    assert isinstance(caught.value, RecursionError)


@pytest.mark.parametrize("name", CALLING)
def test_recursion_through_hooks_ends_in_any_thread(name):
    """Calls of a hooked module go through torch, which takes the stack of the process."""
    module = loaded(hand_written(CALLING[name]))
    module.register_forward_pre_hook(lambda module, given: None)
    found: list[Exception] = []

    def call() -> None:
        try:
            module(X)
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    call()
    assert [type(error).__name__ for error in found] == ["RecursionError"] * 2
    assert all(isinstance(error, ArchiveError) for error in found)


def test_without_limits_generated_code_is_the_same():
    scripted = torch.jit.CompilationUnit(
        "def f(x: Tensor):\n  for i in range(3):\n    x = x + [1, i][0]\n  return x\n"
    ).f
    plain, unlimited, limited = (
        source_of(classes.compiler.function(adopt_function(scripted)).compile())
        for classes in (
            Classes(),
            Classes(None, Guard(limits=Limits())),
            Classes(None, Guard(limits=Limits(steps=1))),
        )
    )
    assert plain == unlimited
    assert "spend" not in plain
    kept = [line for line in limited.splitlines() if "spend(" not in line]
    assert plain.splitlines() == kept


class Endless(torch.nn.Module):
    """Ends where ``n`` is small, as do its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.count = 2

    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = x + 1
        return x

    @torch.jit.export
    def calls(self, x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = self.inner(x)
        return x

    @torch.jit.export
    def forked(self, x: torch.Tensor, n: int) -> torch.Tensor:
        later = torch.jit.fork(turns, x, n)
        return x if n > 10 else torch.jit.wait(later)

    @torch.jit.export
    def guarded(self, x: torch.Tensor, n: int) -> torch.Tensor:
        with Turning(n):
            x = turns(x, n)
        return x

    @property
    def turned(self) -> torch.Tensor:
        return turns(torch.ones(1), self.count)


def turns(x: torch.Tensor, n: int) -> torch.Tensor:
    for _ in range(n):
        x = x + 1
    return x


@torch.jit.script
class Turning:
    def __init__(self, n: int) -> None:
        self.n = n

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        turns(torch.ones(1), self.n)
        n = 0
        while n >= 0:
            n = (n + self.n) % 7


@pytest.fixture(scope="module")
def endless() -> bytes:
    scripted = torch.jit.script(Endless())
    scripted.count = 1_000_000_000
    return torch_saved(scripted)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["forward", "calls", "forked", "guarded"])
@TIGHT
def test_methods_end(endless, name, limits):
    module = loaded(endless, limits=limits)
    call = module if name == "forward" else getattr(module, name)
    with pytest.raises(LimitError):
        call(X, 1_000_000_000)
    if name != "guarded":
        assert call(X, 2).shape == X.shape


@TIGHT
def test_properties_end(endless, limits):
    with pytest.raises(LimitError):
        loaded(endless, limits=limits).turned  # noqa: B018


@TIGHT
def test_python_hooks_share_the_budget(endless, limits):
    module = loaded(endless, limits=limits)
    seen = []

    def hook(inner, given, result):
        seen.append(inner)
        with pytest.raises(LimitError):
            module(X, 1_000_000_000)

    module.inner.register_forward_hook(hook)
    with pytest.raises(LimitError):
        module.calls(X, 5)  # what the hook keeps to itself still ends the call
    assert len(seen) == 1


def test_python_hooks_spend_what_is_left(endless):
    module = loaded(endless, limits=Limits(steps=40))
    calls = []
    module.inner.register_forward_hook(lambda *_: calls.append(module(X, 5)))
    with pytest.raises(LimitError):
        module.calls(X, 100)
    assert 0 < len(calls) < 5


def test_threads_have_budgets_of_their_own(endless):
    module = loaded(endless, limits=Limits(steps=300))
    results: list[torch.Tensor] = []
    threads = [threading.Thread(target=lambda: results.append(module(X, 100))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4


class Hooked(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def lasting_pre_hook(self: torch.nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    return (turns(inputs[0], 1000000000),)


def lasting_hook(
    self: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor
) -> torch.Tensor:
    return turns(output, 1000000000)


@pytest.mark.parametrize("when", ["before", "after"])
@TIGHT
def test_hooks_of_the_archive_end(when, limits):
    module = Hooked()
    if when == "before":
        module.register_forward_pre_hook(lasting_pre_hook)
    else:
        module.register_forward_hook(lasting_hook)
    ours = loaded(torch_saved(torch.jit.script(module)), limits=limits)
    with pytest.raises(LimitError):
        ours(X)
    assert ours.forward(X).tolist() == [2.0, 2.0]


class State(torch.nn.Module):
    def __init__(self, turns: int) -> None:
        super().__init__()
        self.turns = turns

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @torch.jit.export
    def __getstate__(self):
        return (self.turns, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[int, bool]) -> None:
        self.training = state[1]
        self.turns = 0
        x = torch.ones(1)
        while self.turns < state[0]:
            self.turns += 1
            x = x + 1
        self.turns += int(x.item() * 0)


class States(torch.nn.Module):
    def __init__(self, count: int, turns: int) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList([State(turns) for _ in range(count)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        return x


@TIGHT
def test_code_that_loads_ends(limits):
    scripted = torch.jit.script(State(3))
    assert loaded(torch_saved(scripted), limits=limits)(X).tolist() == [2.0, 2.0]
    scripted.turns = 1_000_000_000
    with pytest.raises(LimitError):
        loaded(torch_saved(scripted), limits=limits)


def test_a_load_has_one_budget():
    one, many = (torch_saved(torch.jit.script(States(count, 50))) for count in (1, 5))
    limits = Limits(steps=1000)
    assert loaded(one, limits=limits)(X).tolist() == [2.0, 2.0]
    with pytest.raises(LimitError, match="__setstate__"):
        loaded(many, limits=limits)


def test_messages_name_the_place(endless):
    with pytest.raises(LimitError) as caught:
        loaded(endless, limits=Limits(steps=100)).forked(X, 1_000_000_000)
    message = caught.value.message
    assert "budget of steps" in message
    assert "turns" in message
    assert f"{__file__}:" in message
    assert pickle.loads(pickle.dumps(caught.value)).limit == 100


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@TIGHT
def test_limits_travel_with_copies(endless, copied, limits):
    module = copied(loaded(endless, limits=limits))
    assert module(X, 2).tolist() == [3.0, 3.0]
    with pytest.raises(LimitError):
        module(X, 1_000_000_000)


def test_limits_travel_to_other_processes(endless):
    """Where the classes of a pickled module are not there yet."""
    from tsarchive import loading

    data = pickle.dumps(loaded(endless, limits=Limits(steps=100)))
    loading._living.clear()
    with pytest.raises(LimitError):
        pickle.loads(data)(X, 1_000_000_000)


@TIGHT
def test_exported_programs(endless, limits):
    module = loaded(endless, limits=limits)
    program = tsarchive.to_exported_program(module, (X, 3))
    assert program.module()(X, 3).tolist() == [4.0, 4.0]


def test_export_ends(endless):
    module = loaded(endless, limits=Limits(steps=100))
    with pytest.raises(LimitError):
        tsarchive.to_exported_program(module, (X, 1_000_000))


@TIGHT
def test_compiled_modules(endless, limits):
    torch._dynamo.reset()
    compiled = torch.compile(loaded(endless, limits=limits), backend="eager", fullgraph=True)
    assert compiled(X, 3).tolist() == [4.0, 4.0]


def test_compilation_ends(endless):
    torch._dynamo.reset()
    compiled = torch.compile(
        loaded(endless, limits=Limits(steps=100)), backend="eager", fullgraph=True
    )
    with pytest.raises(Exception, match=r"budget of steps .*\(limit 100\)"):
        compiled(X, 1_000_000)


@pytest.mark.parametrize("option", ["--max-steps=20", "--max-bytes=50", "--max-seconds=0"])
def test_command_line(tmp_path, option):
    path = tmp_path / "model.pt"
    path.write_bytes(function_saved("y = x\nfor i in range(10):\n  y = y + 1\nreturn y"))
    given = (path, "--random", "2", "--max-steps=1000", "--max-bytes=10000", "--max-seconds=100")
    assert document("run", *given)["output"]["shape"] == [2]
    failure = document("run", path, "--random", "2", option, code=2)["error"]
    assert failure["type"] == "LimitError"
    assert failure["limit"] == float(option.partition("=")[2])


@pytest.mark.parametrize("option", ["--max-steps=-1", "--max-bytes=x", "--max-seconds=nan"])
def test_command_line_refuses(tmp_path, option):
    assert run("run", tmp_path / "model.pt", option).exit_code == 2
