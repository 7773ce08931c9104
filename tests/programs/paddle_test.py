# SPDX-License-Identifier: Apache-2.0
"""Compares the operators of programs with those of PaddlePaddle 2.6.2, which must be installed (with NumPy 1), or with
those of PaddlePaddle 1.8.5 (see paddle_1.py), which has some that later versions do not have.

paddle_test.py <run_files> [--dnnl] [WORD...]: runs the cases whose names contain one of the words, by default all; with
oneDNN in the place of this library's own operators, where it has some. Cases of operators that PaddlePaddle lacks are
left out.
paddle_test.py --record <file>: writes what PaddlePaddle makes of some of them, for tests without it.
Each case is a program of one operator, made, run and written by PaddlePaddle, and then run by this library; in a case of
gradients the operators follow that PaddlePaddle takes for them.
"""
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import paddle
import paddle_record

if hasattr(paddle, "base"):
    paddle.enable_static()
    base, data = paddle.base, paddle.static.data
else:
    base, data = paddle.fluid, paddle.fluid.data
TYPES = {"bool": 0, "int16": 1, "int32": 2, "int64": 3, "float32": 5, "float64": 6, "uint8": 20, "int8": 21}
NAMES = {number: name for name, number in TYPES.items()}
random = np.random.RandomState(7)


class Ragged:
    """Rows under levels, which are given by the lengths of their sequences."""

    def __init__(self, array, *lengths):
        self.array, self.lengths = np.asarray(array), [list(level) for level in lengths]


def offsets(lengths):
    return [0] + list(np.cumsum(lengths, dtype=np.int64))


def varint(number):
    out = b""
    number &= (1 << 64) - 1
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def write_tensor(path, array, lengths=()):
    desc = b"\x08" + varint(TYPES[str(array.dtype)]) + b"".join(b"\x10" + varint(dim) for dim in array.shape)
    with open(path, "wb") as file:
        file.write(struct.pack("<IQ", 0, len(lengths)))
        for level in lengths:
            numbers = offsets(level)
            file.write(struct.pack("<Q", 8 * len(numbers)) + struct.pack(f"<{len(numbers)}Q", *numbers))
        file.write(struct.pack("<Ii", 0, len(desc)) + desc + np.ascontiguousarray(array).tobytes())


def read_tensor(path):
    data = Path(path).read_bytes()
    _, levels = struct.unpack_from("<IQ", data)
    at, lengths = 12, []
    for _ in range(levels):
        (size,) = struct.unpack_from("<Q", data, at)
        lengths.append(list(np.diff(struct.unpack_from(f"<{size // 8}Q", data, at + 8))))
        at += 8 + size
    _, size = struct.unpack_from("<Ii", data, at)
    at += 8
    end, dims, dtype = at + size, [], None

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < end:
        field = number()
        if field == 8:
            dtype = NAMES[number()]
        else:
            dims.append(number())
    return np.frombuffer(data[end:], dtype).reshape(dims), lengths


cases = []
# Where PaddlePaddle 2.6.2 is wrong, and how: a result that differs there is reported, and is no failure.
DEFECTS = {
    "sequence_conv short gradient": "its gradient by Filter is wrong where a sequence is not longer than contextStart",
    "gather columns gradient": "its gradient is wrong along another axis than the first; that of index_select is not",
    "lstm narrow gradient": "its gradient on float32 is wrong where the size is a multiple of 8",
}


def case(name, type, inputs, outputs, attrs=None, tolerance=1e-5, hidden=(), levels=True, by=()):
    """inputs: arrays, Ragged, or lists of them, by parameter; outputs: names of parameters, or (name, count), `hidden`
    those that are not compared. Without `levels`, results may have levels that PaddlePaddle 2.6.2 drops, which kept them
    in its early versions. The gradients of the first output are compared by the inputs in `by`."""
    cases.append((name, type, inputs, outputs, attrs or {}, tolerance, hidden, levels, by))


def gradient(name, type, inputs, outputs, by, attrs=None, hidden=(), tolerance=1e-4):
    """The gradients alone. Their levels, which PaddlePaddle 2.6.2 sets in some only, are not compared."""
    case(f"{name} gradient", type, inputs, outputs, attrs, tolerance, hidden, False, by)


def floats(*shape):
    """Of few digits, since some are recorded."""
    return random.standard_normal(shape).round(2).astype("float32")


def loaded(value, place):
    tensor = base.core.LoDTensor()
    tensor.set(value.array, place)
    if value.lengths:
        tensor.set_recursive_sequence_lengths(value.lengths)
    return tensor


def append_gradients(block, op, ins, by):
    """Appends the operators of a gradient. Returns their results by the inputs of the parameters in `by`."""
    wanted = [var.name + "@GRAD" for parameter in by for var in ins[parameter]]
    others = {var.name + "@GRAD" for parameter in ins for var in ins[parameter]} - set(wanted)
    found, _ = base.core.get_grad_op_desc(op.desc, others, [])
    for desc in found:
        for name in desc.output_arg_names():
            if not block.has_var(name):
                block.create_var(name=name, dtype=block.var(name.rsplit("@GRAD", 1)[0]).dtype)
        block.desc.append_op().copy_from(desc)
    block.program._sync_with_cpp()
    return [block.var(name) for name in wanted]


def build_program(type, inputs, outputs, attrs, hidden, by):
    """The program of a case, its feeds, and the variables of its results."""
    main = base.Program()
    feed = {}
    with base.program_guard(main, base.Program()):
        block = main.global_block()
        ins, outs, fetches = {}, {}, []
        for parameter, values in inputs.items():
            ins[parameter] = []
            for i, value in enumerate(values if isinstance(values, list) else [values]):
                value = value if isinstance(value, Ragged) else Ragged(value)
                name = f"{parameter}_{i}"
                shape = [-1] + list(value.array.shape[1:]) if value.lengths else list(value.array.shape)
                var = data(name, shape, str(value.array.dtype), lod_level=len(value.lengths))
                ins[parameter].append(var)
                feed[name] = value
        for output in list(outputs) + list(hidden):
            parameter, count = output if isinstance(output, tuple) else (output, 1)
            if "=" in parameter:  # the variable of an input
                parameter, of = parameter.split("=")
                outs[parameter] = ins[of]
                continue
            outs[parameter] = [block.create_var(name=f"out_{parameter}_{i}", dtype="float32") for i in range(count)]
            if output in outputs:
                fetches += outs[parameter]
        op = block.append_op(type=type, inputs=ins, outputs=outs, attrs=attrs)
        place = base.CPUPlace()
        exe = base.Executor(place)
        values = {name: loaded(value, place) for name, value in feed.items()}
        if by:
            (result,) = exe.run(main, feed=values, fetch_list=fetches[:1], return_numpy=False)
            weights = random.standard_normal(result.shape()).round(2).astype(np.array(result).dtype)
            name, lengths = fetches[0].name + "@GRAD", result.recursive_sequence_lengths()
            data(name, list(weights.shape), str(weights.dtype), lod_level=len(lengths))
            feed[name] = Ragged(weights, *lengths)
            values[name] = loaded(feed[name], place)
            fetches = append_gradients(block, op, ins, by)
    return main, feed, fetches


def write_case(folder, main, feed):
    """Writes a program and what it is fed with."""
    os.makedirs(os.path.join(folder, "feed"))
    os.makedirs(os.path.join(folder, "parameters"))
    with open(os.path.join(folder, "__model__"), "wb") as file:
        file.write(main.desc.serialize_to_string())
    for name, value in feed.items():
        write_tensor(os.path.join(folder, "feed", name), value.array, value.lengths)


def build(folder, type, inputs, outputs, attrs, hidden, by):
    """Runs a case by PaddlePaddle and writes it. Returns the results, the names of their variables, the program, and
    what it is fed."""
    main, feed, fetches = build_program(type, inputs, outputs, attrs, hidden, by)
    place = base.CPUPlace()
    values = {name: loaded(value, place) for name, value in feed.items()}
    results = base.Executor(place).run(main, feed=values, fetch_list=fetches, return_numpy=False)
    block = main.global_block()
    block.create_var(name="feed", type=base.core.VarDesc.VarType.FEED_MINIBATCH, persistable=True)
    block.create_var(name="fetch", type=base.core.VarDesc.VarType.FETCH_LIST, persistable=True)
    for i, name in enumerate(feed):
        block._prepend_op(type="feed", inputs={"X": ["feed"]}, outputs={"Out": [block.var(name)]}, attrs={"col": i})
    for i, var in enumerate(fetches):
        block.append_op(type="fetch", inputs={"X": [var]}, outputs={"Out": [block.var("fetch")]}, attrs={"col": i})
    write_case(folder, main, feed)
    arrays = [(np.array(result), result.recursive_sequence_lengths()) for result in results]
    return arrays, [var.name for var in fetches], main, feed


def compare(found, expected, tolerance, levels):
    """What differs, as a text; empty if nothing does."""
    (array, lengths), (other, other_lengths) = found, expected
    shape = other.shape or (1,)
    if array.dtype != other.dtype or array.shape != shape:
        return f"{array.dtype}{array.shape}, expected {other.dtype}{shape}"
    if levels and [list(level) for level in lengths] != other_lengths:
        return f"levels {lengths}, expected {other_lengths}"
    other = other.reshape(shape)
    if array.dtype.kind == "f":
        worst = np.abs(array - other).max(initial=0)
        return "" if np.allclose(array, other, tolerance, tolerance, equal_nan=True) else f"differs by {worst}"
    return "" if (array == other).all() else f"{array.tolist()}, expected {other.tolist()}"


