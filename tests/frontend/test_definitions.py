"""Functions and classes as serialized code defines them, and that they print again as they were."""

from __future__ import annotations

import math

from tests.support.frontend import constant_of, function_of, importer_of, only, reprinted
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.types import INT, NONE, TENSOR, ListType, OptionalType, annotation


def test_a_return_value_is_converted_to_the_declared_type():
    graph = function_of("def f(x: Tensor) -> List[int]:\n  return (1, 2)\n").graph
    assert graph.returns[0].node.kind == "prim::ListConstruct"


def test_a_function_without_return_type_has_that_of_its_value():
    function = function_of("def f(x: Tensor, n: int):\n  return [n]\n")
    assert function.schema.return_type == ListType(INT)
    function = function_of("def f(x):\n  print(x)\n")
    assert function.schema.return_type == NONE
    assert function.schema.arguments[0].type == TENSOR


def test_defaults_are_values():
    text = (
        'def f(a: int=-1, b: List[int]=[1, 2], c: Optional[str]="x", d: Tuple[int, float]=(1, 2.),'
        ' e: Dict[str, int]={"k": 1}, g: float=inf, h: Tensor=CONSTANTS.c2) -> int:\n  return a\n'
    )
    values = [argument.default for argument in function_of(text).schema.arguments]
    assert values[:-1] == [-1, [1, 2], "x", (1, 2.0), {"k": 1}, math.inf]
    assert values[-1] == TableConstant(2)


def test_recursive_functions_and_classes():
    text = """class Node:
  next : Optional[__torch__.Node]
  def depth(self: __torch__.Node) -> int:
    next = self.next
    if torch.__is__(next, None):
      n = 1
    else:
      next0 = unchecked_cast(__torch__.Node, next)
      n = torch.add((next0).depth(), 1)
    return n
def f(n: int) -> int:
  if torch.gt(n, 0):
    _0 = __torch__.f(torch.sub(n, 1), )
  else:
    _0 = 0
  return _0
"""
    assert reprinted(text) == text
    importer = importer_of(text)
    node = importer.find_class("__torch__.Node")
    assert node.attributes["next"].type == OptionalType(node)
    assert importer.find("__torch__.f") is importer.find("__torch__.f")


def test_hooks_are_called_through_their_class():
    text = """class M(Module):
  __parameters__ = []
  __buffers__ = []
  __forward_hooks__ = ["twice", "twice", ]
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    return __torch__.M.twice(self, (x,), x, )
  def twice(self: __torch__.M,
    inputs: Tuple[Tensor],
    output: Tensor) -> Tensor:
    return torch.mul(output, 2)
"""
    assert reprinted(text) == text
    copy = "def twice(x):\n  nothing\n"
    importer = importer_of({"code/__torch__.py": text, "code/__torch__/M.py": copy})
    class_ = importer.find_class("__torch__.M")
    assert list(class_.methods) == ["forward"]
    assert [hook.name for hook in class_.forward_hooks] == ["twice", "twice"]
    callee = only(class_.methods["forward"].graph, "prim::CallFunction").inputs[0]
    assert constant_of(callee) is class_.forward_hooks[0]


def test_class_headers():
    text = """class M(Module):
  __parameters__ = ["weight", ]
  __buffers__ = ["mean", ]
  __annotations__ = []
  __annotations__["0"] = Tensor
  weight : Tensor
  mean : Optional[Tensor]
  sizes : Final[List[int]] = [1, 2]
  empty : Final[List[str]] = annotate(List[str], [])
  scale : Final[float] = 0.5
  color : Final[__torch__.Color] = __torch__.Color.RED
class Color(Enum):
  RED = "red"
"""
    assert reprinted(text) == text
    class_ = importer_of(text).find_class("__torch__.M")
    assert [(a.name, a.is_parameter, a.is_buffer) for a in class_.attributes.values()] == [
        ("0", False, False), ("weight", True, False), ("mean", False, True),
    ]  # fmt: skip
    assert class_.constants["sizes"].value == [1, 2]


def test_packed_weights_of_old_quantized_modules_get_their_class():
    text = "class Linear(Module):\n  _packed_params : Tensor\n  other : Tensor\n"
    for path in ("torch/nn/quantized/modules/linear", "torch/ao/nn/quantized/modules/linear",
                 "torch/nn/quantized/modules/linear/___torch_mangle_3"):  # fmt: skip
        record = f"code/__torch__/{path}.py"
        name = f"__torch__.{path.replace('/', '.')}.Linear"
        slots = importer_of({record: text}).find_class(name).attributes
        packed = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
        assert annotation(slots["_packed_params"].type) == packed
        assert slots["other"].type == TENSOR


def test_module_containers_are_indexed_by_an_annotated_assignment():
    text = """class Layer(ModuleInterface):
  def forward(self, x: Tensor) -> Tensor:
    pass
class Layers(Module):
  __parameters__ = []
  __buffers__ = []
class M(Module):
  __parameters__ = []
  __buffers__ = []
  layers : __torch__.Layers
  def forward(self: __torch__.M,
    x: Tensor,
    n: int) -> Tensor:
    layers = self.layers
    layer : __torch__.Layer = layers[n]
    return (layer).forward(x, )
"""
    assert reprinted(text) == text
