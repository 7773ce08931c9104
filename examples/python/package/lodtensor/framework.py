# SPDX-License-Identifier: Apache-2.0
"""Programs, made by Python: variables and operators in blocks, which the library describes, checks and runs.

    x = lt.Variable("x", dims=[-1, 640, 480])
    z = lt.layer.fc(lt.layer.fc(x, output_size=100), output_size=200)
    lt.eval(targets=[z], feed={x: images})
    print(z)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from . import _core
from ._core import DataType, LoDTensor, Operator, VarDesc, VarType

STRING = VarType.STRING


class Dims(list[int]):
    """The dimensions of a variable, read in either way of the documents: `x.dims[-1]` and `x.dims()`."""

    def __call__(self) -> list[int]:
        return list(self)


# ---- Initial values ----


class Initializer:
    """How a variable gets its first value: the operator that fills it, but for its output, shape and type."""

    def __init__(self, type: str, **attrs: Any) -> None:
        self.type = type
        self.attrs = attrs


def constant(value: float = 0.0) -> Initializer:
    """The same value everywhere."""
    if float(np.float32(value)) == value:
        return Initializer("fill_constant", value=float(value))
    return Initializer("fill_constant", value=float(value), str_value=repr(value))


def random_uniform(min: float = -1.0, max: float = 1.0, seed: int = 0) -> Initializer:
    """Numbers from min to max. Seed 0: another each time."""
    return Initializer("uniform_random", min=float(min), max=float(max), seed=seed)


def random_normal(mean: float = 0.0, std: float = 1.0, seed: int = 0) -> Initializer:
    """Normally distributed numbers. Seed 0: others each time."""
    return Initializer("gaussian_random", mean=float(mean), std=float(std), seed=seed)


_ASSIGNED = {"float32": "fp32_values", "float64": "fp64_values", "int32": "int32_values", "int64": "int64_values",
             "bool": "bool_values"}  # fmt: skip


def _initializer_of(value: Any, data_type: Optional[DataType]) -> Initializer:
    """That of a number, or of an array."""
    if np.ndim(value) == 0 or data_type is None:
        return constant(value)
    array = np.asarray(value, dtype=data_type.dtype)
    if array.dtype.name not in _ASSIGNED:
        raise TypeError(f"a value of type {array.dtype.name}, expected one of {', '.join(_ASSIGNED)}")
    flat = array.ravel()
    if flat.dtype == bool:
        flat = flat.astype(np.int32)
    return Initializer("assign_value", **{_ASSIGNED[array.dtype.name]: flat})


# ---- Blocks and programs ----


class Block:
    """Variables, and the operators on them, which run in their order. Block() is that of a program of its own."""

    def __init__(self, program: Optional[Program] = None, idx: int = 0) -> None:
        self.program = Program() if program is None else program
        self.idx = idx
        self.program._core.parent_idx(idx)  # throws for a block that there is not

    @property
    def parent_idx(self) -> int:
        """The index of the block around it; -1 for the outermost."""
        return self.program._core.parent_idx(self.idx)

    @property
    def vars(self) -> list[str]:
        """The names of the variables."""
        return self.program._core.var_names(self.idx)

    @property
    def ops(self) -> list[Operator]:
        """The operators, in the order in which they run."""
        return self.program._core.ops(self.idx)

    def var(self, name: str) -> Variable:
        """The variable of that name, of this block or of one around it. KeyError if there is none."""
        if self.program._core.find_var(name, self.idx) is None:
            raise KeyError(name)
        return Variable._named(name, self)

    def add_var(self, variable: Any) -> Variable:
        """Adds a variable that is described: a VarDesc, a Variable, or what has one as its `_var`, as the class of the
        design document does. One of this name that the block has stays as it is."""
        variable = getattr(variable, "_var", variable)
        desc = variable.desc if isinstance(variable, Variable) else variable
        if not self.program._core.has_var(self.idx, desc.name):
            self.program._core.append(self.idx, [desc], [], False)
        return Variable._named(desc.name, self)

    def append_op(
        self,
        type: str,
        inputs: Optional[Mapping[str, Any]] = None,
        outputs: Optional[Mapping[str, Any]] = None,
        attrs: Optional[Mapping[str, Any]] = None,
        infer_shape: bool = False,
    ) -> Operator:
        """Adds an operator. Arguments are variables or names, one or a list for each parameter; parameters and
        attributes that are None are left out. `infer_shape` describes its outputs, too; if that fails, nothing has
        changed."""
        op = Operator(type, _names(inputs), _names(outputs), {k: v for k, v in (attrs or {}).items() if v is not None})
        self.program._core.append(self.idx, [], [op], infer_shape)
        return op

    def to_proto(self) -> bytes:
        """The bytes of its BlockDesc."""
        return self.program._core.block_to_proto(self.idx)

    def __str__(self) -> str:
        """A line for each variable, and one for each operator."""
        inside = "" if self.parent_idx < 0 else f", inside block {self.parent_idx}"
        lines = [f"block {self.idx}{inside}", *(repr(self.var(name)) for name in self.vars), *map(str, self.ops)]
        return "\n    ".join(lines)


class Program:
    """Blocks, and the values of the variables that stay from run to run. `with program:` makes it the default one, to
    which variables and layers are added. Threads use it one at a time; else RuntimeError."""

    def __init__(self, proto: Optional[bytes] = None) -> None:
        """Without blocks but the outermost; or that of a ProgramDesc. ParseError for other bytes."""
        self._core = _core.Program() if proto is None else _core.Program(proto)
        self._results: dict[str, LoDTensor] = {}

    def __enter__(self) -> Program:
        _defaults.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _defaults.pop()

    def block(self, idx: int = 0) -> Block:
        """The block of that index; 0 is the outermost."""
        return Block(self, idx)

    @property
    def blocks(self) -> list[Block]:
        """All of them."""
        return [Block(self, idx) for idx in range(self._core.block_count)]

    def append_block(self, parent: Optional[Block] = None) -> Block:
        """A new block inside another one, by default the outermost."""
        return Block(self, self._core.append_block(0 if parent is None else parent.idx))

    def to_proto(self) -> bytes:
        """The bytes of its ProgramDesc."""
        return self._core.to_proto()

    def __str__(self) -> str:
        """Its blocks, each with its variables and operators."""
        return "\n".join(map(str, self.blocks))

    def infer_shapes(self) -> None:
        """Describes what all operators give. InvalidProgram, and nothing changed, where they contradict."""
        self._core.infer_shapes()

    def run(
        self, feed: Optional[Mapping[Any, Any]] = None, fetch: Union[Variable, Sequence[Variable]] = ()
    ) -> list[LoDTensor]:
        """Runs all operators, those that train too. Returns the values of variables; where none is named, what the
        program's own operators `fetch`. Initializers run before, each once."""
        return self._run(feed, fetch, False)

    def save_model(self, path: Union[str, Path], feed: Sequence[Variable], targets: Sequence[Variable]) -> None:
        """Writes what computes the targets from what is fed to `<path>.pdmodel`, and its parameters to
        `<path>.pdiparams`: files of PaddlePaddle's."""
        self._core.save_model(str(path), [v.name for v in feed], [v.name for v in targets])

    @staticmethod
    def load_model(path: Union[str, Path]) -> Program:
        """A program with its parameters: those two files, or a folder with `__model__`."""
        made = Program()
        made._core = _core.Program.load_model(str(path))
        return made

    def _run(self, feed: Optional[Mapping[Any, Any]], fetch: Any, is_pruned: bool) -> list[LoDTensor]:
        fetched = [fetch] if isinstance(fetch, Variable) else list(fetch)
        if any(variable.block.program is not self for variable in fetched):
            raise ValueError("variables of several programs")
        names = [variable.name for variable in fetched]
        given = {}
        for key, value in (feed or {}).items():
            name = key.name if isinstance(key, Variable) else key
            given[name] = _to_tensor(value, self._core.find_var(name, 0))
        results = self._core.run(given, names, is_pruned)
        self._results.update(zip(names, results))
        return results


