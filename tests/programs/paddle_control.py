# SPDX-License-Identifier: Apache-2.0
"""Compares programs with loops, branches and arrays with PaddlePaddle 2.6.2, which must be installed (with NumPy 1).

paddle_control.py <run_files> [WORD...]: runs the models whose names contain one of the words, by default all. Each is
built and run by PaddlePaddle, written, and run by this library.
paddle_control.py --record <file>: writes what PaddlePaddle makes of some of them, for tests without it.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import paddle
import paddle_record
from paddle.base.core import VarDesc

from paddle_test import Ragged, compare, floats, read_tensor, write_tensor

ARRAY, TABLE, SCOPES = VarDesc.VarType.LOD_TENSOR_ARRAY, VarDesc.VarType.LOD_RANK_TABLE, VarDesc.VarType.STEP_SCOPES
KINDS = {"array": ARRAY, "table": TABLE, "scopes": SCOPES, "queue": VarDesc.VarType.RAW}
models = {}


def model(build):
    models[build.__name__] = build


class Model:
    """A program that is built operator by operator. Variables are named; they are created when an operator writes them
    first, of the kind that their name begins with: array_, table_, scopes_, queue_, or else tensors."""

    def __init__(self):
        self.main, self.feed, self.fetch = paddle.static.Program(), {}, []

    def data(self, name, value):
        value = value if isinstance(value, Ragged) else Ragged(value)
        with paddle.static.program_guard(self.main, paddle.static.Program()):
            shape = ([-1] if value.lengths else [value.array.shape[0]]) + list(value.array.shape[1:])
            paddle.static.data(name, shape, str(value.array.dtype), lod_level=len(value.lengths))
        self.feed[name] = value

    def var(self, name):
        block = self.main.current_block()
        try:
            return block._var_recursive(name)
        except ValueError:
            pass
        kind = KINDS.get(name.split("_")[0])
        typed = {} if kind and kind != ARRAY else {"dtype": "float32"}
        return block.create_var(name=name, type=kind or VarDesc.VarType.LOD_TENSOR, **typed)

    def op(self, type, inputs, outputs, **attrs):
        variables = [{parameter: [self.var(name) for name in names.split()] for parameter, names in given.items()}
                     for given in (inputs, outputs)]
        self.main.current_block().append_op(type=type, inputs=variables[0], outputs=variables[1], attrs=attrs)

    def number(self, name, value, dtype="int64"):
        self.main.current_block().append_op(
            type="fill_constant", outputs={"Out": [self.var(name)]},
            attrs={"shape": [1], "value": float(value), "dtype": {"int64": 3, "float32": 5}[dtype]})

    def inner(self, type, body, inputs, outputs, **attrs):
        """An operator that owns a block, which body() fills."""
        for names in outputs.values():
            for name in names.split():
                self.var(name)
        block = self.main._create_block()
        body()
        self.main._rollback()
        self.op(type, inputs, outputs, sub_block=block, **attrs)

    def loop(self, condition, uses, changes, body):
        self.inner("while", body, {"X": uses, "Condition": condition}, {"Out": changes, "StepScopes": "scopes_0"},
                   is_test=True)

    def differentiable(self, name, value):
        self.data(name, value)
        var = self.main.global_block().var(name)
        var.stop_gradient = False
        return var

    def layers(self):
        return paddle.static.program_guard(self.main, paddle.static.Program())

    def write(self, folder):
        """Runs it by PaddlePaddle, and writes it. Returns the results."""
        place, values = paddle.CPUPlace(), {}
        for name, value in self.feed.items():
            values[name] = paddle.base.core.LoDTensor()
            values[name].set(value.array, place)
            if value.lengths:
                values[name].set_recursive_sequence_lengths(value.lengths)
        results = paddle.base.Executor(place).run(self.main, feed=values, fetch_list=self.fetch, return_numpy=False)
        block = self.main.global_block()
        for name, kind in (("feed", VarDesc.VarType.FEED_MINIBATCH), ("fetch", VarDesc.VarType.FETCH_LIST)):
            if not block.has_var(name):
                block.create_var(name=name, type=kind, persistable=True)
        for i, name in enumerate(self.feed):
            block._prepend_op(type="feed", inputs={"X": ["feed"]}, outputs={"Out": [name]}, attrs={"col": i})
        for i, name in enumerate(self.fetch):
            block.append_op(type="fetch", inputs={"X": [name]}, outputs={"Out": ["fetch"]}, attrs={"col": i})
        for part in "feed", "parameters":
            os.makedirs(os.path.join(folder, part))
        with open(os.path.join(folder, "__model__"), "wb") as file:
            file.write(self.main.desc.serialize_to_string())
        for name, value in self.feed.items():
            write_tensor(os.path.join(folder, "feed", name), value.array, value.lengths)
        return [(np.array(result), result.recursive_sequence_lengths()) for result in results]


@model
def loop_with_arrays(m):
    m.data("x", Ragged(floats(5, 3), [2, 3]))
    m.number("i", 0)
    m.number("n", 4)
    m.op("write_to_array", {"X": "x", "I": "i"}, {"Out": "array_a"})
    m.op("less_than", {"X": "i", "Y": "n"}, {"Out": "more"})

    def body():
        m.op("read_from_array", {"X": "array_a", "I": "i"}, {"Out": "before"})
        m.op("scale", {"X": "before"}, {"Out": "after"}, scale=-0.5, bias=1.0)
        m.op("increment", {"X": "i"}, {"Out": "i"}, step=1.0)
        m.op("write_to_array", {"X": "after", "I": "i"}, {"Out": "array_a"})
        m.op("less_than", {"X": "i", "Y": "n"}, {"Out": "more"})

    m.loop("more", "i n array_a", "i array_a more", body)
    m.op("lod_array_length", {"X": "array_a"}, {"Out": "length"})
    m.op("read_from_array", {"X": "array_a", "I": "n"}, {"Out": "last"})
    m.fetch = ["length", "last"]


def branches(m, condition, is_scalar):
    m.data("x", floats(3, 2))
    m.data("c", condition)
    m.op("scale", {"X": "x"}, {"Out": "y"}, scale=3.0)
    m.inner("conditional_block", lambda: m.op("scale", {"X": "x"}, {"Out": "y"}, scale=2.0),
            {"Cond": "c", "Input": "x"}, {"Out": "y", "Scope": "scopes_0"}, is_scalar_condition=is_scalar)
    m.op("is_empty", {"X": "x"}, {"Out": "empty"})
    m.fetch = ["y", "empty"]


@model
def branch_taken(m):
    branches(m, np.array([True]), True)


@model
def branch_left_out(m):
    branches(m, np.array([False]), True)


@model
def branch_by_inputs(m):
    branches(m, np.zeros([0, 1], bool), False)


@model
def selection(m):
    m.data("x", Ragged(floats(5, 2), [1, 0, 4]))
    m.data("mask", np.array([[True], [True], [False]]))
    m.op("split_lod_tensor", {"X": "x", "Mask": "mask"}, {"OutTrue": "yes", "OutFalse": "no"}, level=0)
    m.op("scale", {"X": "yes"}, {"Out": "twice"}, scale=2.0)
    m.data("which", np.array([1], "int32"))
    m.op("select_input", {"X": "yes twice", "Mask": "which"}, {"Out": "chosen"})
    m.fetch = ["yes", "no", "chosen"]


@model
def merged_branches(m):
    m.data("x", Ragged(floats(5, 2), [1, 3, 1]))
    m.data("mask", np.array([[True], [False], [True]]))
    m.op("split_lod_tensor", {"X": "x", "Mask": "mask"}, {"OutTrue": "yes", "OutFalse": "no"}, level=0)
    m.op("scale", {"X": "yes"}, {"Out": "twice"}, scale=2.0)
    m.op("merge_lod_tensor", {"X": "x", "Mask": "mask", "InTrue": "twice", "InFalse": "no"}, {"Out": "y"}, level=0)
    m.fetch = ["y"]


def recurrent_network(m, x, first):
    m.data("x", x)
    m.data("first", first)
    m.data("w", floats(3, 3))
    m.op("lod_rank_table", {"X": "x"}, {"Out": "table_0"}, level=0)
    m.op("max_sequence_len", {"RankTable": "table_0"}, {"Out": "longest"})
    m.op("lod_tensor_to_array", {"X": "x", "RankTable": "table_0"}, {"Out": "array_x"})
    m.op("reorder_lod_tensor_by_rank", {"X": "first", "RankTable": "table_0"}, {"Out": "ordered"})
    m.number("i", 0)
    m.op("write_to_array", {"X": "ordered", "I": "i"}, {"Out": "array_state"})
    m.op("less_than", {"X": "i", "Y": "longest"}, {"Out": "more"})

    def body():
        m.op("read_from_array", {"X": "array_x", "I": "i"}, {"Out": "step"})
        m.op("read_from_array", {"X": "array_state", "I": "i"}, {"Out": "state"})
        m.op("shrink_rnn_memory", {"X": "state", "RankTable": "table_0", "I": "i"}, {"Out": "active"})
        m.op("mul", {"X": "active", "Y": "w"}, {"Out": "product"}, x_num_col_dims=1, y_num_col_dims=1)
        m.op("elementwise_add", {"X": "product", "Y": "step"}, {"Out": "total"}, axis=-1)
        m.op("tanh", {"X": "total"}, {"Out": "next"})
        m.op("write_to_array", {"X": "next", "I": "i"}, {"Out": "array_y"})
        m.op("increment", {"X": "i"}, {"Out": "i"}, step=1.0)
        m.op("write_to_array", {"X": "next", "I": "i"}, {"Out": "array_state"})
        m.op("less_than", {"X": "i", "Y": "longest"}, {"Out": "more"})

    m.loop("more", "i longest array_x array_state table_0 w", "i more array_state array_y", body)
    m.op("array_to_lod_tensor", {"X": "array_y", "RankTable": "table_0"}, {"Out": "y"})
    m.fetch = ["y", "longest"]


@model
def recurrent_network_of_sequences(m):
    recurrent_network(m, Ragged(floats(9, 3), [2, 1, 4, 2]), floats(4, 3))


@model
def recurrent_network_with_an_empty_sequence(m):
    recurrent_network(m, Ragged(floats(5, 3), [2, 0, 3]), floats(3, 3))


def network_of_rows(m, reverse):
    m.data("x", floats(4, 2, 3))
    m.data("first", floats(2, 3))
    m.data("w", floats(3, 3))
    m.op("scale", {"X": "x"}, {"Out": "y"}, scale=1.0)  # describes it

    def body():
        block = m.main.current_block()
        for name in "x", "before", "y":
            block.create_var(name=name, dtype="float32", shape=[2, 3])
        m.op("mul", {"X": "before", "Y": "w"}, {"Out": "product"}, x_num_col_dims=1, y_num_col_dims=1)
        m.op("elementwise_add", {"X": "product", "Y": "x"}, {"Out": "total"}, axis=-1)
        m.op("tanh", {"X": "total"}, {"Out": "after"})
        m.op("scale", {"X": "after"}, {"Out": "y"}, scale=2.0)

    m.inner("recurrent", body, {"inputs": "x", "initial_states": "first", "parameters": "w"},
            {"outputs": "y", "step_scopes": "scopes_0"}, has_states=True, ex_states=["before"], states=["after"],
            reverse=reverse, is_train=False)
    m.fetch = ["y"]


@model
def recurrent_rows(m):
    network_of_rows(m, False)


@model
def recurrent_rows_reversed(m):
    network_of_rows(m, True)


def beam_step(m, pre_ids, scores, accumulated=True):
    sentences = len(pre_ids)
    lengths = [2, sentences - 2], [1] * sentences
    m.data("pre_ids", Ragged(np.array(pre_ids, "int64").reshape(-1, 1), *lengths))
    m.data("pre_scores", Ragged(floats(sentences, 1), *lengths))
    m.data("scores", Ragged(scores, *lengths))
    m.data("ids", Ragged(np.arange(scores.size).reshape(scores.shape) % 7, *lengths))
    m.op("beam_search", {"pre_ids": "pre_ids", "pre_scores": "pre_scores", "ids": "ids", "scores": "scores"},
         {"selected_ids": "y", "selected_scores": "z", "parent_idx": "parents"}, beam_size=3, end_id=0, level=0,
         is_accumulated=accumulated)
    m.fetch = ["y", "z", "parents"]


@model
def beam_search_step(m):
    beam_step(m, [1, 2, 3, 4, 5], floats(5, 4))


@model
def beam_search_with_ties(m):
    beam_step(m, [1, 2, 3, 4, 5], np.round(floats(5, 6)))


@model
def beam_search_of_probabilities(m):
    beam_step(m, [1, 0, 3, 0, 5], np.abs(floats(5, 4)), accumulated=False)


@model
def beam_search_with_a_source_done(m):
    beam_step(m, [0, 0, 3, 0, 5], floats(5, 4))


@model
def machine_translation(m):
    words, size, beam, end = 12, 8, 3, 10
    m.data("context", floats(2, size))
    m.data("init_ids", Ragged(np.ones([2, 1], "int64"), [1, 1], [1, 1]))
    m.data("init_scores", Ragged(np.zeros([2, 1], "float32"), [1, 1], [1, 1]))
    for name, shape in (("table", (words, size)), ("w", (size, size)), ("u", (size, size)), ("v", (size, words))):
        m.data(name, 2 * floats(*shape))
    m.number("i", 0)
    m.number("n", 6)
    for array, first in (("array_state", "context"), ("array_ids", "init_ids"), ("array_scores", "init_scores")):
        m.op("write_to_array", {"X": first, "I": "i"}, {"Out": array})
    m.op("less_than", {"X": "i", "Y": "n"}, {"Out": "more"})

    def body():
        for array, name in (("array_ids", "pre_ids"), ("array_state", "pre_state"), ("array_scores", "pre_score")):
            m.op("read_from_array", {"X": array, "I": "i"}, {"Out": name})
        m.op("sequence_expand", {"X": "pre_state", "Y": "pre_score"}, {"Out": "expanded"}, ref_level=-1)
        m.op("lookup_table", {"W": "table", "Ids": "pre_ids"}, {"Out": "embedded"})
        m.op("mul", {"X": "expanded", "Y": "w"}, {"Out": "a"}, x_num_col_dims=1, y_num_col_dims=1)
        m.op("mul", {"X": "embedded", "Y": "u"}, {"Out": "b"}, x_num_col_dims=1, y_num_col_dims=1)
        m.op("sum", {"X": "a b"}, {"Out": "c"})
        m.op("tanh", {"X": "c"}, {"Out": "state"})
        m.op("lod_reset", {"X": "state", "Y": "pre_score"}, {"Out": "with_lod"})
        m.op("mul", {"X": "with_lod", "Y": "v"}, {"Out": "logits"}, x_num_col_dims=1, y_num_col_dims=1)
        m.op("softmax", {"X": "logits"}, {"Out": "probability"}, axis=-1)
        m.op("top_k", {"X": "probability"}, {"Out": "top", "Indices": "indices"}, k=beam)
        m.op("log", {"X": "top"}, {"Out": "logs"})
        m.op("reshape2", {"X": "pre_score"}, {"Out": "flat", "XShape": "xshape"}, shape=[-1])
        m.op("elementwise_add", {"X": "logs", "Y": "flat"}, {"Out": "accumulated"}, axis=0)
        m.op("lod_reset", {"X": "accumulated", "Y": "pre_score"}, {"Out": "candidates"})
        m.op("beam_search",
             {"pre_ids": "pre_ids", "pre_scores": "pre_score", "ids": "indices", "scores": "candidates"},
             {"selected_ids": "selected", "selected_scores": "selected_scores", "parent_idx": "parents"},
             beam_size=beam, end_id=end, level=0, is_accumulated=True)
        m.op("increment", {"X": "i"}, {"Out": "i"}, step=1.0)
        for array, name in (("array_ids", "selected"), ("array_state", "state"), ("array_scores", "selected_scores")):
            m.op("write_to_array", {"X": name, "I": "i"}, {"Out": array})
        m.op("less_than", {"X": "i", "Y": "n"}, {"Out": "is_short"})
        m.op("is_empty", {"X": "selected"}, {"Out": "is_done"})
        m.op("logical_not", {"X": "is_done"}, {"Out": "goes_on"})
        m.op("logical_and", {"X": "is_short", "Y": "goes_on"}, {"Out": "more"})

    m.loop("more", "i n array_ids array_state array_scores table w u v", "i more array_ids array_state array_scores",
           body)
    m.op("beam_search_decode", {"Ids": "array_ids", "Scores": "array_scores"},
         {"SentenceIds": "sentences", "SentenceScores": "sentence_scores"}, beam_size=beam, end_id=end)
    m.fetch = ["sentences", "sentence_scores", "i"]


@model
def gradient_of_a_loop(m):
    x, w = m.differentiable("x", floats(2, 3)), m.differentiable("w", floats(3, 3))
    with m.layers():
        first, end = paddle.full([1], 0, "int64"), paddle.full([1], 3, "int64")
        _, y = paddle.static.nn.while_loop(lambda i, y: paddle.less_than(i, end),
                                           lambda i, y: [i + 1, paddle.tanh(paddle.matmul(y, w))],
                                           [first, x + 0.0])
        loss = paddle.mean(y)
        gradients = paddle.static.gradients([loss], [x, w])
    m.fetch = [loss.name] + [one.name for one in gradients]


def branches_of_layers(m, chosen):
    x, w = m.differentiable("x", floats(2, 3)), m.differentiable("w", floats(3, 3))
    m.data("c", np.array([chosen]))
    with m.layers():
        y = paddle.static.nn.cond(m.main.global_block().var("c"), lambda: paddle.matmul(x, w), lambda: x * 2.0)
        loss = paddle.mean(y)
        gradients = paddle.static.gradients([loss], [x, w])
    m.fetch = [loss.name] + [one.name for one in gradients]


@model
def gradient_of_a_branch_taken(m):
    branches_of_layers(m, True)


@model
def gradient_of_a_branch_left_out(m):
    branches_of_layers(m, False)


RECORDED = ["loop_with_arrays", "branch_taken", "branch_left_out", "selection", "merged_branches",
            "recurrent_network_with_an_empty_sequence", "recurrent_rows_reversed", "beam_search_with_ties",
            "machine_translation", "gradient_of_a_loop"]


@model
def queue(m):
    for name in "x", "y":
        m.data(name, floats(5, 2))  # without levels, which PaddlePaddle 2.6.2 drops
    m.var("queue_0")
    m.op("queue_generator", {}, {}, names=["queue_0"], capacity=2)
    for name in "x", "y":
        m.op("enqueue", {"X": name}, {}, queue_name="queue_0")
    for name in "first", "second":
        m.op("dequeue", {}, {"Out": name}, queue_name="queue_0")
        m.fetch.append(name)


def record(path):
    recorded = []
    with tempfile.TemporaryDirectory() as root:
        for name in RECORDED:
            one = Model()
            models[name](one)
            results = one.write(os.path.join(root, name))
            tensors = [paddle_record.tensor("feed", key, value.array, value.lengths) for key, value in one.feed.items()]
            tensors += [paddle_record.tensor("fetch", key, *result) for key, result in zip(one.fetch, results)]
            recorded.append(paddle_record.case(name, one.main.desc, tensors))
    paddle_record.write(path, "paddle_control.py", recorded)


def main(program, words):
    chosen = [name for name in models if not words or any(word in name for word in words)]
    failures = 0
    with tempfile.TemporaryDirectory() as root:
        expected = {}
        for name in chosen:
            one = Model()
            try:
                models[name](one)
                expected[name] = one.write(os.path.join(root, name))
            except Exception as error:  # noqa: BLE001
                failures += 1
                print(f"{name}: PaddlePaddle: {str(error).strip().splitlines()[-1]}")
        subprocess.run([program, *(os.path.join(root, name) for name in expected)], check=True)
        for name, results in expected.items():
            error = os.path.join(root, name, "error")
            if os.path.exists(error):
                failures += 1
                print(f"{name}: {Path(error).read_text()}")
                continue
            for k, result in enumerate(results):
                difference = compare(read_tensor(os.path.join(root, name, f"fetch{k}")), result, 1e-5, True)
                if difference:
                    failures += 1
                    print(f"{name}: result {k}: {difference}")
    print(f"{len(chosen)} models, {failures} failures")
    return failures > 0


if __name__ == "__main__":
    paddle.enable_static()
    sys.exit(record(sys.argv[2]) if sys.argv[1] == "--record" else main(sys.argv[1], sys.argv[2:]))
