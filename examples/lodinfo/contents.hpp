// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is in a file, whatever its kind.
#pragma once

#include <lod/any_tensor.hpp>
#include <lod/desc.hpp>
#include <lod/program.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace lodinfo {

/// The value of a variable: nothing, where the file describes it only.
using Value = std::variant<std::monostate, lod::AnyLoDTensor, lod::AnySelectedRows, std::vector<lod::AnyLoDTensor>>;

/// A tensor, or a slice of one, which knows its first row in the whole.
struct Part {
  lod::AnyLoDTensor tensor;
  std::int64_t first_row = 0;
};
/// The slice of a branch, copied. Throws lod::OutOfRange.
Part slice_of(const lod::AnyLoDTensor& whole, const std::vector<std::int64_t>& branch);

/// An open file. Its functions throw lod::ParseError where it is damaged, and know the names that `variables()` lists.
/// Where that is in one variable only, `variables()` lists it with a type alone, and its `value` throws.
class Contents {
 public:
  virtual ~Contents() = default;
  /// What kind of file it is, in words.
  virtual std::string kind() const = 0;
  /// Null where it is no program.
  virtual const lod::ProgramDesc* program() const { return nullptr; }
  virtual std::vector<lod::VarDesc> variables() const = 0;
  virtual Value value(const std::string& name) const = 0;
  /// The slice of a branch of a tensor. Throws lod::OutOfRange.
  virtual Part slice(const std::string& name, const std::vector<std::int64_t>& branch) const {
    return slice_of(std::get<lod::AnyLoDTensor>(value(name)), branch);
  }
  /// Reads all of a variable, and throws where something is wrong with it.
  virtual void verify(const std::string& name) const { value(name); }
};

/// Contents that were loaded when the file was opened.
class Loaded : public Contents {
 public:
  explicit Loaded(std::string kind) : kind_(std::move(kind)) {}
  /// X is AnyLoDTensor or AnySelectedRows.
  template <class X>
  void add(const std::string& name, X value) {
    variables_.push_back(lod::describe(name, value));
    values_.emplace_back(std::move(value));
  }

  std::string kind() const override { return kind_; }
  std::vector<lod::VarDesc> variables() const override { return variables_; }
  Value value(const std::string& name) const override {
    for (std::size_t i = 0; i < variables_.size(); ++i) {
      if (variables_[i].name == name) return values_[i];
    }
    return {};
  }

 private:
  std::string kind_;
  std::vector<lod::VarDesc> variables_;
  std::vector<Value> values_;
};

using Opened = std::unique_ptr<const Contents>;

/// Opens a file of any kind, or a folder of PaddlePaddle's. Throws lod::ParseError where it is of no known kind or is
/// damaged, std::runtime_error where this program was built without what its kind needs, and std::system_error.
Opened open(const std::string& path);

/// The kinds of files that `open` knows, and which of them this program was built without.
std::string known_kinds();

/// @{
/// Files of one kind. Each is in a source file of its own, which is left out where its library is missing.
Opened open_lod_file(const std::string& path);
Opened open_paddle_folder(const std::string& path);
Opened open_paddle_program(const std::string& path);
Opened open_paddle_values(const std::string& path);
Opened open_npy(const std::string& path);
Opened open_npz(const std::string& path);
Opened open_json(const std::string& path);
/// @}

/// The name of the only variable of a file that does not say it: that of the file, without folder and extension.
std::string name_from(const std::string& path);

/// All bytes of a file. Throws std::system_error.
std::string read_bytes(const std::string& path);

}  // namespace lodinfo