_defaults = [Program()]


def default_program() -> Program:
    """The program that variables and layers are added to."""
    return _defaults[-1]


def get_default_block() -> Block:
    """The outermost block of that program."""
    return default_program().block()


def _names(parameters: Optional[Mapping[str, Any]]) -> dict[str, list[str]]:
    names = {}
    for parameter, arguments in (parameters or {}).items():
        if arguments is not None:
            several = arguments if isinstance(arguments, (list, tuple)) else [arguments]
            names[parameter] = [argument if isinstance(argument, str) else argument.name for argument in several]
    return names


def _to_tensor(value: Any, desc: Optional[VarDesc]) -> LoDTensor:
    """What is fed: tensors, whatever has their memory, lists of numbers of the type that the variable has."""
    if isinstance(value, LoDTensor):
        return value
    if isinstance(value, (int, float, list, tuple)):
        data_type = None if desc is None else desc.data_type
        if isinstance(value, list) and desc is not None and desc.lod_level > 0:
            return LoDTensor(value, dtype=data_type, levels=desc.lod_level)
        value = np.array(value, dtype=None if data_type is None else data_type.dtype, ndmin=1)
    if isinstance(value, np.ndarray):
        return LoDTensor.from_numpy(value)
    if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
        return LoDTensor.from_arrow(value)
    return LoDTensor.from_dlpack(value) if hasattr(value, "__dlpack__") else LoDTensor.from_numpy(value)


