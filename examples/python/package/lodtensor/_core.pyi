# SPDX-License-Identifier: Apache-2.0
"""What is compiled of the package. `Program` here is what the package's own stands on, and not for its users."""

import builtins
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, Optional, Union

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = [
    "Adagrad",
    "Adam",
    "BF16",
    "BOOL",
    "COMPLEX128",
    "COMPLEX64",
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "DataType",
    "FP16",
    "FP32",
    "FP64",
    "FP8_E4M3FN",
    "FP8_E5M2",
    "File",
    "Ftrl",
    "INT16",
    "INT32",
    "INT64",
    "INT8",
    "InvalidLoD",
    "InvalidProgram",
    "L1Decay",
    "L2Decay",
    "LoDTensor",
    "Momentum",
    "Operator",
    "OutOfRange",
    "ParseError",
    "PoolType",
    "RMSProp",
    "SGD",
    "SIZE_T",
    "SelectedRows",
    "ShapeMismatch",
    "UINT32",
    "UINT64",
    "UINT8",
    "VarDesc",
    "VarType",
    "load",
    "merge_add",
    "save",
    "sequence_pad",
    "sequence_pool",
    "sequence_reverse",
    "sequence_softmax",
    "sequence_unpad",
    "to_dense",
]

class InvalidLoD(ValueError): ...
class InvalidProgram(ValueError): ...
class OutOfRange(IndexError): ...

class ParseError(ValueError):
    position: int

class ShapeMismatch(ValueError): ...

