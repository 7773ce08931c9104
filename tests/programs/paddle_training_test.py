# SPDX-License-Identifier: Apache-2.0
"""Compares training with PaddlePaddle 2.6.2, which must be installed (with NumPy 1).

paddle_training_test.py <train_files> [WORD...]: trains the models whose names contain one of the words, by default all,
for ten steps each: by PaddlePaddle, by this library with PaddlePaddle's program, by this library with the program that
its own append_backward and minimize made, and by PaddlePaddle with that program. All four must have the same losses.
paddle_training_test.py --record <file>: writes some models and PaddlePaddle's losses, for tests without it.
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
from paddle_test import Ragged, read_tensor, write_tensor

STEPS = 10
random = np.random.RandomState(3)
static, optimizer = paddle.static, paddle.optimizer


def floats(*shape):
    """Of few digits, since some are recorded."""
    return random.standard_normal(shape).round(2).astype("float32")


def data(name, value):
    value = value if isinstance(value, Ragged) else Ragged(value)
    shape = [-1] + list(value.array.shape[1:])
    return static.data(name, shape, str(value.array.dtype), lod_level=len(value.lengths)), value


def op(type, inputs, outputs=("Out",), attrs=None):
    """Appends an operator; returns the variables of its outputs."""
    block = static.default_main_program().current_block()
    names = [paddle.utils.unique_name.generate(f"{type}.{name}") for name in outputs]
    made = [block.create_var(name=name, dtype="float32") for name in names]
    arguments = {name: value if isinstance(value, list) else [value] for name, value in inputs.items()}
    block.append_op(type=type, inputs=arguments,
                    outputs={name: [var] for name, var in zip(outputs, made)}, attrs=attrs or {})
    return made if len(made) > 1 else made[0]


def parameter(name, *shape):
    return static.create_parameter(list(shape), "float32", name=name,
                                   default_initializer=paddle.nn.initializer.Assign(0.3 * floats(*shape)))


def mean(x):
    """A mean with the shape {1}, whatever the version."""
    return op("mean", {"X": x})


# Each model gets a dictionary for what it feeds, and returns its loss.


def softmax_regression(feed):
    x, feed["x"] = data("x", floats(8, 5))
    label, feed["label"] = data("label", random.randint(0, 3, (8, 1)).astype("int64"))
    h = static.nn.fc(x, 6, activation="tanh")
    h = paddle.nn.functional.leaky_relu(h + static.nn.fc(h, 6, activation="relu"), 0.1)
    return paddle.mean(paddle.nn.functional.softmax_with_cross_entropy(static.nn.fc(h, 3), label))


def cross_entropy(feed):
    x, feed["x"] = data("x", floats(8, 5))
    label, feed["label"] = data("label", random.randint(0, 3, (8, 1)).astype("int64"))
    y = static.nn.fc(x, 3, activation="softmax")
    loss, _, _ = op("cross_entropy2", {"X": y, "Label": label}, ("Y", "XShape", "MatchX"))
    return mean(loss)


def shared_embedding(feed, sparse=False):
    """A table that is used twice; sums, slices and products of matrices."""
    ids, feed["ids"] = data("ids", random.randint(0, 9, (4, 3)).astype("int64"))
    other, feed["other"] = data("other", random.randint(0, 9, (4, 3)).astype("int64"))
    table = parameter("table", 11, 4)
    a = op("lookup_table_v2", {"W": table, "Ids": ids}, attrs={"is_sparse": sparse})
    b = op("lookup_table_v2", {"W": table, "Ids": other}, attrs={"is_sparse": sparse})
    scores = paddle.matmul(a, b, transpose_y=True)
    weights = paddle.nn.functional.softmax(scores)
    mixed = paddle.reshape(paddle.matmul(weights, b), [4, 12])
    left, right = paddle.split(paddle.concat([mixed, paddle.reshape(a, [4, 12])], axis=1), 2, axis=1)
    return paddle.mean(paddle.square(left * right - paddle.sum(a[:, 1], axis=1, keepdim=True)))


def sparse_embedding(feed):
    return shared_embedding(feed, sparse=True)


def batch_norm(feed):
    x, feed["x"] = data("x", floats(6, 3, 2, 2))
    y = static.nn.batch_norm(x, momentum=0.8)
    y = static.nn.layer_norm(paddle.reshape(y, [-1, 12]))
    return paddle.mean(paddle.square(static.nn.fc(y, 2) - 1.0))


def reductions(feed):
    x, feed["x"] = data("x", floats(4, 6))
    h = paddle.transpose(paddle.reshape(static.nn.fc(x, 6), [-1, 2, 3]), [0, 2, 1])
    h = paddle.max(h, axis=1) + paddle.min(h, axis=1) * paddle.sum(h, axis=[1])
    h = paddle.stack([paddle.exp(-h), paddle.nn.functional.sigmoid(h)], axis=1)
    return paddle.mean(paddle.clip(paddle.squeeze(paddle.unsqueeze(h, [0]), [0]), -1.0, 2.0))


# The models of PaddlePaddle's book.

def ids_of(rows, *lengths, height=9):
    return Ragged(random.randint(0, height, (rows, 1)).astype("int64"), *lengths)


def known(x, *shape):
    """Says the shape of a result: the operators of PaddlePaddle's that were appended as such do not."""
    x.desc.set_shape([-1, *shape])
    return x


