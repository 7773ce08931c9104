// SPDX-License-Identifier: Apache-2.0
/// @file
/// The library's own files: as the bytes are, and with checksums that are right for them, without which a reader would
/// see through nearly all damage at once.
#include "target.hpp"
#include <lod/any_tensor.hpp>
#include <lod/error.hpp>
#include <lod/io/checksum.hpp>
#include <lod/io/file.hpp>
#include <lod/io/file_format.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/proto.hpp>
#include <lod/selected_rows.hpp>

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

/// Of the footer, the variables are decoded one at a time: a tensor takes 14 bytes of it and 140 of memory, three times
/// that when their vector grows. To make a tensor, row numbers are worked out from the offsets: as many again.
constexpr lod_fuzz::Bound bound{.times = 48};
/// A variable is verified in parts, which go through a buffer.
constexpr lod_fuzz::Bound bound_of_verify{.times = 48, .plus = std::size_t{272} << 10};

// ---- Right checksums ----

std::uint64_t checksum_of(std::string_view bytes) {
  lod::detail::Checksum checksum;
  checksum.add(bytes.data(), bytes.size());
  return checksum.value();
}

/// The footer with the checksums that the buffers have, where they lie in the file; the same footer where it is none.
std::string with_right_checksums(std::string_view file, std::string footer) {
  try {
    const auto contents = lod::decode<lod::proto::file::Footer>(footer);
    std::vector<std::string> records;
    for (const std::string_view record : contents.variables) {
      auto variable = lod::decode<lod::proto::file::Variable>(record);
      lod::detail::for_each_buffer(variable, [&](lod::proto::file::Buffer& buffer, const lod::detail::BufferName&) {
        if (buffer.begin > file.size() || buffer.size > file.size() - buffer.begin) return;
        buffer.checksum = checksum_of(file.substr(buffer.begin, buffer.size));
      });
      records.push_back(lod::encode(variable));
    }
    return lod::encode(lod::proto::file::Footer{{records.begin(), records.end()}, contents.unknown_fields});
  } catch (const lod::ParseError&) {
    return footer;
  }
}

/// A file with these buffers and this footer, whose preamble, trailer and checksums are right.
std::string repaired(std::string_view bytes) {
  using lod::detail::FilePreamble;
  using lod::detail::FileTrailer;
  if (bytes.size() < sizeof(FilePreamble) + sizeof(FileTrailer)) return std::string(bytes);
  FileTrailer trailer;
  std::memcpy(&trailer.footer_size, bytes.data() + bytes.size() - sizeof(trailer), sizeof(trailer.footer_size));
  const std::size_t most = bytes.size() - sizeof(FilePreamble) - sizeof(trailer);
  if (trailer.footer_size > most) trailer.footer_size = most;
  const std::string_view before = bytes.substr(0, bytes.size() - sizeof(trailer) - trailer.footer_size);
  std::string file(before);
  const FilePreamble preamble;
  std::memcpy(file.data(), &preamble, sizeof(preamble));
  const std::string footer = with_right_checksums(file, std::string(bytes.substr(before.size(), trailer.footer_size)));
  trailer.footer_size = footer.size();
  trailer.checksum = lod::detail::footer_checksum(preamble, footer);
  file += footer;
  file.append(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
  return file;
}

// ---- What must hold ----

std::vector<lod::AnyLoDTensor> tensors_of(const lod::AnyLoDTensor& x) { return {x}; }
std::vector<lod::AnyLoDTensor> tensors_of(const lod::AnySelectedRows& x) { return {x.value()}; }
std::vector<lod::AnyLoDTensor> tensors_of(const std::vector<lod::AnyLoDTensor>& x) { return x; }

template <class X>
bool all_same(const X& a, const X& b) {
  return lod_fuzz::same(a, b);
}
template <>
bool all_same(const std::vector<lod::AnyLoDTensor>& a, const std::vector<lod::AnyLoDTensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!lod_fuzz::same(a[i], b[i])) return false;
  }
  return true;
}