class _Enum:
    __members__: ClassVar[dict[str, Any]]
    def __int__(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...

class DataType(_Enum):
    BOOL: ClassVar[DataType]
    INT16: ClassVar[DataType]
    INT32: ClassVar[DataType]
    INT64: ClassVar[DataType]
    FP16: ClassVar[DataType]
    FP32: ClassVar[DataType]
    FP64: ClassVar[DataType]
    SIZE_T: ClassVar[DataType]
    UINT8: ClassVar[DataType]
    INT8: ClassVar[DataType]
    BF16: ClassVar[DataType]
    COMPLEX64: ClassVar[DataType]
    COMPLEX128: ClassVar[DataType]
    FP8_E4M3FN: ClassVar[DataType]
    FP8_E5M2: ClassVar[DataType]
    UINT32: ClassVar[DataType]
    UINT64: ClassVar[DataType]
    @property
    def dtype(self) -> np.dtype[Any]: ...

BOOL: DataType
INT16: DataType
INT32: DataType
INT64: DataType
FP16: DataType
FP32: DataType
FP64: DataType
SIZE_T: DataType
UINT8: DataType
INT8: DataType
BF16: DataType
COMPLEX64: DataType
COMPLEX128: DataType
FP8_E4M3FN: DataType
FP8_E5M2: DataType
UINT32: DataType
UINT64: DataType

class VarType(_Enum):
    LOD_TENSOR: ClassVar[VarType]
    SELECTED_ROWS: ClassVar[VarType]
    FEED_MINIBATCH: ClassVar[VarType]
    FETCH_LIST: ClassVar[VarType]
    STEP_SCOPES: ClassVar[VarType]
    LOD_RANK_TABLE: ClassVar[VarType]
    LOD_TENSOR_ARRAY: ClassVar[VarType]
    PLACE_LIST: ClassVar[VarType]
    READER: ClassVar[VarType]
    CHANNEL: ClassVar[VarType]
    RAW: ClassVar[VarType]
    TUPLE: ClassVar[VarType]
    STRING: ClassVar[VarType]
    STRINGS: ClassVar[VarType]
    VOCAB: ClassVar[VarType]
    FEED_LIST: ClassVar[VarType]
    PSTRING: ClassVar[VarType]
    SPARSE_COO: ClassVar[VarType]
    SPARSE_CSR: ClassVar[VarType]

_Type = Union[DataType, DTypeLike]
_Levels = Optional[Sequence[Sequence[int]]]
_Path = Union[str, bytes, PathLike[str], PathLike[bytes]]

class LoDTensor:
    def __init__(
        self, nested: list[Any] = ..., *, dtype: Optional[_Type] = ..., levels: Optional[int] = ...
    ) -> None: ...
    @staticmethod
    def from_numpy(
        values: Any, lod: _Levels = ..., *, lengths: _Levels = ..., copy: Optional[bool] = ...
    ) -> LoDTensor: ...
    @staticmethod
    def from_dlpack(values: Any, lod: _Levels = ..., *, lengths: _Levels = ...) -> LoDTensor: ...
    @staticmethod
    def from_arrow(array: Any) -> LoDTensor: ...
    @property
    def data_type(self) -> DataType: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def levels(self) -> int: ...
    @property
    def lod(self) -> list[list[int]]: ...
    @property
    def absolute_lod(self) -> list[list[int]]: ...
    @property
    def lengths(self) -> list[list[int]]: ...
    @property
    def first_row(self) -> int: ...
    def slice(self, *branch: int) -> LoDTensor: ...
    def numpy(self) -> NDArray[Any]: ...
    def tolist(self) -> list[Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Union[int, builtins.slice]) -> LoDTensor: ...

class SelectedRows:
    def __init__(self, rows: Any, height: int, value: LoDTensor) -> None: ...
    @property
    def rows(self) -> list[int]: ...
    @property
    def height(self) -> int: ...
    @property
    def value(self) -> LoDTensor: ...
    def __len__(self) -> int: ...

class PoolType(_Enum):
    SUM: ClassVar[PoolType]
    AVERAGE: ClassVar[PoolType]
    SQRT: ClassVar[PoolType]
    MAX: ClassVar[PoolType]
    MIN: ClassVar[PoolType]
    FIRST: ClassVar[PoolType]
    LAST: ClassVar[PoolType]

def sequence_pool(x: LoDTensor, type: PoolType, *, pad_value: float = ..., level: int = ...) -> LoDTensor: ...
def sequence_softmax(x: LoDTensor, *, level: int = ...) -> LoDTensor: ...
def sequence_reverse(x: LoDTensor, *, level: int = ...) -> LoDTensor: ...
def sequence_pad(
    x: LoDTensor, *, pad_value: float = ..., padded_length: int = ..., level: int = ...
) -> tuple[LoDTensor, LoDTensor]: ...
def sequence_unpad(dense: LoDTensor, lengths: Any) -> LoDTensor: ...
def merge_add(g: SelectedRows) -> SelectedRows: ...
def to_dense(g: SelectedRows) -> LoDTensor: ...

_Value = Union[LoDTensor, SelectedRows, list[LoDTensor]]

def save(path: _Path, variables: Mapping[str, Any]) -> None: ...
def load(path: _Path) -> dict[str, _Value]: ...

class File:
    def __init__(self, path: _Path) -> None: ...
    def names(self) -> list[str]: ...
    def __contains__(self, name: str) -> bool: ...
    def __getitem__(self, name: str) -> _Value: ...
    def verify(self) -> None: ...

class Operator:
    def __init__(
        self,
        type: str,
        inputs: Mapping[str, Union[str, Sequence[str]]] = ...,
        outputs: Mapping[str, Union[str, Sequence[str]]] = ...,
        attrs: Mapping[str, Any] = ...,
    ) -> None: ...
    @staticmethod
    def from_proto(bytes: bytes) -> Operator: ...
    @property
    def type(self) -> str: ...
    @property
    def inputs(self) -> list[str]: ...
    @property
    def outputs(self) -> list[str]: ...
    def input(self, parameter: str) -> list[str]: ...
    def output(self, parameter: str) -> list[str]: ...
    @property
    def attrs(self) -> dict[str, Any]: ...
    def to_proto(self) -> bytes: ...

class VarDesc:
    persistable: bool
    is_parameter: bool
    stop_gradient: bool
    string: Any
    def __init__(
        self, name: str, dims: Sequence[int] = ..., data_type: _Type = ..., lod_level: int = ..., type: VarType = ...
    ) -> None: ...
    @staticmethod
    def from_proto(bytes: bytes) -> VarDesc: ...
    @staticmethod
    def describe(name: str, tensor: LoDTensor) -> VarDesc: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> VarType: ...
    @property
    def dims(self) -> list[int]: ...
    @property
    def data_type(self) -> Optional[DataType]: ...
    @property
    def lod_level(self) -> int: ...
    def matches(self, tensor: LoDTensor) -> bool: ...
    def to_proto(self) -> bytes: ...

class L1Decay:
    def __init__(self, coeff: float = ...) -> None: ...

class L2Decay:
    def __init__(self, coeff: float = ...) -> None: ...

class ClipGradByValue:
    def __init__(self, max: float, min: Optional[float] = ...) -> None: ...

class ClipGradByNorm:
    def __init__(self, clip_norm: float) -> None: ...

class ClipGradByGlobalNorm:
    def __init__(self, clip_norm: float) -> None: ...

class _Optimizer:
    def minimize(
        self,
        loss: Any,
        parameters: Sequence[Any] = ...,
        constants: Sequence[Any] = ...,
        weight_decay: Union[None, L1Decay, L2Decay] = ...,
        grad_clip: Union[None, ClipGradByValue, ClipGradByNorm, ClipGradByGlobalNorm] = ...,
    ) -> list[tuple[Any, Any]]: ...

class SGD(_Optimizer):
    def __init__(self, learning_rate: float = ...) -> None: ...

class Momentum(_Optimizer):
    def __init__(self, learning_rate: float = ..., momentum: float = ..., use_nesterov: bool = ...) -> None: ...

class Adagrad(_Optimizer):
    def __init__(
        self, learning_rate: float = ..., epsilon: float = ..., initial_accumulator_value: float = ...
    ) -> None: ...

class RMSProp(_Optimizer):
    def __init__(
        self,
        learning_rate: float = ...,
        rho: float = ...,
        epsilon: float = ...,
        momentum: float = ...,
        centered: bool = ...,
    ) -> None: ...

class Adam(_Optimizer):
    def __init__(
        self,
        learning_rate: float = ...,
        beta1: float = ...,
        beta2: float = ...,
        epsilon: float = ...,
        lazy_mode: bool = ...,
    ) -> None: ...

class Ftrl(_Optimizer):
    def __init__(
        self, learning_rate: float = ..., l1: float = ..., l2: float = ..., lr_power: float = ...
    ) -> None: ...

class Program:
    def __init__(self, bytes: bytes = ...) -> None: ...
    def to_proto(self) -> bytes: ...
    def block_to_proto(self, idx: int) -> bytes: ...
    @property
    def block_count(self) -> int: ...
    def parent_idx(self, idx: int) -> int: ...
    def append_block(self, parent: int) -> int: ...
    def var_names(self, idx: int) -> list[str]: ...
    def has_var(self, idx: int, name: str) -> bool: ...
    def unused_name(self, idx: int) -> str: ...
    def find_var(self, name: str, idx: int) -> Any: ...
    def writer(self, name: str, idx: int) -> Any: ...
    def ops(self, idx: int) -> list[Operator]: ...
    def append(self, idx: int, vars: list[VarDesc], ops: list[Operator], infers_shapes: bool) -> None: ...
    def infer_shapes(self) -> None: ...
    def append_backward(
        self, loss: str, parameters: list[str], constants: list[str]
    ) -> list[tuple[str, str]]: ...
    def minimize(
        self,
        loss: str,
        optimizer: _Optimizer,
        parameters: list[str],
        constants: list[str],
        weight_decay: Any,
        grad_clip: Any,
    ) -> list[tuple[str, str]]: ...
    def value(self, name: str) -> Optional[LoDTensor]: ...
    def set_value(self, name: str, value: LoDTensor) -> None: ...
    def run(self, feed: dict[str, LoDTensor], fetch: list[str], is_pruned: bool) -> list[LoDTensor]: ...
    def save_model(self, path: str, feeds: list[str], targets: list[str]) -> None: ...
    @staticmethod
    def load_model(path: str) -> Program: ...

def operator_types() -> list[str]: ...
