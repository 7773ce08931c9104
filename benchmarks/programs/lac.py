#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The network of examples/lac here and in PaddlePaddle 2.6.2, on the same data in the same run: for tools/bench-lac."""
import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("program", help="benchmark_programs")
parser.add_argument("parameters", help="the folder that tools/lac-parameters prints")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=8)
arguments = parser.parse_args()

# OpenMP and MKL read them when they are loaded. This library is given the number of its threads.
os.environ.update({name: str(arguments.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}, GLOG_minloglevel="2")
import numpy
import paddle
from paddle import base, inference

PARAMETERS = os.path.join(arguments.parameters, "model_baseline")
PLACE = base.CPUPlace()


def load(path):
    """A parameter: what PaddlePaddle 1 wrote for a tensor of float without levels."""
    with open(path, "rb") as file:
        content = file.read()
    (size,) = struct.unpack_from("<i", content, 16)
    values = numpy.frombuffer(content, dtype="float32", offset=20 + size)
    return values


class Network:
    """The same operators as examples/lac/network.cpp, in a program of PaddlePaddle's."""

    def __init__(self):
        self.main = paddle.static.Program()
        self.counts = {"fc": 0, "gru": 0}
        with paddle.static.program_guard(self.main):
            self.block = self.main.global_block()
            self.word = paddle.static.data("word", [-1, 1], "int64", lod_level=1)
            x = self.var()
            table = self.parameter("word_emb", [-1, 128])
            self.block.append_op(type="lookup_table", inputs={"W": [table], "Ids": [self.word]}, outputs={"Out": [x]})
            width = 128
            for _ in range(2):
                directions = [self.gru(self.fc(x, width, 384), is_reverse) for is_reverse in (False, True)]
                x = self.var()
                self.block.append_op(type="concat", inputs={"X": directions}, outputs={"Out": [x]}, attrs={"axis": 1})
                width = 256
            emissions = self.fc(x, width, 57)
            self.tags = self.var("int64")
            self.block.append_op(type="crf_decoding", outputs={"ViterbiPath": [self.tags]},
                                 inputs={"Emission": [emissions], "Transition": [self.parameter("crfw", [59, 57])]})

    def var(self, data_type="float32"):
        return self.block.create_var(name=paddle.utils.unique_name.generate("tmp"), dtype=data_type, lod_level=1)

    def parameter(self, name, shape):
        values = load(os.path.join(PARAMETERS, name)).reshape(shape)
        base.global_scope().var(name).get_tensor().set(values.copy(), PLACE)
        return self.block.create_parameter(name=name, shape=values.shape, dtype="float32")

    def layer(self, kind):
        self.counts[kind] += 1
        return f"{kind}_{self.counts[kind] - 1}"

    def fc(self, x, width, size):
        name, product, result = self.layer("fc"), self.var(), self.var()
        weights, bias = self.parameter(name + ".w_0", [width, size]), self.parameter(name + ".b_0", [size])
        self.block.append_op(type="mul", inputs={"X": [x], "Y": [weights]}, outputs={"Out": [product]},
                             attrs={"x_num_col_dims": 1, "y_num_col_dims": 1})
        self.block.append_op(type="elementwise_add", inputs={"X": [product], "Y": [bias]}, outputs={"Out": [result]},
                             attrs={"axis": 1})
        return result

    def gru(self, x, is_reverse):
        name, hidden = self.layer("gru"), self.var()
        weights, bias = self.parameter(name + ".w_0", [128, 384]), self.parameter(name + ".b_0", [1, 384])
        self.block.append_op(type="gru", inputs={"Input": [x], "Weight": [weights], "Bias": [bias]},
                             attrs={"is_reverse": is_reverse},
                             outputs={"Hidden": [hidden], "BatchGate": [self.var()],
                                      "BatchResetHiddenPrev": [self.var()], "BatchHidden": [self.var()]})
        return hidden


class Executor:
    name = "PaddlePaddle's Executor"

    def __init__(self, network):
        self.executor, self.network = base.Executor(PLACE), network

    def prepare(self, lengths, ids):
        feed = {"word": base.create_lod_tensor(numpy.array(ids, "int64").reshape(-1, 1), [lengths], PLACE)}
        self.run = lambda: self.executor.run(self.network.main, feed=feed, fetch_list=[self.network.tags],
                                             return_numpy=False, use_program_cache=True)
        return numpy.array(self.run()[0])


class Predictor:
    def __init__(self, network, folder, with_onednn):
        self.name = "its predictor" + (", oneDNN" if with_onednn else "")
        path = os.path.join(folder, "lac")
        if not os.path.exists(path + ".pdmodel"):
            paddle.static.save_inference_model(path, [network.word], [network.tags], base.Executor(PLACE),
                                               program=network.main)
        config = inference.Config(path + ".pdmodel", path + ".pdiparams")
        config.disable_glog_info()
        config.set_cpu_math_library_num_threads(arguments.threads)
        config.enable_memory_optim()
        if with_onednn:
            config.enable_mkldnn()
        self.predictor = inference.create_predictor(config)
        self.input = self.predictor.get_input_handle(self.predictor.get_input_names()[0])
        self.output = self.predictor.get_output_handle(self.predictor.get_output_names()[0])

    def prepare(self, lengths, ids):
        words = numpy.array(ids, "int64").reshape(-1, 1)
        offsets = [numpy.cumsum([0] + lengths).tolist()]

        def run():
            self.input.copy_from_cpu(words)
            self.input.set_lod(offsets)
            self.predictor.run()
            return self.output.copy_to_cpu()
        self.run = run
        return run()

    def time(self, runs):
        return time_runs(self.run, runs)


def time_runs(run, runs):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return times


Executor.time = Predictor.time


class Here:
    name = "lodtensor"

    def __init__(self):
        self.process = subprocess.Popen([arguments.program, "lac", arguments.parameters, str(arguments.threads)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, runs):
        numbers = [runs, len(self.lengths), *self.lengths, *self.ids]
        self.process.stdin.write(" ".join(map(str, numbers)) + "\n")
        self.process.stdin.flush()
        return [self.process.stdout.readline().split() for _ in range(2)]

    def prepare(self, lengths, ids):
        self.lengths, self.ids = lengths, ids
        return numpy.array(self.ask(0)[0], "int64").reshape(-1, 1)

    def time(self, runs):
        return [float(one) for one in self.ask(runs)[1]]


def main():
    paddle.enable_static()
    network = Network()
    with tempfile.TemporaryDirectory() as folder:
        sides = [Here(), Executor(network), Predictor(network, folder, False), Predictor(network, folder, True)]
    draw = random.Random(1)
    many = [draw.randint(5, 35) for _ in range(64)]
    # What is asked for: of the Executor, and of the better predictor.
    cases = [(f"{len(many)} sentences of {sum(many)} characters", many, 10, (3, 1)),
             ("a sentence of 12 characters", [12], 300, (5, 1))]
    print(f"{'milliseconds, the least (the median) of all':44}  {arguments.threads} threads")
    all_met = True
    for name, lengths, runs, goals in cases:
        ids = [draw.randrange(20000) for _ in range(sum(lengths))]
        tags = [side.prepare(lengths, ids) for side in sides]
        times = [[] for _ in sides]
        for _ in range(arguments.rounds):  # in turns, so that what else the machine does slows all
            for side, all_of_it in zip(sides, times):
                time.sleep(0.3)  # for 0.2 s, the threads of the side before wait spinning, on the cores of the next
                all_of_it.extend(side.time(runs))
        print(name)
        least = [min(one) for one in times]
        for side, one, tag in zip(sides, times, tags):
            same = "" if numpy.array_equal(tag, tags[0]) else ", other tags!"
            print(f"  {side.name:24} {min(one):8.3f} ({sorted(one)[len(one) // 2]:8.3f})"
                  f"   {min(one) / least[0]:5.1f} times ours{same}")
            all_met = all_met and not same
        for peer, least_of_peer, goal in (("Executor", least[1], goals[0]), ("predictor", min(least[2:]), goals[1])):
            is_met = least_of_peer >= goal * least[0]
            all_met = all_met and is_met
            print(f"  {goal} times as fast as the {peer}: {'yes' if is_met else 'NO'}")
    return 0 if all_met else 1


sys.exit(main())
