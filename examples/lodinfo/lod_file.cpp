// SPDX-License-Identifier: Apache-2.0
/// @file
/// The library's own files, which are read only where it is needed.
#include "contents.hpp"
#include <lod/io/file.hpp>

#include <cstddef>

namespace lodinfo {

namespace {

class LoDFile : public Contents {
 public:
  explicit LoDFile(const std::string& path) : file_(lod::File::open(path)) {}

  std::string kind() const override { return "lodtensor file"; }
  std::vector<lod::VarDesc> variables() const override {
    std::vector<lod::VarDesc> all;
    for (const std::string& name : file_.names()) all.push_back(file_.describe(name));
    return all;
  }
  Value value(const std::string& name) const override {
    switch (file_.describe(name).type.type) {
      case lod::VarType::SELECTED_ROWS:
        return file_.any_selected_rows(name);
      case lod::VarType::LOD_TENSOR_ARRAY:
        return file_.any_tensor_array(name);
      default:
        return file_.any_tensor(name);
    }
  }
  Part slice(const std::string& name, const std::vector<std::int64_t>& branch) const override {
    // All slices of a tensor stand on the same values, so that the distance of two beginnings tells how many rows are
    // between them, without a look at the offsets of those rows. Rows without elements are at no distance.
    const lod::AnyLoDTensor part = file_.any_slice(name, branch), nothing = file_.any_between(name, 0, 0);
    if (part.row_size() == 0) return Contents::slice(name, branch);
    const auto row_bytes = part.row_size() * static_cast<std::int64_t>(lod::size_of(part.data_type()));
    const std::ptrdiff_t distance = part.bytes().data() - nothing.bytes().data();
    return {part, distance / row_bytes};
  }
  void verify(const std::string& name) const override {
    file_.verify(name);
    value(name);
  }

 private:
  lod::File file_;
};

}  // namespace

Opened open_lod_file(const std::string& path) { return std::make_unique<LoDFile>(path); }

}  // namespace lodinfo