def dense(x, size, activation=None):
    weight = paddle.nn.initializer.Assign(0.3 * floats(x.shape[-1], size))
    return static.nn.fc(x, size, weight_attr=paddle.ParamAttr(initializer=weight), activation=activation)


def embedded(name, feed, ids, width=6, sparse=True, table=None):
    var, feed[name] = data(name, ids)
    table = table or parameter(f"{name}.table", 9, width)
    return known(op("lookup_table", {"W": table, "Ids": var}, attrs={"is_sparse": sparse}), width)


def pooled(x, how, width):
    return known(op("sequence_pool", {"X": x}, ("Out", "MaxIndex"), {"pooltype": how})[0], width)


def classified(x, feed, name="label"):
    label, feed[name] = data(name, random.randint(0, 2, (3, 1)).astype("int64"))
    return paddle.mean(paddle.nn.functional.softmax_with_cross_entropy(dense(x, 2), label))


def lstm_of(x, name, size, reverse=False, **functions):
    projected = op("mul", {"X": x, "Y": parameter(f"{name}.in", x.shape[-1], 4 * size)})
    projected = op("elementwise_add", {"X": projected, "Y": parameter(f"{name}.shift", 4 * size)}, attrs={"axis": 1})
    hidden, _, _, _ = op("lstm", {"Input": known(projected, 4 * size), "Weight": parameter(f"{name}.w", size, 4 * size),
                                  "Bias": parameter(f"{name}.b", 1, 7 * size)},
                         ("Hidden", "Cell", "BatchGate", "BatchCellPreAct"),
                         {"is_reverse": reverse, "use_peepholes": True, **functions})
    return known(hidden, size)


