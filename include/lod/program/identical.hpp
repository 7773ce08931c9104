// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whether descriptions are encoded as the same bytes. == compares their meaning: with it a NaN is not even equal to
/// itself, -0 is 0, and an absent field equals one that is set to its default.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/target.hpp>
#include <lod/program/program.hpp>

#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// What of a description == does not compare byte by byte: the bits of floating-point numbers, which are taken out of
/// the description and become 0 there, and which fields with a default were set.
class Distinctions {
 public:
  template <class Desc>
  explicit Distinctions(Desc& desc) {
    take(desc);
  }
  bool operator==(const Distinctions&) const = default;

 private:
  void take(float& number) { all_.push_back(std::bit_cast<std::uint32_t>(std::exchange(number, 0.0f))); }
  void take(double& number) { all_.push_back(std::bit_cast<std::uint64_t>(std::exchange(number, 0.0))); }
  template <class T, T otherwise>
  void take(const Defaulted<T, otherwise>& field) {
    all_.push_back(field.has_value());
  }
  template <class T>
  void take(std::optional<T>& field) {
    if (field) take(*field);
  }
  template <class T>
  void take(std::vector<T>& list) {
    for (T& element : list) take(element);
  }

  template <class Desc>
    requires std::same_as<Desc, LoDTensorDesc> || std::same_as<Desc, LoDTensorArrayDesc>
  void take(Desc& desc) { take(desc.lod_level); }
  void take(VarDesc& var) {
    take(var.type.lod_tensor);
    take(var.type.tensor_array);
    if (var.type.reader) take(var.type.reader->lod_tensor);
    take(var.persistable);
    take(var.need_check_feed);
    take(var.is_parameter);
    take(var.stop_gradient);
  }
  void take(ScalarDesc& scalar) {
    take(scalar.r);
    if (!scalar.c) return;
    take(scalar.c->r);
    take(scalar.c->i);
  }
  void take(OpDesc::Attr& attr) {
    take(attr.f);
    take(attr.floats);
    take(attr.float64s);
    take(attr.float64);
    take(attr.scalar);
    take(attr.scalars);
  }
  void take(OpDesc& op) {
    take(op.attrs);
    take(op.is_target);
  }
  void take(BlockDesc& block) {
    take(block.vars);
    take(block.ops);
    take(block.forward_block_idx);
  }
  void take(Version& version) { take(version.version); }
  void take(ProgramDesc& program) {
    take(program.blocks);
    take(program.old_version);
    take(program.version);
  }

  std::vector<std::uint64_t> all_;
};

/// Whether two descriptions are encoded as the same bytes. O(size): both are copied.
template <class Desc>
bool is_identical(Desc a, Desc b) {
  return Distinctions(a) == Distinctions(b) && a == b;
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
