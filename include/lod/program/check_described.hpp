// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares a tensor that enters a program, by a feed or from a reader, with the description of its variable.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Throws ShapeMismatch, with a message that begins with `name()`, unless a tensor has the element type and the
/// dimensions of a description. There, -1 allows any size, trailing dimensions of 1 do not count, and a description
/// without dimensions allows every shape.
template <class Name>
void check_described(const AnyLoDTensor& value, const LoDTensorDesc& desc, const Name& name) {
  const std::vector<std::int64_t>& dims = desc.tensor.dims;
  const Shape shape = value.shape();
  bool fits = value.data_type() == desc.tensor.data_type;
  for (std::size_t dim = 0; !dims.empty() && dim < std::max(shape.size(), dims.size()); ++dim) {
    const std::int64_t found = dim < shape.size() ? shape[dim] : 1, expected = dim < dims.size() ? dims[dim] : 1;
    fits = fits && (found == expected || expected == -1);
  }
  if (fits) return;
  std::string expected;
  for (const std::int64_t dim : dims) expected += text({expected.empty() ? "" : ", ", dim});
  throw ShapeMismatch(text({name(), ": ", to_string(value.data_type()), " of shape ", to_string(shape), ", expected ",
                            to_string(desc.tensor.data_type), " of shape {", expected, "}"}));
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
