# SPDX-License-Identifier: Apache-2.0
"""Layers: they take variables, add operators and their parameters, and give variables, whose shapes are known at once.

    words = layer.data("words", [-1, 1], INT64, lod_level=1)
    hidden, _ = layer.lstm(layer.fc(layer.embedding(words, [vocabulary, 32]), 4 * 64))
    scores = layer.fc(layer.sequence_pool(hidden, "MAX"), 2, act="softmax")

Operators get the attributes that PaddlePaddle's gradients read, too, so that it runs these programs. Parameters are
initialized as it does it, weights by Xavier's uniform numbers and biases by 0, or by the `initializer` of a layer.
`act` is the type of an activation operator, "relu" say. What does not fit is InvalidProgram.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Optional, Union

import numpy as np

from . import operator
from ._core import DataType
from .framework import Block, Initializer, Variable, constant, random_normal, random_uniform

# ---- What layers are made of ----


def _apply(type: str, inputs: dict[str, Any], outputs: Union[str, Sequence[str]] = "Out", **attrs: Any) -> Any:
    """The outputs of a new operator, which are new variables: one or a tuple."""
    several = [v for value in inputs.values() for v in (value if isinstance(value, (list, tuple)) else [value])]
    block = next(v.block for v in several if v is not None)
    made = {name: Variable(block=block) for name in ([outputs] if isinstance(outputs, str) else outputs)}
    block.append_op(type, inputs, made, attrs, infer_shape=True)
    return made[outputs] if isinstance(outputs, str) else tuple(made.values())


def _xavier(fan_in: int, fan_out: int) -> Initializer:
    limit = math.sqrt(6 / (fan_in + fan_out))
    return random_uniform(-limit, limit)


def _parameter(
    like: Variable, dims: Sequence[int], initializer: Optional[Initializer], name: Optional[str] = None
) -> Variable:
    """A parameter for a layer, of the type of its input."""
    type = like.data_type()
    if initializer is None:
        initializer = _xavier(dims[0], dims[-1])
    real = type if type in (DataType.FP32, DataType.FP64) else DataType.FP32
    return Variable(name, dims, real, initializer, block=_root(like))


def _root(variable: Variable) -> Block:
    """Where parameters are, whatever the block that uses them."""
    return variable.block.program.block()


def _activated(x: Variable, act: Optional[str]) -> Variable:
    if act is None:
        return x
    return softmax(x) if act == "softmax" else _apply(act, {"X": x})


def elementwise(name: str, x: Variable, y: Any, axis: int = -1) -> Variable:
    """x + y and the like, by the operator `elementwise_<name>`: with a variable, whose dimensions are those of x from
    `axis` on, by default the last; or, where that is add, sub, mul or div, with a number."""
    if isinstance(y, Variable):
        return _apply(f"elementwise_{name}", {"X": x, "Y": y}, axis=axis)
    if name in ("add", "sub"):
        return _apply("scale", {"X": x}, scale=1.0, bias=float(y if name == "add" else -y))
    return _apply("scale", {"X": x}, scale=float(y if name == "mul" else 1 / y), bias=0.0)


# ---- Input, and dense layers ----


def data(
    name: str, dims: Sequence[int], type: Any = DataType.FP32, lod_level: int = 0, block: Optional[Block] = None
) -> Variable:
    """A variable to feed, with no gradient. dims[0] is the number of rows, most often -1."""
    return Variable(name, dims, type, trainable=False, lod_level=lod_level, block=block)


def flatten_size(x: Variable, num_flatten_dims: int) -> int:
    """The product of the last dimensions."""
    return math.prod(x.dims[len(x.dims) - num_flatten_dims :])


def fc(
    input: Union[Variable, Sequence[Variable]],
    output_size: int,
    num_flatten_dims: Optional[int] = None,
    act: Optional[str] = None,
    bias: bool = True,
    initializer: Optional[Initializer] = None,
) -> Variable:
    """x W + b, where the last `num_flatten_dims` dimensions of x are one row: by default all but the batch's. Of
    several inputs, each with a W of its own, the sum."""
    products = []
    for x in [input] if isinstance(input, Variable) else input:
        flattened = len(x.dims) - 1 if num_flatten_dims is None else num_flatten_dims
        size = flatten_size(x, flattened)
        if not 0 < flattened < len(x.dims) or size < 0:
            raise ValueError(f"fc: {x!r}, expected known dims of rows, and a batch")
        w = _parameter(x, [size, output_size], initializer)
        products.append(_apply("mul", {"X": x, "Y": w}, x_num_col_dims=len(x.dims) - flattened, y_num_col_dims=1))
    out = products[0] if len(products) == 1 else _apply("sum", {"X": products})
    if bias:
        out = elementwise("add", out, _parameter(out, [output_size], constant(0)), axis=len(out.dims) - 1)
    return _activated(out, act)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    padding_idx: int = -1,
    initializer: Optional[Initializer] = None,
) -> Variable:
    """Rows of a table of this size by their ids. `is_sparse`: its gradient has the rows that were used alone."""
    table = _parameter(input, size, initializer)
    # Ids of PaddlePaddle 1 have a last dimension of 1.
    type = "lookup_table" if len(input.dims) > 1 and input.dims[-1] == 1 else "lookup_table_v2"
    attrs: dict[str, Any] = {"is_sparse": is_sparse, "is_distributed": False, "padding_idx": np.int64(padding_idx)}
    return _apply(type, {"W": table, "Ids": input}, **attrs)


def matmul(x: Variable, y: Variable, transpose_x: bool = False, transpose_y: bool = False) -> Variable:
    """The product of matrices, those in the last two dimensions."""
    return _apply("matmul_v2", {"X": x, "Y": y}, trans_x=transpose_x, trans_y=transpose_y)


def concat(input: Sequence[Variable], axis: int = 0) -> Variable:
    """One after the other along a dimension."""
    return _apply("concat", {"X": list(input)}, axis=axis)


def dropout(x: Variable, dropout_prob: float, is_test: bool = False) -> Variable:
    """Each number is 0 with this probability, and the others are scaled up to make up for it."""
    attrs: dict[str, Any] = {"dropout_prob": float(dropout_prob), "is_test": is_test,
                             "dropout_implementation": "upscale_in_train"}  # fmt: skip
    return _apply("dropout", {"X": x}, ("Out", "Mask"), **attrs)[0]


def softmax(input: Variable) -> Variable:
    """exp(x) divided by its sum over each row."""
    return _apply("softmax", {"X": input}, axis=-1)


def mean(x: Variable) -> Variable:
    """Of all numbers."""
    return _apply("mean", {"X": x})


def top_k(input: Variable, k: int = 1) -> tuple[Variable, Variable]:
    """The k greatest numbers of each row, and where they are."""
    return _apply("top_k", {"X": input}, ("Out", "Indices"), k=k)


def layer_norm(input: Variable, begin_norm_axis: int = 1, epsilon: float = 1e-5) -> Variable:
    """Each row, of the dimensions from `begin_norm_axis` on, with mean 0 and variance 1; then scaled and shifted."""
    size = flatten_size(input, len(input.dims) - begin_norm_axis)
    inputs = {"X": input, "Scale": _parameter(input, [size], constant(1)), "Bias": _parameter(input, [size], constant(0))}
    attrs: dict[str, Any] = {"begin_norm_axis": begin_norm_axis, "epsilon": epsilon}
    return _apply("layer_norm", inputs, ("Y", "Mean", "Variance"), **attrs)[0]


# ---- Images: {batch, channels, height, width} ----


def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: int,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    act: Optional[str] = None,
    bias: bool = True,
    initializer: Optional[Initializer] = None,
) -> Variable:
    """A convolution over squares of pixels."""
    channels = input.dims[1] // groups
    if initializer is None:
        initializer = random_normal(0.0, math.sqrt(2 / (filter_size * filter_size * channels)))
    filter = _parameter(input, [num_filters, channels, filter_size, filter_size], initializer)
    attrs: dict[str, Any] = {"strides": [stride] * 2, "paddings": [padding] * 2, "dilations": [1, 1], "groups": groups,
                             "padding_algorithm": "EXPLICIT", "data_format": "NCHW"}  # fmt: skip
    out = _apply("conv2d", {"Input": input, "Filter": filter}, "Output", **attrs)
    if bias:
        out = elementwise("add", out, _parameter(out, [num_filters], constant(0)), axis=1)
    return _activated(out, act)


def pool2d(
    input: Variable,
    pool_size: int,
    pool_type: str = "max",
    pool_stride: int = 1,
    pool_padding: int = 0,
    global_pooling: bool = False,
) -> Variable:
    """The greatest, or with "avg" the mean, of squares of pixels."""
    attrs: dict[str, Any] = {"pooling_type": pool_type, "ksize": [pool_size] * 2, "strides": [pool_stride] * 2,
                             "paddings": [pool_padding] * 2, "global_pooling": global_pooling, "ceil_mode": False,
                             "exclusive": True, "adaptive": False, "padding_algorithm": "EXPLICIT",
                             "data_format": "NCHW"}  # fmt: skip
    return _apply("pool2d", {"X": input}, **attrs)


def batch_norm(
    input: Variable,
    act: Optional[str] = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
) -> Variable:
    """Each channel with mean 0 and variance 1 over the batch, or, where `is_test`, by the means and variances of the
    batches that it was trained with; then scaled and shifted."""
    channels, block, root = [input.dims[1]], input.block, _root(input)
    mean, variance = (
        Variable(None, channels, input.data_type(), constant(value), trainable=False, block=root) for value in (0, 1)
    )
    inputs = {"X": input, "Scale": _parameter(input, channels, constant(1)),
              "Bias": _parameter(input, channels, constant(0)), "Mean": mean, "Variance": variance}  # fmt: skip
    outputs = {"Y": Variable(block=block), "MeanOut": mean, "VarianceOut": variance,
               **{name: Variable(block=block) for name in ("SavedMean", "SavedVariance", "ReserveSpace")}}  # fmt: skip
    attrs: dict[str, Any] = {"momentum": momentum, "epsilon": epsilon, "is_test": is_test, "data_layout": "NCHW",
                             "use_global_stats": False, "trainable_statistics": False}  # fmt: skip
    block.append_op("batch_norm", inputs, outputs, attrs, infer_shape=True)
    return _activated(outputs["Y"], act)


# ---- Sequences ----


def sequence_pool(input: Variable, pool_type: str) -> Variable:
    """One row for each sequence: SUM, AVERAGE, SQRT, MAX, FIRST or LAST."""
    attrs: dict[str, Any] = {"pooltype": pool_type.upper(), "pad_value": 0.0, "is_test": False}
    return _apply("sequence_pool", {"X": input}, ("Out", "MaxIndex"), **attrs)[0]


def sequence_first_step(input: Variable) -> Variable:
    """The first row of each sequence."""
    return sequence_pool(input, "FIRST")


def sequence_last_step(input: Variable) -> Variable:
    """The last row of each sequence."""
    return sequence_pool(input, "LAST")


def sequence_softmax(input: Variable) -> Variable:
    """exp(x) divided by its sum over each sequence."""
    return _apply("sequence_softmax", {"X": input})


def sequence_expand(x: Variable, y: Variable, ref_level: int = -1) -> Variable:
    """Each sequence of x as often as the sequence of y in its place is long."""
    return _apply("sequence_expand", {"X": x, "Y": y}, ref_level=ref_level)


def sequence_expand_as(x: Variable, y: Variable) -> Variable:
    """Each row of x as often as the sequence of y in its place is long."""
    return _apply("sequence_expand_as", {"X": x, "Y": y})


def sequence_concat(input: Sequence[Variable]) -> Variable:
    """Each sequence of the first one followed by that of the second, and so on."""
    return _apply("sequence_concat", {"X": list(input)})


def sequence_pad(x: Variable, pad_value: Variable, maxlen: int = -1) -> tuple[Variable, Variable]:
    """Sequences as the rows of a dense tensor, each as long as the longest one or `maxlen`, and their lengths."""
    return _apply("sequence_pad", {"X": x, "PadValue": pad_value}, ("Out", "Length"), padded_length=maxlen)


def sequence_unpad(x: Variable, length: Variable) -> Variable:
    """Without the padding."""
    return _apply("sequence_unpad", {"X": x, "Length": length})


def row_conv(
    input: Variable, future_context_size: int, act: Optional[str] = None, initializer: Optional[Initializer] = None
) -> Variable:
    """For each row the sum of it and of those that follow, so many of them, times weights."""
    filter = _parameter(input, [future_context_size + 1, input.dims[-1]], initializer)
    return _activated(_apply("row_conv", {"X": input, "Filter": filter}), act)


def sequence_reverse(x: Variable) -> Variable:
    """The rows of each sequence in reverse."""
    return _apply("sequence_reverse", {"X": x}, "Y")


def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = 3,
    padding_start: Optional[int] = None,
    act: Optional[str] = None,
    bias: bool = True,
    initializer: Optional[Initializer] = None,
) -> Variable:
    """A convolution over `filter_size` rows around each row, by default half of them before it; outside of a sequence
    there are zeros."""
    start = -(filter_size // 2) if padding_start is None else padding_start
    filter = _parameter(input, [filter_size * input.dims[-1], num_filters], initializer)
    attrs: dict[str, Any] = {"contextLength": filter_size, "contextStart": start, "contextStride": 1,
                             "paddingTrainable": False}  # fmt: skip
    out = _apply("sequence_conv", {"X": input, "Filter": filter}, **attrs)
    if bias:
        out = elementwise("add", out, _parameter(out, [num_filters], constant(0)))
    return _activated(out, act)


def _state_size(input: Variable, gates: int, layer: str) -> int:
    size, rest = divmod(input.dims[-1], gates)
    if size < 1 or rest:
        raise ValueError(f"{layer}: {input!r}, expected rows of {gates} numbers for each one of the state")
    return size


def lstm(
    input: Variable,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    h_0: Optional[Variable] = None,
    c_0: Optional[Variable] = None,
    initializer: Optional[Initializer] = None,
) -> tuple[Variable, Variable]:
    """The hidden states and the cells of an LSTM over each sequence. The input has been projected to its gates: rows of
    4 numbers for each of the state."""
    size = _state_size(input, 4, "lstm")
    inputs = {
        "Input": input,
        "H0": h_0,
        "C0": c_0,
        "Weight": _parameter(input, [size, 4 * size], initializer),
        "Bias": _parameter(input, [1, (7 if use_peepholes else 4) * size], constant(0)),
    }
    outputs = ("Hidden", "Cell", "BatchGate", "BatchCellPreAct")
    attrs: dict[str, Any] = {"use_peepholes": use_peepholes, "is_reverse": is_reverse, "is_test": False,
                             "gate_activation": gate_activation, "cell_activation": cell_activation,
                             "candidate_activation": candidate_activation}  # fmt: skip
    return _apply("lstm", inputs, outputs, **attrs)[:2]


def gru(
    input: Variable,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Optional[Variable] = None,
    origin_mode: bool = False,
    initializer: Optional[Initializer] = None,
) -> Variable:
    """The hidden states of gated recurrent units over each sequence. The input has been projected to their gates: rows
    of 3 numbers for each of the state."""
    size = _state_size(input, 3, "gru")
    inputs = {
        "Input": input,
        "H0": h_0,
        "Weight": _parameter(input, [size, 3 * size], initializer),
        "Bias": _parameter(input, [1, 3 * size], constant(0)),
    }
    outputs = ("Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden")
    attrs: dict[str, Any] = {"is_reverse": is_reverse, "origin_mode": origin_mode,
                             "gate_activation": gate_activation, "activation": candidate_activation}  # fmt: skip
    return _apply("gru", inputs, outputs, **attrs)[0]


# ---- Losses ----


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100) -> Variable:
    """-log of the probability of each row's label."""
    inputs = {"X": input, "Label": label}
    return _apply("cross_entropy", inputs, "Y", soft_label=soft_label, ignore_index=ignore_index)


