# SPDX-License-Identifier: Apache-2.0
"""How gdb prints the types of this library.

    (gdb) source tools/gdb/lodtensor.py
    (gdb) print words
    $1 = lod::LoDTensor<float>, 6 rows of {2}, lengths {{3, 0}, {3}} = {<0, 0> = {{0, 1}, {2, 3}, {4, 5}}, <0, 1> = {},
      <1, 0> = {{6, 7}, {8, 9}, {10, 11}}}

A LoD is drawn as nested lists of the lengths of its innermost sequences; values stand by sequence, each after its
branch; rows and offsets of a part are numbered as in the whole. Only memory is read, and no function of the program is
called, so that core files do as well. What is longer than `print elements` is cut there. `print /r` shows members.
"""

import itertools
import math
import re
import struct

import gdb
import gdb.printing
from gdb.types import get_basic_type

# As lod::max_levels: a number beyond is one of an object before its constructor, or after its destructor.
MAX_LEVELS = 64

# DataType: the C++ type of an element, and how its 16 bits become a float.
ELEMENTS = {
    "BOOL": "bool", "INT8": "signed char", "INT16": "short", "INT32": "int", "INT64": "long",
    "UINT8": "unsigned char", "UINT32": "unsigned int", "UINT64": "unsigned long", "SIZE_T": "unsigned long",
    "FP32": "float", "FP64": "double", "FP16": "unsigned short", "BF16": "unsigned short",
    "FP8_E4M3FN": "unsigned char", "FP8_E5M2": "unsigned char",
}
COMPLEX_PARTS = {"COMPLEX64": "float", "COMPLEX128": "double"}


def float_of_binary16(bits):
    return struct.unpack("<e", struct.pack("<H", bits))[0]


def float_of_bfloat16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


SIXTEEN_BITS = {"FP16": float_of_binary16, "BF16": float_of_bfloat16}


def print_limit():
    """How many numbers gdb prints of one value; None for all."""
    if hasattr(gdb, "print_options"):  # as of gdb 13, and with those of the command
        return gdb.print_options()["max_elements"] or None
    return gdb.parameter("print elements") or None


def braces(items):
    items, limit = iter(items), print_limit()
    shown = [str(item) for item in itertools.islice(items, limit)]
    return "{" + ", ".join([*shown, "..."] if next(items, None) is not None else shown) + "}"


