# SPDX-License-Identifier: Apache-2.0
"""Optimizers: `optimizer.SGD(learning_rate=0.1).minimize(loss)` makes a program one that trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._core import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    ClipGradByGlobalNorm,
    ClipGradByNorm,
    ClipGradByValue,
    DecayedAdagrad,
    Ftrl,
    L1Decay,
    L2Decay,
    Lamb,
    LarsMomentum,
    Momentum,
    RMSProp,
)
from .framework import Variable

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "Adamax", "ClipGradByGlobalNorm", "ClipGradByNorm",
           "ClipGradByValue", "DecayedAdagrad", "Ftrl", "L1Decay", "L2Decay", "Lamb", "LarsMomentum", "Momentum",
           "RMSProp"]  # fmt: skip


def _minimize(
    self: Any,
    loss: Variable,
    parameters: Sequence[Variable] = (),
    constants: Sequence[Variable] = (),
    weight_decay: Any = None,
    grad_clip: Any = None,
) -> list[tuple[Variable, Variable]]:
    """Adds to the program of a loss its gradients, and what changes the parameters by them: each `Program.run` is then
    a step. Returns the parameters with their gradients, as `append_backward` does. `weight_decay` is L1Decay or
    L2Decay, `grad_clip` ClipGradByValue, ClipGradByNorm or ClipGradByGlobalNorm."""
    block = loss.block
    pairs = block.program._core.minimize(
        loss.name, self, [v.name for v in parameters], [v.name for v in constants], weight_decay, grad_clip
    )
    return [(block.var(parameter), block.var(gradient)) for parameter, gradient in pairs]


for _kind in (SGD, Momentum, Adagrad, RMSProp, Adam, Ftrl, DecayedAdagrad, Adadelta, Adamax, Lamb, LarsMomentum):
    setattr(_kind, "minimize", _minimize)
