// SPDX-License-Identifier: Apache-2.0
/// @file
/// Archives that are right, with members that may be anything: for each, a byte with the size of its name and the name,
/// two bytes with the size of its contents and the contents. The checksums of damaged archives would keep a fuzzer from
/// these.
#include "npz.hpp"
#include "target.hpp"
#include <lod/io/npy.hpp>
#include <lod/io/zip.hpp>
#include <lod/lod_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Member {
  std::string name;
  std::string contents;
};

std::string encoded(const std::vector<Member>& members) {
  std::string all;
  for (const Member& member : members) {
    all += static_cast<char>(member.name.size());
    all += member.name;
    all += static_cast<char>(member.contents.size() & 0xff);
    all += static_cast<char>(member.contents.size() >> 8);
    all += member.contents;
  }
  return all;
}

/// The archive; empty where libzip will not have a name.
std::string archive_of(std::string_view input) {
  lod::detail::ZipString archive;
  lod::detail::Zip zip = archive.open();
  std::deque<Member> members;  // which libzip reads when it closes the archive
  for (lod_fuzz::Choices choices(input); choices.left();) {
    Member& member = members.emplace_back();
    member.name = choices.bytes(choices.byte());
    const std::size_t low = choices.byte();
    member.contents = choices.bytes(low | std::size_t{choices.byte()} << 8);
    zip_source_t* const source = zip_source_buffer(zip.get(), member.contents.data(), member.contents.size(), 0);
    const zip_int64_t index = zip_file_add(zip.get(), member.name.c_str(), source, 0);
    if (index < 0) {
      zip_source_free(source);
      members.pop_back();
      continue;
    }
    zip_set_file_compression(zip.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  if (members.empty() || zip_close(zip.get()) < 0) return {};
  zip.release();
  return archive.take();
}

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  const std::string values = lod::encode_npy(lod::LoDTensor<float>({3, 2}));
  const auto integers = [](const std::vector<std::int64_t>& numbers) {
    return lod::encode_npy(lod::LoDTensor<std::int64_t>::from_nested(numbers));
  };
  const std::string height = "\x93NUMPY\1\0" + std::string("\x36\0", 2) +
                             "{'descr':'<i2','fortran_order':False,'shape':(),}     \n" + std::string("\x0a\0", 2);
  return {encoded({{"x.npy", values}}),
          encoded({{"x.npy", values}, {"x.lod0.npy", integers({0, 2})}, {"x.lod1.npy", integers({0, 1, 3})}}),
          encoded({{"x.rows.npy", integers({4, 0, 4})}, {"x.npy", values}, {"x.height.npy", integers({10})}}),
          encoded({{"x.rows.npy", integers({4, 0, 4})}, {"x.npy", values}, {"x.height.npy", height}})};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lod_fuzz::check_archive(archive_of(lod_fuzz::input(data, size)));
  return 0;
}