def described(folder, name):
    """What infer_shapes says of a variable: its dimensions, type and levels."""
    with open(os.path.join(folder, "inferred"), "rb") as file:
        var = base.Program.parse_from_string(file.read()).global_block().var(name)
    return list(var.shape), str(np.dtype(base.data_feeder.convert_dtype(var.dtype))), var.lod_level


def compare_described(desc, found):
    """The same for a description and a result of this library."""
    (dims, type, levels), (array, lengths) = desc, found
    fits = len(dims or [1]) == array.ndim and all(a in (-1, b) for a, b in zip(dims or [1], array.shape))
    if fits and type == str(array.dtype) and levels == len(lengths):
        return ""
    return f"described as {type}{dims}, {levels} levels; it is {array.dtype}{array.shape}, {len(lengths)} levels"


def main(program, words):
    options = [word for word in words if word.startswith("-")]
    words = [word for word in words if word not in options]
    known = base.framework.OpProtoHolder.instance().op_proto_map
    chosen = [one for one in cases if one[1] in known and (not words or any(word in one[0] for word in words))]
    failures = 0
    with tempfile.TemporaryDirectory() as root:
        expected, names, folders = {}, {}, []
        for number, (name, type, inputs, outputs, attrs, _, hidden, _, by) in enumerate(chosen):
            folder = os.path.join(root, str(number))
            try:
                expected[number], names[number], *_ = build(folder, type, inputs, outputs, attrs, hidden, by)
                folders.append(folder)
            except Exception as error:  # noqa: BLE001
                failures += 1
                print(f"{name}: PaddlePaddle: {str(error).strip().splitlines()[-1]}")
        subprocess.run([program, *options, *folders], check=True)
        for number, results in expected.items():
            name, tolerance, levels = chosen[number][0], chosen[number][5], chosen[number][7]
            folder = os.path.join(root, str(number))
            try:
                print(f"{name}: {Path(folder, 'error').read_text()}")
                failures += 1
                continue
            except FileNotFoundError:
                pass
            for k, result in enumerate(results):
                found = read_tensor(os.path.join(folder, f"fetch{k}"))
                difference = compare(found, result, tolerance, levels)
                difference = difference or compare_described(described(folder, names[number][k]), found)
                if difference and name in DEFECTS:
                    print(f"{name}: result {k}: {difference}; PaddlePaddle 2.6.2: {DEFECTS[name]}")
                elif difference:
                    failures += 1
                    print(f"{name}: result {k}: {difference}")
    print(f"{len(chosen)} cases, {failures} failures")
    return failures > 0


# Beside those whose names begin with sequence_.
ON_SEQUENCES = {"chunk_eval", "crf_decoding", "ctc_align", "edit_distance", "gru", "gru_unit", "im2sequence",
                "linear_chain_crf", "lod_reset", "lookup_table", "lookup_table_v2", "lstm", "row_conv", "warpctc"}


def record(path):
    """The first case of each operator on sequences, and the first of its gradient."""
    chosen, recorded = {}, []
    for one in cases:
        if one[0] not in DEFECTS and (one[1].startswith("sequence_") or one[1] in ON_SEQUENCES):
            chosen.setdefault((one[1], bool(one[8])), one)
    with tempfile.TemporaryDirectory() as root:
        for number, (name, type, inputs, outputs, attrs, _, hidden, levels, by) in enumerate(chosen.values()):
            folder = os.path.join(root, str(number))
            results, names, program, feed = build(folder, type, inputs, outputs, attrs, hidden, by)
            tensors = [paddle_record.tensor("feed", name, value.array, value.lengths) for name, value in feed.items()]
            tensors += [paddle_record.tensor("fetch", name, array, lengths if levels else None)
                        for name, (array, lengths) in zip(names, results)]
            recorded.append(paddle_record.case(name, program.desc, tensors))
    paddle_record.write(path, "paddle_test.py", recorded)


# ---- The cases ----

rows = Ragged(floats(7, 4), [2, 0, 4, 1])
nested = Ragged(floats(7, 4), [1, 2], [3, 0, 4])
column = Ragged(floats(7, 1), [2, 4, 1])
ids = Ragged(random.randint(0, 9, (7, 1)).astype("int64"), [2, 4, 1])
x34, x43, x4 = floats(3, 4), floats(4, 3), floats(4)

for batch, which in ((rows, "rows"), (nested, "nested")):
    for pool in "AVERAGE", "SUM", "SQRT", "LAST", "FIRST", "MAX":
        case(f"sequence_pool {pool} {which}", "sequence_pool", {"X": batch}, ["Out"],
             {"pooltype": pool, "pad_value": 0.5}, hidden=["MaxIndex"])
case("sequence_pool default", "sequence_pool", {"X": rows}, ["Out"], hidden=["MaxIndex"])
case("sequence_softmax", "sequence_softmax", {"X": column}, ["Out"])
case("sequence_reverse", "sequence_reverse", {"X": Ragged(floats(7, 4), [2, 4, 1])}, ["Y"])
case("sequence_expand rows", "sequence_expand", {"X": floats(4, 2), "Y": rows}, ["Out"])
case("sequence_expand sequences", "sequence_expand",
     {"X": Ragged(floats(5, 2), [2, 3]), "Y": Ragged(floats(5, 1), [2, 1], [1, 0, 4])}, ["Out"], {"ref_level": 0})
case("sequence_expand_as", "sequence_expand_as", {"X": floats(3, 2), "Y": Ragged(floats(7, 4), [2, 4, 1])}, ["Out"])
case("sequence_concat", "sequence_concat",
     {"X": [Ragged(floats(5, 2), [2, 3]), Ragged(floats(3, 2), [0, 3]), Ragged(floats(2, 2), [1, 1])]}, ["Out"])
for start in -1, 0, 1, -3:
    case(f"sequence_conv {start}", "sequence_conv", {"X": rows, "Filter": floats(12, 5)}, ["Out"],
         {"contextLength": 3, "contextStart": start, "contextStride": 1})
case("sequence_conv trained", "sequence_conv",
     {"X": rows, "Filter": floats(12, 5), "PaddingData": floats(2, 4)}, ["Out"],
     {"contextLength": 3, "contextStart": -1, "contextStride": 1, "paddingTrainable": True})
case("row_conv", "row_conv", {"X": Ragged(floats(7, 4), [2, 4, 1]), "Filter": floats(3, 4)}, ["Out"])
for length in -1, 6:
    case(f"sequence_pad {length}", "sequence_pad",
         {"X": Ragged(floats(7, 4), [2, 4, 1]), "PadValue": np.array([0.5], "float32")}, ["Out", "Length"],
         {"padded_length": length})
case("sequence_pad ids", "sequence_pad", {"X": ids, "PadValue": np.array([3], "int64")}, ["Out", "Length"])
case("sequence_unpad", "sequence_unpad", {"X": floats(3, 5, 2), "Length": np.array([2, 0, 5], "int64")}, ["Out"])
case("sequence_unpad matrix", "sequence_unpad", {"X": floats(3, 5), "Length": np.array([2, 0, 5], "int64")}, ["Out"])
case("sequence_slice", "sequence_slice",
     {"X": Ragged(floats(7, 2), [2, 4, 1]), "Offset": np.array([[1], [0], [0]], "int64"),
      "Length": np.array([[1], [3], [1]], "int64")}, ["Out"])
case("sequence_reshape", "sequence_reshape", {"X": Ragged(floats(6, 4), [2, 0, 4])}, ["Out"], {"new_dim": 8})
case("sequence_scatter", "sequence_scatter",
     {"X": floats(3, 9), "Ids": ids, "Updates": Ragged(floats(7, 1), [2, 4, 1])}, ["Out"])
case("sequence_enumerate", "sequence_enumerate", {"X": ids}, ["Out"], {"win_size": 3, "pad_value": 7})
case("sequence_erase", "sequence_erase", {"X": ids}, ["Out"], {"tokens": [2, 3, 5]})
for dtype in 0, 2, 3, 5:
    case(f"sequence_mask {dtype}", "sequence_mask", {"X": np.array([2, 0, 3], "int64")}, ["Y"],
         {"maxlen": 4, "out_dtype": dtype})
case("sequence_mask longest", "sequence_mask", {"X": np.array([[2, 0], [3, 1]], "int64")}, ["Y"], {"out_dtype": 3})
case("sequence_mask tensor", "sequence_mask",
     {"X": np.array([2, 0, 3], "int64"), "MaxLenTensor": np.array([5], "int32")}, ["Y"], {"out_dtype": 3})
case("sequence_pool winners", "sequence_pool", {"X": rows}, ["Out", "MaxIndex"], {"pooltype": "MAX"})
case("lod_reset attribute", "lod_reset", {"X": rows}, ["Out"], {"target_lod": [0, 3, 7]})
case("lod_reset levels", "lod_reset", {"X": rows, "Y": nested}, ["Out"])
case("lod_reset offsets", "lod_reset", {"X": rows, "Y": np.array([0, 1, 7], "int32")}, ["Out"])
case("lod_reset append", "lod_reset", {"X": Ragged(floats(4, 2), [3, 1])}, ["Out"],
     {"target_lod": [0, 1, 2, 3, 4], "append": True})
case("edit_distance", "edit_distance",
     {"Hyps": ids, "Refs": Ragged(random.randint(0, 4, (6, 1)).astype("int64"), [1, 3, 2])}, ["Out", "SequenceNum"],
     {"normalized": False})