def sentiment_convolution(feed):
    x = embedded("words", feed, ids_of(9, [3, 1, 5]))
    parts = []
    for length, how in ((3, "SQRT"), (4, "MAX")):
        y = op("sequence_conv", {"X": x, "Filter": parameter(f"filter{length}", 6 * length, 5)},
               attrs={"contextLength": length, "contextStart": -(length // 2), "contextStride": 1})
        y = op("elementwise_add", {"X": known(y, 5), "Y": parameter(f"shift{length}", 5)}, attrs={"axis": 1})
        parts.append(pooled(op("tanh", {"X": known(y, 5)}), how, 5))
    return classified(paddle.concat(parts, axis=1), feed)


def stacked_lstm(feed):
    """Sizes are no multiples of 8, where PaddlePaddle 2.6.2's gradient of lstm is wrong."""
    x = embedded("words", feed, ids_of(9, [3, 1, 5]))
    layers = [lstm_of(x, "lstm0", 5)]
    for i in 1, 2:
        joined = op("sum", {"X": [op("mul", {"X": each, "Y": parameter(f"mix{i}{k}", each.shape[-1], 7)})
                                  for k, each in enumerate([x, layers[-1]])]})
        layers.append(lstm_of(known(joined, 7), f"lstm{i}", 5, reverse=i % 2 == 1))
    return classified(paddle.concat([pooled(x, "MAX", 6), pooled(layers[-1], "MAX", 5)], axis=1), feed)


def semantic_roles(feed):
    """Eight LSTMs in alternating directions, with the functions of the book, and a CRF."""
    functions = {"gate_activation": "sigmoid", "candidate_activation": "relu", "cell_activation": "sigmoid"}
    table = parameter("table", 9, 6)
    inputs = [embedded(name, feed, ids_of(9, [3, 1, 5]), table=table) for name in ("word", "predicate", "context")]

    def mix(layer, xs):
        products = [op("mul", {"X": x, "Y": parameter(f"mix{layer}.{k}", x.shape[-1], 5)}) for k, x in enumerate(xs)]
        return known(op("sum", {"X": products}), 5)

    x, hidden = mix(0, inputs), None
    for layer in range(8):
        if layer > 0:
            x = mix(layer, [x, hidden])
        hidden = lstm_of(x, f"lstm{layer}", 5, reverse=layer % 2 == 1, **functions)
    emission = known(op("mul", {"X": hidden, "Y": parameter("emission", 5, 4)}), 4)
    tags, feed["tags"] = data("tags", ids_of(9, [3, 1, 5], height=4))
    transition = parameter("transition", 6, 4)
    *_, loss = op("linear_chain_crf", {"Emission": emission, "Transition": transition, "Label": tags},
                  ("Alpha", "EmissionExps", "TransitionExps", "LogLikelihood"))
    return mean(loss)


def recommender(feed):
    user = [known(paddle.nn.functional.relu(dense(embedded(name, feed, np.array([[1], [5], [1]])), 6)), 6)
            for name in ("user", "age", "job")]
    film = [dense(embedded("film", feed, np.array([[0], [2], [7]])), 6),
            pooled(embedded("genres", feed, ids_of(6, [1, 2, 3])), "SUM", 6)]
    x = embedded("title", feed, ids_of(9, [3, 1, 5]))
    y = op("sequence_conv", {"X": x, "Filter": parameter("filter", 18, 6)},
           attrs={"contextLength": 3, "contextStart": -1, "contextStride": 1})
    film.append(pooled(op("tanh", {"X": known(y, 6)}), "SUM", 6))
    a, b = (paddle.nn.functional.tanh(dense(paddle.concat(xs, axis=1), 7)) for xs in (user, film))
    score, feed["score"] = data("score", floats(3, 1))
    return paddle.mean(paddle.square(5.0 * paddle.sum(a * b, axis=1, keepdim=True) - score))


def click_through(feed):
    slots = [pooled(embedded(f"slot{i}", feed, ids_of(sum(lengths), lengths)), "SUM", 6)
             for i, lengths in enumerate(([1, 2, 1], [3, 1, 2], [1, 1, 1]))]
    numbers, feed["numbers"] = data("numbers", floats(3, 4))
    x = paddle.concat([*slots, dense(numbers, 5, activation="relu")], axis=1)
    for size in 9, 7:
        x = dense(x, size, activation="relu")
    return classified(x, feed)


def attention(feed):
    """Encoded by a GRU; one step of a decoder looks at it."""
    x = embedded("words", feed, ids_of(9, [3, 1, 5]))
    projected = known(op("mul", {"X": x, "Y": parameter("in", 6, 15)}), 15)
    weights = {"Weight": parameter("gru.w", 5, 15), "Bias": parameter("gru.b", 1, 15)}
    encoded = known(op("gru", {"Input": projected, **weights},
                       ("BatchGate", "BatchResetHiddenPrev", "BatchHidden", "Hidden"), {"is_reverse": True})[3], 5)
    first = pooled(encoded, "FIRST", 5)
    wide = known(op("sequence_expand", {"X": dense(first, 5), "Y": encoded}), 5)
    scores = known(op("mul", {"X": op("tanh", {"X": paddle.add(encoded, wide)}), "Y": parameter("score", 5, 1)}), 1)
    weights = known(op("sequence_softmax", {"X": scores}), 1)
    context = pooled(known(op("elementwise_mul", {"X": encoded, "Y": weights}, attrs={"axis": 0}), 5), "SUM", 5)
    inputs = known(op("mul", {"X": context, "Y": parameter("step", 5, 15)}), 15)
    _, _, hidden = op("gru_unit", {"Input": inputs, "HiddenPrev": first, "Weight": parameter("unit.w", 5, 15),
                                   "Bias": parameter("unit.b", 1, 15)}, ("Gate", "ResetHiddenPrev", "Hidden"))
    return classified(known(hidden, 5), feed)


# Loops, branches and arrays.

def variable(kind, dtype=None):
    """A variable of the current block; `kind` is a member of VarDesc.VarType."""
    name = paddle.utils.unique_name.generate(kind.lower())
    return static.default_main_program().current_block().create_var(name=name, type=getattr(VarDesc.VarType, kind),
                                                                    dtype=dtype)


def array():
    return variable("LOD_TENSOR_ARRAY", "float32")


def product(x, w):
    return op("mul", {"X": x, "Y": w}, attrs={"x_num_col_dims": 1, "y_num_col_dims": 1})


def total(*terms):
    return op("sum", {"X": list(terms)})


def put(into, x, i):
    static.default_main_program().current_block().append_op(type="write_to_array", inputs={"X": [x], "I": [i]},
                                                            outputs={"Out": [into]})


def assign(x, to):
    static.default_main_program().current_block().append_op(type="assign", inputs={"X": [x]}, outputs={"Out": [to]})


def counter(value):
    return paddle.full([1], value, "int64")


def less(x, y, out=None):
    block = static.default_main_program().current_block()
    out = out or block.create_var(name=paddle.utils.unique_name.generate("less"), dtype="bool")
    block.append_op(type="less_than", inputs={"X": [x], "Y": [y]}, outputs={"Out": [out]})
    return out


def count(i):
    static.default_main_program().current_block().append_op(type="increment", inputs={"X": [i]}, outputs={"Out": [i]},
                                                            attrs={"step": 1.0})


def owner(type, inputs, outputs, scopes, body, **attrs):
    """Appends an operator with a block, which body() fills."""
    program, steps = static.default_main_program(), variable("STEP_SCOPES")
    block = program._create_block()
    body()
    program._rollback()
    program.current_block().append_op(type=type, inputs=inputs, outputs={**outputs, scopes: [steps]},
                                      attrs={"sub_block": block, **attrs})


def while_loop(i, end, uses, changes, body):
    more = less(i, end)

    def step():
        body()
        less(i, end, more)

    owner("while", {"X": [i, end, *uses, *changes], "Condition": [more]}, {"Out": [i, more, *changes]}, "StepScopes",
          step)


def machine_translation(feed):
    """A decoder over target words, which sees the source in each step: what a DynamicRNN was made of."""
    source = embedded("source", feed, ids_of(9, [3, 4, 2]), 5)
    encoded = known(op("tanh", {"X": product(source, parameter("encoder", 5, 5))}), 5)
    (target, feed["target"]), weights = data("target", ids_of(8, [2, 5, 1])), {"table": parameter("table", 9, 5)}
    for name, shape in (("of_context", (5, 5)), ("of_word", (5, 5)), ("of_state", (5, 5)), ("out", (5, 9))):
        weights[name] = parameter(name, *shape)
    table = variable("LOD_RANK_TABLE")
    block = static.default_main_program().current_block()
    block.append_op(type="lod_rank_table", inputs={"X": [target]}, outputs={"Out": [table]}, attrs={"level": 0})
    words, states, answers = variable("LOD_TENSOR_ARRAY", "int64"), array(), array()
    block.append_op(type="lod_tensor_to_array", inputs={"X": [target], "RankTable": [table]}, outputs={"Out": [words]})
    first = op("reorder_lod_tensor_by_rank", {"X": pooled(encoded, "LAST", 5), "RankTable": table})
    i, end = counter(0), op("max_sequence_len", {"RankTable": table})
    end.desc.set_dtype(VarDesc.VarType.INT64)
    put(states, first, i)

    def body():
        ids = block.program.current_block().create_var(name="ids", dtype="int64")
        block.program.current_block().append_op(type="read_from_array", inputs={"X": [words], "I": [i]},
                                                outputs={"Out": [ids]})
        word = op("lookup_table", {"W": weights["table"], "Ids": ids})
        state = op("read_from_array", {"X": states, "I": i})
        state = op("shrink_rnn_memory", {"X": state, "RankTable": table, "I": i})
        context = op("shrink_rnn_memory", {"X": first, "RankTable": table, "I": i})
        state = op("tanh", {"X": total(product(context, weights["of_context"]), product(word, weights["of_word"]),
                                       product(state, weights["of_state"]))})
        put(answers, op("softmax", {"X": product(state, weights["out"])}), i)
        count(i)
        put(states, state, i)

    while_loop(i, end, [words, table, first, *weights.values()], [states, answers], body)
    answer = known(op("array_to_lod_tensor", {"X": answers, "RankTable": table}), 9)
    label, feed["label"] = data("label", ids_of(8, [2, 5, 1]))
    return mean(op("cross_entropy", {"X": answer, "Label": label}, ("Y",)))


def repeated(feed):
    """A loop of layers, which calls a branch and a loop in it."""
    x, feed["x"] = data("x", floats(3, 4))
    w, v, u = parameter("w", 4, 4), parameter("v", 4, 4), parameter("u", 4, 4)

    def step(i, y):
        y = static.nn.cond(paddle.less_than(i, counter(2)), lambda: paddle.tanh(paddle.matmul(y, w)), lambda: y * 0.5)
        _, y = static.nn.while_loop(lambda j, z: paddle.less_than(j, counter(2)),
                                    lambda j, z: [j + 1, paddle.tanh(paddle.matmul(z, v))], [counter(0), y])
        return [i + 1, y]

    _, y = static.nn.while_loop(lambda i, y: paddle.less_than(i, counter(3)), step,
                                [counter(0), paddle.matmul(x, u)])
    return classified(y, feed)


def unrolled_rows(feed):
    """As recurrent_rows, whose gradient PaddlePaddle does not describe: it leaves out those of states."""
    x, state, w = parameter("rows", 4, 3, 4), parameter("first", 3, 4), parameter("w", 4, 4)
    states = []
    for t in reversed(range(4)):
        states.append(paddle.tanh(paddle.matmul(states[-1] if states else state, w) + x[t]))
    return mean(op("square", {"X": paddle.stack(states) * 2.0}))


def recurrent_rows(feed):
    x, first, w = parameter("rows", 4, 3, 4), parameter("first", 3, 4), parameter("w", 4, 4)
    y = op("scale", {"X": x})
    y.desc.set_shape([4, 3, 4])

    def body():
        block = static.default_main_program().current_block()
        row, before, out = (block.create_var(name=name, shape=[3, 4], dtype="float32")
                            for name in (x.name, "before", y.name))
        after = block.create_var(name="after", dtype="float32")
        block.append_op(type="tanh", inputs={"X": [total(product(before, w), row)]}, outputs={"Out": [after]})
        block.append_op(type="scale", inputs={"X": [after]}, outputs={"Out": [out]}, attrs={"scale": 2.0})

    owner("recurrent", {"inputs": [x], "initial_states": [first], "parameters": [w]}, {"outputs": [y]}, "step_scopes",
          body, ex_states=["before"], states=["after"], has_states=True, reverse=True, is_train=True)
    return mean(op("square", {"X": y}))


def chosen_branch(feed):
    x, feed["x"] = data("x", floats(3, 4))
    c, feed["c"] = data("c", np.array([[True]]))
    h = dense(x, 4)
    return classified(static.nn.cond(c, lambda: paddle.tanh(h), lambda: h * parameter("other", 1, 4)), feed)


norm = paddle.nn.ClipGradByNorm(0.1)
runs = [
    (softmax_regression, lambda: optimizer.SGD(0.5), "SGD 0.5"),
    (softmax_regression, lambda: optimizer.Momentum(0.1, 0.9, use_nesterov=True), "Momentum 0.1 nesterov"),
    (softmax_regression, lambda: optimizer.Adagrad(0.1), "Adagrad 0.1"),
    (softmax_regression, lambda: optimizer.RMSProp(0.05, momentum=0.5, centered=True), "RMSProp 0.05 centered"),
    (softmax_regression, lambda: optimizer.Adam(0.05), "Adam 0.05"),
    (softmax_regression, lambda: optimizer.Adadelta(0.5), "Adadelta 0.5"),
    (softmax_regression, lambda: optimizer.Adamax(0.05), "Adamax 0.05"),
    (softmax_regression, lambda: optimizer.Lamb(0.05), "Lamb 0.05"),
    (softmax_regression, lambda: optimizer.SGD(0.5, weight_decay=paddle.regularizer.L2Decay(0.1)), "SGD 0.5 l2"),
    (softmax_regression, lambda: optimizer.Adam(0.05, weight_decay=paddle.regularizer.L1Decay(0.1)), "Adam 0.05 l1"),
    (softmax_regression, lambda: optimizer.Momentum(0.5, weight_decay=paddle.regularizer.L2Decay(0.1)),
     "Momentum 0.5 l2"),
    (softmax_regression, lambda: optimizer.SGD(0.5, grad_clip=paddle.nn.ClipGradByValue(0.02)), "SGD 0.5 value"),
    (softmax_regression, lambda: optimizer.SGD(0.5, grad_clip=norm), "SGD 0.5 norm"),
    (softmax_regression, lambda: optimizer.SGD(0.5, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1)), "SGD 0.5 global"),
    (cross_entropy, lambda: optimizer.Adam(0.05), "Adam 0.05"),
    (shared_embedding, lambda: optimizer.Adam(0.05), "Adam 0.05"),
    (sparse_embedding, lambda: optimizer.SGD(0.5), "SGD 0.5"),
    (sparse_embedding, lambda: optimizer.Adagrad(0.1), "Adagrad 0.1"),
    (sparse_embedding, lambda: optimizer.SGD(0.5, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1)), "SGD 0.5 global"),
    (batch_norm, lambda: optimizer.SGD(0.1), "SGD 0.1"),
    (reductions, lambda: optimizer.Adam(0.05), "Adam 0.05"),
    # With 0.1 half a unit in the last place of the parameters moves its losses by 2e-4, in PaddlePaddle as well.
    (sentiment_convolution, lambda: optimizer.Adagrad(0.01), "Adagrad 0.01"),
    (stacked_lstm, lambda: optimizer.SGD(0.5), "SGD 0.5"),
    (semantic_roles, lambda: optimizer.SGD(0.1), "SGD 0.1"),
    (recommender, lambda: optimizer.SGD(0.01), "SGD 0.01"),
    (click_through, lambda: optimizer.SGD(0.1), "SGD 0.1"),
    (attention, lambda: optimizer.SGD(0.5), "SGD 0.5"),
    (machine_translation, lambda: optimizer.SGD(0.5), "SGD 0.5"),
    (repeated, lambda: optimizer.SGD(0.5), "SGD 0.5"),
    (recurrent_rows, lambda: optimizer.SGD(0.5), "SGD 0.5", unrolled_rows),
    (chosen_branch, lambda: optimizer.SGD(0.5), "SGD 0.5"),
]


def train(exe, program, startup, feed, loss, values):
    """The losses of ten steps that begin with these parameters."""
    scope = static.Scope()
    with static.scope_guard(scope):
        exe.run(startup)
        for name, value in values.items():
            scope.var(name).get_tensor().set(value, paddle.CPUPlace())
        return [float(np.ravel(exe.run(program, feed=feed, fetch_list=[loss])[0])[0]) for _ in range(STEPS)]


def program_of(path):
    with open(path, "rb") as file:
        return static.Program.parse_from_string(file.read())


def built(exe, model, make, theirs=None):
    """The loss, the program without and with its training, what starts it, what it is fed, and the first parameters.
    `theirs` is the model that PaddlePaddle trains instead, of the same parameters."""
    main_program, startup, feed, values, scope = static.Program(), static.Program(), {}, {}, static.Scope()
    drawn = random.get_state()
    with paddle.utils.unique_name.guard(), static.program_guard(main_program, startup):
        loss = model(feed)
        forward = main_program.clone()
        if not theirs:
            make().minimize(loss)
    if theirs:
        random.set_state(drawn)
        main_program, startup = static.Program(), static.Program()
        with paddle.utils.unique_name.guard(), static.program_guard(main_program, startup):
            make().minimize(theirs(feed))
    with static.scope_guard(scope):
        exe.run(startup)
        for var in forward.list_vars():
            if var.persistable:
                values[var.name] = np.array(scope.find_var(var.name).get_tensor())
    return loss, forward, main_program, startup, feed, values


def loaded(feed):
    tensors = {}
    for key, value in feed.items():
        tensors[key] = paddle.base.core.LoDTensor()
        tensors[key].set(value.array, paddle.CPUPlace())
        if value.lengths:
            tensors[key].set_recursive_sequence_lengths(value.lengths)
    return tensors


def write_model(folder, forward, program, startup, feed, values):
    for part in "feed", "parameters":
        os.makedirs(os.path.join(folder, part))
    for file, one in (("program", program), ("startup", startup), ("forward", forward)):
        with open(os.path.join(folder, file), "wb") as out:
            out.write(one.desc.serialize_to_string())
    for key, value in feed.items():
        write_tensor(os.path.join(folder, "feed", key), value.array, value.lengths)
    for key, value in values.items():
        write_tensor(os.path.join(folder, "parameters", key), value)


RECORDED = sentiment_convolution, stacked_lstm, recommender, click_through, attention


def record(path):
    exe, recorded = paddle.base.Executor(paddle.CPUPlace()), []
    for model, make, how, *theirs in runs:
        if model not in RECORDED:
            continue
        loss, forward, program, startup, feed, values = built(exe, model, make, *theirs)
        # Parameters that PaddlePaddle draws are of many digits: those that are written are those that it begins with.
        values = {key: value.round(3) for key, value in values.items()}
        losses = train(exe, program, startup, loaded(feed), loss.name, values)
        tensors = [paddle_record.tensor("parameter", *item) for item in values.items()]
        tensors += [paddle_record.tensor("feed", key, value.array, value.lengths) for key, value in feed.items()]
        tensors.append(f"train {loss.name} {how} {' '.join(f'{one:.6g}' for one in losses)}")
        recorded.append(paddle_record.case(model.__name__, forward.desc, tensors))
    paddle_record.write(path, "paddle_training_test.py", recorded)


def main(trainer, words):
    exe, failures, count = paddle.base.Executor(paddle.CPUPlace()), 0, 0
    with tempfile.TemporaryDirectory() as root:
        expected = {}
        for model, make, how, *theirs in runs:
            name = f"{model.__name__} {how}"
            if words and not any(word in name for word in words):
                continue
            loss, forward, main_program, startup, feed, values = built(exe, model, make, *theirs)
            tensors = loaded(feed)
            folder = os.path.join(root, str(count))
            count += 1
            write_model(folder, forward, main_program, startup, feed, values)
            with open(os.path.join(folder, "how"), "w") as out:
                out.write(f"{loss.name} {STEPS} {how}")
            losses = train(exe, main_program, startup, tensors, loss.name, values)
            expected[folder] = name, tensors, loss.name, values, losses
        subprocess.run([trainer, *expected], check=True)
        for folder, (name, tensors, loss, values, losses) in expected.items():
            if os.path.exists(os.path.join(folder, "error")):
                print(f"{name}: {Path(folder, 'error').read_text()}")
                failures += 1
                continue
            found = {"PaddlePaddle's program here": read_tensor(os.path.join(folder, "losses_of_theirs"))[0],
                     "our program here": read_tensor(os.path.join(folder, "losses_of_ours"))[0]}
            try:
                ours = [program_of(os.path.join(folder, file)) for file in ("our_program", "our_startup")]
                found["our program by PaddlePaddle"] = train(exe, *ours, tensors, loss, values)
            except Exception as error:  # noqa: BLE001
                failures += 1
                print(f"{name}: our program by PaddlePaddle: {str(error).strip()}")
            for what, other in found.items():
                if not np.allclose(other, losses, 1e-4, 1e-4):
                    failures += 1
                    print(f"{name}: {what}: {[round(float(loss), 5) for loss in other]}, "
                          f"expected {[round(loss, 5) for loss in losses]}")
    print(f"{count} models, {failures} failures")
    return failures > 0


if __name__ == "__main__":
    sys.exit(record(sys.argv[2]) if sys.argv[1] == "--record" else main(sys.argv[1], sys.argv[2:]))