def counted(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def short_name(value):
    """The type as users write it: without the inline namespace of the interface's version, and without the CPU."""
    name = re.sub(r"\bv\d+_\d+\w*::", "", get_basic_type(value.type).name)
    return name.replace(", lod::Cpu>", ">").replace("BasicAnyLoDTensor<lod::Cpu>", "AnyLoDTensor")


def member_type(value, name):
    """The type `name` in the versioned namespace of the library that the type of `value` is in."""
    namespace = re.match(r"(lod::(?:v\d+_\d+\w*::)?)", get_basic_type(value.type).name).group(1)
    return gdb.lookup_type(namespace + name)


def array(name, pointer, dims):
    """A child: the array of these dimensions at `pointer`. Of what is larger than gdb may fetch it is the beginning,
    and the name says so."""
    if 0 in dims:
        return name, "{}"  # gdb has no arrays without elements
    kind = pointer.type.target().strip_typedefs().unqualified()
    largest = gdb.parameter("max-value-size")
    room = largest // kind.sizeof if largest and largest > 0 else math.inf
    if math.prod(dims) > room:
        name += ", its beginning"
        row = math.prod(dims[1:])
        dims = [room // row, *dims[1:]] if row <= room else [room]
    for dim in reversed(dims):
        kind = kind.array(dim - 1)
    return name, pointer.cast(kind.pointer()).dereference()


# ---- The standard library's containers, as libstdc++ has them -------------------------------------------------------

def vector_size(vector):
    return int(vector["_M_impl"]["_M_finish"] - vector["_M_impl"]["_M_start"])


def vector_elements(vector):
    return (vector["_M_impl"]["_M_start"][i] for i in range(vector_size(vector)))


def string_text(string):
    return string["_M_dataplus"]["_M_p"].string(length=int(string["_M_string_length"]))


def optional_value(optional):
    payload = optional["_M_payload"]
    return payload["_M_payload"]["_M_value"] if payload["_M_engaged"] else None


# ---- Levels ----------------------------------------------------------------------------------------------------------

class Levels:
    """Sequences [begin, end) of one level of a LoD, with what is below; rows where the block is null."""

    def __init__(self, lod, block, first=0, begin=0, end=0):
        self.first, self.begin, self.end = first, begin, end
        self.count, self.entries = 0, None
        if int(block):
            self.count = int(block["levels"]) - first
            if not 0 <= self.count <= MAX_LEVELS - first:
                raise gdb.MemoryError("this is no LoD")
            self.entries = (block + 1).cast(member_type(lod, "detail::Level").pointer())

    @staticmethod
    def of_lod(lod):
        block = lod["block_"]["block_"]
        levels = Levels(lod, block)
        if levels.count:
            levels.end = int(levels.entries[0]["size"])
        return levels

    @staticmethod
    def of_view(view):
        return Levels(view, view["block_"], int(view["first_level_"]), int(view["begin_"]), int(view["end_"]))

    def row(self, position):
        return int(self.entries[self.first]["absolute"][position]) if self.count else position

    def first_row(self):
        return self.row(self.begin)

    def rows(self):
        return self.row(self.end) - self.row(self.begin)

    def offsets(self, level):
        """A pointer to the offsets of a level, counted from the outermost of these."""
        return self.entries[self.first + level]["offsets"]

    def offset_arrays(self):
        begin, end = self.begin, self.end
        for level in range(self.count):
            offsets = self.offsets(level)
            yield array(f"level {level}", offsets + begin, [end - begin + 1])
            begin, end = int(offsets[begin]), int(offsets[end])

    def sequences(self):
        """The innermost sequences, one by one: branch, first row, and the row after the last."""
        def below(level, branch, begin, end):
            offsets = self.offsets(level)
            for i in range(begin, end):
                inner = (*branch, i - begin), int(offsets[i]), int(offsets[i + 1])
                if level + 1 < self.count:
                    yield from below(level + 1, *inner)
                else:
                    yield inner

        return below(0, (), self.begin, self.end)

    def drawing(self):
        """Nested lists of the lengths of the innermost sequences."""
        limit = print_limit()
        drawn = itertools.count(1)

        def below(level, begin, end):
            offsets, items = self.offsets(level), []
            for i in range(begin, end):
                if limit and next(drawn) > limit:
                    items.append("...")
                    break
                inner = int(offsets[i]), int(offsets[i + 1])
                items.append(below(level + 1, *inner) if level + 1 < self.count else inner[1] - inner[0])
            return braces(items)

        return below(0, self.begin, self.end)

    def __str__(self):
        if not self.count:
            return "no levels"
        return f"lengths {self.drawing()}"


class PrintLevels:
    def __init__(self, value):
        self.value = value
        self.levels = Levels.of_view(value) if "begin_" in get_basic_type(value.type) else Levels.of_lod(value)

    def to_string(self):
        name, levels = short_name(self.value), self.levels
        if not levels.count and not levels.rows():
            return f"{name}, no levels"
        return f"{name}, {counted(levels.rows(), 'row')}{starting(levels)}, {levels}"

    def children(self):
        return self.levels.offset_arrays()


def starting(levels):
    return f" from row {levels.first_row()}" if levels.first_row() else ""


# ---- Tensors ---------------------------------------------------------------------------------------------------------

def shape_dims(shape):
    return [int(shape["dims_"][i]) for i in range(min(int(shape["rank_"]), 8))]


class Rows:
    """What tensors and views have in common: `rows` rows, the first of which is at `data`, under `levels`."""

    def __init__(self, value, levels, rows, shape, data):
        self.name, self.levels, self.rows, self.data = short_name(value), levels, rows, data
        self.row_dims = shape_dims(shape.dereference()) if int(shape) else []
        self.row_size = math.prod(self.row_dims)

    def text(self):
        rows = counted(self.rows, "row") + (f" of {braces(self.row_dims)}" if self.row_dims else "")
        rows += starting(self.levels)
        return f"{self.name}, {rows}" + (f", {self.levels}" if self.levels.count else "")

    def at(self, row):
        return self.data + (row - self.levels.first_row()) * self.row_size

    def one_row(self, row):
        name = f"[{row}]"
        return array(name, self.at(row), self.row_dims) if self.row_dims else (name, self.at(row).dereference())

    def children(self):
        if not self.levels.count:
            first = self.levels.first_row()
            for row in range(first, first + self.rows):
                yield self.one_row(row)
            return
        for branch, begin, end in self.levels.sequences():
            yield array(f"<{', '.join(map(str, branch))}>", self.at(begin), [end - begin, *self.row_dims])


class PrintTensor:
    def __init__(self, value):
        self.contents = self.rows_of(value)
        # Of other memory than the CPU's, gdb knows nothing.
        self.here = "Cpu" in str(get_basic_type(value.type).template_argument(1))

    @staticmethod
    def rows_of(tensor):
        levels, rows = Levels.of_lod(tensor["lod_"]), int(tensor["rows_"])
        shape = tensor["row_shape_"]["block_"]
        shape = shape["shape"].address if int(shape) else shape
        return Rows(tensor, levels, rows, shape, tensor["values_"]["data_"])

    def to_string(self):
        return self.contents.text() + ("" if self.here else ", values on another device")

    def children(self):
        return self.contents.children() if self.here else iter(())

    def display_hint(self):
        """As an array, unless the names of children say something."""
        first = next(iter(self.children()), ("[0]",))[0]
        return None if self.contents.levels.count or "," in first else "array"


class PrintView(PrintTensor):
    @staticmethod
    def rows_of(view):
        levels = Levels.of_view(view["lod_"])
        return Rows(view, levels, levels.rows(), view["row_shape_"], view["data_"])


class PrintAnyTensor(PrintTensor):
    def __init__(self, value):
        self.contents = self.rows_of_any(value)
        template = re.search(r"<(.*)>", short_name(value))
        self.here = not template or "Cpu" in template.group(1)

    @staticmethod
    def rows_of_any(tensor):
        kind = enumerator(tensor["data_type_"])
        shape = tensor["row_shape_"]["block_"]
        shape = shape["shape"].address if int(shape) else shape
        data = tensor["bytes_"]["data_"]
        if kind in COMPLEX_PARTS:
            element = gdb.lookup_type(COMPLEX_PARTS[kind]).array(1)
        else:
            element = gdb.lookup_type(ELEMENTS.get(kind, "unsigned char"))
        rows = Rows(tensor, Levels.of_lod(tensor["lod_"]), int(tensor["rows_"]), shape, data.cast(element.pointer()))
        rows.name += " of " + kind
        rows.convert = SIXTEEN_BITS.get(kind)
        return rows

    def children(self):
        convert = self.contents.convert
        for name, value in super().children():
            yield name, as_floats(value, convert) if convert and isinstance(value, gdb.Value) else value


def as_floats(value, convert):
    """A value of 16-bit integers, or an array of these, of any rank, as floats."""
    kind, dims = value.type, []
    while kind.code == gdb.TYPE_CODE_ARRAY:
        dims.append(kind.range()[1] + 1)
        kind = kind.target()
    bits = bytes(gdb.selected_inferior().read_memory(value.address, value.type.sizeof))
    numbers = [convert(number) for number, in struct.iter_unpack("<H", bits)]
    kind = gdb.lookup_type("float")
    for dim in reversed(dims):
        kind = kind.array(dim - 1)
    return gdb.Value(struct.pack(f"<{len(numbers)}f", *numbers), kind)


class PrintSelectedRows:
    def __init__(self, value):
        self.name, self.height = short_name(value), int(value["height_"])
        self.numbers = value["rows_"]
        self.values = PrintAnyTensor(value["value_"]) if "Any" in self.name else PrintTensor(value["value_"])

    def to_string(self):
        # How many rows, and of which shape.
        rows = self.values.contents.text().split(", ", 1)[1]
        return f"{self.name}, {rows}, of a height of {self.height}"

    def children(self):
        # The tensor has no levels: a child is a row.
        for number, (_, row) in zip(vector_elements(self.numbers), self.values.children()):
            yield f"[{int(number)}]", row


class PrintSixteenBits:
    def __init__(self, value):
        convert = float_of_bfloat16 if "bfloat16" in short_name(value) else float_of_binary16
        self.number = gdb.Value(convert(int(value["bits_"]))).cast(gdb.lookup_type("float"))

    def to_string(self):
        return self.number


# ---- Descriptions ----------------------------------------------------------------------------------------------------

def enumerator(value):
    """The name of an enumerator, without that of its type."""
    return str(value).rpartition("::")[2]


def tensor_desc(desc):
    dims = braces(int(dim) for dim in vector_elements(desc["dims"]))
    return f"{enumerator(desc['data_type'])} {dims}"


def leveled_desc(desc):
    return f"{tensor_desc(desc['tensor'])}, {counted(int(desc['lod_level']['value_']), 'level')}"


# The fields of VarType that describe what a variable holds, and how.
CONTENTS = {
    "lod_tensor": leveled_desc, "tensor_array": leveled_desc, "selected_rows": tensor_desc, "string": tensor_desc,
    "strings": tensor_desc, "vocab": tensor_desc, "sparse_coo": tensor_desc, "sparse_csr": tensor_desc,
    "reader": lambda desc: braces(f"{{{leveled_desc(one)}}}" for one in vector_elements(desc["lod_tensor"])),
    "tuple": lambda desc: braces(enumerator(one) for one in vector_elements(desc["element_type"])),
}


def var_type(kind):
    text = enumerator(kind["type"])
    for field, describe in CONTENTS.items():
        contents = optional_value(kind[field])
        if contents is not None:
            text += " " + describe(contents)
    return text


def var_desc(desc):
    text = f"{string_text(desc['name'])}: {var_type(desc['type'])}"
    for flag in "persistable", "is_parameter", "stop_gradient":
        if desc[flag]["value_"]:
            text += ", " + flag
    return text


def arguments(parameters):
    def one(parameter):
        names = [string_text(name) for name in vector_elements(parameter["arguments"])]
        return f"{string_text(parameter['parameter'])}: {names[0] if len(names) == 1 else braces(names)}"

    return ", ".join(map(one, itertools.islice(vector_elements(parameters), print_limit())))


def op_desc(desc):
    text = f"{string_text(desc['type'])}({arguments(desc['inputs'])}) -> {arguments(desc['outputs'])}"
    attributes = vector_size(desc["attrs"])
    return text + (f", {counted(attributes, 'attribute')}" if attributes else "")


def block_desc(desc):
    counts = counted(vector_size(desc["vars"]), "variable"), counted(vector_size(desc["ops"]), "operator")
    return f"block {int(desc['idx'])}, " + ", ".join(counts)


def program_desc(desc):
    return "program, " + counted(vector_size(desc["blocks"]), "block")


def text_printer(describe, *fields):
    """A printer that says what `describe` does, and has the elements of these vectors for children."""
    class PrintText:
        def __init__(self, value):
            self.value = value

        def to_string(self):
            return describe(self.value)

        def children(self):
            for field in fields:
                for i, element in enumerate(vector_elements(self.value[field])):
                    yield f"{field}[{i}]", element

    return PrintText


def defaulted(value):
    return value["value_"] if value["has_value_"] else f"absent, which reads as {value['value_']}"


PRINTERS = {
    "LoD": PrintLevels,
    "LoDView": PrintLevels,
    "LoDTensor": PrintTensor,
    "LoDTensorView": PrintView,
    "BasicAnyLoDTensor": PrintAnyTensor,
    "SelectedRows": PrintSelectedRows,
    "AnySelectedRows": PrintSelectedRows,
    "Shape": text_printer(lambda shape: braces(shape_dims(shape))),
    "float16": PrintSixteenBits,
    "bfloat16": PrintSixteenBits,
    "Defaulted": text_printer(defaulted),
    "TensorDesc": text_printer(tensor_desc),
    "LoDTensorDesc": text_printer(leveled_desc),
    "LoDTensorArrayDesc": text_printer(leveled_desc),
    "VarType": text_printer(var_type),
    "VarDesc": text_printer(var_desc),
    "OpDesc": text_printer(op_desc),
    "BlockDesc": text_printer(block_desc, "vars", "ops"),
    "ProgramDesc": text_printer(program_desc, "blocks"),
}


def register():
    collection = gdb.printing.RegexpCollectionPrettyPrinter("lodtensor")
    for name, printer in PRINTERS.items():
        collection.add_printer(name, rf"^lod::(v\d+_\d+\w*::)?{name}(<.*>)?$", printer)
    gdb.printing.register_pretty_printer(gdb.current_objfile(), collection, replace=True)


register()
