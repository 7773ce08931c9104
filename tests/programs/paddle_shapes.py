# SPDX-License-Identifier: Apache-2.0
"""Compares infer_shapes with PaddlePaddle 2.6.2, which must be installed, on whole models and their training programs.

paddle_shapes.py <run_files> [FOLDER...]: the models below, and those in folders with a `__model__`.
PaddlePaddle has described each variable while it made the program; run_files describes those that operators write anew.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import paddle

paddle.enable_static()
FP32, INT64 = "float32", "int64"


class Model:
    """A program under construction, whose operators are appended one by one."""

    def __init__(self):
        self.program = paddle.static.Program()
        self.block = self.program.global_block()
        self.count = 0

    def data(self, shape, type=FP32, levels=1):
        self.count += 1
        return self.block.create_var(name=f"data_{self.count}", shape=shape, dtype=type, lod_level=levels, is_data=True)

    def parameter(self, *shape):
        self.count += 1
        return self.block.create_parameter(name=f"w_{self.count}", shape=list(shape), dtype=FP32)

    def op(self, type, inputs, outputs=("Out",), types=None, **attrs):
        self.count += 1
        made = {o: [self.block.create_var(name=f"{type}_{self.count}_{o}", dtype=(types or {}).get(o, FP32))]
                for o in outputs}
        self.block.append_op(type=type, inputs=inputs, outputs=made, attrs=attrs)
        return made[outputs[0]][0]

    def fc(self, x, size, levels_of_rows=1):
        width = int(np.prod(x.shape[levels_of_rows:]))
        y = self.op("mul", {"X": x, "Y": self.parameter(width, size)}, x_num_col_dims=levels_of_rows, y_num_col_dims=1)
        return self.op("elementwise_add", {"X": y, "Y": self.parameter(size)}, axis=levels_of_rows)

    def embedding(self, ids, height, width, **attrs):
        return self.op("lookup_table", {"W": self.parameter(height, width), "Ids": ids}, **attrs)

    def pool(self, x, how):
        return self.op("sequence_pool", {"X": x}, ("Out", "MaxIndex"), {"MaxIndex": "int32"}, pooltype=how)

    def lstm(self, x, size, **attrs):
        return self.op("lstm", {"Input": self.fc(x, 4 * size), "Weight": self.parameter(size, 4 * size),
                                "Bias": self.parameter(1, 7 * size)},
                       ("Hidden", "Cell", "BatchGate", "BatchCellPreAct"), **attrs)

    def loss(self, x, classes):
        scores = self.op("softmax", {"X": self.fc(x, classes)})
        label = self.data([-1, 1], INT64, 0)
        return self.op("mean", {"X": self.op("cross_entropy", {"X": scores, "Label": label}, ("Y",))})


def convolution(is_sparse=False):
    model = Model()
    rows = model.embedding(model.data([-1, 1], INT64), 100, 8, is_sparse=is_sparse)
    windows = model.op("sequence_conv", {"X": rows, "Filter": model.parameter(24, 6)}, contextLength=3, contextStart=-1,
                       contextStride=1)
    return model, model.loss(model.pool(model.op("tanh", {"X": windows}), "MAX"), 2)


def stacked_lstm():
    model = Model()
    x = model.embedding(model.data([-1, 1], INT64), 100, 8)
    for layer in range(3):
        x = model.op("sum", {"X": [model.fc(x, 8), model.lstm(x, 8, is_reverse=layer % 2 == 1)]})
    return model, model.loss(model.pool(x, "LAST"), 2)


def attention():
    model = Model()
    source, state = model.data([-1, 8]), model.data([-1, 8], levels=0)
    states = model.op("sequence_expand", {"X": model.fc(state, 8), "Y": source})
    scores = model.fc(model.op("tanh", {"X": model.op("concat", {"X": [source, states]}, axis=1)}), 1)
    weights = model.op("sequence_softmax", {"X": scores})
    flat = model.op("reshape2", {"X": weights}, ("Out", "XShape"), shape=[-1])
    scaled = model.op("elementwise_mul", {"X": source, "Y": flat}, axis=0)
    return model, model.loss(model.pool(scaled, "SUM"), 5)


def images():
    model = Model()
    x = model.data([-1, 1, 28, 28], levels=0)
    for channels in (6, 16):
        window = model.parameter(channels, x.shape[1], 5, 5)
        x = model.op("conv2d", {"Input": x, "Filter": window}, ("Output",), strides=[1, 1], paddings=[0, 0],
                     dilations=[1, 1], groups=1)
        x = model.op("pool2d", {"X": x}, pooling_type="max", ksize=[2, 2], strides=[2, 2], paddings=[0, 0])
    flat = model.op("flatten2", {"X": model.op("relu", {"X": x})}, ("Out", "XShape"), axis=1)
    normal = model.op("layer_norm", {"X": model.op("dropout", {"X": flat}, ("Out", "Mask"), {"Mask": "uint8"}),
                                     "Scale": model.parameter(256), "Bias": model.parameter(256)},
                      ("Y", "Mean", "Variance"), begin_norm_axis=1)
    return model, model.loss(normal, 10)


def speech():
    model = Model()
    x = model.op("row_conv", {"X": model.data([-1, 12]), "Filter": model.parameter(3, 12)})
    x = model.op("gru", {"Input": x, "Weight": model.parameter(4, 12), "Bias": model.parameter(1, 12)},
                 ("Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden"))
    padded = model.op("sequence_pad", {"X": x, "PadValue": model.parameter(1)}, ("Out", "Length"), {"Length": INT64},
                      padded_length=10)
    turned = model.op("transpose2", {"X": padded}, ("Out", "XShape"), axis=[0, 2, 1])
    return model, model.loss(model.op("reduce_sum", {"X": turned}, dim=[2]), 5)


def programs(folders):
    for build in convolution, stacked_lstm, attention, images, speech:
        yield build.__name__, build()[0].program
    for name, optimizer in (("sgd", paddle.optimizer.SGD), ("adam", paddle.optimizer.Adam),
                            ("momentum", paddle.optimizer.Momentum), ("adagrad", paddle.optimizer.Adagrad),
                            ("rmsprop", paddle.optimizer.RMSProp)):
        for build in convolution, stacked_lstm, attention, speech, images, lambda: convolution(True):
            model, loss = build()
            startup = paddle.static.Program()
            with paddle.static.program_guard(model.program, startup):
                optimizer(0.1).minimize(loss)
            label = "sparse" if build.__name__ == "<lambda>" else build.__name__
            yield f"{label} trained by {name}", model.program
            yield f"{label} trained by {name}: what starts it", startup
    for folder in folders:
        with open(os.path.join(folder, "__model__"), "rb") as file:
            yield folder, paddle.static.Program.parse_from_string(file.read())


def describe(var):
    kinds = paddle.base.core.VarDesc.VarType
    if var.type not in (kinds.LOD_TENSOR, kinds.SELECTED_ROWS):
        return str(var.type), None, None
    levels = var.lod_level if var.type == kinds.LOD_TENSOR and "@GRAD" not in var.name else 0
    return str(var.type), list(var.shape), f"{var.dtype} {levels}"


def compare(name, program, text, failures):
    other = paddle.static.Program.parse_from_string(text)
    same = cautious = 0
    for block, mine in zip(program.blocks, other.blocks):
        for op in block.ops:
            # Only MAX gives a MaxIndex.
            unset = op.output("MaxIndex") if op.type == "sequence_pool" and op.attr("pooltype") != "MAX" else []
            for var_name in op.output_arg_names:
                if not block.has_var(var_name) or var_name == "feed" or var_name in unset:
                    continue
                expected, found = describe(block.var(var_name)), describe(mine.var(var_name))
                if expected == found:
                    same += 1
                    continue
                (kind, dims, type), (other_kind, other_dims, other_type) = expected, found
                fits = kind == other_kind and type == other_type and dims is not None and len(dims) == len(other_dims)
                if fits and all(b in (a, -1) for a, b in zip(dims, other_dims)):
                    cautious += 1
                    continue
                failures.append(f"{name}, {op.type}: {var_name}: {found}, expected {expected}")
    if cautious:
        print(f"{name}: {same} variables as PaddlePaddle's, {cautious} with fewer dimensions known")
    return same


def main(program, folders):
    failures, errors, same = [], 0, 0
    with tempfile.TemporaryDirectory() as root:
        all_programs = list(programs(folders))
        places = [os.path.join(root, str(number)) for number in range(len(all_programs))]
        for (_, one), place in zip(all_programs, places):
            os.makedirs(place)
            with open(os.path.join(place, "__model__"), "wb") as file:
                file.write(one.desc.serialize_to_string())
        subprocess.run([program, *places], check=True)
        for (name, one), place in zip(all_programs, places):
            try:
                with open(os.path.join(place, "inferred"), "rb") as file:
                    same += compare(name, one, file.read(), failures)
            except FileNotFoundError:
                errors += 1
                print(f"{name}: {Path(place, 'error').read_text()}")
    for failure in failures:
        print(failure)
    print(f"{len(all_programs)} programs, {errors} of them refused; {same} variables as PaddlePaddle's, "
          f"{len(failures)} others")
    return bool(failures or errors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
