// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on readers: read, create_py_reader, create_double_buffer_reader. Those that open files are in
/// <lod/io/reader_operators.hpp>.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/block_to_run.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/channels.hpp>
#include <lod/program/readers.hpp>
#include <lod/program/run.hpp>
#include <lod/program/variable.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The reader in a variable. Throws ShapeMismatch if it holds something else, or nothing.
inline const std::shared_ptr<Reader>& reader_of(const Variable& variable) {
  const auto& found = variable.get<std::shared_ptr<Reader>>();
  if (!found) throw ShapeMismatch(detail::text({"variable '", variable.name(), "' has no reader"}));
  return found;
}

/// read: Reader -> Out...: the tensors of its next step. After the last one it throws EndOfData; with throw_eof_exp =
/// false outputs are empty then. (infer_out and drop_last, which it has too, are for PaddlePaddle's several devices.)
template <Executor E>
RunOperator<E> read(const OperatorArguments& op) {
  return [reader = op.input("Reader"), out = op.outputs("Out"),
          throws = op.attr("throw_eof_exp", true)](OperatorCall<E>& call) {
    auto step = reader_of(call.variable(reader))->next();
    if (!step && throws) throw EndOfData(detail::text({call.name(reader), " has no next step"}));
    write_all(call, out, step ? std::move(*step) : std::vector<AnyLoDTensor>(out.size), "the reader");
  };
}

/// create_double_buffer_reader: UnderlyingReader -> Out, which reads ahead; place = "AUTO" or "CPU".
template <Executor E>
RunOperator<E> create_double_buffer_reader(const OperatorArguments& op) {
  const std::string place = op.attr("place", "AUTO");
  if (place != "AUTO" && place != "CPU") op.refuse_attr("place", "AUTO or CPU");
  return [from = op.input("UnderlyingReader"), out = op.output("Out")](OperatorCall<E>& call) {
    auto made = std::make_shared<ReadAhead>(reader_of(call.variable(from)));
    call.variable(out).template get<std::shared_ptr<Reader>>() = std::move(made);
  };
}

/// What a reader gives, by the attributes shape_concat (the dimensions of all tensors, one after the other), ranks (how
/// many each has), dtypes, and lod_levels.
inline ReaderDesc described_reader(const OperatorArguments& op) {
  using Ints = std::vector<std::int32_t>;
  const Ints dims = op.attr("shape_concat", Ints()), ranks = op.attr("ranks", Ints());
  const Ints types = op.attr("dtypes", Ints()), levels = op.attr("lod_levels", Ints());
  ReaderDesc desc;
  std::size_t used = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < 0 || static_cast<std::size_t>(ranks[i]) > dims.size() - used) {
      op.refuse_attr("ranks", "numbers whose sum is how many 'shape_concat' has");
    }
    TensorDesc tensor;
    for (const std::size_t end = used + static_cast<std::size_t>(ranks[i]); used < end; ++used) {
      tensor.dims.push_back(dims[used]);
    }
    if (i < types.size()) {
      tensor.data_type = static_cast<DataType>(types[i]);
      if (!is_pod(tensor.data_type)) op.refuse_attr("dtypes", "the numbers of data types");
    }
    desc.lod_tensor.push_back({std::move(tensor), i < levels.size() ? levels[i] : 0});
  }
  return desc;
}

/// create_py_reader: blocking_queue, a channel -> Out, which reads what is sent there; attributes as described_reader.
template <Executor E>
RunOperator<E> create_py_reader(const OperatorArguments& op) {
  return [queue = op.input("blocking_queue"), out = op.output("Out"), desc = described_reader(op),
          longest = op.block().longest_wait()](OperatorCall<E>& call) {
    auto made = std::make_shared<ChannelReader>(channel_of(call.variable(queue)), desc, longest);
    call.variable(out).template get<std::shared_ptr<Reader>>() = std::move(made);
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
