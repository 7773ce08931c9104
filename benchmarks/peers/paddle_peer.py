# SPDX-License-Identifier: Apache-2.0
"""PaddlePaddle 2.6: its sequence operators over LoDTensors, run by the static executor.

Inputs and outputs are persistable variables of a scope, so a run has neither feeds nor fetches and copies nothing in or
out: what is timed is the operator and the executor's overhead, about a tenth of a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import protocol
from protocol import Form, Workload

# The inputs are as large as the machine bears; a garbage collection of Paddle's own would free outputs between runs.
peer = protocol.start("paddle", {"FLAGS_eager_delete_tensor_gb": "-1.0"})
try:
    import numpy as np
    import paddle
    from paddle.base import core
except (ImportError, OSError) as error:
    peer.missing(error)

paddle.enable_static()
core.set_num_threads(peer.threads)
paddle.set_flags({"FLAGS_inner_op_parallelism": peer.threads})
place = paddle.CPUPlace()
executor = paddle.static.Executor(place)

KINDS = core.VarDesc.VarType
NOTE = "no feed or fetch; includes the executor's overhead"


class Program:
    """A program of a few operators with its variables."""

    def __init__(self) -> None:
        self.scope = core.Scope()
        self.program = paddle.static.Program()
        self.block = self.program.global_block()
        self._kept: list[Any] = []  # the variables share these arrays' memory

    def put(self, name: str, array: Any, offsets: Any = None, copy: bool = False) -> None:
        """An input, with the offsets of its sequences if it has some."""
        array = np.ascontiguousarray(array)
        shape = list(array.shape)
        self.block.create_var(
            name=name, shape=shape, dtype=str(array.dtype), lod_level=0 if offsets is None else 1, persistable=True
        )
        held = self.scope.var(name).get_tensor()
        held.set(array, place, not copy)
        self._kept.append(array)
        if offsets is not None:
            held.set_lod([offsets.tolist()])

    def put_rows(self, name: str, ids: Any, rows: Any, height: int) -> None:
        """A sparse input: rows and their numbers."""
        self.block.create_var(
            name=name, type=KINDS.SELECTED_ROWS, dtype=str(rows.dtype), shape=[height, rows.shape[1]], persistable=True
        )
        held = self.scope.var(name).get_selected_rows()
        held.set_rows(ids.tolist())
        held.set_height(height)
        held.get_tensor().set(rows, place)

    def out(self, name: str, dtype: str = "float32", kind: Any = KINDS.LOD_TENSOR) -> list[str]:
        self.block.create_var(name=name, dtype=dtype, type=kind, persistable=True)
        return [name]

    def operator(self, kind: str, inputs: dict[str, Any], outputs: dict[str, Any], **attributes: Any) -> None:
        self.block.append_op(type=kind, inputs=inputs, outputs=outputs, attrs=attributes)

    def runner(self) -> Callable[[], None]:
        def call() -> None:
            with paddle.static.scope_guard(self.scope):
                executor.run(self.program, feed={}, fetch_list=[])

        return call

    def get(self, name: str) -> Any:
        return np.array(self.scope.find_var(name).get_tensor())

    def form(self, by: str, name: str, note: str = NOTE, unpack: Callable[[Any], Any] = lambda y: y) -> Form:
        return Form(by, self.runner(), lambda _: unpack(self.get(name)), note)


def floats(work: Workload) -> bool:
    return work.dtype in ("float32", "float64")


def columns(array: Any) -> Any:
    """Scalar rows as rows of one element: the operators know no others."""
    return array.reshape(-1, 1) if array.ndim == 1 else array


@peer.form("sequence_pool", "sequence_max_pool")
def sequence_pool(work: Workload) -> Form | None:
    if not floats(work):
        return None
    program = Program()
    program.put("x", columns(work.x), work.offsets)
    outputs = {"Out": program.out("y", work.dtype), "MaxIndex": program.out("index", "int32")}
    indexed = work.op == "sequence_max_pool"
    how = "MAX" if indexed else work.variant
    # In a test run the operator leaves the index out.
    program.operator("sequence_pool", {"X": ["x"]}, outputs, pooltype=how, is_test=not indexed, pad_value=0.0)
    return program.form("paddle sequence_pool", "y")


@peer.form("sequence_expand_as_grad")
def sequence_expand_as_grad(work: Workload) -> Form | None:
    if not floats(work):
        return None
    program = Program()
    program.put("x", np.zeros((work.sequences, work.row_size), work.dtype))
    program.put("like", np.zeros((len(work.x), 1), work.dtype), work.offsets)
    program.put("gradient", columns(work.x), work.offsets)
    program.out("y", work.dtype)
    # Gradient operators are not open to append_op, which knows only those that a user may write down.
    operator = program.block.desc.append_op()
    operator.set_type("sequence_expand_as_grad")
    operator.set_input("X", ["x"])
    operator.set_input("Y", ["like"])
    operator.set_input("Out@GRAD", ["gradient"])
    operator.set_output("X@GRAD", ["y"])
    program.block._sync_with_cpp()
    return program.form("paddle sequence_expand_as_grad", "y")


@peer.form("sequence_softmax")
def sequence_softmax(work: Workload) -> Form | None:
    if not floats(work) or work.row_size > 1:
        return None  # its rows must be scalars
    program = Program()
    program.put("x", columns(work.x), work.offsets)
    program.operator("sequence_softmax", {"X": ["x"]}, {"Out": program.out("y", work.dtype)})
    return program.form("paddle sequence_softmax", "y")


@peer.form("sequence_pad")
def sequence_pad(work: Workload) -> Form | None:
    if not work.padded_fits() or work.dtype not in ("float32", "float64", "int64"):
        return None
    program = Program()
    program.put("x", columns(work.x), work.offsets)
    program.put("zero", np.zeros(1, work.dtype))
    outputs = {"Out": program.out("y", work.dtype), "Length": program.out("length", "int64")}
    program.operator("sequence_pad", {"X": ["x"], "PadValue": ["zero"]}, outputs, padded_length=work.padded_length)
    return program.form("paddle sequence_pad", "y")


@peer.form("sequence_unpad")
def sequence_unpad(work: Workload) -> Form | None:
    if not work.padded_fits() or work.dtype not in ("float32", "float64", "int64"):
        return None
    program = Program()
    program.put("x", work.padded.reshape(work.sequences, work.padded_length, -1))
    program.put("length", work.lengths)
    program.operator("sequence_unpad", {"X": ["x"], "Length": ["length"]}, {"Out": program.out("y", work.dtype)})
    return program.form("paddle sequence_unpad", "y")


@peer.form("sequence_reverse")
def sequence_reverse(work: Workload) -> Form | None:
    if work.dtype not in ("float32", "float64", "int64"):
        return None
    program = Program()
    program.put("x", columns(work.x), work.offsets)
    program.operator("sequence_reverse", {"X": ["x"]}, {"Y": program.out("y", work.dtype)})
    return program.form("paddle sequence_reverse", "y")


@peer.form("sequence_slice")
def sequence_slice(work: Workload) -> Form | None:
    starts, counts = work.load("starts"), work.load("counts")
    if work.dtype not in ("float32", "float64", "int64") or not counts.all():
        return None  # a slice of no rows is an error to it
    program = Program()
    program.put("x", columns(work.x), work.offsets)
    program.put("starts", columns(starts.astype(np.int64)))
    program.put("counts", columns(counts.astype(np.int64)))
    inputs = {"X": ["x"], "Offset": ["starts"], "Length": ["counts"]}
    program.operator("sequence_slice", inputs, {"Out": program.out("y", work.dtype)})
    return program.form("paddle sequence_slice", "y")


@peer.form("sequence_concat")
def sequence_concat(work: Workload) -> Form | None:
    if work.dtype not in ("float32", "float64", "int64"):
        return None
    program = Program()
    program.put("x", columns(work.x), work.offsets)
    program.put("x2", columns(work.load("x2")), work.load("offsets2"))
    program.operator("sequence_concat", {"X": ["x", "x2"]}, {"Out": program.out("y", work.dtype)})
    return program.form("paddle sequence_concat", "y")


@peer.form("sequence_expand_as")
def sequence_expand_as(work: Workload) -> Form | None:
    if work.dtype not in ("float32", "float64", "int64"):
        return None
    program = Program()
    program.put("x", columns(work.x))
    program.put("like", np.zeros((int(work.offsets[-1]), 1), work.dtype), work.offsets)
    program.operator("sequence_expand_as", {"X": ["x"], "Y": ["like"]}, {"Out": program.out("y", work.dtype)})
    return program.form("paddle sequence_expand_as", "y")


@peer.form("sequence_erase")
def sequence_erase(work: Workload) -> Form | None:
    program = Program()
    program.put("x", columns(work.x), work.offsets)
    tokens = [int(token) for token in work.parameters["tokens"]]
    program.operator("sequence_erase", {"X": ["x"]}, {"Out": program.out("y", "int64")}, tokens=tokens)
    return program.form("paddle sequence_erase", "y")


@peer.form("sequence_enumerate")
def sequence_enumerate(work: Workload) -> Form | None:
    program = Program()
    program.put("x", columns(work.x), work.offsets)
    window = int(work.parameters["window"])
    outputs = {"Out": program.out("y", "int64")}
    program.operator("sequence_enumerate", {"X": ["x"]}, outputs, win_size=window, pad_value=0)
    return program.form("paddle sequence_enumerate", "y")


@peer.form("merge_add")
def merge_selected_rows(work: Workload) -> Form | None:
    if not floats(work):
        return None
    program = Program()
    program.put_rows("x", work.load("ids"), columns(work.x), int(work.parameters["height"]))
    outputs = {"Out": program.out("y", work.dtype, KINDS.SELECTED_ROWS)}
    program.operator("merge_selected_rows", {"X": ["x"]}, outputs)

    def merged(_: Any) -> Any:
        return np.array(program.scope.find_var("y").get_selected_rows().get_tensor())

    return Form("paddle merge_selected_rows", program.runner(), merged, NOTE)


@peer.form("sparse_adam")
def lazy_adam(work: Workload) -> Form | None:
    if not floats(work):
        return None
    program = Program()
    table = columns(work.load("table"))
    program.put_rows("gradient", work.load("ids"), columns(work.x), int(work.parameters["height"]))
    program.put("table", table, copy=True)
    program.put("moment1", np.zeros_like(table), copy=True)
    program.put("moment2", np.zeros_like(table), copy=True)
    program.put("rate", np.array([1e-3], table.dtype), copy=True)
    program.put("power1", np.array([0.9], table.dtype), copy=True)
    program.put("power2", np.array([0.999], table.dtype), copy=True)
    inputs = {
        "Param": ["table"], "Grad": ["gradient"], "LearningRate": ["rate"], "Moment1": ["moment1"],
        "Moment2": ["moment2"], "Beta1Pow": ["power1"], "Beta2Pow": ["power2"],
    }  # fmt: skip
    outputs = {
        "ParamOut": ["table"], "Moment1Out": ["moment1"], "Moment2Out": ["moment2"], "Beta1PowOut": ["power1"],
        "Beta2PowOut": ["power2"],
    }  # fmt: skip
    program.operator("adam", inputs, outputs, beta1=0.9, beta2=0.999, epsilon=1e-8, lazy_mode=True)
    return Form("paddle adam, lazy", program.runner(), note=NOTE, checked=False)


@peer.form("embedding_pool")
def fused_embedding_seq_pool(work: Workload) -> Form | None:
    if not floats(work):
        return None
    program = Program()
    program.put("table", columns(work.load("table")))
    program.put("ids", columns(work.load("ids")), work.offsets)
    inputs, outputs = {"W": ["table"], "Ids": ["ids"]}, {"Out": program.out("y", work.dtype)}
    program.operator("fused_embedding_seq_pool", inputs, outputs, combiner="sum")
    return program.form("paddle fused_embedding_seq_pool", "y")


CRF_GRADIENTS = {"Emission": "dx", "Transition": "dweight"}


@peer.form("linear_chain_crf", "linear_chain_crf_grad")
def linear_chain_crf(work: Workload) -> Form | None:
    if not floats(work):
        return None
    program = Program()
    program.put("x", work.x, work.offsets)
    program.put("weight", work.load("weight"))
    program.put("labels", columns(work.load("labels")), work.offsets)
    inputs = {"Emission": ["x"], "Transition": ["weight"], "Label": ["labels"]}
    results = {name: [name] for name in ("Alpha", "EmissionExps", "TransitionExps", "LogLikelihood")}
    for name in results:
        program.out(name, work.dtype)
    program.operator("linear_chain_crf", inputs, results)
    if work.op == "linear_chain_crf":  # what it calls a likelihood is a loss
        return program.form("paddle linear_chain_crf", "LogLikelihood", unpack=lambda y: -y)
    program.runner()()
    # Alone, on what the forward pass has left in the scope.
    after = Program()
    after.scope = program.scope
    for name in ("x", "weight", "labels", *results, *CRF_GRADIENTS.values()):
        after.out(name, "int64" if name == "labels" else work.dtype)
    after.put("gradient", -np.ones((work.sequences, 1), work.dtype))
    operator = after.block.desc.append_op()
    operator.set_type("linear_chain_crf_grad")
    for name, variables in (inputs | results).items():
        if name != "LogLikelihood":
            operator.set_input(name, variables)
    operator.set_input("LogLikelihood@GRAD", ["gradient"])
    for name, variable in CRF_GRADIENTS.items():
        operator.set_output(f"{name}@GRAD", [variable])
    after.block._sync_with_cpp()
    return after.form("paddle linear_chain_crf_grad", "dx", f"{NOTE}; without the forward pass, which ours repeats")


@peer.form("lstm")
def fusion_lstm(work: Workload) -> Form | None:
    if not floats(work):
        return None
    program = Program()

    def reordered(name: str) -> Any:
        """Its gates stand in the order g i f o."""
        i, f, g, o = np.split(work.load(name), 4)
        return np.concatenate((g, i, f, o))

    program.put("x", work.x, work.offsets)
    program.put("w_ih", reordered("w_ih").T)
    program.put("w_hh", reordered("w_hh").T)
    program.put("bias", reordered("bias").reshape(1, -1))
    inputs = {"X": ["x"], "WeightX": ["w_ih"], "WeightH": ["w_hh"], "Bias": ["bias"]}
    names = [
        "Hidden", "Cell", "XX", "BatchedInput", "BatchedHidden", "BatchedCell", "ReorderedH0", "ReorderedC0", "CheckedCell",
    ]  # fmt: skip
    outputs = {name: program.out(f"y_{name}", work.dtype) for name in names}
    program.operator("fusion_lstm", inputs, outputs, use_peepholes=False, is_reverse=False, use_seq=False)
    return program.form("paddle fusion_lstm", "y_Hidden", f"{NOTE}; weights reordered untimed")


if __name__ == "__main__":
    peer.serve(version=f"paddlepaddle {paddle.__version__}", blas="mkl" if paddle.version.mkl() == "ON" else "openblas")
