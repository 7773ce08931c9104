# SPDX-License-Identifier: Apache-2.0
"""Operators by their types: `operator.fc(x, w, b, output=out)` adds one of the type `fc` to a program.

Variables are the arguments of its inputs, in the order that its inputs have in PaddlePaddle or by name, one or a list;
what else is given by name are attributes. `output` is the variable of its first output, or a dict of variables by the
names of outputs. Nothing is worked out of it yet: see InferShape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Optional, Union

from . import _core
from .framework import Block, Variable

# Where they are not X, Y and Out.
_INPUTS = {
    "accuracy": ("Out", "Indices", "Label"),
    "crf_decoding": ("Emission", "Transition", "Label"),
    "cross_entropy": ("X", "Label"),
    "fc": ("Input", "W", "Bias"),
    "gather": ("X", "Index"),
    "lookup_table": ("W", "Ids"),
    "lookup_table_v2": ("W", "Ids"),
    "row_conv": ("X", "Filter"),
    "sequence_conv": ("X", "Filter"),
    "softmax_with_cross_entropy": ("Logits", "Label"),
}  # fmt: skip
_OUTPUT = {"accuracy": "Accuracy", "crf_decoding": "ViterbiPath", "cross_entropy": "Y", "layer_norm": "Y",
           "sequence_reverse": "Y", "softmax_with_cross_entropy": "Loss"}  # fmt: skip


def _is_variables(value: Any) -> bool:
    return isinstance(value, Variable) or (
        isinstance(value, (list, tuple)) and bool(value) and all(isinstance(item, Variable) for item in value)
    )


def append(
    type: str,
    *arguments: Any,
    output: Union[None, Variable, Mapping[str, Any]] = None,
    block: Optional[Block] = None,
    infer_shape: bool = False,
    **named: Any,
) -> Any:
    """Adds an operator to the block of its first argument, and returns its `output`: a new variable if none is given.
    """
    inputs = dict(zip(_INPUTS.get(type, ("X", "Y")), arguments))
    if len(arguments) > len(inputs):
        raise TypeError(f"operator '{type}': {len(arguments)} arguments by place, expected at most {len(inputs)}")
    attrs: dict[str, Any] = {}
    for name, value in named.items():
        (inputs if _is_variables(value) else attrs)[name] = value
    if block is None:
        several = [v for value in inputs.values() for v in (value if isinstance(value, (list, tuple)) else [value])]
        found = next((v.block for v in several if isinstance(v, Variable)), None)
        if found is None:
            raise TypeError(f"operator '{type}': without inputs, expected the block that it goes to")
        block = found
    if output is None:
        output = Variable(block=block)
    outputs = output if isinstance(output, Mapping) else {_OUTPUT.get(type, "Out"): output}
    block.append_op(type, inputs, outputs, attrs, infer_shape)
    return output


def __getattr__(type: str) -> Callable[..., Any]:
    if type not in _core.operator_types():
        raise AttributeError(f"there is no operator '{type}'")
    return partial(append, type)


def __dir__() -> list[str]:
    return [*globals(), *_core.operator_types()]