case("edit_distance normalized", "edit_distance",
     {"Hyps": ids, "Refs": Ragged(random.randint(0, 4, (6, 1)).astype("int64"), [1, 3, 2])}, ["Out", "SequenceNum"],
     {"normalized": True})
case("ctc_align", "ctc_align", {"Input": Ragged(np.array([[0, 1, 1, 0, 1, 2, 2]], "int64").T, [4, 3])}, ["Output"],
     {"blank": 0, "merge_repeated": True})
case("im2sequence", "im2sequence", {"X": floats(2, 3, 5, 4)}, ["Out"],
     {"kernels": [2, 2], "strides": [2, 1], "paddings": [1, 0, 0, 1]})

for reverse in False, True:
    for origin in False, True:
        for initial in False, True:
            inputs = {"Input": Ragged(floats(7, 15), [2, 4, 1]), "Weight": floats(5, 15), "Bias": floats(1, 15)}
            if initial:
                inputs["H0"] = floats(3, 5)
            case(f"gru {reverse} {origin} {initial}", "gru", inputs, ["Hidden"],
                 {"is_reverse": reverse, "origin_mode": origin, "activation": "tanh", "gate_activation": "sigmoid"},
                 hidden=["BatchGate", "BatchResetHiddenPrev", "BatchHidden"])
case("gru intermediate", "gru", {"Input": Ragged(floats(7, 15), [2, 4, 1]), "Weight": floats(5, 15)},
     ["Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden"], levels=False)
case("gru defaults", "gru", {"Input": Ragged(floats(7, 15), [2, 4, 1]), "Weight": floats(5, 15)}, ["Hidden"],
     hidden=["BatchGate", "BatchResetHiddenPrev", "BatchHidden"])
for gate, candidate in ("sigmoid", "relu"), ("relu", "identity"), ("tanh", "sigmoid"):
    functions = {"gate_activation": gate, "activation": candidate}
    gru = {"Input": Ragged(floats(7, 15), [2, 4, 1]), "Weight": floats(5, 15), "Bias": floats(1, 15)}
    kept = ["BatchGate", "BatchResetHiddenPrev", "BatchHidden"]
    case(f"gru {gate} {candidate}", "gru", gru, ["Hidden"], functions, hidden=kept)
    gradient(f"gru {gate} {candidate}", "gru", gru, ["Hidden"], list(gru), functions, kept)
    numbers = {name: ["identity", "sigmoid", "tanh", "relu"].index(value) for name, value in functions.items()}
    gru = {"Input": floats(4, 15), "HiddenPrev": floats(4, 5), "Weight": floats(5, 15), "Bias": floats(1, 15)}
    case(f"gru_unit {gate} {candidate}", "gru_unit", gru, ["Hidden", "Gate", "ResetHiddenPrev"], numbers)
    gradient(f"gru_unit {gate} {candidate}", "gru_unit", gru, ["Hidden"], list(gru), numbers,
             ["Gate", "ResetHiddenPrev"])
for reverse in False, True:
    for peepholes in False, True:
        for initial in False, True:
            inputs = {"Input": Ragged(floats(7, 20), [2, 4, 1]), "Weight": floats(5, 20),
                      "Bias": floats(1, 35 if peepholes else 20)}
            if initial:
                inputs["H0"], inputs["C0"] = floats(3, 5), floats(3, 5)
            case(f"lstm {reverse} {peepholes} {initial}", "lstm", inputs, ["Hidden", "Cell"],
                 {"is_reverse": reverse, "use_peepholes": peepholes}, hidden=["BatchGate", "BatchCellPreAct"])
case("lstm intermediate", "lstm",
     {"Input": Ragged(floats(7, 20), [2, 4, 1]), "Weight": floats(5, 20), "Bias": floats(1, 35)},
     ["Hidden", "Cell", "BatchGate"], hidden=["BatchCellPreAct"], levels=False)
case("lstm defaults", "lstm", {"Input": Ragged(floats(7, 20), [2, 4, 1]), "Weight": floats(5, 20),
                               "Bias": floats(1, 35)}, ["Hidden", "Cell"], hidden=["BatchGate", "BatchCellPreAct"])
for functions in "sigmoid relu sigmoid", "tanh identity relu", "relu sigmoid identity":
    functions = dict(zip(("gate_activation", "candidate_activation", "cell_activation"), functions.split()))
    lstm = {"Input": Ragged(floats(7, 20), [2, 4, 1]), "Weight": floats(5, 20), "Bias": floats(1, 35)}
    case(f"lstm {' '.join(functions.values())}", "lstm", lstm, ["Hidden", "Cell"], functions,
         hidden=["BatchGate", "BatchCellPreAct"])
    gradient(f"lstm {' '.join(functions.values())}", "lstm", lstm, ["Hidden"], ["Input", "Weight", "Bias"], functions,
             ["Cell", "BatchGate", "BatchCellPreAct"])
case("crf_decoding", "crf_decoding", {"Emission": Ragged(floats(7, 4), [2, 4, 1]), "Transition": floats(6, 4)},
     ["ViterbiPath"])
case("crf_decoding labels", "crf_decoding",
     {"Emission": Ragged(floats(7, 4), [2, 4, 1]), "Transition": floats(6, 4),
      "Label": Ragged(random.randint(0, 4, (7, 1)).astype("int64"), [2, 4, 1])}, ["ViterbiPath"])

for version, shape in (("", ids), ("_v2", Ragged(ids.array, *ids.lengths)),
                       ("_v2", np.array([[1, 2], [3, 0]], "int64"))):
    for padding in -1, 3:
        case(f"lookup_table{version} {padding}", f"lookup_table{version}", {"W": floats(9, 5), "Ids": shape}, ["Out"],
             {"padding_idx": padding})

case("mul", "mul", {"X": x34, "Y": x43}, ["Out"])
case("mul levels", "mul", {"X": rows, "Y": x43}, ["Out"])
case("mul dims", "mul", {"X": floats(2, 3, 2, 2), "Y": floats(2, 2, 3)}, ["Out"],
     {"x_num_col_dims": 2, "y_num_col_dims": 2})
case("fc", "fc", {"Input": rows, "W": x43, "Bias": floats(1, 3)}, ["Out"], {"activation_type": "relu"}, levels=False)
case("fc dims", "fc", {"Input": floats(2, 3, 4), "W": x43}, ["Out"], {"in_num_col_dims": 2})
for transpose_x, transpose_y, left, right in ((0, 0, x34, x43), (1, 0, x43, x43), (0, 1, x34, x34), (1, 1, x43, x34)):
    case(f"matmul {transpose_x} {transpose_y}", "matmul", {"X": left, "Y": right}, ["Out"],
         {"transpose_X": bool(transpose_x), "transpose_Y": bool(transpose_y), "alpha": 0.5})
    case(f"matmul_v2 {transpose_x} {transpose_y}", "matmul_v2", {"X": left, "Y": right}, ["Out"],
         {"trans_x": bool(transpose_x), "trans_y": bool(transpose_y)})
case("matmul batch", "matmul", {"X": floats(2, 3, 4), "Y": floats(2, 4, 3)}, ["Out"])
case("matmul batch broadcast", "matmul", {"X": floats(2, 3, 4), "Y": x43}, ["Out"])
case("matmul_v2 broadcast", "matmul_v2", {"X": floats(2, 1, 3, 4), "Y": floats(5, 4, 3)}, ["Out"])
case("matmul_v2 vectors", "matmul_v2", {"X": x4, "Y": floats(4)}, ["Out"])
case("matmul_v2 vector", "matmul_v2", {"X": floats(2, 3, 4), "Y": x4}, ["Out"])
case("matmul vectors", "matmul", {"X": x4, "Y": floats(4)}, ["Out"])

for name in "add", "sub", "mul", "div", "max", "min", "pow", "mod", "floordiv":
    positive = lambda *shape: np.abs(floats(*shape)) + 0.5  # noqa: E731
    # mod and floordiv of real numbers jump: small differences would be large ones.
    case(f"elementwise_{name}", f"elementwise_{name}", {"X": positive(3, 4), "Y": positive(3, 4)}, ["Out"])
    case(f"elementwise_{name} row", f"elementwise_{name}", {"X": Ragged(positive(7, 4), [3, 4]), "Y": positive(4)},
         ["Out"], {"axis": 1})
    case(f"elementwise_{name} default", f"elementwise_{name}", {"X": positive(2, 3, 4), "Y": positive(3, 4)}, ["Out"])
    case(f"elementwise_{name} axis", f"elementwise_{name}", {"X": positive(2, 3, 4), "Y": positive(3)}, ["Out"],
         {"axis": 1})
    case(f"elementwise_{name} rows", f"elementwise_{name}", {"X": positive(2, 3, 4), "Y": positive(2)}, ["Out"],
         {"axis": 0})
    case(f"elementwise_{name} ones", f"elementwise_{name}", {"X": positive(2, 3, 4), "Y": positive(2, 1, 4)}, ["Out"])
    case(f"elementwise_{name} both", f"elementwise_{name}", {"X": positive(2, 1, 4), "Y": positive(1, 3, 1)}, ["Out"])
    case(f"elementwise_{name} trailing", f"elementwise_{name}", {"X": positive(2, 3, 4), "Y": positive(3, 1)}, ["Out"],
         {"axis": 1})
    case(f"elementwise_{name} longer", f"elementwise_{name}", {"X": positive(4), "Y": positive(2, 3, 4)}, ["Out"])
for name in "add", "sub", "mul", "max", "min", "mod", "floordiv":
    case(f"elementwise_{name} integers", f"elementwise_{name}",
         {"X": random.randint(-9, 9, (3, 4)).astype("int64"), "Y": random.randint(1, 5, (3, 4)).astype("int64")},
         ["Out"])
