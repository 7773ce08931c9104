# SPDX-License-Identifier: Apache-2.0
"""Tests of programs in Python: variables, layers, runs, training, files; and the code of the design documents."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

import numpy as np

import lodtensor as lt
from lodtensor import FP32, INT32, INT64, LoDTensor, Variable, VarType, layer

HERE = Path(__file__).resolve().parent


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype("float32")


class InProgram(unittest.TestCase):
    """Each test has a default program of its own."""

    def setUp(self) -> None:
        self.program = lt.Program()
        self.program.__enter__()
        self.addCleanup(self.program.__exit__)


class Documents(InProgram):
    """What the design documents write, changed where that is not Python: `xrange`, `def layer.fc`, `import X` of what
    is no module, calls whose first argument is no name."""

    def test_variables_with_values(self) -> None:
        pd = lt
        a = Variable("X", shape=[784, 10], data_type=pd.INT32, value=0)
        pd.eval(targets=[a])
        self.assertEqual((a.value.shape, a.value.dtype, a.value.numpy().any()), ((784, 10), np.int32, False))
        self.assertTrue(a.persistable)

    def test_variables_with_strings(self) -> None:
        pd = lt
        a = Variable("X", data_type=pd.STRING, value="aa")
        self.assertEqual((a.value, str(a), repr(a)), ("aa", "aa", "Variable('X', type=STRING)"))
        self.assertEqual(Variable.from_proto(a.to_proto()).value, "aa")

    def test_layers_take_and_give_variables(self) -> None:
        image = Variable(dims=[-1, 640, 480])
        # fc1 and fc2 are both Variable
        fc1 = layer.fc(input=image, output_size=10)
        fc2 = layer.fc(input=fc1, output_size=20)
        self.assertEqual((fc1.dims(), fc2.dims()), ([-1, 10], [-1, 20]))

    def test_the_class_variable(self) -> None:
        from lodtensor import LoDTensorDesc, VarDesc, framework, get_default_block
        from lodtensor.framework import AddInitialOperator

        class Variable:
            def __init__(self, name: str, dims: list[int], type: Any, initializer: Any) -> None:
                self._block = get_default_block()
                self._name = name
                self.op = None

                tensor_desc = LoDTensorDesc(data_type=type, dims=dims)
                _var_desc = VarDesc(name=name, lod_tensor=tensor_desc)
                self._var = framework.CreateVar(_var_desc)
                self._block.add_var(self)

                # add initial op according to initializer
                if initializer is not None:
                    AddInitialOperator(self, initializer)

            def dims(self) -> list[int]:
                return self._var.dims()

            def data_type(self) -> Any:
                return self._var.data_type()

            def to_proto(self) -> bytes:
                return self._var.to_proto()

        w = Variable("w", [784, 200], FP32, lt.random_uniform())
        self.assertEqual((w.dims(), w.data_type(), w._block.vars), ([784, 200], FP32, ["w"]))
        self.assertEqual((w._block.ops[0].type, lt.VarDesc.from_proto(w.to_proto()).name), ("uniform_random", "w"))

    def test_a_layer_and_its_value(self) -> None:
        import lodtensor as paddle

        pd, operator = paddle, paddle.operator

        def flatten_size(X: Variable, num_flatten_dims: int) -> int:
            prod = 1  # of last num_flatten_dims
            for i in range(num_flatten_dims):
                prod = prod * X.dims[-i - 1]
            return prod

        def fc(X: Variable, output_size: int, num_flatten_dims: int) -> Variable:
            W = Variable(pd.random_uniform(), type=FP32, dims=[flatten_size(X, num_flatten_dims), output_size])
            b = Variable(pd.random_uniform(), type=FP32, dims=[output_size])
            out = Variable(type=FP32)
            y = operator.fc(X, W, b, output=out)  # fc will put fc op input into out
            pd.InferShape(y)
            return out

        x = Variable(dims=[-1, 8, 6])
        y = fc(x, output_size=10, num_flatten_dims=2)
        z = fc(y, output_size=20, num_flatten_dims=1)
        self.assertEqual((z.dims(), z.op.type), ([-1, 20], "fc"))

        images = random(3, 8, 6)
        paddle.eval(targets=[z], feed={x: images})
        w1, b1, w2, b2 = (
            self.program.block().var(name).value.numpy() for name in self.program.block().vars
            if self.program.block().var(name).trainable
        )  # fmt: skip
        np.testing.assert_allclose(z.value, (images.reshape(3, 48) @ w1 + b1) @ w2 + b2, rtol=1e-4, atol=1e-4)
        self.assertTrue(str(z).startswith("LoDTensor FP32 {3, 20}\n[["))  # what print(z) shows


class Variables(InProgram):
    def test_both_signatures_by_place(self) -> None:
        first = Variable("first", [-1, 640], INT64)
        second = Variable("second", INT32, [2, 3], 7, False)
        self.assertEqual((first.dims(), first.data_type(), first.op), ([-1, 640], INT64, None))
        self.assertEqual((second.shape, second.data_type(), second.trainable), ((2, 3), INT32, False))
        lt.eval(second)
        self.assertEqual(second.value.tolist(), [[7] * 3] * 2)

    def test_fields(self) -> None:
        block = lt.Block()
        image = Variable("image", [-1, 640, 480], INT64, lod_level=2, persistable=True, block=block)
        self.assertEqual((image.lod_level, image.persistable, image.op), (2, True, None))
        self.assertEqual((image.dims[-1], image.dims()[1:], image.dims), (480, [640, 480], [-1, 640, 480]))
        self.assertEqual(repr(image), "Variable('image', dims=[-1, 640, 480], type=INT64, lod_level=2)")
        self.assertEqual(Variable(dims=[3], type=np.float16, block=block).data_type(), lt.FP16)
        self.assertEqual((block.vars, block.ops), (["image", "variable_1"], []))
        self.assertIs(block.var("image").block.program, block.program)
        with self.assertRaises(KeyError):
            block.var("other")

    def test_variables_without_a_block_are_in_the_default_one(self) -> None:
        first, second = Variable(dims=[1]), Variable(dims=[2])
        self.assertEqual(lt.get_default_block().vars, [first.name, second.name])
        with self.assertRaises(ValueError):
            Variable(first.name, dims=[1])

    def test_initializers_add_an_operator(self) -> None:
        block = lt.Block()
        for initializer, kind, attrs in (
            (lt.constant(0.5), "fill_constant", {"value": 0.5}),
            (lt.random_uniform(), "uniform_random", {"min": -1.0, "max": 1.0, "seed": 0}),
            (lt.random_normal(1, 2, 3), "gaussian_random", {"mean": 1.0, "std": 2.0, "seed": 3}),
        ):
            w = Variable(dims=[784, 10], type=FP32, initializer=initializer, block=block)
            self.assertEqual((w.op.type, w.op.outputs), (kind, [w.name]))
            self.assertEqual(w.op.attrs, {"shape": [784, 10], "dtype": 5, **attrs})
            self.assertTrue(w.persistable and w.trainable)
        later = Variable("later", dims=[1], block=block)
        later.initialize(lt.constant(1))
        self.assertEqual((later.op.type, len(block.ops)), ("fill_constant", 4))
        with self.assertRaises(ValueError):
            later.initialize(lt.constant(2))
        self.assertEqual(len(block.ops), 4)

    def test_initializers_run_once(self) -> None:
        w = Variable(dims=[100], initializer=lt.random_uniform())
        first, second = w * 1, w * 2
        lt.eval(first)
        before = first.value.tolist()
        lt.eval([first, second])
        self.assertEqual(first.value.tolist(), before)
        self.assertEqual(w.value.tolist(), before)
        np.testing.assert_array_equal(second.value, 2 * np.array(before, "float32"))

    def test_values_of_all_types(self) -> None:
        for dtype in ("float32", "float64", "int32", "int64", "bool"):
            value = np.array([[1, 0, 1], [1, 1, 0]], dtype)
            v = Variable(data_type=dtype, value=value)
            lt.eval(v)
            np.testing.assert_array_equal(v.value, value)
            self.assertEqual(v.trainable, dtype.startswith("float"))
        exact = Variable(data_type=INT64, shape=[1], value=2**53 - 1)
        lt.eval(exact)
        self.assertEqual(exact.value.tolist(), [2**53 - 1])
        v.value = np.zeros((2, 3), bool)
        self.assertFalse(v.value.numpy().any())
        with self.assertRaises(lt.ShapeMismatch):
            v.value = np.zeros((2, 4), bool)
        with self.assertRaises(ValueError):
            Variable(dims=[2]).value = np.zeros(2, "float32")

    def test_what_is_refused_leaves_the_block_as_it_was(self) -> None:
        block = lt.Block()
        for wrong in ({"dims": [-1, 2], "initializer": lt.constant(0)}, {"dims": [-2]}, {"lod_level": -1},
                      {"shape": [2, 3], "value": [1, 2]}):  # fmt: skip
            with self.subTest(wrong=wrong), self.assertRaises(ValueError):
                Variable("x", block=block, **wrong)
        with self.assertRaises(TypeError):
            Variable("x", type="uint16", block=block)
        x = Variable("x", dims=[-1, 4], block=block)
        y = Variable("y", dims=[5, 4], block=block)
        before = block.program.to_proto()
        with self.assertRaises(lt.InvalidProgram):
            block.append_op("mul", {"X": x, "Y": y}, {"Out": "x"}, infer_shape=True)
        self.assertEqual(block.program.to_proto(), before)

    def test_descriptions_of_tensors(self) -> None:
        x = LoDTensor.from_numpy(np.zeros((3, 2), "float16"), lengths=[[1, 2]])
        found = Variable.describe("x", x)
        self.assertEqual((found.dims(), found.data_type(), found.lod_level), ([3, 2], lt.FP16, 1))
        self.assertTrue(found.matches(x))
        self.assertTrue(Variable(dims=[-1, 2], type=lt.FP16, lod_level=1).matches(x))
        self.assertFalse(found.matches(x[0]))

    def test_messages_come_back(self) -> None:
        v = Variable(dims=[-1, 7], type=lt.BF16, lod_level=1)
        found = Variable.from_proto(v.to_proto())
        self.assertEqual((found.name, found.dims(), found.data_type(), found.lod_level), (v.name, [-1, 7], lt.BF16, 1))
        for size in range(len(v.to_proto())):
            with self.assertRaises(ValueError):
                Variable.from_proto(v.to_proto()[:size])
        for kind in VarType.__members__.values():
            desc = lt.VarDesc("v", [2, 3], INT64, type=kind)
            found = Variable.from_proto(desc.to_proto())
            self.assertEqual((found.var_type, found.to_proto()), (kind, desc.to_proto()))
            self.assertIn(kind.name if kind != VarType.LOD_TENSOR else "INT64", repr(found))

    @unittest.skipUnless(shutil.which("protoc"), "protoc is not installed")
    def test_messages_are_read_by_protoc(self) -> None:
        block = lt.Block()
        v = Variable("x", dims=[-1, 640], type=INT32, lod_level=2, persistable=True, block=block)
        described = ('name: "x" type { type: LOD_TENSOR lod_tensor { tensor { data_type: INT32 dims: -1 dims: 640 } '
                     "lod_level: 2 } } persistable: true")  # fmt: skip
        self.assertEqual(self.decoded("VarDesc", v.to_proto()), described.split())

        Variable("w", dims=[3], initializer=lt.constant(0.5), block=block)
        text = " ".join(self.decoded("BlockDesc", block.to_proto()))
        self.assertIn(f"idx: 0 parent_idx: -1 vars {{ {described} }} vars {{", text)
        self.assertIn('ops { outputs { parameter: "Out" arguments: "w" } type: "fill_constant" '
                      'attrs { name: "shape" type: LONGS longs: 3 } attrs { name: "dtype" type: INT i: 5 } '
                      'attrs { name: "value" type: FLOAT f: 0.5 } }', text)  # fmt: skip

    def decoded(self, message: str, given: bytes) -> list[str]:
        """The words of the text that protoc makes of it."""
        folder = HERE.parent.parent / "proto"
        command = ["protoc", f"--proto_path={folder}", f"--decode=lod.schema.{message}", "program_desc.proto"]
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout.decode().split()


class Operators(InProgram):
    def test_attributes_have_the_type_of_their_value(self) -> None:
        inner = self.program.append_block()
        attrs = {"i": 1, "l": 2**40, "f": 0.5, "b": True, "s": "text", "ints": [1, 2], "longs": [1, 2**40],
                 "floats": [1, 0.5], "bools": [True, False], "strings": ["a", "b"], "none": []}  # fmt: skip
        numpy = {"n": np.int64(1), "ns": np.array([1, 2], np.int64), "fs": np.array([0.5]), "f32": np.array([1], "f")}
        op = lt.Operator("any", {"X": "x", "Y": ["y", "z"]}, {"Out": "x"}, {**attrs, **numpy, "sub_block": inner})
        found = lt.Operator.from_proto(op.to_proto())
        self.assertEqual(found, op)
        self.assertEqual(found.attrs, {**attrs, "n": 1, "ns": [1, 2], "fs": [0.5], "f32": [1.0], "sub_block": 1})
        self.assertEqual((found.type, found.inputs, found.outputs), ("any", ["x", "y", "z"], ["x"]))
        self.assertEqual((found.input("Y"), found.input("Z"), found.output("Out")), (["y", "z"], [], ["x"]))
        for wrong in (object(), [1, "a"], [True, 1], {}):
            with self.subTest(wrong=wrong), self.assertRaises(TypeError):
                lt.Operator("any", attrs={"wrong": wrong})

    def test_every_type_is_a_function(self) -> None:
        x = layer.data("x", [-1, 2])
        y = lt.operator.leaky_relu(x, alpha=0.5)
        self.assertEqual((y.op.type, y.op.attrs, y.dims()), ("leaky_relu", {"alpha": 0.5}, []))
        lt.InferShape(y)
        self.assertEqual(y.dims(), [-1, 2])
        lt.eval(y, {"x": [[-1, 1]]})
        self.assertEqual(y.value.tolist(), [[-0.5, 1]])
        with self.assertRaises(AttributeError):
            _ = lt.operator.no_such_operator
        self.assertIn("sequence_pool", dir(lt.operator))

    def test_each_costs_the_same_in_a_long_program(self) -> None:
        x = y = layer.data("x", [-1, 2])
        for _ in range(20_000):
            y = layer.relu(y)  # minutes, if each went through all that there are
        self.assertEqual((len(self.program.block().ops), y.dims(), y.name, y.op.type),
                         (20_000, [-1, 2], "variable_20000", "relu"))  # fmt: skip
        with self.assertRaisesRegex(lt.InvalidProgram, "block 0, operator 20000"):
            wrong = Variable("wrong", dims=[5, 4])
            self.program.block().append_op("mul", {"X": x, "Y": wrong}, {"Out": y}, infer_shape=True)
        self.assertEqual(len(self.program.block().ops), 20_000)

    def test_inner_blocks_describe_variables_of_outer_ones(self) -> None:
        x, y = layer.data("x", [-1, 2]), Variable("y")
        inner = self.program.append_block()
        shadow = Variable("x", [5, 7], block=inner)
        inner.append_op("relu", {"X": shadow}, {"Out": "y"}, infer_shape=True)
        self.assertEqual((y.dims(), shadow.dims(), x.dims(), inner.vars), ([5, 7], [5, 7], [-1, 2], ["x"]))

    def test_inner_blocks(self) -> None:
        n = Variable("n", INT64, [1], 3)
        i, condition = Variable("i", INT64, [1], 0), Variable("condition", lt.BOOL, [1], 1)
        inner = self.program.append_block()
        self.assertEqual((inner.idx, inner.parent_idx, len(self.program.blocks)), (1, 0, 2))
        inner.append_op("increment", {"X": i}, {"Out": i}, {"step": 1.0})
        inner.append_op("less_than", {"X": i, "Y": n}, {"Out": condition})
        scopes = self.program.block().add_var(lt.VarDesc("scopes", type=VarType.STEP_SCOPES))
        self.program.block().append_op("while", {"X": [i, n], "Condition": condition},
                                       {"Out": [i, condition], "StepScopes": scopes}, {"sub_block": inner})  # fmt: skip
        self.program.run()
        self.assertEqual(i.value.tolist(), [3])


class Runs(InProgram):
    def test_what_the_targets_need_is_run(self) -> None:
        x, y = layer.data("x", [-1, 2]), layer.data("y", [-1, 2])
        double, sum = x * 2, x + y
        lt.eval([double], {x: [[1, 2]]})
        self.assertEqual((double.value.tolist(), sum.value), ([[2, 4]], None))
        lt.eval([sum, double], {"x": [[1, 2]], y: [[3, 4]]})
        self.assertEqual((sum.value.tolist(), double.value.tolist()), ([[4, 6]], [[2, 4]]))
        lt.eval(double, {x: [[0, 1]], y: [[3, 4]]})  # y is not looked at
        self.assertEqual(double.value.tolist(), [[0, 2]])

    def test_results_stay_as_they_were(self) -> None:
        x = layer.data("x", [-1, 2])
        y = x * 2
        (first,) = lt.eval(y, {x: [[1, 2]]})
        lt.eval(y, {x: [[3, 4]]})
        self.assertEqual((first.tolist(), y.value.tolist()), ([[2, 4]], [[6, 8]]))
        self.assertFalse(first.numpy().flags.writeable)

    def test_programs_are_printed(self) -> None:
        x = layer.data("x", [-1, 2])
        self.program.append_block()
        self.program.block().append_op("scale", {"X": x}, {"Out": ["it's y"]}, {"scale": 2.0, "bias_after_scale": True})
        self.assertEqual(
            str(self.program),
            "block 0\n"
            "    Variable('x', dims=[-1, 2], type=FP32)\n"
            "    {Out=[\"it's y\"]} = scale(inputs={X=['x']}, scale = 2.0, bias_after_scale = True)\n"
            "block 1, inside block 0",
        )

    def test_errors_say_where(self) -> None:
        x = layer.data("x", [-1, 2])
        y = x * 2
        for feed, error in (({}, "'x' is missing"), ({"z": [1]}, "feed 'z'"), ({x: [[1, 2, 3]]}, "feed 'x'")):
            with self.subTest(feed=feed), self.assertRaisesRegex(ValueError, error):
                lt.eval(y, feed)
        with self.assertRaisesRegex(lt.InvalidProgram, "'no_such_type' .block 0, operator 1"):
            self.program.block().append_op("no_such_type", {"X": x}, {"Out": y})
            self.program.run({x: [[1, 2]]}, [y])
        with self.assertRaises(ValueError):
            lt.eval([y, Variable(dims=[1], block=lt.Block())])

    def test_a_program_is_run_by_one_thread_at_a_time(self) -> None:
        x = layer.data("x", [-1, 1024])
        for _ in range(5):
            y = x = layer.fc(x, 1024)
        feed = {"x": random(512, 1024)}
        lt.eval(y, feed)
        thread = threading.Thread(target=lambda: [lt.eval(y, feed) for _ in range(3)])
        thread.start()
        try:
            while thread.is_alive():
                y.block.program._core.value(y.name)
        except RuntimeError:
            pass  # most often: the other one is running
        thread.join()
        lt.eval(y, feed)

    def test_sequences_of_every_kind_are_fed(self) -> None:
        words = layer.data("words", [-1, 1], INT64, lod_level=1)
        table = Variable("table", value=np.array([[1, 0], [0, 1], [2, 2]], "float32"))
        sum = layer.sequence_pool(lt.operator.lookup_table(table, words, infer_shape=True), "sum")
        expected = [[1, 1], [0, 0], [2, 2]]
        tensor = LoDTensor([[0, 1], [], [2]], dtype=INT64)
        for given in (tensor, [[0, 1], [], [2]], LoDTensor.from_arrow(tensor), tensor[0:3]):
            lt.eval(sum, {words: given})
            self.assertEqual(sum.value.tolist(), expected)
        lt.eval(sum, {words: LoDTensor([], levels=1, dtype=INT64)})
        self.assertEqual(sum.value.shape, (0, 2))


class Layers(InProgram):
    def test_fc_flattens_all_but_the_batch(self) -> None:
        x = layer.data("x", [-1, 2, 3])
        self.assertEqual(layer.fc(x, 5).dims(), [-1, 5])
        self.assertEqual(layer.fc(x, 5, num_flatten_dims=1).dims(), [-1, 2, 5])
        self.assertEqual(layer.fc([x, layer.data("y", [-1, 4])], 5, act="relu").dims(), [-1, 5])
        for wrong in (0, 3):
            with self.assertRaises(ValueError):
                layer.fc(x, 5, num_flatten_dims=wrong)

    def test_arithmetic(self) -> None:
        x, w = layer.data("x", [-1, 2]), Variable("w", value=np.array([[1, 2], [3, 4]], "float32"))
        results = lt.eval([x + x, 2 * x, x - 1, x * x, x / x, x / 2, 1 + x, x @ w], {x: [[1, 2]]})
        self.assertEqual([r.tolist()[0] for r in results],
                         [[2, 4], [2, 4], [0, 1], [1, 4], [1, 1], [0.5, 1], [2, 3], [7, 10]])  # fmt: skip

    def test_shapes_are_known_at_once(self) -> None:
        words = layer.data("words", [-1, 1], INT64, lod_level=1)
        emb = layer.embedding(words, [50, 8])
        hidden, cell = layer.lstm(layer.fc(emb, 4 * 6))
        units = layer.gru(layer.fc(emb, 3 * 5), is_reverse=True)
        for variable, dims, levels in (
            (emb, [-1, 8], 1), (hidden, [-1, 6], 1), (cell, [-1, 6], 1), (units, [-1, 5], 1),
            (layer.sequence_conv(emb, 7), [-1, 7], 1), (layer.sequence_softmax(emb), [-1, 8], 1),
            (layer.sequence_expand(layer.sequence_last_step(emb), emb), [-1, 8], 0),
            (layer.sequence_reverse(emb), [-1, 8], 1), (layer.sequence_first_step(emb), [-1, 8], 0),
            (layer.concat([hidden, units], axis=1), [-1, 11], 1), (layer.dropout(emb, 0.5), [-1, 8], 1),
        ):  # fmt: skip
            self.assertEqual((variable.dims(), variable.lod_level), (dims, levels), variable.op)
        with self.assertRaises(ValueError):
            layer.lstm(layer.fc(emb, 7))


    def test_tagging(self) -> None:
        words, tags = layer.data("words", [-1, 1], INT64, lod_level=1), layer.data("tags", [-1, 1], INT64, lod_level=1)
        scores = layer.fc(layer.row_conv(layer.embedding(words, [9, 8]), 1), 3)
        cost, transition = layer.linear_chain_crf(scores, tags)
        loss, path = layer.mean(cost), layer.crf_decoding(scores, transition)
        lt.optimizer.Adam(learning_rate=0.1).minimize(loss)
        feed = {words: [[1, 2, 3], [4], [5, 6]], tags: [[0, 1, 2], [1], [2, 0]]}
        losses = [self.program.run(feed, [loss])[0].tolist()[0] for _ in range(40)]
        self.assertLess(losses[-1], 0.1 * losses[0])
        lt.eval(path, feed)
        self.assertEqual([np.ravel(s).tolist() for s in path.value.tolist()], feed[tags])

    def test_images(self) -> None:
        image, label = layer.data("image", [-1, 1, 8, 8]), layer.data("label", [-1, 1], INT64)
        hidden = layer.pool2d(layer.batch_norm(layer.conv2d(image, 4, 3, padding=1), act="relu"), 2, pool_stride=2)
        self.assertEqual(hidden.dims(), [-1, 4, 4, 4])
        scores = layer.fc(layer.layer_norm(hidden), 2, act="softmax")
        loss = layer.mean(layer.cross_entropy(scores, label))
        lt.optimizer.Adam(learning_rate=0.05).minimize(loss)
        feed = {image: random(4, 1, 8, 8), label: [[0], [1], [0], [1]]}
        losses = [self.program.run(feed, [loss])[0].tolist()[0] for _ in range(20)]
        self.assertLess(losses[-1], 0.1 * losses[0])

    def test_sequences_padded_and_joined(self) -> None:
        x = layer.data("x", [-1, 2], lod_level=1)
        zero = Variable("zero", value=np.zeros(1, "float32"))
        dense, lengths = layer.sequence_pad(x, zero)
        back = layer.sequence_unpad(dense, lengths)
        twice = layer.sequence_concat([x, back])
        spread = layer.sequence_expand_as(layer.sequence_last_step(x), x)
        batch = LoDTensor.from_numpy(random(3, 2), lengths=[[1, 2]])
        rows = random(3, 2).tolist()
        lt.eval([dense, twice, spread], {x: batch})
        self.assertEqual((dense.value.shape, twice.value.lengths), ((2, 2, 2), [[2, 4]]))
        self.assertEqual(spread.value.numpy().tolist(), [rows[0], rows[2], rows[2]])


class Training(InProgram):
    def test_gradients(self) -> None:
        x = layer.data("x", [-1, 2])
        w = Variable("w", value=np.array([[1], [2]], "float32"))
        loss = layer.mean(layer.square(x @ w))
        ((parameter, gradient),) = lt.append_backward(loss)
        self.assertEqual((parameter.name, gradient.name, gradient.dims()), ("w", "w@GRAD", [2, 1]))
        values = np.array([[1, 2], [3, 4]], "float32")
        lt.eval([loss, gradient], {x: values})
        np.testing.assert_allclose(gradient.value, values.T @ (values @ [[1], [2]]), rtol=1e-6)

    def test_a_line_is_fitted(self) -> None:
        x, y = layer.data("x", [-1, 3]), layer.data("y", [-1, 1])
        prediction = layer.fc(x, 1)
        loss = layer.mean(layer.square_error_cost(prediction, y))
        ((w, _), (b, _)) = lt.optimizer.SGD(learning_rate=0.1).minimize(loss)
        inputs = random(64, 3)
        feed = {x: inputs, y: inputs @ np.array([[1], [2], [3]], "float32") + 0.5}
        before = lt.eval(loss, feed)[0].tolist()
        self.assertEqual(lt.eval([loss, w], feed)[0].tolist(), before)  # evaluated, not trained
        for _ in range(100):
            self.program.run(feed, [loss])
        self.assertLess(loss.value.numpy(), 1e-6)
        np.testing.assert_allclose(w.value, [[1], [2], [3]], atol=1e-3)
        np.testing.assert_allclose(b.value, [0.5], atol=1e-3)

    def test_a_network_on_sequences_learns(self) -> None:
        words, label = layer.data("words", [-1, 1], INT64, lod_level=1), layer.data("label", [-1, 1], INT64)
        emb = layer.embedding(words, [50, 8], is_sparse=True)
        hidden, _ = layer.lstm(layer.fc(emb, 4 * 6))
        pools = [layer.sequence_pool(hidden, "MAX"), layer.sequence_last_step(layer.gru(layer.fc(emb, 3 * 6))),
                 layer.sequence_pool(layer.sequence_conv(emb, 6, act="tanh"), "SUM")]  # fmt: skip
        scores = layer.fc(pools, 2, act="softmax")
        loss, accuracy = layer.mean(layer.cross_entropy(scores, label)), layer.accuracy(scores, label)
        optimizer = lt.optimizer.Adam(learning_rate=0.02)
        decay, clip = lt.optimizer.L2Decay(1e-4), lt.optimizer.ClipGradByGlobalNorm(5.0)
        pairs = optimizer.minimize(loss, weight_decay=decay, grad_clip=clip)
        self.assertEqual(len(pairs), sum(self.program.block().var(v).trainable for v in self.program.block().vars))
        feed = {words: [[1, 2, 3], [4], [5, 6]], label: [[0], [1], [0]]}
        losses = [float(self.program.run(feed, [loss, accuracy])[0].numpy()[0]) for _ in range(60)]
        self.assertLess(losses[-1], 0.1 * losses[0])
        self.assertEqual(accuracy.value.tolist(), [1])

    def test_every_optimizer_makes_a_loss_smaller(self) -> None:
        o = lt.optimizer
        for kind in (o.SGD(0.05), o.Momentum(0.02), o.Adagrad(0.1), o.RMSProp(0.02), o.Adam(0.05), o.Ftrl(0.1),
                     o.DecayedAdagrad(0.02), o.Adadelta(10), o.Adamax(0.05), o.Lamb(0.05), o.LarsMomentum(0.02)):
            with self.subTest(kind=kind), lt.Program() as program:
                x, y = layer.data("x", [-1, 3]), layer.data("y", [-1, 1])
                loss = layer.mean(layer.square_error_cost(layer.fc(x, 1), y))
                kind.minimize(loss)
                feed = {x: random(16, 3), y: random(16, 3) @ np.ones((3, 1), "float32") * 3}
                losses = [program.run(feed, [loss])[0].tolist()[0] for _ in range(20)]
                self.assertLess(losses[-1], losses[0])


class Files(InProgram):
    def test_models_come_back(self) -> None:
        x = layer.data("x", [-1, 3])
        y = layer.fc(layer.fc(x, 4, act="tanh"), 2, act="softmax")
        lt.optimizer.SGD().minimize(layer.mean(y))
        inputs = random(5, 3)
        (expected,) = lt.eval(y, {x: inputs})
        with tempfile.TemporaryDirectory() as folder:
            self.program.save_model(Path(folder) / "model", [x], [y])
            loaded = lt.Program.load_model(Path(folder) / "model")
        types = [op.type for op in loaded.block().ops]
        self.assertEqual((types[0], types[-1]), ("feed", "fetch"))
        self.assertFalse({"sgd", "uniform_random"} & set(types))
        (found,) = loaded.run({"x": inputs})
        self.assertEqual(found.tolist(), expected.tolist())

    def test_programs_come_back(self) -> None:
        layer.fc(layer.data("x", [-1, 3]), 4)
        found = lt.Program(self.program.to_proto())
        self.assertEqual(found.to_proto(), self.program.to_proto())
        with self.assertRaises(ValueError):
            lt.Program(b"\xff")


@unittest.skipUnless(importlib.util.find_spec("paddle"), "PaddlePaddle 2.6.2 is not installed")
class PaddlePaddle(InProgram):
    def test_it_trains_our_programs(self) -> None:
        words, label = layer.data("words", [-1, 1], INT64, lod_level=1), layer.data("label", [-1, 1], INT64)
        emb = layer.embedding(words, [50, 8])
        hidden, _ = layer.lstm(layer.fc(emb, 4 * 6))
        pools = [layer.sequence_pool(hidden, "MAX"), layer.sequence_last_step(layer.gru(layer.fc(emb, 3 * 6))),
                 layer.sequence_pool(layer.sequence_conv(emb, 6, act="tanh"), "SUM")]  # fmt: skip
        loss = layer.mean(layer.cross_entropy(layer.fc(pools, 2, act="softmax"), label))
        lt.optimizer.SGD(learning_rate=0.1).minimize(loss)
        labels = np.array([[0], [1], [0]])
        self.check(loss, {words: [[1, 2, 3], [4], [5, 6]], label: labels},
                   {"words": self.sequences(np.arange(1, 7).reshape(6, 1), [3, 1, 2]), "label": labels})  # fmt: skip

    def test_it_trains_taggers(self) -> None:
        words, tags = layer.data("words", [-1, 1], INT64, lod_level=1), layer.data("tags", [-1, 1], INT64, lod_level=1)
        cost, _ = layer.linear_chain_crf(layer.fc(layer.row_conv(layer.embedding(words, [9, 8]), 1), 3), tags)
        loss = layer.mean(cost)
        lt.optimizer.SGD(learning_rate=0.1).minimize(loss)
        self.check(loss, {words: [[1, 2, 3], [4], [5, 6]], tags: [[0, 1, 2], [1], [2, 0]]},
                   {"words": self.sequences(np.arange(1, 7).reshape(6, 1), [3, 1, 2]),
                    "tags": self.sequences(np.array([0, 1, 2, 1, 2, 0]).reshape(6, 1), [3, 1, 2])})  # fmt: skip

    def test_it_trains_on_images(self) -> None:
        image, label = layer.data("image", [-1, 1, 8, 8]), layer.data("label", [-1, 1], INT64)
        hidden = layer.pool2d(layer.batch_norm(layer.conv2d(image, 4, 3, padding=1), act="relu"), 2, pool_stride=2)
        loss = layer.mean(layer.cross_entropy(layer.fc(layer.layer_norm(hidden), 2, act="softmax"), label))
        lt.optimizer.SGD(learning_rate=0.05).minimize(loss)
        feed = {"image": random(4, 1, 8, 8), "label": np.array([[0], [1], [0], [1]])}
        self.check(loss, feed, feed)

    def test_it_trains_on_padded_sequences(self) -> None:
        x, label = layer.data("x", [-1, 4], lod_level=1), layer.data("label", [-1, 1], INT32, lod_level=1)
        hidden = layer.fc(x, 6)
        zero = Variable("zero", value=np.zeros(1, "float32"), trainable=False)
        back = layer.sequence_unpad(*layer.sequence_pad(hidden, zero))
        spread = layer.sequence_expand_as(layer.sequence_last_step(hidden), hidden)
        loss = layer.mean(layer.warpctc(layer.fc(layer.sequence_concat([back, spread]), 5), label))
        lt.optimizer.SGD(learning_rate=0.05).minimize(loss)
        labels = np.array([[1], [2], [3], [1]], "int32")
        self.check(loss, {x: LoDTensor.from_numpy(random(6, 4), lengths=[[3, 1, 2]]),
                          label: LoDTensor.from_numpy(labels, lengths=[[2, 1, 1]])},
                   {"x": self.sequences(random(6, 4), [3, 1, 2]), "label": self.sequences(labels, [2, 1, 1])})

    @staticmethod
    def sequences(rows: np.ndarray, lengths: list[int]) -> Any:
        import paddle

        return paddle.base.create_lod_tensor(rows, [lengths], paddle.base.CPUPlace())

    def check(self, loss: Variable, feed: Any, feed_of_paddle: Any) -> None:
        """The same losses here and there, in five steps from the same initial values."""
        import paddle

        paddle.enable_static()
        lt.eval(loss, feed)
        scope, place = paddle.base.Scope(), paddle.base.CPUPlace()
        program = paddle.base.Program.parse_from_string(self.program.to_proto())
        block = program.global_block()
        for i, op in reversed(list(enumerate(block.ops))):
            if not op.input_arg_names and all(block.var(name).persistable for name in op.output_arg_names):
                (name,) = op.output_arg_names
                value = self.program.block().var(name).value
                initial = np.array([op.attr("value")], "float32") if value is None else value.numpy()
                scope.var(name).get_tensor().set(initial, place)
                block._remove_op(i)
        with paddle.base.scope_guard(scope):
            for _ in range(5):
                (found,) = paddle.base.Executor(place).run(program, feed=feed_of_paddle, fetch_list=[loss.name])
                np.testing.assert_allclose(self.program.run(feed, [loss])[0], np.ravel(found), rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
