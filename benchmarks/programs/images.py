#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators on images here, without oneDNN and by it, and in PaddlePaddle 2.6.2's Executor, in the same run."""
import argparse
import os
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("program", help="benchmark_programs")
parser.add_argument("words", nargs="*", help="parts of the names of the cases to run; by default all")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--without-dnnl", action="store_true", help="benchmark_programs was built without it")
arguments = parser.parse_args()

# OpenMP and MKL read them when they are loaded. This library is given the number of its threads.
os.environ.update({name: str(arguments.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")},
                  GLOG_minloglevel="2")
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tests/programs"))
import paddle
from paddle_test import build_program, floats, loaded, write_case

IMAGES = (8, 64, 56, 56)


def cases():
    """Names, types, inputs, outputs that are used, outputs that are not, attributes, inputs with gradients."""
    conv = {"strides": [1, 1], "paddings": [1, 1], "dilations": [1, 1], "groups": 1}
    yield "conv2d 3x3", "conv2d", {"Input": floats(*IMAGES), "Filter": floats(64, 64, 3, 3)}, ["Output"], [], conv
    yield "conv2d 1x1", "conv2d", {"Input": floats(*IMAGES), "Filter": floats(64, 64, 1, 1)}, ["Output"], [], \
        {**conv, "paddings": [0, 0]}
    yield "depthwise_conv2d 3x3", "depthwise_conv2d", {"Input": floats(*IMAGES), "Filter": floats(64, 1, 3, 3)}, \
        ["Output"], [], {**conv, "groups": 64}
    for pool in "max", "avg":
        yield f"pool2d {pool} 3x3/2", "pool2d", {"X": floats(*IMAGES)}, ["Out"], [], \
            {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1], "pooling_type": pool}
    norm = {"X": floats(*IMAGES), "Scale": floats(64), "Bias": floats(64), "Mean": floats(64),
            "Variance": floats(64) ** 2 + 1}
    hidden = ["MeanOut=Mean", "VarianceOut=Variance", "SavedMean", "SavedVariance", "ReserveSpace"]
    yield "batch_norm, trained", "batch_norm", norm, ["Y"], hidden, {"is_test": False}
    yield "batch_norm, inference", "batch_norm", norm, ["Y"], hidden, {"is_test": True}


GRADIENTS = {"conv2d": ["Input", "Filter"], "depthwise_conv2d": ["Input", "Filter"], "pool2d": ["X"],
             "batch_norm": ["X", "Scale", "Bias"]}


class Paddle:
    name = "PaddlePaddle"

    def __init__(self, program, values):
        executor, place = paddle.base.Executor(paddle.CPUPlace()), paddle.CPUPlace()
        feed = {name: loaded(value, place) for name, value in values.items()}
        self.run = lambda: executor.run(program, feed=feed, fetch_list=[], use_program_cache=True)

    def time(self, runs):
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            self.run()
            times.append((time.perf_counter() - start) * 1e3)
        return times


class Here:
    def __init__(self, folder, *how):
        self.name = "lodtensor" + "".join(f", {word}" for word in how)
        self.process = subprocess.Popen([arguments.program, "model", folder, str(arguments.threads), *how],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def time(self, runs):
        self.process.stdin.write(f"{runs}\n")
        self.process.stdin.flush()
        return [float(one) for one in self.process.stdout.readline().split()]


def main():
    ways = [()] if arguments.without_dnnl else [(), ("dnnl",)]
    print(f"{'milliseconds, the least':34} {'PaddlePaddle':>14}"
          + "".join(f"{'lodtensor' + ''.join(', ' + word for word in way):>24}" for way in ways)
          + f"   {arguments.threads} threads")
    for name, type, inputs, outputs, hidden, attrs in cases():
        for by in [], GRADIENTS[type]:
            title = name + (", with gradient" if by else "")
            if by and attrs.get("is_test") or not all(word in title for word in arguments.words):
                continue
            with tempfile.TemporaryDirectory() as folder:
                program, values, _ = build_program(type, inputs, outputs, attrs, hidden, by)
                for value in values:  # here they are in the scope from the beginning
                    program.global_block().var(value).persistable = True
                write_case(folder, program, values)
                sides = [Paddle(program, values)] + [Here(folder, *way) for way in ways]
                times = [[] for _ in sides]
                for _ in range(arguments.rounds):  # in turns, so that what else the machine does slows all
                    for side, all_of_it in zip(sides, times):
                        all_of_it.extend(side.time(5))
            peer, *ours = [min(one) for one in times]
            print(f"{title:34} {peer:14.2f}" + "".join(f"{one:10.2f} ({peer / one:4.1f} times)" for one in ours))


main()