case("elementwise_mod signs", "elementwise_mod",
     {"X": np.array([7, -7, 7, -7], "int64"), "Y": np.array([3, 3, -3, -3], "int64")}, ["Out"])
for name in "less_than", "less_equal", "greater_than", "greater_equal", "equal", "not_equal":
    case(name, name, {"X": random.randint(0, 3, (3, 4)).astype("int64"),
                      "Y": random.randint(0, 3, (3, 4)).astype("int64")}, ["Out"])
    case(f"{name} row", name, {"X": x34, "Y": x4}, ["Out"])
for name in "and", "or", "xor":
    case(f"logical_{name}", f"logical_{name}", {"X": x34 > 0, "Y": floats(3, 4) > 0}, ["Out"])
case("logical_not", "logical_not", {"X": x34 > 0}, ["Out"])

for name in ("relu sigmoid logsigmoid tanh exp square abs reciprocal floor ceil round sin cos sign softsign "
             "tanh_shrink erf relu6 leaky_relu elu gelu swish silu softplus hard_sigmoid hard_swish hard_shrink "
             "softshrink thresholded_relu brelu stanh atan sinh cosh tan expm1 mish selu soft_relu").split():
    case(name, name, {"X": Ragged(3 * floats(7, 4), [2, 0, 4, 1])}, ["Out"], levels=name != "abs")
for name in "acos", "asin":
    case(name, name, {"X": random.uniform(-1, 1, (3, 4)).astype("float32")}, ["Out"])
for name in "log", "log1p", "log2", "log10", "sqrt", "rsqrt":
    case(name, name, {"X": np.abs(x34) + 0.1}, ["Out"])
case("pow", "pow", {"X": np.abs(x34)}, ["Out"], {"factor": 2.5})
case("clip", "clip", {"X": x34}, ["Out"], {"min": -0.5, "max": 0.25})
case("gelu approximate", "gelu", {"X": x34}, ["Out"], {"approximate": True})
for name, attrs in (("leaky_relu", {"alpha": 0.3}), ("elu", {"alpha": 0.3}), ("softplus", {"beta": 2.0}),
                    ("hard_sigmoid", {"slope": 0.1, "offset": 0.3}),
                    ("softshrink", {"lambda": 0.2}), ("brelu", {"t_min": -1.0, "t_max": 1.0})):
    case(f"{name} attributes", name, {"X": 3 * floats(3, 4)}, ["Out"], attrs)
case("scale", "scale", {"X": rows}, ["Out"], {"scale": 2.0, "bias": 1.0})
case("scale before", "scale", {"X": rows}, ["Out"], {"scale": 2.0, "bias": 1.0, "bias_after_scale": False})
case("scale integers", "scale", {"X": ids}, ["Out"], {"scale": 2.0, "bias": 1.0})
case("increment", "increment", {"X": np.array([3], "int64")}, ["Out"], {"step": 2.0})
for to in 0, 2, 3, 5, 6:
    case(f"cast {to}", "cast", {"X": Ragged(3 * floats(7, 2), [3, 4])}, ["Out"], {"in_dtype": 5, "out_dtype": to})
case("cast bool", "cast", {"X": x34 > 0}, ["Out"], {"in_dtype": 0, "out_dtype": 5})
case("dropout", "dropout", {"X": rows}, ["Out"], {"is_test": True, "dropout_prob": 0.3}, hidden=["Mask"])
case("dropout upscale", "dropout", {"X": rows}, ["Out"],
     {"is_test": True, "dropout_prob": 0.3, "dropout_implementation": "upscale_in_train"}, hidden=["Mask"])

case("sum", "sum", {"X": [rows, Ragged(floats(7, 4), *rows.lengths), Ragged(floats(7, 4), *rows.lengths)]}, ["Out"])
case("mean", "mean", {"X": x34}, ["Out"])
for name in "sum", "mean", "max", "min", "prod":
    for dim, keep, everything in (([0], False, False), ([1], True, False), ([-1], False, False), ([0, 2], False, False),
                                  ([0], False, True), ([1], True, True)):
        case(f"reduce_{name} {dim} {keep} {everything}", f"reduce_{name}", {"X": floats(2, 3, 4)}, ["Out"],
             {"dim": dim, "keep_dim": keep, "reduce_all": everything})
    case(f"reduce_{name} levels", f"reduce_{name}", {"X": rows}, ["Out"], {"dim": [1], "keep_dim": True},
         levels=False)
for name in "all", "any":
    case(f"reduce_{name}", f"reduce_{name}", {"X": floats(3, 4) > 0}, ["Out"], {"dim": [1]})
for axis in -1, 0, 1:
    case(f"softmax {axis}", "softmax", {"X": 5 * floats(2, 3, 4)}, ["Out"], {"axis": axis})
    case(f"log_softmax {axis}", "log_softmax", {"X": 5 * floats(2, 3, 4)}, ["Out"], {"axis": axis})
case("softmax levels", "softmax", {"X": rows}, ["Out"])
probabilities = np.exp(floats(4, 5))
probabilities /= probabilities.sum(1, keepdims=True)
labels = np.array([[0], [4], [2], [2]], "int64")
soft = np.exp(floats(4, 5))
soft /= soft.sum(1, keepdims=True)
case("cross_entropy", "cross_entropy", {"X": probabilities, "Label": labels}, ["Y"])
case("cross_entropy levels", "cross_entropy",
     {"X": Ragged(probabilities, [1, 3]), "Label": Ragged(labels, [1, 3])}, ["Y"])
case("cross_entropy soft", "cross_entropy", {"X": probabilities, "Label": soft}, ["Y"], {"soft_label": True})
case("cross_entropy ignored", "cross_entropy", {"X": probabilities, "Label": labels}, ["Y"], {"ignore_index": 2})
case("cross_entropy zero", "cross_entropy",
     {"X": np.array([[0, 1]], "float32"), "Label": np.array([[0]], "int64")}, ["Y"])
case("cross_entropy2", "cross_entropy2", {"X": probabilities, "Label": labels}, ["Y"], hidden=["XShape", "MatchX"])
for ignored in -100, 2:
    case(f"softmax_with_cross_entropy {ignored}", "softmax_with_cross_entropy",
         {"Logits": floats(4, 5), "Label": labels}, ["Softmax", "Loss"], {"ignore_index": ignored})
case("softmax_with_cross_entropy soft", "softmax_with_cross_entropy", {"Logits": floats(4, 5), "Label": soft},
     ["Softmax", "Loss"], {"soft_label": True})
distinct = Ragged((11 * np.arange(28, dtype="float32") % 28).reshape(7, 4), [2, 0, 4, 1])
case("top_k", "top_k", {"X": distinct}, ["Out", "Indices"], {"k": 2})
case("top_k_v2", "top_k_v2", {"X": floats(2, 3, 5)}, ["Out", "Indices"], {"k": 3})
for axis in -1, 0, 1:
    for keep in False, True:
        case(f"arg_max {axis} {keep}", "arg_max", {"X": floats(2, 3, 4)}, ["Out"], {"axis": axis, "keepdims": keep})
        case(f"arg_min {axis} {keep}", "arg_min", {"X": floats(2, 3, 4)}, ["Out"], {"axis": axis, "keepdims": keep})
case("arg_max flatten", "arg_max", {"X": x34}, ["Out"], {"axis": 0, "flatten": True, "dtype": 2})
case("accuracy", "accuracy",
     {"Out": floats(4, 2), "Indices": np.array([[0, 1], [1, 2], [2, 0], [3, 4]], "int64"), "Label": labels},
     ["Accuracy", "Correct", "Total"])
case("layer_norm", "layer_norm", {"X": rows, "Scale": floats(4), "Bias": floats(4)}, ["Y", "Mean", "Variance"])
case("layer_norm plain", "layer_norm", {"X": floats(2, 3, 4)}, ["Y", "Mean", "Variance"],
     {"begin_norm_axis": 2, "epsilon": 0.001})
for layout, shape in (("NCHW", (2, 3, 4, 2)), ("NHWC", (2, 4, 2, 3))):
    case(f"batch_norm {layout}", "batch_norm",
         {"X": floats(*shape), "Scale": floats(3), "Bias": floats(3), "Mean": floats(3),
          "Variance": np.abs(floats(3)) + 0.1}, ["Y"], {"is_test": True, "data_layout": layout},
         hidden=["MeanOut=Mean", "VarianceOut=Variance", "SavedMean", "SavedVariance"], tolerance=1e-4)

for axis in 0, 1, -1:
    case(f"concat {axis}", "concat", {"X": [floats(2, 3), floats(2, 3)]}, ["Out"], {"axis": axis})
    case(f"stack {axis}", "stack", {"X": [floats(2, 3), floats(2, 3)]}, ["Y"], {"axis": axis})
case("concat levels", "concat", {"X": [rows, Ragged(floats(7, 2), *rows.lengths)]}, ["Out"], {"axis": 1})
case("split num", "split", {"X": floats(2, 6)}, [("Out", 3)], {"axis": 1, "num": 3})
case("split sections", "split", {"X": rows}, [("Out", 2)], {"axis": 1, "sections": [1, -1]})
case("split rows", "split", {"X": floats(5, 2)}, [("Out", 2)], {"axis": 0, "sections": [2, 3]})
case("reshape2", "reshape2", {"X": floats(2, 6)}, ["Out"], {"shape": [0, -1, 3]}, hidden=["XShape"])
case("reshape2 levels", "reshape2", {"X": rows}, ["Out"], {"shape": [-1, 2, 2]}, hidden=["XShape"])
for axes in [], [0], [0, -1]:
    case(f"squeeze2 {axes}", "squeeze2", {"X": floats(1, 3, 1)}, ["Out"], {"axes": axes}, hidden=["XShape"])
