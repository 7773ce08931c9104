// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// The operator of programs that opens a file to read batches from. Since programs may come from anywhere, this
/// operator is not available by default: the caller adds it for one folder, which programs cannot leave.
///
///     lod::add_reader_operators("data");              // <lod/run.hpp> is included as well
///     lod::run(startup, scope);                       // its create_file_reader opens data/train.lod
///     lod::PreparedProgram step(executor, main, scope, {"loss"});
///     try {
///       for (;;) step.run();                          // its read takes the next batch
///     } catch (const lod::EndOfData&) {
///       scope.find("reader")->get<std::shared_ptr<lod::Reader>>()->restart();
///     }
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/io/batches.hpp>
#include <lod/io/file.hpp>
#include <lod/io/folder_operators.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/variable.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// create_file_reader: -> Out, a reader of the tensors `names` in a file of the library's own, file_path; of all of
/// them, if there are no names. batch_size = 1, drop_last = false; with shuffle = true in an order by `seed` = 0.
template <Executor E>
RunOperator<E> create_file_reader(const OperatorArguments& op, const std::string& folder) {
  BatchOptions options{.size = op.attr("batch_size", 1), .drop_last = op.attr("drop_last", false)};
  if (options.size < 1) op.refuse_attr("batch_size", "1 or more");
  const auto seed = static_cast<std::uint64_t>(op.attr("seed", 0));
  if (op.attr("shuffle", false)) options.shuffle = seed;
  return [out = op.output("Out"), path = file_of(op, folder), names = op.attr("names", std::vector<std::string>()),
          options](OperatorCall<E>& call) {
    auto made = std::make_shared<FileBatches>(File::open(path), names, options);
    call.variable(out).template get<std::shared_ptr<Reader>>() = std::move(made);
  };
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// Lets programs read the files of a folder, and of the folders in it, batch by batch, from now on:
/// `lod::operators<E>()` has create_file_reader, which gives a READER that the operator read takes. Its attributes:
///
/// | attribute | |
/// |---|---|
/// | `file_path` | a file as `lod::save` writes it, in the folder: programs that name others, by an absolute path or by
/// `..`, are refused when they are prepared; links are followed | | `names` | the tensors of each step, in this order;
/// none: all, in the order of the file | | `batch_size` = 1 | sequences of the outermost level, rows of tensors without
/// levels | | `drop_last` = false | whether a smaller batch at the end is left out | | `shuffle` = false, `seed` = 0 |
/// a random order, another one in each pass |
///
/// Throws, when programs run, as File::open and FileBatches do. Throws std::invalid_argument if there is an operator of
/// that type already, as after an earlier call.
template <Executor E = CpuExecutor>
void add_reader_operators(const std::string& folder) {
  detail::add_folder_operators<E>(folder, {{"create_file_reader", detail::create_file_reader<E>}});
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET
