# SPDX-License-Identifier: Apache-2.0
"""Tests of the operations: that all are there, described as they are, and what they give, beside NumPy."""

from __future__ import annotations

import ast
import inspect
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lodtensor as lt
from lodtensor import INT64, LoDTensor, PoolType

HERE = Path(__file__).resolve().parent
OPERATIONS = sorted(lt._core._operations)
LENGTHS = [2, 0, 3]
LOD = [[0, 2, 2, 5]]
SEQUENCES = [slice(0, 2), slice(2, 2), slice(2, 5)]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape)


def batch(values: Any) -> LoDTensor:
    return LoDTensor.from_numpy(np.asarray(values), lengths=[LENGTHS])


def each(x: np.ndarray, f: Callable[[np.ndarray], Any]) -> np.ndarray:
    """f of the rows of each sequence, one after the other."""
    return np.concatenate([np.asarray(f(x[rows])).reshape(-1, *x.shape[1:]) for rows in SEQUENCES])


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(axis=0)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


class All(unittest.TestCase):
    def test_each_is_a_function_that_says_what_it_does(self) -> None:
        for name in OPERATIONS:
            with self.subTest(name=name):
                function = getattr(lt, name)
                self.assertIn(name, lt.__all__)
                signature = inspect.signature(function)
                summary = inspect.getdoc(function)
                self.assertTrue(signature.parameters and summary and summary.endswith("."))
                with self.assertRaisesRegex(TypeError, f"{name}: '.*' is missing"):
                    function()
                with self.assertRaisesRegex(TypeError, f"{name}: 'other' is no parameter"):
                    function(other=1)
                with self.assertRaisesRegex(TypeError, "options are given by name|expected"):
                    function(*[object()] * 20)

    def test_each_operation_of_the_library_is_there(self) -> None:
        text = (HERE.parent.parent / "include/lod/ops/operations.hpp").read_text()
        listed = text.split("operation::List<")[1].split(">;")[0]
        self.assertEqual(OPERATIONS, sorted(name.strip().removeprefix("op::") for name in listed.split(",")))

    def test_stubs_are_those_of_the_functions(self) -> None:
        stub = ast.parse((Path(lt._core.__file__).parent / "_core.pyi").read_text())
        described = {node.name: node.args for node in stub.body if isinstance(node, ast.FunctionDef)}
        for name in OPERATIONS:
            parameters = inspect.signature(getattr(lt, name)).parameters.values()
            args = described[name]
            self.assertEqual([a.arg for a in args.args + args.kwonlyargs], [p.name for p in parameters], name)
            optional = len(args.defaults) + sum(default is not None for default in args.kw_defaults)
            self.assertEqual(optional, sum(p.default is not p.empty for p in parameters), name)
            self.assertEqual([a.arg for a in args.kwonlyargs], [p.name for p in parameters if p.kind is p.KEYWORD_ONLY])
        classes = {node.name for node in stub.body if isinstance(node, ast.ClassDef)}
        self.assertEqual(classes & {"MaxPool", "Lstm", "LstmTrace"}, {"MaxPool", "Lstm", "LstmTrace"})