for axes in [0], [1, 2], [-1]:
    case(f"unsqueeze2 {axes}", "unsqueeze2", {"X": floats(2, 3)}, ["Out"], {"axes": axes}, hidden=["XShape"])
case("flatten2", "flatten2", {"X": floats(2, 3, 4)}, ["Out"], {"axis": 2}, hidden=["XShape"])
case("flatten_contiguous_range", "flatten_contiguous_range", {"X": floats(2, 3, 4, 5)}, ["Out"],
     {"start_axis": 1, "stop_axis": 2}, hidden=["XShape"])
for axes in [1, 0, 2], [2, 0, 1], [0, 2, 1]:
    case(f"transpose2 {axes}", "transpose2", {"X": floats(2, 3, 4)}, ["Out"], {"axis": axes}, hidden=["XShape"])
case("slice", "slice", {"Input": floats(4, 5, 3)}, ["Out"], {"axes": [0, 1], "starts": [1, -3], "ends": [9, -1]})
case("slice decrease", "slice", {"Input": floats(4, 5, 3)}, ["Out"],
     {"axes": [1], "starts": [2], "ends": [3], "decrease_axis": [1]})
case("slice levels", "slice", {"Input": rows}, ["Out"], {"axes": [1], "starts": [1], "ends": [3]})
case("gather", "gather", {"X": floats(5, 3), "Index": np.array([4, 0, 4], "int32")}, ["Out"])
case("expand", "expand", {"X": floats(2, 3)}, ["Out"], {"expand_times": [2, 3]})
for name, x, attrs in (("expand", floats(2, 3), {"expand_times": [1, 3]}), ("tile", floats(2, 3), {"repeat_times": [2, 1, 2]}),
                       ("tile", Ragged(floats(7, 2), [3, 4]), {"repeat_times": [3]}),
                       ("expand_v2", floats(2, 1, 3), {"shape": [4, -1, 5, 3]}), ("expand_v2", x4, {"shape": [3, 4]}),
                       ("expand_as_v2", floats(2, 1, 3), {"target_shape": [4, 2, 5, 3]}),
                       ("flip", floats(2, 3, 4), {"axis": [0, -1]}), ("reverse", rows, {"axis": [1]}),
                       ("pad", floats(2, 3), {"paddings": [1, 0, 2, 3], "pad_value": 0.5}),
                       ("pad", rows, {"paddings": [0, 0, 1, 0]})):
    case(f"{name} {attrs}", name, {"X": x}, ["Out"], attrs, levels=False)
    if name != "flip" and name != "reverse":  # whose gradients PaddlePaddle makes in Python alone
        gradient(f"{name} {attrs}", name, {"X": x}, ["Out"], ["X"], attrs)
for axis in 0, 1, -1:
    case(f"unstack {axis}", "unstack", {"X": floats(2, 2, 2)}, [("Y", 2)], {"axis": axis, "num": 2})
    case(f"unbind {axis}", "unbind", {"X": floats(2, 2, 2)}, [("Out", 2)], {"axis": axis})
gradient("unstack", "unstack", {"X": floats(2, 1, 2)}, ["Y"], ["X"], {"axis": 1, "num": 1})
for index in [[2, 1], [0, 0], [2, 1]], [[1], [3]], [3]:
    inputs = {"X": floats(4, 3, 2), "Index": np.array(index, "int64")}
    case(f"gather_nd {index}", "gather_nd", inputs, ["Out"])
    gradient(f"gather_nd {index}", "gather_nd", inputs, ["Out"], ["X"])
for overwrite, places in (True, [3, 0]), (False, [3, 0, 3]):
    inputs = {"X": floats(4, 3), "Ids": np.array(places, "int64"), "Updates": floats(len(places), 3)}
    case(f"scatter {overwrite}", "scatter", inputs, ["Out"], {"overwrite": overwrite})
    gradient(f"scatter {overwrite}", "scatter", inputs, ["Out"], ["X", "Updates"], {"overwrite": overwrite})
choices = {"Condition": x34 > 0, "X": floats(3, 4), "Y": floats(3, 4)}
case("where", "where", choices, ["Out"])
gradient("where", "where", choices, ["Out"], ["X", "Y"])
case("where_index", "where_index", {"Condition": x34 > 0}, ["Out"])
for axis in 0, 1, -1:
    for descending in False, True:
        attrs = {"axis": axis, "descending": descending}
        case(f"argsort {attrs}", "argsort", {"X": floats(2, 5, 3)}, ["Out", "Indices"], attrs)
        gradient(f"argsort {attrs}", "argsort", {"X": floats(2, 5, 3)}, ["Out"], ["X"], attrs, ["Indices"])
    for exclusive, reverse in ((False, False), (True, False), (False, True), (True, True)):
        attrs = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
        case(f"cumsum {attrs}", "cumsum", {"X": floats(2, 5, 3)}, ["Out"], attrs)
        gradient(f"cumsum {attrs}", "cumsum", {"X": floats(2, 5, 3)}, ["Out"], ["X"], attrs)
case("cumsum flatten", "cumsum", {"X": random.randint(-9, 9, (3, 4)).astype("int64")}, ["Out"], {"flatten": True})
gradient("cumsum flatten", "cumsum", {"X": floats(3, 4)}, ["Out"], ["X"], {"flatten": True})
for axis, shape in ((1, (2, 6, 3, 2)), (-1, (2, 3, 2, 6))):
    case(f"maxout {axis}", "maxout", {"X": floats(*shape)}, ["Out"], {"groups": 3, "axis": axis})
    gradient(f"maxout {axis}", "maxout", {"X": floats(*shape)}, ["Out"], ["X"], {"groups": 3, "axis": axis})
for mode, layout, alpha in (("all", "NCHW", (1,)), ("channel", "NCHW", (1, 3, 1, 1)), ("channel", "NHWC", (1, 1, 1, 4)),
                            ("element", "NCHW", (1, 3, 2, 4))):
    slopes = {"X": floats(2, 3, 2, 4), "Alpha": floats(*alpha)}
    case(f"prelu {mode} {layout}", "prelu", slopes, ["Out"], {"mode": mode, "data_format": layout})
    gradient(f"prelu {mode} {layout}", "prelu", slopes, ["Out"], ["X", "Alpha"], {"mode": mode, "data_format": layout})
forms = {"X": floats(3, 4), "Y": floats(3, 2), "Weight": floats(5, 4, 2), "Bias": floats(1, 5)}
case("bilinear_tensor_product", "bilinear_tensor_product", forms, ["Out"])
gradient("bilinear_tensor_product", "bilinear_tensor_product", forms, ["Out"], list(forms))
for ends in (1, 8, 3), (5, -4, -2), (2, 2, 1):
    case(f"range {ends}", "range", {name: np.array([end], "int64") for name, end in zip(("Start", "End", "Step"), ends)},
         ["Out"])
case("range floats", "range", {name: np.array([end], "float32") for name, end in
                               (("Start", 0.5), ("End", 3.1), ("Step", 0.5))}, ["Out"])
weights = {"Param": floats(3, 4), "Grad": floats(3, 4), "LearningRate": np.array([0.1], "float32")}
moments = [np.abs(floats(3, 4)) for _ in range(2)]
powers = {"Beta1Pow": np.array([0.81], "float32"), "Beta2Pow": np.array([0.998], "float32")}
case("decayed_adagrad", "decayed_adagrad", {**weights, "Moment": moments[0]}, ["ParamOut", "MomentOut"], {"decay": 0.9})
case("adadelta", "adadelta", {**weights, "AvgSquaredGrad": moments[0], "AvgSquaredUpdate": moments[1]},
     ["ParamOut", "AvgSquaredGradOut", "AvgSquaredUpdateOut"], {"rho": 0.9, "epsilon": 0.01})
case("adamax", "adamax", {**weights, "Moment": floats(3, 4), "InfNorm": moments[1], "Beta1Pow": powers["Beta1Pow"]},
     ["ParamOut", "MomentOut", "InfNormOut"], {"beta2": 0.9})
for decay in 0.0, 0.1:
    case(f"lamb {decay}", "lamb", {**weights, "Moment1": floats(3, 4), "Moment2": moments[1], **powers},
         ["ParamOut", "Moment1Out", "Moment2Out", "Beta1PowOut", "Beta2PowOut"], {"weight_decay": decay})
    case(f"lars_momentum {decay}", "lars_momentum", {**weights, "Velocity": floats(3, 4)}, ["ParamOut", "VelocityOut"],
         {"mu": 0.9, "lars_coeff": 0.5, "lars_weight_decay": [decay], "epsilon": 0.01})
for axes, starts, ends, strides in (([0, 2], [0, 3], [9, -1], [2, -1]), ([1], [-1], [-9], [-2]),
                                    ([1, 0], [1, 1], [4, 3], [2, 9])):
    attrs = {"axes": axes, "starts": starts, "ends": ends, "strides": strides, "infer_flags": [1] * len(axes)}
    case(f"strided_slice {starts}", "strided_slice", {"Input": floats(5, 4, 5)}, ["Out"], attrs)
    gradient(f"strided_slice {starts}", "strided_slice", {"Input": floats(5, 4, 5)}, ["Out"], ["Input"], attrs)
