// SPDX-License-Identifier: Apache-2.0
/// @file
/// The doorways to Arrow and DLPack as functions that Python calls through ctypes: see exchange_test.py. A function
/// returns 0, or 1 and leaves a text in `lod_error`.
#include <lod/any_tensor.hpp>
#include <lod/arrow.hpp>
#ifdef LOD_TEST_DLPACK
#  include <lod/dlpack.hpp>
#endif

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

std::string error;  // of the last call

template <class Call>
int guarded(const Call& call) {
  try {
    call();
    return 0;
  } catch (const std::exception& thrown) {
    error = thrown.what();
    return 1;
  }
}

/// A tensor whose elements are 0, 1, 2, ... (0, 1, 0, 1, ... for bool).
lod::AnyLoDTensor counted(lod::DataType type, const lod::LoD& lod, const lod::Shape& row_shape, std::int64_t rows) {
  return lod::detail::with_element_type(type, [&](auto element) -> lod::AnyLoDTensor {
    using T = typename decltype(element)::type;
    lod::LoDTensor<T> x;
    x.resize(lod, row_shape, rows);
    for (std::size_t i = 0; i < x.values().size(); ++i) {
      const std::size_t number = std::is_same_v<T, bool> ? i % 2 : i;
      x.data()[i] = static_cast<T>(static_cast<float>(number));
    }
    return x;
  });
}

}  // namespace

extern "C" {

const char* lod_error() { return error.c_str(); }

/// Exports a tensor of `levels` levels, which have sizes[level] lengths each, all in `lengths`; `rows` counts for none.
/// `addresses` gets where its offsets are, level by level, and then its values.
int lod_export(int data_type, int levels, const std::int64_t* sizes, const std::int64_t* lengths, std::int64_t rows,
               int dims, const std::int64_t* row_shape, ArrowArray* array, ArrowSchema* schema,
               const void** addresses) {
  return guarded([&] {
    std::vector<std::vector<std::int64_t>> all;
    for (int level = 0; level < levels; ++level) {
      all.emplace_back(lengths, lengths + sizes[level]);
      lengths += sizes[level];
    }
    const lod::AnyLoDTensor x = counted(static_cast<lod::DataType>(data_type), lod::LoD::from_lengths(all),
                                        std::vector<std::int64_t>(row_shape, row_shape + dims), rows);
    for (int level = 0; level < levels; ++level) *addresses++ = x.lod().offsets(level).data();
    *addresses = x.bytes().data();
    lod::arrow_schema(x, "x").move_to(schema);
    lod::to_arrow(x).move_to(array);
  });
}

/// Exports sequences [begin, end) of what it imports.
int lod_slice(ArrowArray* given, const ArrowSchema* given_schema, std::int64_t begin, std::int64_t end,
              ArrowArray* array, ArrowSchema* schema) {
  return guarded([&] {
    const auto x = lod::from_arrow(lod::ArrowHandle<ArrowArray>(given), *given_schema);
    x.visit([&](const auto& view) {
      using T = typename std::remove_cvref_t<decltype(view)>::value_type;
      if constexpr (lod::detail::arrow_storage(lod::data_type_v<T>).format != nullptr) {
        const auto part = view.between(begin, end);
        lod::arrow_schema(part, "x").move_to(schema);
        lod::to_arrow(part, x).move_to(array);
      }
    });
  });
}

/// Exports what it imports.
int lod_round_trip(ArrowArray* given, const ArrowSchema* given_schema, ArrowArray* array, ArrowSchema* schema) {
  return guarded([&] {
    const auto x = lod::from_arrow(lod::ArrowHandle<ArrowArray>(given), *given_schema);
    lod::arrow_schema(x, "x").move_to(schema);
    lod::to_arrow(x).move_to(array);
  });
}

#ifdef LOD_TEST_DLPACK
/// Exports what it imports.
int lod_dlpack_round_trip(DLManagedTensor* given, DLManagedTensor** array) {
  return guarded([&] { *array = lod::to_dlpack(lod::from_dlpack(lod::DLPackHandle<>(given))).release(); });
}
#endif

}  // extern "C"