def softmax_with_cross_entropy(
    logits: Variable, label: Variable, soft_label: bool = False, ignore_index: int = -100
) -> Variable:
    """The same of scores, of which the softmax is taken."""
    attrs: dict[str, Any] = {"soft_label": soft_label, "ignore_index": ignore_index}
    return _apply("softmax_with_cross_entropy", {"Logits": logits, "Label": label}, ("Loss", "Softmax"), **attrs)[0]


def linear_chain_crf(
    input: Variable, label: Variable, initializer: Optional[Initializer] = None
) -> tuple[Variable, Variable]:
    """For each sequence -log of the probability of its labels in a conditional random field, whose scores of tags are
    the input; and the weights of the transitions between tags, which crf_decoding takes."""
    transition = _parameter(input, [input.dims[-1] + 2, input.dims[-1]], initializer)
    inputs = {"Emission": input, "Transition": transition, "Label": label}
    outputs = ("LogLikelihood", "Alpha", "EmissionExps", "TransitionExps")
    return _apply("linear_chain_crf", inputs, outputs)[0], transition


def crf_decoding(input: Variable, transition: Variable, label: Optional[Variable] = None) -> Variable:
    """The best tags of each sequence; where there are labels, whether each is right."""
    return _apply("crf_decoding", {"Emission": input, "Transition": transition, "Label": label}, "ViterbiPath")


def warpctc(input: Variable, label: Variable, blank: int = 0, norm_by_times: bool = False) -> Variable:
    """For each sequence -log of the probability that its frames spell its labels (CTC), which are INT32."""
    attrs: dict[str, Any] = {"blank": blank, "norm_by_times": norm_by_times}
    return _apply("warpctc", {"Logits": input, "Label": label}, ("Loss", "WarpCTCGrad"), **attrs)[0]


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label) squared."""
    return _apply("square", {"X": elementwise("sub", input, label)})


def accuracy(input: Variable, label: Variable, k: int = 1) -> Variable:
    """How many of the rows have their label among the k greatest scores, as a fraction."""
    scores, indices = top_k(input, k)
    inputs = {"Out": scores, "Indices": indices, "Label": label}
    return _apply("accuracy", inputs, ("Accuracy", "Correct", "Total"))[0]


# ---- Activations, and all other operators of one input ----


def __getattr__(name: str) -> Callable[..., Variable]:
    """`layer.relu(x)`, `layer.leaky_relu(x, alpha=0.1)`: an operator by its type, its shape worked out at once."""
    append = getattr(operator, name)

    def apply(*arguments: Any, **named: Any) -> Any:
        return append(*arguments, infer_shape=True, **named)

    return apply
