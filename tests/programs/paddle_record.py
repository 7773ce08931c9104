# SPDX-License-Identifier: Apache-2.0
"""Writes programs with what PaddlePaddle made of them, as text, for tests without PaddlePaddle (recorded.cpp).

A line begins with what it is; a case with its name, then come the blocks of its program, the first without a line:
    case NAME
    block PARENT FORWARD_BLOCK
    var TYPE NAME...            variables of the block, but for tensors of which nothing is said
    op TYPE PARAMETER=NAME... -> PARAMETER=NAME... ATTRIBUTE:LETTER=VALUE...     see tests/support/operator_text.hpp
    feed | parameter | fetch NAME TYPE DIM,... LENGTH,.../LENGTH,... NUMBER...    levels: - none, ? any
    train LOSS OPTIMIZER RATE LOSS_OF_EACH_STEP...     OPTIMIZER itself: the program has updates of its own
"""
import numpy as np
import paddle

try:
    from paddle.base import core
except ImportError:  # PaddlePaddle 1
    from paddle.fluid import core

LETTERS = {"INT": "i", "LONG": "l", "FLOAT": "f", "FLOAT64": "d", "BOOL": "b", "STRING": "s", "BLOCK": "B", "INTS": "I",
           "LONGS": "L", "FLOATS": "F", "STRINGS": "S"}
ATTRIBUTES = {getattr(core.AttrType, name): letter for name, letter in LETTERS.items() if hasattr(core.AttrType, name)}
# Of the framework, or of other libraries, not of the operator.
OTHERS = {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device", "with_quant_attr", "use_cudnn",
          "use_mkldnn", "mkldnn_data_type", "use_quantizer", "x_data_format", "y_data_format", "Scale_x", "Scale_y",
          "Scale_out", "scale_x", "scale_y", "scale_out", "force_fp32_output", "skip_eager_deletion_vars",
          "remote_prefetch", "trainer_id", "table_names", "height_sections", "epmap", "grad_inplace", "is_distributed"}


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
