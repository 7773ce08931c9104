// SPDX-License-Identifier: Apache-2.0
/// @file
/// PaddlePaddle's programs, and the values beside them or alone.
#include "contents.hpp"
#include <lod/io/paddle.hpp>
#include <lod/program.hpp>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string_view>

namespace lodinfo {

namespace {

namespace fs = std::filesystem;
namespace paddle = lod::paddle;

/// Where the values of a program's parameters are: in one file, or in a folder with a file for each. Not all programs
/// have some.
fs::path values_beside(const fs::path& program) {
  if (program.filename() != "__model__") return fs::path(program).replace_extension(".pdiparams");
  const fs::path all = program.parent_path() / "__params__";
  return fs::exists(all) ? all : program.parent_path() / ".";
}

/// The program whose parameters a file holds; empty where there is none.
fs::path program_beside(const fs::path& values) {
  const bool is_model = values.extension() == ".pdiparams";
  const fs::path program =
      is_model ? fs::path(values).replace_extension(".pdmodel") : values.parent_path() / "__model__";
  return (is_model || values.filename() == "__params__") && fs::exists(program) ? program : fs::path();
}

class Program : public Contents {
 public:
  explicit Program(const fs::path& path)
      : program_(paddle::load_program(path)), names_(paddle::parameter_names(program_)), values_(values_beside(path)) {
    if (program_.blocks.empty()) throw lod::ParseError("a program without a block", 0);
  }

  std::string kind() const override { return "PaddlePaddle program"; }
  const lod::ProgramDesc* program() const override { return &program_; }
  std::vector<lod::VarDesc> variables() const override {
    std::vector<lod::VarDesc> all;
    for (const lod::BlockDesc& block : program_.blocks) all.insert(all.end(), block.vars.begin(), block.vars.end());
    return all;
  }
  Value value(const std::string& name) const override {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) return {};
    const std::vector<std::string> only{name};
    if (fs::is_directory(values_)) {
      if (!fs::exists(values_ / name)) return {};
      return paddle::load_parameters(values_, only).at(name);
    }
    if (!fs::exists(values_)) return {};
    if (parameters_.empty()) parameters_ = paddle::load_parameters(values_, program_);
    return parameters_.at(name);
  }
  void verify(const std::string& name) const override {
    lod::validate(program_);
    value(name);
  }

 private:
  lod::ProgramDesc program_;
  std::vector<std::string> names_;
  fs::path values_;
  mutable paddle::Parameters parameters_;
};

/// Values of which nothing says the names: they are numbered.
Opened open_unnamed(const std::string& bytes, const lod::ParseError& why_not_one) {
  auto contents = std::make_unique<Loaded>("PaddlePaddle tensors one behind the other, without their program");
  std::string_view rest = bytes;
  for (std::size_t i = 0; !rest.empty(); ++i) {
    const std::size_t begin = bytes.size() - rest.size();
    try {
      contents->add('#' + std::to_string(i), paddle::decode_tensor(rest));
    } catch (const lod::ParseError& error) {
      if (i == 0) throw why_not_one;
      throw error.inside("tensor " + std::to_string(i), begin);
    }
  }
  return contents;
}

}  // namespace

Opened open_paddle_program(const std::string& path) { return std::make_unique<Program>(path); }

Opened open_paddle_folder(const std::string& path) {
  const fs::path program = fs::path(path) / "__model__";
  if (!fs::exists(program)) throw std::runtime_error("a folder without a __model__");
  return std::make_unique<Program>(program);
}

Opened open_paddle_values(const std::string& path) {
  if (const fs::path program = program_beside(path); !program.empty()) {
    const lod::ProgramDesc desc = paddle::load_program(program);
    auto contents = std::make_unique<Loaded>("PaddlePaddle parameters of " + program.filename().string());
    for (auto& [name, value] : paddle::load_parameters(path, desc)) contents->add(name, std::move(value));
    return contents;
  }
  // One value, of which nothing says what it is.
  const std::string name = fs::path(path).filename();
  auto contents = std::make_unique<Loaded>("PaddlePaddle variable");
  try {
    contents->add(name, paddle::load_tensor(path));
    return contents;
  } catch (const lod::ParseError& no_tensor) {
    try {
      contents->add(name, paddle::load_selected_rows(path));
      return contents;
    } catch (const lod::ParseError& no_rows) {
      return open_unnamed(read_bytes(path), no_rows.position() > no_tensor.position() ? no_rows : no_tensor);
    }
  }
}

}  // namespace lodinfo
