# SPDX-License-Identifier: Apache-2.0
"""LoD tensors: batches of nested sequences of different lengths, without padding; and programs on them."""

from . import _core, framework, layer, neighbours, operator, optimizer
from ._core import *  # noqa: F403
from .framework import (
    STRING,
    Block,
    Dims,
    InferShape,
    Initializer,
    Program,
    Variable,
    append_backward,
    constant,
    default_program,
    eval,
    get_default_block,
    random_normal,
    random_uniform,
)
from .neighbours import *  # noqa: F403

__all__ = [name for name in dir(_core) if not name.startswith("_") and name not in ("Program", "operator_types")] + [
    "STRING", "Block", "Dims", "InferShape", "Initializer", "Program", "Variable",
    "append_backward", "constant", "default_program", "eval", "framework", "get_default_block", "layer", "neighbours",
    "operator", "optimizer", "random_normal", "random_uniform", *neighbours.__all__,
]  # fmt: skip