for axis in 0, 1, -1:
    inputs = {"X": floats(3, 4, 3), "Index": np.array([2, 0, 2, 1], "int64")}
    case(f"index_select {axis}", "index_select", inputs, ["Out"], {"dim": axis})
    gradient(f"index_select {axis}", "index_select", inputs, ["Out"], ["X"], {"dim": axis})
    if axis >= 0:
        case(f"gather {axis}", "gather", inputs, ["Out"], {"axis": axis})
gradient("gather columns", "gather", {"X": floats(3, 4, 3), "Index": np.array([2, 0, 1, 3], "int64")}, ["Out"], ["X"],
         {"axis": 1})
matrices = {"X": floats(2, 3, 4), "Y": floats(2, 4, 3)}
case("bmm", "bmm", matrices, ["Out"])
gradient("bmm", "bmm", matrices, ["Out"], ["X", "Y"])
for name in "isinf", "isnan":
    case(f"{name}_v2", f"{name}_v2", {"X": np.array([1, np.inf, np.nan], "float32")}, ["Out"])
case("size", "size", {"Input": floats(2, 3)}, ["Out"])
several = {"X": [floats(4, 3) for _ in range(3)], "Ids": np.array([[2], [0], [1], [2]], "int32")}
case("multiplex", "multiplex", several, ["Out"])
gradient("multiplex", "multiplex", several, ["Out"], ["X"])
for name, x in ("levels", Ragged(floats(7, 6), [2, 4, 1])), ("dense", floats(2, 4, 6)), ("pair", floats(2, 4, 2)):
    attrs = {"alpha": 0.5, "beta": 2.0}
    case(f"add_position_encoding {name}", "add_position_encoding", {"X": x}, ["Out"], attrs)
    gradient(f"add_position_encoding {name}", "add_position_encoding", {"X": x}, ["Out"], ["X"], attrs)
case("assign", "assign", {"X": rows}, ["Out"])
case("shape", "shape", {"Input": floats(2, 3, 4)}, ["Out"])
case("fill_constant", "fill_constant", {}, ["Out"], {"shape": [2, 3], "value": 0.5, "dtype": 5})
case("fill_constant text", "fill_constant", {}, ["Out"], {"shape": [2], "str_value": "-16777217", "dtype": 3})
case("fill_constant_batch_size_like", "fill_constant_batch_size_like", {"Input": floats(5, 2)}, ["Out"],
     {"shape": [-1, 3], "value": 2.0, "dtype": 5})
case("fill_constant_batch_size_like levels", "fill_constant_batch_size_like", {"Input": rows}, ["Out"],
     {"shape": [-1, 3], "value": 2.0, "dtype": 5})
case("fill_constant_batch_size_like dims", "fill_constant_batch_size_like", {"Input": floats(5, 2)}, ["Out"],
     {"shape": [3, -1], "value": 2.0, "dtype": 3, "input_dim_idx": 1, "output_dim_idx": 1})
case("fill_zeros_like", "fill_zeros_like", {"X": rows}, ["Out"])
case("assign_value", "assign_value", {}, ["Out"], {"shape": [2, 2], "dtype": 5, "fp32_values": [1.0, 2.0, 3.0, 4.0]})
case("assign_value int64", "assign_value", {}, ["Out"], {"shape": [2], "dtype": 3, "int64_values": [1, 2]})
case("one_hot_v2", "one_hot_v2", {"X": np.array([1, 0, 3], "int64")}, ["Out"], {"depth": 4, "dtype": 5})

# ---- Gradients ----

batch = Ragged(floats(7, 4), [2, 0, 4, 1])
full = Ragged(floats(7, 4), [2, 4, 1])
for which, x in (("rows", batch), ("nested", nested)):
    for pool in "AVERAGE", "SUM", "SQRT", "LAST", "FIRST", "MAX":
        gradient(f"sequence_pool {pool} {which}", "sequence_pool", {"X": x}, ["Out"], ["X"], {"pooltype": pool},
                 ["MaxIndex"])
gradient("sequence_softmax", "sequence_softmax", {"X": column}, ["Out"], ["X"])
gradient("sequence_reverse", "sequence_reverse", {"X": full}, ["Y"], ["X"])
gradient("sequence_expand rows", "sequence_expand", {"X": floats(4, 2), "Y": rows}, ["Out"], ["X"])
gradient("sequence_expand sequences", "sequence_expand",
         {"X": Ragged(floats(5, 2), [2, 3]), "Y": Ragged(floats(5, 1), [2, 1], [1, 0, 4])}, ["Out"], ["X"],
         {"ref_level": 0})
gradient("sequence_expand_as", "sequence_expand_as", {"X": floats(3, 2), "Y": full}, ["Out"], ["X"])
gradient("sequence_concat", "sequence_concat",
         {"X": [Ragged(floats(5, 2), [2, 3]), Ragged(floats(3, 2), [0, 3]), Ragged(floats(2, 2), [1, 1])]}, ["Out"],
         ["X"])
for name, start, x in ((-1, -1, batch), (0, 0, batch), (1, 1, Ragged(floats(7, 4), [3, 4])), ("short", 1, batch)):
    gradient(f"sequence_conv {name}", "sequence_conv", {"X": x, "Filter": floats(12, 5)}, ["Out"],
             ["X", "Filter"], {"contextLength": 3, "contextStart": start, "contextStride": 1})
gradient("sequence_conv trained", "sequence_conv",
         {"X": batch, "Filter": floats(12, 5), "PaddingData": floats(2, 4)}, ["Out"], ["X", "Filter", "PaddingData"],
         {"contextLength": 3, "contextStart": -1, "contextStride": 1, "paddingTrainable": True})
gradient("row_conv", "row_conv", {"X": full, "Filter": floats(3, 4)}, ["Out"], ["X", "Filter"])
for length in -1, 6:
    gradient(f"sequence_pad {length}", "sequence_pad", {"X": full, "PadValue": np.array([0.5], "float32")}, ["Out"],
             ["X"], {"padded_length": length}, ["Length"])
gradient("sequence_unpad", "sequence_unpad", {"X": floats(3, 5, 2), "Length": np.array([2, 1, 5], "int64")}, ["Out"],
         ["X"])
gradient("sequence_slice", "sequence_slice",
         {"X": full, "Offset": np.array([[1], [0], [0]], "int64"), "Length": np.array([[1], [3], [1]], "int64")},
         ["Out"], ["X"])
gradient("sequence_reshape", "sequence_reshape", {"X": Ragged(floats(6, 4), [2, 0, 4])}, ["Out"], ["X"], {"new_dim": 8})
gradient("sequence_scatter", "sequence_scatter",
         {"X": floats(3, 9), "Ids": ids, "Updates": Ragged(floats(7, 1), [2, 4, 1])}, ["Out"], ["X", "Updates"])
frames = {"Logits": Ragged(floats(13, 5), [4, 2, 7]),
          "Label": Ragged(np.array([[1], [2], [1], [1], [3], [3], [4]], "int32"), [2, 2, 3])}
padded = {"Logits": floats(6, 3, 5), "Label": np.array([[1, 2, 4], [3, 3, 0], [2, 0, 0]], "int32"),
          "LogitsLength": np.array([6, 2, 3], "int64"), "LabelLength": np.array([3, 2, 1], "int64")}
for mean in (False, True):
    for name, inputs in (("", frames), (" padded", padded)):
        attrs = {"blank": 0, "norm_by_times": mean}
        case(f"warpctc{name} {mean}", "warpctc", inputs, ["Loss", "WarpCTCGrad"], attrs)
        gradient(f"warpctc{name} {mean}", "warpctc", inputs, ["Loss"], ["Logits"], attrs, ["WarpCTCGrad"])
rates = ["Precision", "Recall", "F1-Score", "NumInferChunks", "NumLabelChunks", "NumCorrectChunks"]
for scheme, tags in (("IOB", 2), ("IOE", 2), ("IOBES", 4), ("plain", 1)):
    label = random.randint(0, 3 * tags + 1, (60, 1))
    inference = np.where(random.rand(60, 1) < 0.8, label, random.randint(0, 3 * tags + 1, (60, 1)))
    for excluded in ([], [1]):
        attrs = {"num_chunk_types": 3, "chunk_scheme": scheme, "excluded_chunk_types": excluded}
        case(f"chunk_eval {scheme} {excluded}", "chunk_eval",
             {"Inference": Ragged(inference, [30, 9, 1, 20]), "Label": Ragged(label, [30, 9, 1, 20])}, rates, attrs)
        case(f"chunk_eval padded {scheme} {excluded}", "chunk_eval",
             {"Inference": inference.reshape(6, 10), "Label": label.reshape(6, 10),
              "SeqLength": np.array([10, 3, 1, 9, 10, 5], "int64")}, rates, attrs)
gradient("lod_reset", "lod_reset", {"X": batch}, ["Out"], ["X"], {"target_lod": [0, 3, 7]})
gradient("im2sequence", "im2sequence", {"X": floats(2, 3, 5, 4)}, ["Out"], ["X"],
         {"kernels": [2, 2], "strides": [2, 1], "paddings": [1, 0, 0, 1]})
for version in "", "_v2":
    for padding in -1, 3:
        gradient(f"lookup_table{version} {padding}", f"lookup_table{version}", {"W": floats(9, 5), "Ids": ids},
                 ["Out"], ["W"], {"padding_idx": padding})
