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
#include <lod/program/check_described.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/channels.hpp>
#include <lod/program/readers.hpp>
#include <lod/program/run.hpp>
#include <lod/program/variable.hpp>
#include <lod/program/waiting_time.hpp>

#include <algorithm>
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

/// read: Reader -> Out...: the tensors of its next step, which must be as the program describes the outputs: type,
/// dimensions and number of levels. After the last step it throws EndOfData; with throw_eof_exp = false, outputs are
/// then empty. (Its attributes infer_out and drop_last are for several devices, and are not read.)
template <Executor E>
RunOperator<E> read(const OperatorArguments& op) {
  std::vector<std::optional<LoDTensorDesc>> descs;
  for (const std::string& name : op.desc().output("Out")) {
    const VarDesc* const var = op.block().find_var(name);
    const bool is_described = var && var->type.lod_tensor && !var->type.lod_tensor->tensor.dims.empty();
    descs.push_back(is_described ? var->type.lod_tensor : std::nullopt);
  }
  return [reader = op.input("Reader"), out = op.outputs("Out"), descs = std::move(descs), block = &op.block(),
          throws = op.attr("throw_eof_exp", true)](OperatorCall<E>& call) {
    auto step =
        block->wait([&](WaitingTime longest) { return reader_of(call.variable(reader))->next_within(longest); });
    if (!step && throws) throw EndOfData(detail::text({call.name(reader), " has no next step"}));
    for (std::size_t i = 0; step && i < std::min(step->size(), descs.size()); ++i) {
      if (!descs[i] || !call.has(out, i)) continue;
      const AnyLoDTensor& value = (*step)[i];
      lod::detail::check_described(value, *descs[i], [&] { return call.name(out, i); });
      if (value.levels() != descs[i]->lod_level) {
        throw ShapeMismatch(detail::text({call.name(out, i), ": ", value.levels(), " levels, expected ",
                                          descs[i]->lod_level.value(), " as the program says"}));
      }
    }
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

/// The tensors that a reader delivers, by the attributes shape_concat (the dimensions of all tensors, one after the
/// other), ranks (how many dimensions each has), dtypes, and lod_levels.
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

/// create_py_reader: blocking_queue, a channel -> Out, which reads what is sent to the channel; attributes as
/// described_reader.
template <Executor E>
RunOperator<E> create_py_reader(const OperatorArguments& op) {
  return
      [queue = op.input("blocking_queue"), out = op.output("Out"), desc = described_reader(op)](OperatorCall<E>& call) {
        auto made = std::make_shared<ChannelReader>(channel_of(call.variable(queue)), desc);
        call.variable(out).template get<std::shared_ptr<Reader>>() = std::move(made);
      };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