class BesideNumPy(unittest.TestCase):
    def check(self, found: Any, expected: Any, lod: Any = None, rtol: float = 1e-6) -> None:
        np.testing.assert_allclose(found.numpy(), expected, rtol=rtol, atol=1e-12)
        if lod is not None:
            self.assertEqual(found.lod, lod)

    def test_rows_of_sequences(self) -> None:
        values = numbers(5, 3)
        x = batch(values)
        self.check(lt.sequence_softmax(x), each(values, softmax), LOD)
        self.check(lt.sequence_log_softmax(x), each(values, lambda s: np.log(softmax(s))), LOD)
        self.check(lt.sequence_reverse(x), each(values, lambda s: s[::-1]), LOD)
        self.check(lt.sequence_cumsum(x), each(values, lambda s: np.cumsum(s, axis=0)), LOD)
        self.check(lt.sequence_cumsum(x, reverse=True), each(values, lambda s: np.cumsum(s[::-1], axis=0)[::-1]))
        dy = numbers(5, 3) + 1
        y = lt.sequence_softmax(x)
        expected = [(d - (d * s).sum(axis=0)) * s for d, s in ((dy[r], softmax(values[r])) for r in SEQUENCES)]
        self.check(lt.sequence_softmax_grad(dy, y), np.concatenate(expected), LOD)
        filter = numbers(2, 3)
        self.check(lt.row_conv(x, filter),
                   each(values, lambda s: s * filter[0] + np.concatenate([s[1:], 0 * s[:1]]) * filter[1]), LOD)

    def test_pools(self) -> None:
        values = numbers(5, 3)
        x = batch(values)
        for kind, f in ((PoolType.SUM, lambda s: s.sum(axis=0)), ("MIN", lambda s: s.min(axis=0)),
                        ("SQRT", lambda s: s.sum(axis=0) / np.sqrt(len(s)))):  # fmt: skip
            self.check(lt.sequence_pool(x, kind), [f(s) if len(s) else 0 * s.sum(axis=0) for s in
                                                   (values[rows] for rows in SEQUENCES)], [])  # fmt: skip
        best = lt.sequence_max_pool(x, pad_value=-1)
        self.assertEqual(type(best).__name__, "MaxPool")
        self.check(best.values, [values[:2].max(axis=0), [-1] * 3, values[2:].max(axis=0)])
        self.assertEqual(best.index.tolist(), [values[:2].argmax(axis=0).tolist(), [-1] * 3,
                                               (2 + values[2:].argmax(axis=0)).tolist()])  # fmt: skip
        dx = lt.sequence_max_pool_grad(np.ones((3, 3)), best.index, x)
        self.assertEqual((dx.lod, dx.numpy().sum()), (LOD, 6))
        self.check(lt.sequence_pool_grad(numbers(3, 3), [[0, 2, 2, 5]], PoolType.AVERAGE),
                   np.repeat(numbers(3, 3), LENGTHS, axis=0) / np.repeat(LENGTHS, LENGTHS)[:, None])
        greatest, where = lt.sequence_max_pool(x[2:3])
        self.check(greatest, values[2:].max(axis=0)[None])
        self.assertEqual(where.tolist(), [values[2:].argmax(axis=0).tolist()])
        self.check(lt.sequence_logsumexp(x[0:1]), np.log(np.exp(values[:2]).sum(axis=0))[None])
        self.check(lt.sequence_first_step(x[2:3]), values[2:3])

    def test_arithmetic(self) -> None:
        values, row = numbers(5, 3), numbers(3)
        x = batch(values)
        self.check(lt.add(x, batch(values)), 2 * values, LOD)
        self.check(lt.sub(x, row), values - row)
        self.check(lt.mul(x, numbers(3, 3)), values * np.repeat(numbers(3, 3), LENGTHS, axis=0))
        self.check(lt.div(x, row), values / row)
        d = lt.mul_grad(np.ones((5, 3)), x, row)
        self.check(d.x, np.tile(row, (5, 1)))
        self.check(d.y, values.sum(axis=0))
        weight, bias = numbers(3, 4), numbers(4)
        self.check(lt.linear(x, weight, bias=bias), values @ weight + bias, LOD)
        grads = lt.linear_grad(numbers(5, 4), x, weight)
        self.check(grads.dweight, values.T @ numbers(5, 4))

    def test_structure(self) -> None:
        values = numbers(5, 3)
        x = batch(values)
        rows = [values[s].tolist() for s in SEQUENCES]
        self.assertEqual(lt.select(x, [2, 0]).tolist(), [rows[2], rows[0]])
        self.assertEqual(lt.filter(x, [True, False, True]).tolist(), [rows[0], rows[2]])
        self.assertEqual(lt.sequence_expand(x, [[0, 2, 2, 3]]).tolist(), [rows[0], rows[0], rows[2]])
        self.assertEqual(lt.sequence_concat([x, x]).tolist(), [s + s for s in rows])
        self.assertEqual(lt.concat([x, x]).tolist(), rows + rows)
        self.assertEqual([part.tolist() for part in lt.split_at(x, [2])], [rows[:2], rows[2:]])
        self.assertEqual([dx.tolist() for dx in lt.concat_grad(lt.concat([x, x]), [x, x])], [rows, rows])
        self.assertEqual(lt.sequence_slice(x, [1, 0, 1], [1, 0, 2]).tolist(), [rows[0][1:], [], rows[2][1:]])
        self.assertEqual(lt.lod_reset(x, [[0, 5]]).lengths, [[5]])
        self.assertEqual(lt.remove_empty(x).lengths, [[2, 3]])
        self.assertEqual(lt.sequence_reshape(x, 1).lengths, [[6, 0, 9]])
        self.assertEqual(lt.sequence_mask([2, 0, 3], "int32").tolist(), [[1, 1, 0], [0, 0, 0], [1, 1, 1]])
        branches = lt.split_lod_tensor(x, [1, 0, 1])
        self.assertEqual((branches.in_true.tolist(), branches.in_false.tolist()), ([rows[0], rows[2]], [[]]))
        self.assertEqual(lt.merge_lod_tensor(*branches, [1, 0, 1]).tolist(), rows)
        padded = lt.sequence_pad(x, side=lt.Side.LEFT, pad_value=7)
        self.assertEqual(padded.dense.numpy()[0].tolist(), [[7.0] * 3, *rows[0]])
        images = numbers(2, 1, 3, 3)
        patches = lt.im2sequence(images, kernels=[2, 2])
        self.check(patches[0:1], np.lib.stride_tricks.sliding_window_view(images[0, 0], (2, 2)).reshape(4, 4))

    def test_sorts_and_ids(self) -> None:
        values = np.array([2.0, 1.0, 5.0, 3.0, 4.0])
        x = batch(values)
        self.assertEqual(lt.sequence_sort(x).tolist(), [[1, 2], [], [3, 4, 5]])
        self.assertEqual(lt.sequence_argsort(x, descending=True).tolist(), [0, 1, 2, 4, 3])
        best = lt.sequence_topk(x, 1, row_index=lt.RowIndex.SEQUENCE)
        self.assertEqual((best.values.tolist(), best.index.tolist()), ([[2], [], [5]], [[0], [], [0]]))
        tokens = LoDTensor([[1, 2, 1], [3]], dtype=INT64)
        self.assertEqual(lt.sequence_erase(tokens, [1]).tolist(), [[2], [3]])
        self.assertEqual(lt.sequence_enumerate(tokens, 2, pad_value=-1).tolist(),
                         [[[1, 2], [2, 1], [1, -1]], [[3, -1]]])  # fmt: skip
        self.assertEqual(lt.edit_distance(tokens, [[2, 1], [3]]).tolist(), [1, 0])
        self.assertEqual(lt.ctc_align([[0, 1, 1, 0, 1], [0]]).tolist(), [[1, 1], []])
        found = lt.unique_sequences([[1], [2], [1]])
        self.assertEqual((found.values.tolist(), found.index.tolist(), found.counts.tolist()),
                         ([[1], [2]], [0, 1, 0], [2, 1]))  # fmt: skip
        rates, counts = lt.chunk_eval([[0, 1, 2]], [[0, 1, 2]], types=1)
        self.assertEqual((rates.tolist(), counts.tolist()), ([1, 1, 1], [1, 1, 1]))

    def test_beams(self) -> None:
        candidates = np.array([[4, 2, 5], [2, 1, 3], [3, 5, 2], [8, 2, 1]])
        values = np.array([[5, 3, 2], [6, 3, 1], [9, 5, 1], [7, 5, 1]], np.float32)
        scores = LoDTensor.from_numpy(values, [[0, 2, 4]])
        first = lt.beam_search(candidates, scores, beam_size=2)
        self.assertEqual((first.ids.tolist(), first.parents.tolist()), ([[[[4]], [[2]]], [[[3]], [[8]]]], [0, 1, 2, 3]))
        self.assertEqual(first.scores.tolist(), [[[[5]], [[6]]], [[[9]], [[7]]]])
        second = lt.beam_search(
            np.array([[0, 1, 2]]), scores, beam_size=1, end_id=3, pre_ids=first.ids, pre_scores=first.scores
        )
        self.assertEqual((second.ids.tolist(), second.parents.tolist()), ([[[], [[0]]], [[], []]], [1]))
        found = lt.beam_search_decode([first.ids, second.ids], [first.scores, second.scores], end_id=3)
        self.assertEqual((found.ids.tolist(), found.scores.tolist()), ([[[2, 0]], [[3], [8]]], [[[6, 6]], [[9], [7]]]))
        with self.assertRaisesRegex(TypeError, "elements of type INT64"):
            lt.beam_search(candidates, candidates)

    def test_tables(self) -> None:
        table = numbers(6, 2)
        ids = LoDTensor([[0, 5], [], [5, 3, 0]], dtype=INT64)
        looked_up = table[[0, 5, 5, 3, 0]]
        self.check(lt.embedding(table, ids), looked_up, LOD)
        self.check(lt.embedding_pool(table, ids, PoolType.SUM), [looked_up[s].sum(axis=0) for s in SEQUENCES])
        self.check(lt.embedding(table, LoDTensor([[0, 5], [], [5, 3, 0]], dtype=lt.INT32)), looked_up, LOD)
        self.check(lt.embedding(table, np.array([0, 5, 5, 3, 0], np.int32)), looked_up)
        with self.assertRaisesRegex(TypeError, "elements of type INT16, expected INT64 or INT32"):
            lt.embedding(table, np.array([0, 5], np.int16))
        g = lt.embedding_grad(looked_up, ids, 6)
        self.assertEqual((g.rows, g.height), ([0, 5, 5, 3, 0], 6))
        dense = np.zeros((6, 2))
        np.add.at(dense, [0, 5, 5, 3, 0], looked_up)
        self.check(lt.to_dense(g), dense)
        self.assertEqual(lt.merge_add([g, g]).rows, [0, 3, 5])
        self.check(lt.add(g, table), dense + table)
        self.check(lt.to_dense(lt.scale(g, 0.5)), dense / 2)
        parameter = table.copy()
        self.assertIsNone(lt.sgd(parameter, g, learning_rate=0.5))
        np.testing.assert_allclose(parameter, table - 0.5 * dense)
        mean, squares = np.zeros((6, 2)), np.zeros((6, 2))
        lt.adam(parameter, mean, squares, dense, step=1, learning_rate=0.1)
        np.testing.assert_allclose(mean, 0.1 * dense)
        lt.scatter(lt.SelectedRows([1], 6, np.ones((1, 2))), lt.ScatterOp.ASSIGN, parameter)
        self.assertEqual(parameter[1].tolist(), [1, 1])

    def test_losses(self) -> None:
        logits = numbers(5, 3)
        labels = LoDTensor([[0, 2], [], [1, 1, 0]], dtype=INT64)
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        expected = -log_p[np.arange(5), [0, 2, 1, 1, 0]]
        self.check(lt.cross_entropy(batch(logits), labels), expected, LOD)
        self.check(lt.cross_entropy(batch(logits), labels, reduction=lt.Reduction.ROWS), [expected.mean()])
        transition = numbers(5, 3)
        emission = batch(logits)
        paths = {(a, b): transition[0, a] + logits[0, a] + transition[2 + a, b] + logits[1, b] + transition[1, b]
                 for a in range(3) for b in range(3)}  # fmt: skip
        self.assertEqual(lt.crf_decoding(emission, transition).tolist()[0], list(max(paths, key=paths.__getitem__)))
        likelihood = paths[0, 2] - np.log(np.exp(list(paths.values())).sum())
        self.check(lt.linear_chain_crf(emission, transition, labels)[0:1], [likelihood])
        frames = LoDTensor.from_numpy(numbers(1, 3), lengths=[[1]])
        self.check(lt.ctc_loss(frames, LoDTensor([[1]], dtype=INT64)), -np.log(softmax(numbers(1, 3)[0]))[1:2])

    def test_recurrent_networks(self) -> None:
        values = numbers(5, 3)
        x = batch(values)
        weights = lt.LstmWeights(numbers(3, 8), numbers(2, 8))
        hidden, last_hidden, last_cell, trace = lt.lstm(x, weights)
        h = c = np.zeros(2)
        for row in values[2:]:
            i, f, g, o = np.split(row @ weights.input + h @ weights.recurrent, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        self.check(last_hidden[2:3], h[None])
        self.check(last_cell[2:3], c[None])
        grads = lt.lstm_grad(np.ones((5, 2)), x, weights, trace)
        self.assertEqual((grads.x.shape, grads.weights.recurrent.shape, trace.table.steps), ((5, 3), (2, 8), 3))
        gru = lt.gru(x, lt.GruWeights(numbers(3, 6), numbers(2, 6)), reset_after=False)
        self.assertEqual((gru.hidden.lod, gru.last_hidden.shape), (LOD, (3, 2)))
        projected = lt.LstmWeights(numbers(3, 8), numbers(1, 8), projection=numbers(2, 1))
        self.assertEqual(lt.lstm(x, projected, projection_clip=0.5).last_hidden.shape, (3, 1))
        layers = [lt.LstmLayer(weights, projected), lt.LstmLayer(backward=lt.LstmWeights(numbers(3, 4), numbers(1, 4)))]
        stack = lt.stacked_lstm(x, layers)
        self.assertEqual((stack.hidden.shape, stack.last_hidden.shape, stack.last_cell.shape), ((5, 1), (3, 4), (3, 5)))
        np.testing.assert_array_equal(stack.last_hidden.numpy()[:, :2], last_hidden.numpy())
        grads = lt.stacked_lstm_grad(np.ones((5, 1)), x, layers, stack.trace)
        self.assertEqual(grads.layers[1].backward.input.shape, (3, 4))
        stack = lt.stacked_gru(x, [lt.GruLayer(lt.GruWeights(numbers(3, 6), numbers(2, 6)))], reset_after=False)
        self.check(stack.hidden, gru.hidden.numpy())
        h = c = np.zeros((1, 2))
        for row in values[2:]:
            h, c, gates = lt.lstm_cell(row[None], h, c, weights)
        self.check(h, last_hidden.numpy()[2:])
        self.assertEqual(lt.lstm_cell_grad(h, c, values[4:], h, c, weights, c, gates).x.shape, (1, 3))
        cell = lt.gru_cell(values, np.zeros((5, 2)), lt.GruWeights(numbers(3, 6), numbers(2, 6)), reset_after=False)
        self.check(cell.hidden[0:1], gru.hidden.numpy()[:1])
        table = lt.RankTable(x)
        self.assertEqual(table.items, [(2, 3), (0, 2), (1, 0)])
        steps = lt.to_time_major(x, table)
        self.assertEqual(steps.lengths, [[2, 2, 1]])
        self.check(lt.from_time_major(steps, table), values, LOD)
        array = lt.lod_tensor_to_array(x, table)
        self.assertEqual([len(step.numpy()) for step in array], [2, 2, 1])
        self.check(lt.array_to_lod_tensor(array, table), values, LOD)
        sums = lt.dynamic_rnn(x, table, np.zeros((3, 3)), lambda state, step: (lt.add(state, step),) * 2)
        self.check(sums.output, each(values, lambda s: np.cumsum(s, axis=0)), LOD)
        self.check(sums.state, [values[s].sum(axis=0) for s in SEQUENCES])

    def test_functions_of_pythons(self) -> None:
        x = batch(numbers(5, 3).copy())
        doubled = lt.map_sequences(x, lambda s: 2 * s.numpy())
        self.check(doubled, 2 * numbers(5, 3))
        lengths = [0] * 3

        def count(sequence: LoDTensor, i: int) -> None:
            lengths[i] = len(sequence)
            sequence.numpy()[:] = i

        lt.for_each_sequence(x, 0, count)
        self.assertEqual((lengths, x.numpy()[:, 0].tolist()), (LENGTHS, [0, 0, 2, 2, 2]))
        with self.assertRaises(ZeroDivisionError):
            lt.for_each_sequence(x, 0, lambda sequence, i: 1 // 0)


class Arguments(unittest.TestCase):
    def test_elements_of_every_type(self) -> None:
        for dtype in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "float16", "float32",
                      "float64"):  # fmt: skip
            with self.subTest(dtype=dtype):
                self.check_elements_of(dtype)
        mask = lt.lod_reset(lt.sequence_mask([1, 2], lt.BF16), [[0, 2]])  # which NumPy has not
        self.assertEqual(repr(lt.sequence_pool(lt.add(mask, mask), PoolType.SUM)), "LoDTensor BF16 {1, 2}\n[[4, 2]]")
        w, half = np.ones((2, 2), "float16"), np.zeros((2, 2), "float32")
        lt.momentum(w, half, np.ones((2, 2), "float16"), learning_rate=0.5)
        self.assertEqual(w.tolist(), [[0.5] * 2] * 2)

    def check_elements_of(self, dtype: Any) -> None:
        x = LoDTensor([[1, 0], [], [1, 0, 0]], dtype=dtype)
        for pooled, expected in ((lt.sequence_pool(x, PoolType.SUM), [1, 0, 1]),
                                 (lt.sequence_pool(x, PoolType.MAX, pad_value=1), [1, 1, 1]),
                                 (lt.sequence_min_pool(x).values, [0, 0, 0])):  # fmt: skip
            self.assertEqual((pooled.tolist(), pooled.data_type), (expected, x.data_type))
        self.assertEqual(lt.sequence_sort(x).tolist(), [[0, 1], [], [0, 0, 1]])
        self.assertEqual(lt.sequence_cumsum(x).tolist(), [[1, 1], [], [1, 1, 1]])
        padded = lt.sequence_pad(x, pad_value=1)
        self.assertEqual(padded.dense.tolist(), [[1, 0, 1], [1, 1, 1], [1, 0, 0]])
        self.assertEqual(lt.sequence_mask([1, 2], dtype).tolist(), [[1, 0], [1, 1]])
        self.assertEqual(lt.map_sequences(x, lambda s: s).tolist(), x.tolist())
        table = np.array([[1, 0], [0, 1]], dtype)
        self.assertEqual(lt.embedding(table, [[1], [0]]).tolist(), [[[0, 1]], [[1, 0]]])
        self.assertEqual(lt.to_dense(lt.embedding_grad(table, [1, 1], 2)).tolist()[0], [0, 0])
        if np.issubdtype(dtype, np.integer):
            self.assertEqual(lt.sequence_erase(x, [0]).tolist(), [[1], [], [1]])
            self.assertEqual(lt.edit_distance(x, x, normalized=False).tolist(), [0, 0, 0])
        if x.data_type != lt.BOOL:
            self.assertEqual(lt.add(x, x).tolist(), [[2, 0], [], [2, 0, 0]])

    def test_rows_of_any_type_are_moved(self) -> None:
        for dtype in ("bool", "int8", "uint8", "int16", "uint32", "complex64"):
            with self.subTest(dtype=dtype):
                values = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [1, 0]], dtype)
                x = batch(values)
                self.assertEqual(lt.sequence_reverse(x[2:3]).numpy().tolist(), values[:1:-1].tolist())
                self.assertEqual(lt.select(x, [0]).dtype, np.dtype(dtype))
                padded = lt.sequence_pad(x)
                self.assertEqual((padded.dense.shape, padded.dense.dtype), ((3, 3, 2), np.dtype(dtype)))
                self.assertEqual(lt.sequence_unpad(*padded).tolist(), x.tolist())
                self.assertEqual(lt.concat([x, x]).numpy().tolist(), values.tolist() * 2)
                table = lt.RankTable(x)
                self.assertEqual(lt.array_to_lod_tensor(lt.lod_tensor_to_array(x, table), table).tolist(), x.tolist())
                parts = lt.split_selected_rows(lt.SelectedRows([0, 3], 4, values[:2]), [2, 2])
                self.assertEqual([part.value.dtype for part in parts], [np.dtype(dtype)] * 2)
        x = batch(np.arange(5, dtype="complex64"))
        self.assertEqual(lt.sequence_reshape(x[2:3], 3).numpy().tolist(), [[2, 3, 4]])
        with self.assertRaisesRegex(TypeError, "elements of type COMPLEX64, expected one of"):
            lt.sequence_pad(x, pad_value=1)

    def test_whatever_has_the_memory_is_taken(self) -> None:
        class OnlyDLPack:
            def __init__(self, x: Any) -> None:
                self.__dlpack__, self.__dlpack_device__ = x.__dlpack__, x.__dlpack_device__

        class OnlyArrow:
            def __init__(self, x: LoDTensor) -> None:
                self.__arrow_c_array__ = x.__arrow_c_array__

        x = batch(numbers(5))
        expected = lt.sequence_pool(x, PoolType.SUM).tolist()
        self.assertEqual(lt.sequence_pool(OnlyArrow(x), PoolType.SUM).tolist(), expected)
        self.assertEqual(lt.sequence_pool(x.tolist(), PoolType.SUM).tolist(), expected)
        self.assertEqual(lt.lod_reset(OnlyDLPack(numbers(5)), x).tolist(), x.tolist())
        self.assertEqual(lt.lod_reset(numbers(5), lod=LOD).tolist(), x.tolist())

    def test_errors_say_which_argument(self) -> None:
        x = batch(numbers(5, 3))
        for error, text, call in (
            (TypeError, "'filter': elements of type FP32, expected FP64", lambda: lt.row_conv(x, np.ones((2, 3), "f"))),
            (TypeError, "'type': int, expected PoolType", lambda: lt.sequence_pool(x, 1)),
            (ValueError, "'type': 'TOTAL', expected one of SUM, AVERAGE", lambda: lt.sequence_pool(x, "TOTAL")),
            (TypeError, "'x': object, expected a LoDTensor", lambda: lt.sequence_softmax(object())),
            (TypeError, "elements of type BOOL, expected one of", lambda: lt.sequence_softmax(batch([True] * 5))),
            (TypeError, "'level': str, expected int", lambda: lt.sequence_softmax(x, level="a")),
            (TypeError, "", lambda: lt.sequence_pad(x, pad_value=np.ones(2))),
            (TypeError, "'ids': rows of several numbers", lambda: lt.select(x, x)),
            (TypeError, "'x' is given twice", lambda: lt.sequence_softmax(x, x=x)),
            (TypeError, "expected LstmWeights", lambda: lt.lstm(x, (1,))),
            (ValueError, "read-only", lambda: lt.sgd(LoDTensor.from_numpy(np.frombuffer(b"\0" * 8)), np.zeros(1))),
            (ValueError, "one or more", lambda: lt.concat([])),
            (lt.OutOfRange, "level", lambda: lt.sequence_softmax(x, level=3)),
            (lt.ShapeMismatch, "linear", lambda: lt.linear(x, np.ones((2, 2)))),
            (lt.OutOfRange, "probability", lambda: lt.sequence_dropout(x, probability=2)),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(error, text):
                call()

    def test_batches_without_rows(self) -> None:
        none = LoDTensor.from_numpy(np.zeros((0, 3)), lengths=[[0, 0]])
        self.assertEqual(lt.sequence_softmax(none).lengths, [[0, 0]])
        self.assertEqual(lt.sequence_pool(none, PoolType.MAX).tolist(), [[0] * 3] * 2)
        self.assertEqual(lt.map_sequences(LoDTensor([], levels=1, dtype="float32"), lambda s: s).tolist(), [])


if __name__ == "__main__":
    unittest.main()