for flags in range(8):
    reverse, mode, initial = bool(flags & 1), bool(flags & 2), bool(flags & 4)
    states = {"H0": floats(3, 5)} if initial else {}
    gradient(f"gru {reverse} {mode} {initial}", "gru",
             {"Input": Ragged(floats(7, 15), [2, 4, 1]), "Weight": floats(5, 15), "Bias": floats(1, 15), **states},
             ["Hidden"], ["Input", "Weight", "Bias", *states], {"is_reverse": reverse, "origin_mode": mode},
             ["BatchGate", "BatchResetHiddenPrev", "BatchHidden"])
    states = {"H0": floats(3, 5), "C0": floats(3, 5)} if initial else {}
    gradient(f"lstm {reverse} {mode} {initial}", "lstm",
             {"Input": Ragged(floats(7, 20), [2, 4, 1]), "Weight": floats(5, 20),
              "Bias": floats(1, 35 if mode else 20), **states},
             ["Hidden"], ["Input", "Weight", "Bias", *states], {"is_reverse": reverse, "use_peepholes": mode},
             ["Cell", "BatchGate", "BatchCellPreAct"])
for name, dtype, tolerance in (("wide", "float64", 1e-9), ("narrow", "float32", 1e-4)):
    gradient(f"lstm {name}", "lstm",
             {"Input": Ragged(random.standard_normal((7, 32)).astype(dtype), [2, 4, 1]),
              "Weight": random.standard_normal((8, 32)).astype(dtype),
              "Bias": random.standard_normal((1, 56)).astype(dtype)},
             ["Hidden"], ["Input", "Weight", "Bias"], {}, ["Cell", "BatchGate", "BatchCellPreAct"], tolerance)
crf = {"Emission": Ragged(floats(7, 4), [2, 4, 1]), "Transition": floats(6, 4),
       "Label": Ragged(random.randint(0, 4, (7, 1)).astype("int64"), [2, 4, 1])}
intermediate = ["Alpha", "EmissionExps", "TransitionExps"]
case("linear_chain_crf", "linear_chain_crf", crf, ["LogLikelihood"], hidden=intermediate)
gradient("linear_chain_crf", "linear_chain_crf", crf, ["LogLikelihood"], ["Emission", "Transition"],
         hidden=intermediate)
for mode in False, True:
    unit = {"Input": floats(4, 15), "HiddenPrev": floats(4, 5), "Weight": floats(5, 15), "Bias": floats(1, 15)}
    case(f"gru_unit {mode}", "gru_unit", unit, ["Hidden", "Gate", "ResetHiddenPrev"], {"origin_mode": mode})
    gradient(f"gru_unit {mode}", "gru_unit", unit, ["Hidden"], list(unit), {"origin_mode": mode},
             ["Gate", "ResetHiddenPrev"])
for steps in 0, 1, 2:
    stats = (1 + steps) * 101 + (steps > 0)
    case(f"auc {steps}", "auc",
         {"Predict": random.uniform(size=(20, 2)).astype("float32"),
          "Label": random.randint(0, 2, (20, 1)).astype("int64"),
          "StatPos": np.zeros((1, stats), "int64"), "StatNeg": np.zeros((1, stats), "int64")},
         ["AUC", "StatPosOut", "StatNegOut"], {"num_thresholds": 100, "slide_steps": steps})
case("isfinite_v2", "isfinite_v2", {"X": np.array([1, np.inf, np.nan], "float32")}, ["Out"])
case("sigmoid_cross_entropy_with_logits", "sigmoid_cross_entropy_with_logits",
     {"X": 3 * floats(4, 5), "Label": random.randint(0, 2, (4, 5)).astype("float32")}, ["Out"],
     {"normalize": True, "ignore_index": 0})
ones = random.randint(0, 2, (4, 1)).astype("float32")
scores, others = floats(4, 1), floats(4, 1)
for type, inputs, by, out, attrs, hidden in (
        ("hinge_loss", {"Logits": scores, "Labels": ones}, ["Logits"], "Loss", {}, []),
        ("huber_loss", {"X": scores, "Y": others}, ["X", "Y"], "Out", {"delta": 0.7}, ["Residual"]),
        ("log_loss", {"Predicted": random.uniform(size=(4, 1)).astype("float32"), "Labels": ones}, ["Predicted"],
         "Loss", {"epsilon": 1e-4}, []),
        ("modified_huber_loss", {"X": 2 * scores, "Y": ones}, ["X"], "Out", {}, ["IntermediateVal"]),
        ("teacher_student_sigmoid_loss",
         {"X": 9 * floats(5, 1), "Label": np.array([[-2], [-1], [0.3], [1.4], [1]], "float32")}, ["X"], "Y", {}, []),
        ("bpr_loss", {"X": Ragged(floats(4, 5), [1, 3]), "Label": labels}, ["X"], "Y", {}, []),
        ("label_smooth", {"X": Ragged(soft, [1, 3])}, ["X"], "Out", {"epsilon": 0.3}, []),
        ("label_smooth", {"X": soft, "PriorDist": probabilities[:1]}, ["X"], "Out", {"epsilon": 0.3}, []),
        *(("kldiv_loss", {"X": np.log(probabilities), "Target": np.abs(soft - 0.1)}, ["X"], "Loss",
           {"reduction": reduction}, []) for reduction in ("none", "sum", "mean", "batchmean")),
        *(("hierarchical_sigmoid",
           {"X": floats(4, 3), "W": floats(classes - 1, 3), "Label": np.array([[0], [4], [2], [2]], "int64"),
            "Bias": floats(classes - 1, 1)}, ["X", "W", "Bias"], "Out", {"num_classes": classes}, ["PreOut", "W_Out"])
          for classes in (5, 8, 11)),
        ("hierarchical_sigmoid",
         {"X": floats(3, 2), "W": floats(4, 2), "Label": labels[:3], "Bias": floats(4, 1),
          "PathTable": np.array([[0, 2, -1], [0, 1, 3], [0, -1, -1]], "int64"),
          "PathCode": np.array([[0, 1, -1], [1, 0, 1], [1, -1, -1]], "int64")}, ["X", "W", "Bias"], "Out",
         {"num_classes": 4}, ["PreOut", "W_Out"]),
        *(("norm", {"X": floats(2, 3, 4)}, ["X"], "Out", {"axis": axis, "epsilon": 0.1}, ["Norm"]) for axis in (1, -1)),
        ("rank_loss", {"Label": ones, "Left": scores, "Right": others}, ["Left", "Right"], "Out", {}, [])):
    case(type, type, inputs, [out, *(name for name in hidden if name != "W_Out")], attrs,
         hidden=[name for name in hidden if name == "W_Out"])
    gradient(type, type, inputs, [out], by, attrs, hidden)
case("fill_any_like", "fill_any_like", {"X": x34}, ["Out"], {"value": 2.5})
case("squared_l2_norm", "squared_l2_norm", {"X": x34}, ["Out"])
for norm in 0.5, 50.0:
    case(f"clip_by_norm {norm}", "clip_by_norm", {"X": x34}, ["Out"], {"max_norm": norm})
for layout, shape in (("NCHW", (2, 3, 4, 2)), ("NHWC", (2, 4, 2, 3))):
    case(f"batch_norm trained {layout}", "batch_norm",
         {"X": floats(*shape), "Scale": floats(3), "Bias": floats(3), "Mean": floats(3),
          "Variance": np.abs(floats(3)) + 0.1}, ["Y", "SavedMean", "SavedVariance"],
         {"data_layout": layout, "momentum": 0.8}, hidden=["MeanOut=Mean", "VarianceOut=Variance", "ReserveSpace"],
         tolerance=1e-4)
