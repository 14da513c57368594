"""Programs of ExecuTorch for tests that run them: one method, described by values and steps."""

from __future__ import annotations

import io
from typing import Any

import tsarchive
from fixtures.executorch_samples import Table, kernel, plan, program, tensor

ARENA = 1024
STATIC, BOUNDED = 0, 1


def value(content: Any) -> Table:
    """A number, text, None or a list of numbers of values."""
    match content:
        case bool():
            return {"val": ("Bool", {"bool_val": content})}
        case int():
            return {"val": ("Int", {"int_val": content})}
        case float():
            return {"val": ("Double", {"double_val": content})}
        case str():
            return {"val": ("String", {"string_val": content})}
        case None:
            return {"val": ("Null", {})}
        case list():
            return {"val": ("IntList", {"items": content})}
        case dict():
            return content
    raise AssertionError(content)


def tensors(*items: int) -> Table:
    return {"val": ("TensorList", {"items": list(items)})}


def bounded(sizes: list[int], at: tuple[int, int], **more: Any) -> Table:
    return tensor(sizes, at=at, shape_dynamism=BOUNDED, **more)


def jump(condition: int, destination: int) -> Table:
    call = {"cond_value_index": condition, "destination_instruction": destination}
    return {"instr_args": ("JumpFalseCall", call)}


def move(source: int, target: int) -> Table:
    return {"instr_args": ("MoveCall", {"move_from": source, "move_to": target})}


def free(index: int) -> Table:
    return {"instr_args": ("FreeCall", {"value_index": index})}


def method(
    values: list[Any],
    steps: list[Any],
    inputs: list[int],
    outputs: list[int],
    name: str = "forward",
    **more: Any,
) -> Table:
    """A plan. A step is an operator's name and its arguments, or an instruction."""
    names = list(dict.fromkeys(step[0] for step in steps if isinstance(step, tuple)))
    operators = [dict(zip(("name", "overload"), found.split("."), strict=False)) for found in names]
    made = [
        kernel(names.index(step[0]), *step[1:]) if isinstance(step, tuple) else step
        for step in steps
    ]
    chain = {"inputs": [], "outputs": [], "instructions": made}
    return plan(
        name,
        **{
            "values": [value(content) for content in values],
            "inputs": inputs,
            "outputs": outputs,
            "operators": operators,
            "chains": [chain],
            "non_const_buffer_sizes": [0, ARENA],
            **more,
        },
    )


def file_of(*methods: Table, **more: Any) -> bytes:
    data = more.pop("data", b"")
    return program({"execution_plan": list(methods), **more}, data)


def loaded(*methods: Table, **more: Any) -> Any:
    given = {name: more.pop(name) for name in ("policy", "limits") if name in more}
    return tsarchive.load(io.BytesIO(file_of(*methods, **more)), **given)
