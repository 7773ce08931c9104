// SPDX-License-Identifier: Apache-2.0
/// @file
/// What <lod/io/paddle_operators.hpp> and <lod/io/reader_operators.hpp> have in common: operators on the files of one
/// folder.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/io/folder.hpp>
#include <lod/program/operator.hpp>

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The path of an operator's file: its attribute file_path, in a folder. A "./" at the beginning, as programs that
/// PaddlePaddle's load_vars(executor, "./model") makes have it, does not count.
inline std::string file_of(const OperatorArguments& op, const std::string& folder) {
  auto path = op.desc().attr<std::string>("file_path");
  while (path.starts_with("./")) path.erase(0, 2);
  if (!is_within_folder(path)) op.refuse_attr("file_path", "a path within the folder that programs may use");
  return folder + "/" + path;
}

/// An operator's type, and the function that prepares it for the files of a folder.
template <Executor E>
using FolderOperator = std::pair<const char*, RunOperator<E> (*)(const OperatorArguments&, const std::string&)>;

/// Adds operators on files of a folder. Throws std::invalid_argument, and adds none, if there is one of these types.
template <Executor E>
void add_folder_operators(const std::string& folder, std::initializer_list<FolderOperator<E>> added) {
  for (const auto& one : added) {
    if (operators<E>().find(one.first)) {
      throw std::invalid_argument(text({"operator '", one.first, "': there is one already"}));
    }
  }
  for (const auto& one : added) {
    operators<E>().add(one.first, {.prepare = [prepare = one.second, folder](const OperatorArguments& op) {
                         return prepare(op, folder);
                       }});
  }
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