image_layouts = (("NCHW", (2, 4, 7, 6)), ("NHWC", (2, 7, 6, 4)))
for layout, shape in image_layouts:
    for number, attrs in enumerate(({}, {"paddings": [1, 2]}, {"paddings": [1, 0, 2, 1], "strides": [2, 3]},
                                    {"dilations": [2, 1], "strides": [1, 2]}, {"padding_algorithm": "SAME"},
                                    {"padding_algorithm": "SAME", "strides": [2, 3], "dilations": [2, 2]},
                                    {"padding_algorithm": "VALID", "paddings": [1, 1], "strides": [2, 2]},
                                    {"groups": 2, "paddings": [1, 1]})):
        attrs = {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1], "data_format": layout, **attrs}
        filters = floats(6, 4 // attrs.get("groups", 1), 3, 2)
        case(f"conv2d {layout} {number}", "conv2d", {"Input": floats(*shape), "Filter": filters}, ["Output"], attrs)
        gradient(f"conv2d {layout} {number}", "conv2d", {"Input": floats(*shape), "Filter": filters}, ["Output"],
                 ["Input", "Filter"], attrs)
    case(f"conv2d {layout} pixels", "conv2d", {"Input": floats(*shape), "Filter": floats(3, 4, 1, 1)}, ["Output"],
         {"data_format": layout})
    depthwise = {"Input": floats(*shape), "Filter": floats(8, 1, 3, 3)}
    attrs = {"groups": 4, "paddings": [1, 1], "strides": [2, 1], "dilations": [1, 1], "data_format": layout}
    case(f"depthwise_conv2d {layout}", "depthwise_conv2d", depthwise, ["Output"], attrs)
    gradient(f"depthwise_conv2d {layout}", "depthwise_conv2d", depthwise, ["Output"], ["Input", "Filter"], attrs)
    for pool in "max", "avg":
        for number, attrs in enumerate(({}, {"strides": [2, 2]}, {"strides": [3, 2], "ceil_mode": True},
                                        {"paddings": [1, 1]}, {"paddings": [1, 1], "exclusive": False},
                                        {"paddings": [1, 0, 0, 1], "exclusive": False, "strides": [2, 2]},
                                        {"paddings": [0, 1, 1, 0], "exclusive": False, "ceil_mode": True,
                                         "strides": [2, 2]}, {"global_pooling": True}, {"adaptive": True},
                                        {"adaptive": True, "paddings": [1, 1]},
                                        {"padding_algorithm": "SAME", "strides": [2, 2]},
                                        {"padding_algorithm": "VALID", "paddings": [1, 1]})):
            if attrs.get("adaptive") and pool == "max":
                continue  # PaddlePaddle 2.6.2 takes it for a window of that size; this library refuses it
            attrs = {"ksize": [3, 2], "strides": [1, 1], "paddings": [0, 0], "pooling_type": pool,
                     "data_format": layout, **attrs}
            case(f"pool2d {layout} {pool} {number}", "pool2d", {"X": floats(*shape)}, ["Out"], attrs)
            gradient(f"pool2d {layout} {pool} {number}", "pool2d", {"X": floats(*shape)}, ["Out"], ["X"], attrs)

for sampled in {"custom_neg_classes": [0, 5, 3]}, {"custom_neg_classes": [2, 2, 6], "sampler": 1}:
    noise = {"Input": floats(4, 3), "Label": np.array([[0, 6], [1, 2], [5, 5], [3, 0]], "int64"),
             "Weight": floats(7, 3), "Bias": floats(7, 1), "SampleWeight": np.abs(floats(4))}
    attrs = {"num_total_classes": 7, "num_neg_samples": 3, **sampled}
    case(f"nce {sampled}", "nce", noise, ["Cost", "SampleLogits", "SampleLabels"], attrs)
    gradient(f"nce {sampled}", "nce", noise, ["Cost"], ["Input", "Weight", "Bias"], attrs,
             ["SampleLogits", "SampleLabels"])
for flags in range(8):
    reverse, peepholes, initial = bool(flags & 1), bool(flags & 2), bool(flags & 4)
    lstmp = {"Input": Ragged(floats(7, 20), [2, 4, 1]), "Weight": floats(3, 20), "ProjWeight": floats(5, 3),
             "Bias": floats(1, 35 if peepholes else 20)}
    if initial:
        lstmp["H0"], lstmp["C0"] = floats(3, 3), floats(3, 5)
    options = {"is_reverse": reverse, "use_peepholes": peepholes}
    if reverse:
        options.update(cell_clip=0.4, proj_clip=0.3, proj_activation="identity", cell_activation="relu")
    elif initial:
        options.update(cell_clip=0.5, proj_activation="sigmoid")
    between = ["BatchGate", "BatchCellPreAct", "BatchHidden"]
    case(f"lstmp {reverse} {peepholes} {initial}", "lstmp", lstmp, ["Projection", "Cell"], options, hidden=between)
    gradient(f"lstmp {reverse} {peepholes} {initial}", "lstmp", lstmp, ["Projection"], list(lstmp), options,
             ["Cell", *between])
for layout, shape in ("NCHW", (2, 6, 3, 2)), ("NHWC", (2, 3, 2, 6)):
    images = {"X": floats(*shape), "Scale": floats(6) + 3, "Bias": floats(6)}
    for groups in 1, 2, 6:
        attrs = {"groups": groups, "epsilon": 0.01, "data_layout": layout}
        case(f"group_norm {layout} {groups}", "group_norm", images, ["Y", "Mean", "Variance"], attrs)
        gradient(f"group_norm {layout} {groups}", "group_norm", images, ["Y"], list(images), attrs,
                 ["Mean", "Variance"])
    attrs = {"n": 3, "k": 1.0, "alpha": 0.1, "beta": 0.75, "data_format": layout}
    case(f"lrn {layout}", "lrn", {"X": floats(*shape)}, ["Out", "MidOut"], attrs)
    gradient(f"lrn {layout}", "lrn", {"X": floats(*shape)}, ["Out"], ["X"], attrs, ["MidOut"])
    transposed = {"Input": floats(*shape), "Filter": floats(6, 2, 3, 2)}
    for number, attrs in enumerate(({}, {"strides": [2, 3], "groups": 2}, {"dilations": [2, 1], "paddings": [1, 0]},
                                    {"strides": [2, 2], "output_size": [8, 4]}, {"paddings": [1, 0, 0, 1]},
                                    {"strides": [2, 2], "padding_algorithm": "SAME"},
                                    {"paddings": [1, 1], "padding_algorithm": "VALID"})):
        attrs = {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1], "groups": 1, "data_format": layout,
                 **attrs}
        case(f"conv2d_transpose {layout} {number}", "conv2d_transpose", transposed, ["Output"], attrs)
        gradient(f"conv2d_transpose {layout} {number}", "conv2d_transpose", transposed, ["Output"], list(transposed),
                 attrs)
case("group_norm plain", "group_norm", {"X": floats(2, 4, 3, 2)}, ["Y", "Mean", "Variance"], {"groups": 2})
attrs = {"groups": 6, "strides": [2, 2], "paddings": [0, 0], "dilations": [1, 1]}
apart = {"Input": floats(2, 6, 3, 2), "Filter": floats(6, 1, 3, 2)}
case("depthwise_conv2d_transpose", "depthwise_conv2d_transpose", apart, ["Output"], attrs)
gradient("depthwise_conv2d_transpose", "depthwise_conv2d_transpose", apart, ["Output"], list(apart), attrs)
images = {"X": floats(2, 3, 4, 2), "Scale": floats(3), "Bias": floats(3)}
case("instance_norm", "instance_norm", images, ["Y", "SavedMean", "SavedVariance"], {"epsilon": 0.001})
gradient("instance_norm", "instance_norm", images, ["Y"], list(images), {"epsilon": 0.001},
         ["SavedMean", "SavedVariance"])
for weighted in False, True:
    pairs = {"X": floats(3, 4), "Y": floats(3, 4)}
    given = {"InsideWeight": floats(3, 4), "OutsideWeight": floats(3, 4)} if weighted else {}
    case(f"smooth_l1_loss {weighted}", "smooth_l1_loss", {**pairs, **given}, ["Diff", "Out"], {"sigma": 1.5})
    gradient(f"smooth_l1_loss {weighted}", "smooth_l1_loss", {**pairs, **given}, ["Out"], ["X", "Y"], {"sigma": 1.5},
             ["Diff"])
beams = {"Ids": random.randint(0, 9, (4, 2, 3)).astype("int64"), "Parents": random.randint(0, 3, (4, 2, 3))}
case("gather_tree", "gather_tree", {**beams, "Parents": beams["Parents"].astype("int64")}, ["Out"])
for counted in True, False:
    shown = {"X": Ragged(np.abs(floats(7, 4)), [2, 4, 1]), "CVM": floats(3, 2)}
    case(f"cvm {counted}", "cvm", shown, ["Y"], {"use_cvm": counted})
    gradient(f"cvm {counted}", "cvm", shown, ["Y"], ["X"], {"use_cvm": counted})
    shown = {"X": np.abs(floats(3, 4)), "CVM": floats(3, 2)}
    gradient(f"cvm plain {counted}", "cvm", shown, ["Y"], ["X"], {"use_cvm": counted})
case("shard_index", "shard_index", {"X": random.randint(0, 9, (7, 1)).astype("int64")}, ["Out"],
     {"index_num": 10, "nshards": 2, "shard_id": 1, "ignore_value": -7})
for name, other in ("rows", floats(3, 4)), ("row", floats(1, 4)):
    pairs = {"X": floats(3, 4), "Y": other}
    case(f"squared_l2_distance {name}", "squared_l2_distance", pairs, ["sub_result", "Out"])
    gradient(f"squared_l2_distance {name}", "squared_l2_distance", pairs, ["Out"], ["X", "Y"], {}, ["sub_result"])
case("minus", "minus", {"X": floats(3, 4), "Y": floats(3, 4)}, ["Out"])
outer = {"X": floats(3, 4, 2), "Y": floats(2, 2, 1)}
for name, others, attrs in (("shape", {}, {"shape": [2, 2, 1], "offsets": [1, 0, 1]}),
                            ("like", {"Y": floats(2, 2, 1)}, {"offsets": [0, 2, 1]}),
                            ("moved", {"Y": floats(2, 2, 1), "Offsets": np.array([1, 2, 0], "int32")}, {})):
    case(f"crop {name}", "crop", {"X": floats(3, 4, 2), **others}, ["Out"], attrs)
    gradient(f"crop {name}", "crop", {"X": floats(3, 4, 2), **others}, ["Out"], ["X"], attrs)
case("pad_constant_like", "pad_constant_like", outer, ["Out"], {"pad_value": 1.5})
gradient("pad_constant_like", "pad_constant_like", outer, ["Out"], ["Y"], {"pad_value": 1.5})
case("eye", "eye", {}, ["Out"], {"num_rows": 3, "num_columns": 4, "dtype": 5})
case("linspace", "linspace", {"Start": np.array([1], "float32"), "Stop": np.array([2], "float32"),
                              "Num": np.array([5], "int32")}, ["Out"], {"dtype": 5})
added = {"X": floats(3, 4, 2), "Index": np.array([[2, 1], [0, 3], [2, 1]], "int64"), "Updates": floats(3, 2)}
case("scatter_nd_add", "scatter_nd_add", added, ["Out"])
gradient("scatter_nd_add", "scatter_nd_add", added, ["Out"], ["X", "Updates"])


if __name__ == "__main__":
    sys.exit(record(sys.argv[2]) if sys.argv[1] == "--record" else main(sys.argv[1], sys.argv[2:]))
