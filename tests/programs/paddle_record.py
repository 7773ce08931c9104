# SPDX-License-Identifier: Apache-2.0
"""Writes programs with what PaddlePaddle 2.6.2 made of them, as text, for tests without PaddlePaddle (recorded.cpp).

A line begins with what it is; a case with its name, then come the blocks of its program, the first without a line:
    case NAME
    block PARENT FORWARD_BLOCK
    var TYPE NAME...            variables of the block, but for tensors of which nothing is said
    op TYPE PARAMETER=NAME... -> PARAMETER=NAME... ATTRIBUTE:LETTER=VALUE...     see tests/support/operator_text.hpp
    feed | parameter | fetch NAME TYPE DIM,... LENGTH,.../LENGTH,... NUMBER...    levels: - none, ? any
    train LOSS OPTIMIZER RATE LOSS_OF_EACH_STEP...
"""
import numpy as np
import paddle
from paddle.base import core

ATTRIBUTES = {core.AttrType.INT: "i", core.AttrType.LONG: "l", core.AttrType.FLOAT: "f", core.AttrType.FLOAT64: "d",
              core.AttrType.BOOL: "b", core.AttrType.STRING: "s", core.AttrType.BLOCK: "B", core.AttrType.INTS: "I",
              core.AttrType.LONGS: "L", core.AttrType.FLOATS: "F", core.AttrType.STRINGS: "S"}
# Of the framework, not of the operator.
OTHERS = {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device", "with_quant_attr"}


def text_of(value):
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(one) for one in value)
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    return f"{value:.5g}" if isinstance(value, (float, np.floating)) else str(value)


def tensor(kind, name, array, lengths=()):
    """Without lengths, None, its levels are not to be compared."""
    levels = "?" if lengths is None else "/".join(text_of([int(one) for one in level]) for level in lengths) or "-"
    numbers = " ".join(text_of(one) for one in array.ravel())
    return f"{kind} {name} {array.dtype} {text_of(array.shape or [1])} {levels} {numbers}".rstrip()


def operator(op):
    def arguments(names, of):
        return [f"{name}={argument}" for name in names for argument in of(name)]

    defaults = core.get_op_attrs_default_value(op.type().encode())
    attributes = []
    for name in sorted(set(op.attr_names()) - OTHERS):
        type = op.attr_type(name)
        value = op._block_attr_id(name) if type == core.AttrType.BLOCK else op.attr(name)
        if type in ATTRIBUTES and (name not in defaults or defaults[name] != value):
            attributes.append(f"{name}:{ATTRIBUTES[type]}={text_of(value)}")
    return " ".join(["op", op.type(), *arguments(op.input_names(), op.input), "->",
                     *arguments(op.output_names(), op.output), *attributes])


def program(desc):
    lines = []
    for number in range(desc.num_blocks()):
        block = desc.block(number)
        if number:
            lines.append(f"block {block.parent} {block.get_forward_block_idx()}")
        kinds = {}
        for var in block.all_vars():
            # Of a tensor of an inner block it must be said that it is not one of the outermost.
            if var.name() not in ("feed", "fetch") and (var.type() != core.VarDesc.VarType.LOD_TENSOR or number):
                kinds.setdefault(str(var.type()).rsplit(".", 1)[-1], []).append(var.name())
        ops = [block.op(i) for i in range(block.op_size())]
        lines += [f"var {kind} {' '.join(names)}" for kind, names in sorted(kinds.items())]
        lines += [operator(op) for op in ops if op.type() not in ("feed", "fetch")]
    return lines


def case(name, desc, tensors):
    return [f"case {name}", *program(desc), *tensors]


def write(path, script, cases):
    with open(path, "w") as file:
        file.write(f"# By {script} --record, with PaddlePaddle {paddle.__version__}; see paddle_record.py\n")
        file.writelines(line + "\n" for lines in cases for line in lines)
