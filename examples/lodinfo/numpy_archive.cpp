// SPDX-License-Identifier: Apache-2.0
/// @file
/// NumPy's file of named arrays. Each is read when it is asked for.
#include "contents.hpp"
#include <lod/error.hpp>
#include <lod/io/npz.hpp>

#include <algorithm>

namespace lodinfo {

namespace {

class Npz : public Contents {
 public:
  explicit Npz(const std::string& path) : file_(lod::NpzFile::open(path)) {}

  std::string kind() const override { return "NumPy archive (.npz)"; }
  std::vector<lod::VarDesc> variables() const override {
    std::vector<lod::VarDesc> all;
    for (const std::string& name : file_.names()) {
      try {
        all.push_back(file_.describe(name));
      } catch (const lod::ParseError&) {  // which its value will tell, and the others can be read
        all.push_back(lod::VarDesc::of_type(name, lod::VarType::LOD_TENSOR));
      }
    }
    // No arrays: of them there is a name.
    for (const std::string& name : file_.other_members()) all.push_back(lod::VarDesc::of_type(name, lod::VarType::RAW));
    return all;
  }
  Value value(const std::string& name) const override {
    const std::vector<std::string>& others = file_.other_members();
    if (std::find(others.begin(), others.end(), name) != others.end()) return {};
    if (file_.describe(name).type.type == lod::VarType::SELECTED_ROWS) return file_.load<lod::AnySelectedRows>(name);
    return file_.load<lod::AnyLoDTensor>(name);
  }

 private:
  lod::NpzFile file_;
};

}  // namespace

Opened open_npz(const std::string& path) { return std::make_unique<Npz>(path); }

}  // namespace lodinfo
