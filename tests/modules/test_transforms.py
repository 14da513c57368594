"""What torch's tools do to modules works on loaded ones: hooks, reparametrisation, compilers."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.utils import parametrizations, parametrize, prune

import tsarchive
from tests.support.archives import TORCH, loaded, saved, torch_saved
from tests.support.both_engines import both_of, called
from tests.support.comparing import equal
from tests.support.features import compiles_calls_inside

# Old names of weight norm and spectral norm are still in use.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]


class Net(torch.nn.Module):
    """A parent that reads a parameter of its child besides calling it."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.conv = torch.nn.Conv1d(4, 4, 1)
        self.norm = torch.nn.BatchNorm1d(4)
        self.act = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x) + torch.nn.functional.linear(x, self.first.weight)
        return self.act(self.norm(self.conv(y.unsqueeze(-1)).squeeze(-1)))


X = torch.arange(20.0).reshape(5, 4).sin()


@pytest.fixture
def eager():
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def ours(eager):
    return loaded(torch_saved(torch.jit.script(eager)))


class Symmetric(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.triu() + x.triu(1).T


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def removed(module, name="weight"):
    parametrizations.weight_norm(module)
    parametrize.remove_parametrizations(module, name)


def pruned_for_good(module):
    prune.l1_unstructured(module, "weight", 0.5)
    prune.remove(module, "weight")


CHANGES = {
    "weight norm": lambda m: parametrizations.weight_norm(m.first),
    "weight norm of a convolution": lambda m: parametrizations.weight_norm(m.conv),
    "spectral norm": lambda m: parametrizations.spectral_norm(m.first),
    "spectral norm of a convolution": lambda m: parametrizations.spectral_norm(m.conv),
    "orthogonal": lambda m: parametrizations.orthogonal(m.first),
    "inside a container": lambda m: parametrizations.weight_norm(m.act.get_submodule("0")),
    "weight norm by hook": lambda m: torch.nn.utils.weight_norm(m.first),
    "spectral norm by hook": lambda m: torch.nn.utils.spectral_norm(m.first),
    "own": lambda m: parametrize.register_parametrization(m.first, "weight", Symmetric()),
    "of a buffer": lambda m: parametrize.register_parametrization(m.norm, "running_var", Doubled()),
    "two": lambda m: (parametrizations.weight_norm(m.first), parametrizations.orthogonal(m.conv)),
    "removed": lambda m: removed(m.first),
    "pruned": lambda m: prune.l1_unstructured(m.first, "weight", 0.5),
    "pruned in rows": lambda m: prune.ln_structured(m.first, "weight", 0.5, n=2, dim=0),
    "pruned everywhere": lambda m: prune.global_unstructured(
        [(m.first, "weight"), (m.conv, "weight")], prune.L1Unstructured, amount=0.4
    ),
    "pruned for good": lambda m: pruned_for_good(m.first),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_reparametrised_modules_act_as_eager_ones(eager, ours, change):
    for module in (eager, ours):
        torch.manual_seed(1)
        change(module)
    assert list(ours.state_dict()) == list(eager.state_dict())
    for _ in range(2):
        results = [called(module, [X]) for module in (eager, ours)]
        assert equal(*results)
        for result in results:
            result.square().sum().backward()
    gradients = [[p.grad for p in module.parameters()] for module in (eager, ours)]
    assert equal(*gradients)


def test_parametrised_modules_train_and_copy(eager, ours):
    for module in (eager, ours):
        parametrizations.weight_norm(module.first)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        called(module, [X]).square().sum().backward()
        optimizer.step()
    other = copy.deepcopy(ours)
    assert equal(called(ours.eval(), [X]), called(eager.eval(), [X]))
    assert equal(called(other.eval(), [X]), called(eager, [X]))


def test_fused_convolution_and_norm(eager, ours):
    fuse = torch.nn.utils.fusion.fuse_conv_bn_weights
    fused = []
    for module in (eager.eval(), ours.eval()):
        conv, norm = module.conv, module.norm
        fused.append(
            fuse(conv.weight, conv.bias, norm.running_mean, norm.running_var, 1e-5,
                 norm.weight, norm.bias)
        )  # fmt: skip
    assert equal(list(fused[0]), list(fused[1]))


def hooks_of(log):
    return {
        "pre": lambda m: m.register_forward_pre_hook(
            lambda module, args, kwargs: log.append(("pre", len(args), sorted(kwargs))),
            with_kwargs=True,
        ),
        "after": lambda m: m.register_forward_hook(
            lambda module, args, kwargs, result: log.append(("after", result.shape)),
            with_kwargs=True,
        ),
        "always": lambda m: m.register_forward_hook(
            lambda module, args, result: log.append(("always", result is None)), always_call=True
        ),
        "first": lambda m: m.register_forward_hook(
            lambda module, args, result: result + 1, prepend=True
        ),
        "changing": lambda m: m.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
        "backward": lambda m: m.register_full_backward_hook(
            lambda module, inputs, outputs: log.append(("backward", len(inputs), len(outputs)))
        ),
        "backward pre": lambda m: m.register_full_backward_pre_hook(
            lambda module, outputs: (outputs[0] * 3,)
        ),
    }


PLACES = ["", "first", "norm", "act", "act.1"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", hooks_of([]))
def test_hooks_act_as_on_eager_modules(eager, ours, place, kind):
    found = []
    for module in (eager, ours):
        log = []
        handle = hooks_of(log)[kind](module.get_submodule(place))
        result = called(module, [X.clone().requires_grad_()])
        result.square().sum().backward()
        gradients = [p.grad.clone() for p in module.parameters()]
        handle.remove()
        events = len(log)
        again = called(module.eval(), [X])
        assert len(log) == events
        found.append([log, result.detach(), gradients, again.detach()])
    assert equal(*found)


def test_a_module_with_hooks_is_saved_without_them(ours):
    expected = saved(ours)
    ours.first.register_full_backward_hook(lambda *_: None)
    ours.act.register_forward_hook(lambda *_: None)
    called(ours, [X.clone().requires_grad_()]).sum().backward()
    ours.load_state_dict(loaded(expected).state_dict())
    assert saved(ours) == expected


def test_a_hook_is_called_when_forward_fails(ours):
    seen = []
    ours.first.register_forward_hook(lambda *args: seen.append(args[2]), always_call=True)
    with pytest.raises(RuntimeError):
        ours(torch.ones(2, 9))
    assert seen == [None]


def test_state_of_functions(eager, ours):
    state = {name: tensor * 2 for name, tensor in ours.eval().state_dict().items()}
    expected = functional_call(eager.eval(), state, (X,))
    assert equal(functional_call(ours, state, (X,)), expected)
    assert not equal(called(ours, [X]), expected)

    def loss(parameters, module):
        return functional_call(module, parameters, (X,)).square().sum()

    found = [grad(loss)(dict(m.named_parameters()), m) for m in (eager, ours)]
    assert equal(*found)


def test_ensembles(eager):
    modules = [copy.deepcopy(eager).eval() for _ in range(3)]
    for number, module in enumerate(modules):
        torch.nn.init.constant_(module.first.bias, number)
    first = loaded(torch_saved(torch.jit.script(modules[0])))
    mine = [copy.deepcopy(first) for _ in modules]
    for one, two in zip(modules, mine, strict=True):
        two.load_state_dict(one.state_dict())
    results = []
    for base, members in ((modules[0], modules), (mine[0], mine)):
        parameters, buffers = stack_module_state(members)

        def run(parameters, buffers, x, base=base):
            return functional_call(base, (parameters, buffers), (x,))

        results.append(vmap(run, in_dims=(0, 0, None))(parameters, buffers, X))
    assert equal(*results)


_LIMITS = torch._dynamo.config
RECOMPILE_LIMIT = getattr(_LIMITS, "recompile_limit", None) or _LIMITS.cache_size_limit


class Deep(torch.nn.Module):
    """Sizes, numbers, lists, a buffer that changes, a method of a child that is no forward."""

    def __init__(self):
        super().__init__()
        self.net = Net()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor, times: int = 2) -> tuple[torch.Tensor, list[torch.Tensor]]:
        rows, columns = x.shape
        keep: list[torch.Tensor] = []
        y = x
        for i in range(times):
            y = self.net(y)
            keep.append(y * (rows // 2 + i) / columns)
        self.seen += 1
        if x.dim() > 1:
            y = y.reshape(rows * 2, columns // 2)
        return torch.cat([y.view(rows, -1), x]).float() * max(rows, 3), keep


@compiles_calls_inside
@pytest.mark.sample(1, gaps="torch.compile takes a second and more")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_module_that_was_never_called_compiles_whole(backend, dynamic):
    torch._dynamo.reset()
    torch.manual_seed(0)
    module = torch.jit.script(Deep().eval())
    theirs, mine = both_of(module)
    compiled = torch.compile(mine, backend=backend, dynamic=dynamic, fullgraph=True)
    for rows in (5, 7, 9):
        x = torch.randn(rows, 4)
        expected = theirs(x)
        torch.testing.assert_close(compiled(x), expected)
    assert equal(mine.seen, theirs.seen)


class Shaped(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(4, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()

    @torch.jit.export
    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * 2


@pytest.mark.long("test_a_module_inside_another_compiles_once")
@pytest.mark.parametrize("name", ["forward", "twice"])
def test_more_modules_compile_than_one_function_may(name):
    """torch.compile gives up on a function after some compilations; modules share none."""
    torch._dynamo.reset()
    for width in range(RECOMPILE_LIMIT + 2):
        theirs, mine = both_of(torch.jit.script(Shaped(width + 1)))
        whole = mine if name == "forward" else getattr(mine, name)
        compiled = torch.compile(whole, backend="eager", fullgraph=True)
        assert equal(compiled(X), getattr(theirs, name)(X))


@compiles_calls_inside
def test_a_module_inside_another_compiles_once():
    torch._dynamo.reset()

    class Around(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x * 2) + 1

    torch.manual_seed(0)
    theirs, mine = both_of(torch.jit.script(Net().eval()))
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(Around(mine), backend=counter, fullgraph=True)
    for _ in range(3):
        assert equal(compiled(X), theirs(X * 2) + 1)
        assert equal(mine(X), theirs(X))
    # The first eager call replaces what torch 2.12 and before look at.
    assert counter.frame_count <= (1 if TORCH >= (2, 13) else 2)


@compiles_calls_inside
def test_compiled_modules_see_hooks_and_reparametrisation(eager, ours):
    torch._dynamo.reset()
    for module in (eager.eval(), ours.eval()):
        parametrizations.weight_norm(module.first)
        module.act.register_forward_hook(lambda module, args, result: result * 2)
    compiled = torch.compile(ours, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(X), eager(X))


@compiles_calls_inside
def test_gradients_of_compiled_modules(eager, ours):
    torch._dynamo.reset()
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    for module in (eager, compiled):
        module(X).square().sum().backward()
    for one, two in zip(eager.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad)


def test_what_cannot_be_compiled_ahead_fails_when_it_is_called():
    """A function with an unknown operator is no obstacle to the rest."""
    from tests.support.running import hand_written, method

    text = method("return x") + method("return ops.no.such(x)", "never(self, x: Tensor) -> Tensor")
    module = loaded(hand_written(text))
    torch._dynamo.reset()
    assert equal(torch.compile(module, backend="eager", fullgraph=True)(X), X)
    with pytest.raises(tsarchive.UnknownOperatorError):
        module.never(X)


class Taking(torch.nn.Module):
    def forward(
        self,
        x: torch.Tensor,
        scale: float,
        flag: bool,
        sizes: list[int],
        pair: tuple[torch.Tensor, float],
        named: dict[str, torch.Tensor],
    ) -> torch.Tensor:
        y = x * scale + pair[0] * pair[1] + named.get("a", x)
        return y.view(sizes) if flag else y


ARGUMENTS = [
    (X, 2.0, True, [4, 5], (X, 0.5), {"a": X}),
    (X, 2, False, (4, 5), [X, 1], {}),
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=["of the types", "to convert"])
def test_arguments_of_all_kinds_reach_compiled_modules(arguments):
    torch._dynamo.reset()
    theirs, mine = both_of(torch.jit.script(Taking()))
    compiled = torch.compile(mine, backend="eager", fullgraph=True)
    assert equal(compiled(*arguments), theirs(*arguments))


class Named(nn.Module):
    def forward(self, x: torch.Tensor, scale: float = 1.0, names: list[int] | None = None):
        if names is not None:
            names.append(len(names))
        return x * scale, names


class CallsNamed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Named()

    def forward(self, x: torch.Tensor):
        names = [7]
        y, _ = self.inner(x, 3.0, names)
        return y, names


def calls_itself(module, arguments):
    module.forward(arguments[0])


PRE_HOOKS = {
    "keywords": (lambda _, a, k: ((a[0],), {"scale": 2.0}), True, 2.0, [7]),
    "the same": (lambda _, a, k: (a, k), True, 3.0, [7, 1]),
    "fewer": (lambda _, a: (a[0],), False, 1.0, [7]),
    "an int for a float": (lambda _, a: (a[0], 2, a[2]), False, 2.0, None),
    "calls itself": (calls_itself, False, 3.0, [7, 1]),
}


@pytest.mark.parametrize("name", PRE_HOOKS)
def test_python_hooks_may_change_what_archive_code_gives_to_a_submodule(name):
    hook, with_kwargs, scale, names = PRE_HOOKS[name]
    module = loaded(torch_saved(torch.jit.script(CallsNamed())))
    module.inner.register_forward_pre_hook(hook, with_kwargs=with_kwargs)
    y, found = module(torch.ones(2))
    assert torch.equal(y, torch.full((2,), scale))
    assert names is None or found == names


def test_what_a_hook_gives_instead_is_checked():
    module = loaded(torch_saved(torch.jit.script(CallsNamed())))
    module.inner.register_forward_pre_hook(lambda _, a: (a[0], "bad", a[2]))
    with pytest.raises(tsarchive.CallError, match="'scale'"):
        module(torch.ones(2))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LSTM(3, 4)
        self.second = nn.GRU(4, 2)

    def forward(self, x: torch.Tensor):
        y, _ = self.first(x)
        return self.second(y)[0]


def test_modules_whose_forward_has_overloads():
    """An archive holds ``forward__0`` and ``forward__1`` in the place of ``forward``."""
    eager = Recurrent()
    module = loaded(torch_saved(torch.jit.script(eager)))
    x = torch.rand(3, 2, 3)
    seen = []
    module.first.register_forward_hook(lambda _, given, made: seen.append((len(given), made)))
    module.second.register_forward_pre_hook(lambda _, given: (given[0] * 2, *given[1:]))
    assert equal(module(x), eager.second(eager.first(x)[0] * 2)[0])
    ((count, (y, _)),) = seen
    assert (count, equal(y, eager.first(x)[0])) == (2, True)
    assert equal(module.first(x)[0], eager.first(x)[0])
    packed = nn.utils.rnn.pack_padded_sequence(x, [3, 2])
    assert equal(module.first(packed)[0].data, eager.first(packed)[0].data)
    with pytest.raises(tsarchive.CallError, match=r"forward__0.*forward__1"):
        module.first(3)


def zeros_of(module):
    return {name: torch.zeros_like(value) for name, value in module.named_parameters()}


def assigned(module, x):
    module.load_state_dict(zeros_of(module), assign=True)
    return module(x)


def set_one_by_one(module, x):
    for part in (module.first, module.second):
        for name, value in list(part.named_parameters()):
            setattr(part, name, nn.Parameter(torch.zeros_like(value)))
    return module(x)


REPLACED = {
    "functional_call": lambda module, x: functional_call(module, zeros_of(module), (x,)),
    "assigned": assigned,
    "set": set_one_by_one,
    "of a copy": lambda module, x: assigned(copy.deepcopy(module), x),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("way", REPLACED)
def test_lists_of_parameters_follow_the_parameters(way):
    """The code of a recurrent network reads its weights from a list of its own."""
    eager = Recurrent()
    module = loaded(torch_saved(torch.jit.script(eager)))
    x = torch.rand(3, 2, 3)
    expected = REPLACED[way](eager, x)
    assert not expected.any()
    assert equal(REPLACED[way](module, x).detach(), expected.detach())
    again = loaded(saved(module))
    assert equal(again(x), module(x))
