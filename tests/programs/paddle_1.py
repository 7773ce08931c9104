# SPDX-License-Identifier: Apache-2.0
"""Records programs as the layers of PaddlePaddle 1 made them, with their losses in ten steps of training, for recorded.cpp.

paddle_1.py --record <file>: by PaddlePaddle 1.8.5, whose last packages are for Python 3.8 (with NumPy below 1.20 and
protobuf below 3.21). These layers are gone from later versions, and PaddlePaddle 2.6.2 has defects in their gradients.
"""
import sys

import numpy as np
import paddle.fluid as fluid
import paddle_record
from paddle.fluid import layers

STEPS = 10
random = np.random.RandomState(5)


def floats(*shape):
    return random.standard_normal(shape).round(2).astype("float32")


def ids(*shape):
    return random.randint(0, 9, shape).astype("int64")


class Feed(dict):
    def data(self, name, array, *lengths):
        self[name] = array, [list(level) for level in lengths]
        return fluid.data(name, [None, *array.shape[1:]], str(array.dtype), lod_level=len(lengths))


# Each model gets a dictionary for what it feeds, and returns its loss.


def if_else(feed):
    """Rows that go two ways, by a mask."""
    x, z, mask = feed.data("x", floats(5, 3)), feed.data("z", floats(5, 3)), feed.data("mask", floats(5, 1))
    h = layers.fc(x, 4, act="tanh")
    zeros = layers.fill_constant_batch_size_like(mask, [-1, 1], "float32", 0.0)
    branches = layers.IfElse(layers.greater_than(mask, zeros))
    with branches.true_block():
        a, b = branches.input(h), branches.input(z)
        branches.output(layers.elementwise_add(layers.fc(a, 3), b), layers.scale(a, 2.0))
    with branches.false_block():
        a, b = branches.input(h), branches.input(z)
        branches.output(layers.fc(layers.concat([a, b], 1), 3, act="relu"), layers.scale(a, -1.0))
    y, w = branches()
    return layers.mean(layers.square(y)) + layers.mean(layers.square(w))


def dynamic_rnn(feed):
    """A decoder that attends to sequences which every step sees whole."""
    source = layers.embedding(feed.data("source", ids(9, 1), [3, 2, 4]), [9, 4], is_sparse=True)
    encoded = layers.dynamic_gru(layers.fc(source, 9), 3, is_reverse=True, candidate_activation="relu")
    first = layers.fc(layers.sequence_pool(encoded, "first"), 3, act="tanh")
    target = layers.embedding(feed.data("target", ids(8, 1), [2, 5, 1]), [9, 4], is_sparse=True)
    network = layers.DynamicRNN()
    with network.block():
        word, seen = network.step_input(target), network.static_input(encoded)
        state = network.memory(init=first, need_reorder=True)
        wide = layers.sequence_expand(state, seen)
        weights = layers.sequence_softmax(layers.fc(layers.concat([seen, wide], 1), 1, act="tanh"))
        context = layers.sequence_pool(layers.elementwise_mul(seen, layers.reshape(weights, [-1]), axis=0), "sum")
        after, _, _ = layers.gru_unit(layers.fc([context, word], 9), state, 9)
        network.update_memory(state, after)
        network.output(layers.fc(after, 9, act="softmax"))
    return layers.mean(layers.cross_entropy(network(), feed.data("next", ids(8, 1), [2, 5, 1])))


def static_rnn(feed):
    """Two layers, whose states are outputs, too: nothing uses some of them."""
    x = layers.reshape(feed.data("x", floats(3, 4, 5)), [3, 4, 5])
    first = [layers.fc(layers.reshape(feed.data(f"first{k}", floats(4, 3)), [4, 3]), 3) for k in range(2)]
    network = layers.StaticRNN()
    with network.step():
        h = network.step_input(x)
        for before in first:
            state = network.memory(init=before)
            h = layers.fc([h, state], 3, act="tanh")
            network.update_memory(state, h)
            network.step_output(h)
        network.step_output(h)
    *_, y = network()
    return layers.mean(layers.square(y))


def averaged(feed):
    """A rate that warms up and then decays, and parameters that are averaged."""
    y = layers.fc(layers.fc(feed.data("x", floats(6, 3)), 4, act="tanh"), 3, act="softmax")
    return layers.mean(layers.cross_entropy(y, feed.data("label", ids(6, 1) // 3)))


def minimize(model, loss):
    if model is not averaged:
        return fluid.optimizer.SGD(0.3).minimize(loss)
    rate = layers.linear_lr_warmup(layers.cosine_decay(0.5, 2, 5), 4, 0.01, 0.4)
    fluid.optimizer.Momentum(rate, 0.5).minimize(loss)
    return fluid.optimizer.ModelAverage(0.15, min_average_window=2, max_average_window=4)


def recorded(model):
    feed, main, startup, scope, place = Feed(), fluid.Program(), fluid.Program(), fluid.Scope(), fluid.CPUPlace()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        loss = model(feed)
        minimize(model, loss)
    tensors = {}
    for name, (array, lengths) in feed.items():
        tensors[name] = fluid.LoDTensor()
        tensors[name].set(array, place)
        if lengths:
            tensors[name].set_recursive_sequence_lengths(lengths)
    executor, lines = fluid.Executor(place), []
    with fluid.scope_guard(scope):
        startup.random_seed = 7
        executor.run(startup)
        for var in main.list_vars():
            if var.persistable:
                tensor = scope.find_var(var.name).get_tensor()
                value = np.array(tensor)
                value = value.round(3) if value.dtype == np.float32 else value
                tensor.set(value, place)
                lines.append(paddle_record.tensor("parameter", var.name, value))
        losses = [executor.run(main, feed=tensors, fetch_list=[loss])[0].item() for _ in range(STEPS)]
    lines += [paddle_record.tensor("feed", name, *value) for name, value in feed.items()]
    lines.append(f"train {loss.name} itself 0 {' '.join(f'{one:.6g}' for one in losses)}")
    return paddle_record.case(model.__name__, main.desc, lines)


if __name__ == "__main__":
    paddle_record.write(sys.argv[2], "paddle_1.py",
                        [recorded(model) for model in (if_else, dynamic_rnn, static_rnn, averaged)])
