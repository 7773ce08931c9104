// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The operators of programs that read and write files: save, load, save_combine, load_combine. Since programs may come
/// from anywhere, these operators are not available by default: the caller adds them for one folder, which programs
/// cannot leave.
///
///     lod::paddle::add_file_operators("models");                       // <lod/run.hpp> is included as well
///     lod::run(lod::paddle::load_program("models/startup"), scope);    // its load_combine reads models/parameters
///
/// The files are those of <lod/io/paddle.hpp>, in its layouts.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/target.hpp>
#include <lod/io/atomic_file.hpp>
#include <lod/io/folder_operators.hpp>
#include <lod/io/input.hpp>
#include <lod/io/paddle.hpp>
#include <lod/io/paddle_stream.hpp>
#include <lod/io/system_file.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/variable.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::paddle::detail::inline LOD_TARGET {

/// The file that an operator writes: file_path; overwrite = true.
class FileToWrite {
 public:
  FileToWrite(const OperatorArguments& op, const std::string& folder)
      : path_(lod::detail::file_of(op, folder)), may_replace_(op.attr("overwrite", true)) {
    op.expect_attr("save_as_fp16", false);
  }

  /// Writes the streams one after the other. Creates the folders on the way to the file.
  void write(const std::vector<Stream>& streams) const {
    if (!may_replace_ && exists(path_)) {  // before what takes long; `commit_new` sees what comes meanwhile
      errno = EEXIST;
      lod::detail::throw_file_error("create", path_);
    }
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
    AtomicFile file(path_);
    for (const Stream& stream : streams) stream.write_to(file);
    may_replace_ ? file.commit() : file.commit_new();
  }

 private:
  std::string path_;
  bool may_replace_;
};

/// save: X, a tensor or row-sparse -> ; attributes as FileToWrite.
template <Executor E>
RunOperator<E> save(const OperatorArguments& op, const std::string& folder) {
  const Slot x = op.input("X");
  return [x, file = FileToWrite(op, folder)](OperatorCall<E>& call) {
    const Variable& from = call.variable(x);
    file.write({from.holds<AnySelectedRows>() ? stream_of(from.get<AnySelectedRows>())
                                              : stream_of(from.get<AnyLoDTensor>(), Layout::CURRENT)});
  };
}
/// load: -> Out, of the kind that the program describes; file_path.
template <Executor E>
RunOperator<E> load(const OperatorArguments& op, const std::string& folder) {
  op.expect_attr("load_as_fp16", false);
  if (op.attr("seek", std::int64_t{-1}) != -1) op.refuse_attr("seek", "-1");
  if (!op.attr("shape", std::vector<std::int64_t>()).empty()) op.refuse_attr("shape", "none");
  const Slot out = op.output("Out");
  return [out, path = lod::detail::file_of(op, folder)](OperatorCall<E>& call) {
    Variable& to = call.variable(out);
    if (to.holds<AnySelectedRows>()) {
      to.get<AnySelectedRows>() = load_selected_rows(path);
    } else {
      to.get<AnyLoDTensor>() = load_tensor(path);
    }
  };
}
/// save_combine: X... -> ; attributes as FileToWrite.
template <Executor E>
RunOperator<E> save_combine(const OperatorArguments& op, const std::string& folder) {
  op.expect_attr("save_to_memory", false);
  const Slot x = op.inputs("X");
  return [x, file = FileToWrite(op, folder)](OperatorCall<E>& call) {
    std::vector<Stream> streams;
    for (std::size_t i = 0; i < x.size; ++i) streams.push_back(stream_of(call.tensor(x, i), Layout::CURRENT));
    file.write(streams);
  };
}
/// load_combine: -> Out...; file_path.
template <Executor E>
RunOperator<E> load_combine(const OperatorArguments& op, const std::string& folder) {
  op.expect_attr("load_as_fp16", false);
  op.expect_attr("model_from_memory", false);
  const Slot out = op.outputs("Out");
  return [out, path = lod::detail::file_of(op, folder)](OperatorCall<E>& call) {
    // All are read before the first is changed.
    auto tensors = read_file(path, [&](Input& in) {
      std::vector<AnyLoDTensor> all;
      all.reserve(out.size);
      for (std::size_t i = 0; i < out.size; ++i) all.push_back(read_tensor(in));
      return all;
    });
    for (std::size_t i = 0; i < out.size; ++i) {
      call.variable(out, i).template get<AnyLoDTensor>() = std::move(tensors[i]);
    }
  };
}

}  // namespace lod::inline LOD_INTERFACE::paddle::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::paddle::inline LOD_TARGET {

/// Lets programs read and write the files of a folder, and of the folders in it, from now on: `lod::operators<E>()` has
/// save, load, save_combine and load_combine, with PaddlePaddle's parameters. Their attribute `file_path` names a file
/// in the folder; programs that name others, by an absolute path or by `..`, are refused when they are prepared. Links
/// in the folder are followed. Storing as float16 or in memory, and parts of tensors (`seek`), are refused too.
///
/// A file is replaced as a whole or left unchanged; an existing one is refused if `overwrite` is false. Folders on the
/// way to it are created. A file that is read must hold as many tensors as the operator has outputs, and nothing else.
/// They get new memory in every run. Throws, when programs run, as <lod/io/paddle.hpp> says.
///
/// Throws std::invalid_argument if there is an operator of one of these types already, as after an earlier call.
template <Executor E = CpuExecutor>
void add_file_operators(const std::string& folder) {
  lod::detail::add_folder_operators<E>(folder, {{"save", detail::save<E>},
                                                {"load", detail::load<E>},
                                                {"save_combine", detail::save_combine<E>},
                                                {"load_combine", detail::load_combine<E>}});
}

}  // namespace lod::inline LOD_INTERFACE::paddle::inline LOD_TARGET