# ---- Variables ----


class Variable:
    """A variable of a program: what is known of it, the operator that gives its value, and that value once it was run.

    Made by either signature of the design documents:

        Variable("image", dims=[-1, 640, 480], type=FP32, initializer=None)
        Variable("X", data_type=INT32, shape=[784, 10], value=0, trainable=True)
    """

    def __init__(
        self,
        name: Any = None,
        dims: Any = None,
        type: Any = None,
        initializer: Any = None,
        trainable: bool = True,
        *,
        data_type: Any = None,
        shape: Optional[Iterable[int]] = None,
        value: Any = None,
        lod_level: int = 0,
        persistable: bool = False,
        block: Optional[Block] = None,
    ) -> None:
        """Adds a variable to a block, by default that of the default program, and the operator of its initializer, or
        of its value: a number, or an array of them. -1 is a dimension that is not known. Without a name it gets one
        that the block has not. An initializer may also stand in the first place, instead of a name.

        A variable with an initial value is persistable: it keeps its value from run to run. `trainable`: optimizers
        change it, if its numbers are real. A STRING has no dims, and its value is a str."""
        if isinstance(name, Initializer):
            name, initializer = None, name
        if isinstance(dims, (DataType, VarType, str)):  # the places of the second signature
            dims, type, initializer, data_type, shape, value = None, None, None, dims, type, initializer
        dims = shape if dims is None else dims
        type = data_type if type is None else type
        self._block = get_default_block() if block is None else block
        core, idx = self._block.program._core, self._block.idx
        self._name = core.unused_name(idx) if name is None else name
        if core.has_var(idx, self._name):
            raise ValueError(f"there is a variable '{self._name}' already")
        if type == STRING:
            desc = VarDesc(self._name, type=STRING)
            if value is not None:
                desc.string = value
        else:
            if dims is None:
                dims = () if value is None else np.shape(value)
            desc = VarDesc(self._name, [int(dim) for dim in dims], DataType.FP32 if type is None else type, lod_level)
            if value is not None:
                if np.ndim(value) > 0 and np.shape(value) != tuple(desc.dims):
                    raise ValueError(f"'{desc.name}': a value of shape {np.shape(value)}, expected {tuple(desc.dims)}")
                initializer = _initializer_of(value, desc.data_type)
        desc.persistable = persistable
        desc.stop_gradient = not trainable
        self._describe(desc, initializer)

    @classmethod
    def _named(cls, name: str, block: Block) -> Variable:
        """One that the block has."""
        made = cls.__new__(cls)
        made._name, made._block = name, block
        return made

    @classmethod
    def from_proto(cls, bytes: bytes) -> Variable:
        """That of a VarDesc, of any type, in a program of its own. ParseError for other bytes."""
        return Block().add_var(VarDesc.from_proto(bytes))

    @classmethod
    def describe(cls, name: str, tensor: LoDTensor) -> Variable:
        """The variable that a tensor is a value of, in a program of its own."""
        return Block().add_var(VarDesc.describe(name, tensor))

    def initialize(self, initializer: Initializer) -> None:
        """Adds the operator that fills it, which makes it persistable. ValueError if there is one already."""
        self._describe(self.desc, initializer)

    def _describe(self, desc: VarDesc, initializer: Optional[Initializer]) -> None:
        ops = []
        if initializer is not None:
            if min(desc.dims, default=0) < 0:
                raise ValueError(f"'{desc.name}': an initializer has to know all dims")
            if self.op is not None:
                raise ValueError(f"'{desc.name}': there is an operator that gives its value")
            desc.persistable = True
            desc.is_parameter = desc.data_type in _REAL and not desc.stop_gradient
            # assign_value is older than the attributes of 64 bits.
            shape = list(desc.dims) if initializer.type == "assign_value" else np.array(desc.dims, np.int64)
            attrs = {"shape": shape, "dtype": int(desc.data_type or 0), **initializer.attrs}
            ops = [Operator(initializer.type, {}, {"Out": desc.name}, attrs)]
        self._block.program._core.append(self._block.idx, [desc], ops, False)

    @property
    def name(self) -> str:
        return self._name

    @property
    def block(self) -> Block:
        """The block that it is recorded in."""
        return self._block

    @property
    def desc(self) -> VarDesc:
        """All that is known of it; a copy."""
        return self._block.program._core.find_var(self._name, self._block.idx)

    @property
    def op(self) -> Optional[Operator]:
        """The operator that produces it, the first that writes it; None before there is one."""
        return self._block.program._core.writer(self._name, self._block.idx)

    @property
    def dims(self) -> Dims:
        """Its dimensions, -1 where they are not known: `dims[-1]`, `dims()`."""
        return Dims(self.desc.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """The same as a tuple."""
        return tuple(self.desc.dims)

    def data_type(self) -> Optional[DataType]:
        """The type of its elements; None where its type has none."""
        return self.desc.data_type

    @property
    def var_type(self) -> VarType:
        """What it is: LOD_TENSOR, SELECTED_ROWS, STRING, ..."""
        return self.desc.type

    @property
    def lod_level(self) -> int:
        return self.desc.lod_level

    @property
    def persistable(self) -> bool:
        return self.desc.persistable

    @property
    def trainable(self) -> bool:
        """Whether optimizers change it."""
        return self.desc.is_parameter

    @property
    def value(self) -> Any:
        """What it holds: if it is persistable, what it holds now, otherwise what the last run that asked for it gave. A
        str for a STRING. None before there is a value. Setting it is for variables that are persistable."""
        if self.var_type == STRING:
            return self.desc.string
        kept = self._block.program._core.value(self._name) if self.persistable else None
        return self._block.program._results.get(self._name) if kept is None else kept

    @value.setter
    def value(self, value: Any) -> None:
        self._block.program._core.set_value(self._name, _to_tensor(value, self.desc))

    def matches(self, tensor: LoDTensor) -> bool:
        """Whether a tensor is as described; -1 matches any dimension."""
        return self.desc.matches(tensor)

    def to_proto(self) -> bytes:
        """The bytes of its VarDesc."""
        return self.desc.to_proto()

    def __repr__(self) -> str:
        desc = self.desc
        if desc.data_type is None:
            return f"Variable('{self._name}', type={desc.type.name})"
        level = f", lod_level={desc.lod_level}" if desc.lod_level > 0 else ""
        kind = f", {desc.type.name}" if desc.type != VarType.LOD_TENSOR else ""
        return f"Variable('{self._name}', dims={desc.dims}, type={desc.data_type.name}{level}{kind})"

    def __str__(self) -> str:
        """Its value; before there is one, what is known of it."""
        value = self.value
        return repr(self) if value is None else str(value)

    def __add__(self, other: Any) -> Variable:
        return layer.elementwise("add", self, other)

    def __radd__(self, other: Any) -> Variable:
        return layer.elementwise("add", self, other)

    def __sub__(self, other: Any) -> Variable:
        return layer.elementwise("sub", self, other)

    def __mul__(self, other: Any) -> Variable:
        return layer.elementwise("mul", self, other)

    def __rmul__(self, other: Any) -> Variable:
        return layer.elementwise("mul", self, other)

    def __truediv__(self, other: Any) -> Variable:
        return layer.elementwise("div", self, other)

    def __matmul__(self, other: Variable) -> Variable:
        return layer.matmul(self, other)


_REAL = (DataType.FP16, DataType.FP32, DataType.FP64, DataType.BF16)


def CreateVar(desc: VarDesc) -> Variable:  # the document's name
    """A variable of the default block."""
    return get_default_block().add_var(desc)


def AddInitialOperator(variable: Any, initializer: Initializer) -> None:  # the document's name
    """Adds the operator that fills a variable, or what has one as its `_var`."""
    getattr(variable, "_var", variable).initialize(initializer)


def InferShape(of: Union[Variable, Block, Program]) -> None:  # the document's name
    """Works out what the operators of the program give, and sets it into their variables. InvalidProgram, and nothing
    changed, where they contradict."""
    program = of.block.program if isinstance(of, Variable) else of.program if isinstance(of, Block) else of
    program.infer_shapes()


def eval(
    targets: Union[Variable, Sequence[Variable]], feed: Optional[Mapping[Any, Any]] = None
) -> list[LoDTensor]:  # the document's name
    """Runs the operators that the targets need, and returns their values, which the variables then have, too:
    `print(z)` shows that of z. Initializers run before, each once. Operators that train are not run: `Program.run` runs
    all.

    `feed`: tensors, arrays or lists by variable or by name; those that the targets do not need are not looked at.
    """
    several = [targets] if isinstance(targets, Variable) else list(targets)
    return several[0].block.program._run(feed, several, True) if several else []


def append_backward(
    loss: Variable, parameters: Sequence[Variable] = (), constants: Sequence[Variable] = ()
) -> list[tuple[Variable, Variable]]:
    """Adds the operators that compute the gradients of a loss, one number. Returns the parameters that it depends on,
    by default all that are trainable, each with its gradient. Nothing flows back through `constants`."""
    block = loss.block
    pairs = block.program._core.append_backward(loss.name, [v.name for v in parameters], [v.name for v in constants])
    return [(block.var(parameter), block.var(gradient)) for parameter, gradient in pairs]


from . import layer  # noqa: E402 - it stands on the classes above
