#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training the sentiment LSTM of PaddlePaddle's book, with a row-sparse table and Adagrad, here and in PaddlePaddle
2.6.2's Executor, in the same run. Exit status 1 if it is not twice as fast here, or if the losses differ.

benchmark_programs is built by `cmake --build --preset release --target benchmark_programs`, with
-DLODTENSOR_BUILD_BENCHMARKS=ON."""
import argparse
import os
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program", help="benchmark_programs")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=5, help="how often they take turns, in five steps each")
arguments = parser.parse_args()

# OpenMP and MKL read them when they are loaded. This library is given the number of its threads.
os.environ.update({name: str(arguments.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")},
                  GLOG_minloglevel="2")
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tests/programs"))
import numpy as np
import paddle
import paddle_training_test as models
from paddle import static

SENTENCES, WORDS, EMBEDDED = 64, 5000, 128
HIDDEN = 126  # PaddlePaddle 2.6.2's gradient of lstm is wrong for multiples of 8
STEPS = 5


def sentiment(feed):
    random = np.random.RandomState(3)
    lengths = [int(length) for length in np.minimum(10 + random.exponential(60, SENTENCES), 250)]
    ids = models.Ragged(random.randint(0, WORDS, (sum(lengths), 1)).astype("int64"), lengths)
    x = models.embedded("words", feed, ids, width=EMBEDDED, table=models.parameter("table", WORDS, EMBEDDED))
    hidden = models.lstm_of(x, "lstm", HIDDEN)
    label, feed["label"] = models.data("label", random.randint(0, 2, (SENTENCES, 1)).astype("int64"))
    scores = models.dense(models.pooled(hidden, "MAX", HIDDEN), 2)
    return paddle.mean(paddle.nn.functional.softmax_with_cross_entropy(scores, label))


def main():
    executor, times, last = paddle.base.Executor(paddle.CPUPlace()), {"PaddlePaddle": [], "lodtensor": []}, {}
    loss, forward, program, startup, feed, values = models.built(executor, sentiment,
                                                                 lambda: paddle.optimizer.Adagrad(0.002))
    rows, tensors = sum(feed["words"].lengths[0]), models.loaded(feed)
    scope = static.Scope()
    with tempfile.TemporaryDirectory() as root, static.scope_guard(scope):
        folder = os.path.join(root, "model")
        models.write_model(folder, forward, program, startup, feed, values)
        executor.run(startup)
        for name, value in values.items():
            scope.var(name).get_tensor().set(value, paddle.CPUPlace())
        ours = subprocess.Popen([arguments.program, "train", folder, loss.name, str(arguments.threads)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(arguments.rounds):  # in turns, so that what else the machine does slows both
            for _ in range(STEPS):
                start = time.perf_counter()
                (found,) = executor.run(program, feed=tensors, fetch_list=[loss])
                times["PaddlePaddle"].append((time.perf_counter() - start) * 1e3)
            last["PaddlePaddle"] = float(np.ravel(found)[0])
            ours.stdin.write(f"{STEPS}\n")
            ours.stdin.flush()
            *some, last["lodtensor"] = (float(one) for one in ours.stdout.readline().split())
            times["lodtensor"].extend(some)
        ours.stdin.close()
        ours.wait()
    least = {side: min(each) for side, each in times.items()}
    print(f"{SENTENCES} sentences of {rows} words, {arguments.threads} threads, milliseconds of a step, the least:")
    for side, milliseconds in least.items():
        print(f"  {side:14} {milliseconds:8.2f}   {SENTENCES * 1e3 / milliseconds:8.0f} sentences a second, "
              f"loss {last[side]:.5f} after {arguments.rounds * STEPS} steps")
    ratio = least["PaddlePaddle"] / least["lodtensor"]
    is_same = abs(last["PaddlePaddle"] - last["lodtensor"]) < 1e-3
    print(f"{ratio:.1f} times as fast as PaddlePaddle (goal: 2)" + ("" if is_same else "; the losses differ"))
    return ratio < 2 or not is_same


sys.exit(main())