/// A slice of the file is the slice of the tensor, if all of that can be read.
void check_slices(const lod::File& file, const std::string& name, std::size_t size) {
  const auto whole = lod_fuzz::attempt<lod::ParseError>(size, bound, [&] { return file.any_tensor(name); });
  const auto compare = [&](const auto& slice_of_file, const auto& slice_of_tensor) {
    const auto slice = lod_fuzz::attempt<lod::ParseError, lod::OutOfRange>(size, bound, slice_of_file);
    if (!whole) return;
    bool is_there = true;
    try {
      // FP8 has no C++ type, and so no view; its bytes are those of another type of one byte.
      whole->visit([&](const auto& view) {
        const auto expected = slice_of_tensor(view);
        LOD_FUZZ_EXPECT(slice.has_value());
        LOD_FUZZ_EXPECT(slice->lod() == expected.lod() && slice->rows() == expected.rows());
        LOD_FUZZ_EXPECT(slice->row_shape() == expected.row_shape());
        const auto bytes = std::as_bytes(expected.values());
        LOD_FUZZ_EXPECT(std::equal(bytes.begin(), bytes.end(), slice->bytes().begin(), slice->bytes().end()));
      });
    } catch (const lod::OutOfRange&) {
      is_there = false;
    } catch (const std::invalid_argument&) {
      return;
    }
    LOD_FUZZ_EXPECT(slice.has_value() == is_there);
  };
  for (const std::vector<std::int64_t>& branch : std::vector<std::vector<std::int64_t>>{{0}, {1}, {0, 1}, {-1}}) {
    compare([&] { return file.any_slice(name, branch); }, [&](const auto& view) { return view.slice(branch); });
  }
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {1, 2}, {1, 1}, {0, 1000}}) {
    compare([&, begin = begin, end = end] { return file.any_between(name, begin, end); },
            [begin = begin, end = end](const auto& view) { return view.between(begin, end); });
  }
}

/// X as the file has it, and in memory of its own.
template <class X, class OnFile>
void check_variable(const lod::File& file, const std::string& name, std::size_t size, const OnFile& read_on_file) {
  const auto on_file = lod_fuzz::attempt<lod::ParseError>(size, bound, read_on_file);
  const auto loaded = lod_fuzz::attempt<lod::ParseError>(size, bound, [&] { return file.load<X>(name); });
  const bool is_verified = lod_fuzz::attempt<lod::ParseError>(size, bound_of_verify, [&] {
                             file.verify(name);
                             return true;
                           }).has_value();
  LOD_FUZZ_EXPECT(loaded.has_value() == (on_file && is_verified));
  if (!loaded) return;
  LOD_FUZZ_EXPECT(all_same(*loaded, *on_file));

  // Written again, with its description, and read again.
  lod::VarDesc description = file.describe(name);
  for (const lod::AnyLoDTensor& tensor : tensors_of(*loaded)) {
    LOD_FUZZ_EXPECT(description.type.type != lod::VarType::LOD_TENSOR || lod::matches(tensor, description));
  }
  const std::string path = "/dev/shm/lodtensor_fuzz_" + std::to_string(::getpid());
  lod::FileWriter writer(path);
  writer.add(description, *loaded);
  writer.commit();
  const lod::File again = lod::File::open(path);
  ::unlink(path.c_str());
  LOD_FUZZ_EXPECT(all_same(again.load<X>(name), *loaded));
  // Dimensions that the description left open are those of the tensor now.
  lod::VarDesc kept = again.describe(name);
  LOD_FUZZ_EXPECT(kept.type.type == description.type.type);
  kept.type = description.type;
  LOD_FUZZ_EXPECT(kept == description);
}

void check_file(std::string_view bytes) {
  const std::size_t size = bytes.size();
  const lod_fuzz::UnnamedFile stored(bytes);
  const auto file =
      lod_fuzz::attempt<lod::ParseError>(size, bound, [path = stored.path()] { return lod::File::open(path); });
  if (!file) return;
  for (const std::string& name : file->names()) {
    LOD_FUZZ_EXPECT(file->contains(name));
    switch (file->describe(name).type.type) {
      case lod::VarType::LOD_TENSOR:
        check_variable<lod::AnyLoDTensor>(*file, name, size, [&] { return file->any_tensor(name); });
        check_slices(*file, name, size);
        break;
      case lod::VarType::SELECTED_ROWS:
        check_variable<lod::AnySelectedRows>(*file, name, size, [&] { return file->any_selected_rows(name); });
        break;
      default:
        check_variable<std::vector<lod::AnyLoDTensor>>(*file, name, size, [&] { return file->any_tensor_array(name); });
    }
  }
}

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  const std::string path = "/dev/shm/lodtensor_fuzz_" + std::to_string(::getpid());
  std::vector<std::string> all;
  const auto save = [&](std::initializer_list<lod::NamedValue> values) {
    lod::save(path, values);
    std::ifstream file(path, std::ios::binary);
    all.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    ::unlink(path.c_str());
  };
  const lod::LoDTensor<float> words(lod::LoD::from_lengths({{2, 0, 1}, {3, 1, 2}}), {2});
  const lod::LoDTensor<bool> labels({3});
  const lod::SelectedRows<double> gradient({4, 0, 4}, 10, {2});
  const std::vector<lod::AnyLoDTensor> array{lod::LoDTensor<std::int32_t>(lod::LoD::from_lengths({{1, 2}}), {}),
                                             lod::LoDTensor<std::int32_t>({2, 2})};
  save({});
  save({{"words", words}});
  save({{"labels", labels}});
  save({{"gradient", gradient}});
  save({{"array", array}});
  save({{"words", words}, {"labels", labels}, {"gradient", gradient}, {"array", array}});
  return all;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = lod_fuzz::input(data, size);
  check_file(bytes);
  check_file(repaired(bytes));
  return 0;
}
