// SPDX-License-Identifier: Apache-2.0
// Tensors on a file: where their memory is, how long it lives, what is read of it.
#include "files/file_parts.hpp"
#include "support/count_allocations.hpp"
#include "support/counting_resource.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"
#include <lod/io/file.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace lod_test;

namespace {

/// Whether an address belongs to a mapping of the file.
bool is_mapped(const void* address, const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    words >> std::hex >> begin >> dash >> end;
    if (wanted >= begin && wanted < end) return line.ends_with(path) || line.ends_with(path + " (deleted)");
  }
  return false;
}

/// Three levels, scalar rows 0, 1, 2, ...
lod::LoDTensor<std::int64_t> counted() { return counted_rows({{2, 1, 0}, {3, 1, 2}, {3, 2, 0, 1, 2, 3}}); }

/// Overwrites a number of a file.
void put_number(std::string& file, std::size_t position, std::int64_t number) {
  file.replace(position, 8, bytes_of_number(static_cast<std::uint64_t>(number)));
}

}  // namespace

TEST_CASE("File: values and offsets of a tensor lie in the mapping, values at multiples of the alignment") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  const lod::LoDTensor<std::uint8_t> odd({7});
  lod::save(path, {{"odd", odd}, {"x", counted()}, {"y", counted()}, {"g", lod::SelectedRows<float>({1}, 2, {3})}});
  const lod::File file = lod::File::open(path);
  for (const std::string name : {"x", "y"}) {
    const auto x = file.tensor<std::int64_t>(name);
    CHECK(is_mapped(x.data(), path));
    CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % lod::alignment == 0);
    for (int level = 0; level < 3; ++level) CHECK(is_mapped(x.lod().offsets(level).data(), path));
    const auto slice = file.slice<std::int64_t>(name, {0, 1});
    CHECK(slice.data() == x.data() + x.slice({0, 1}).first_row());
  }
  CHECK(is_mapped(file.selected_rows<float>("g").value().data(), path));
  CHECK(is_mapped(file.any_tensor("odd").bytes().data(), path));
  const auto loaded = file.load<lod::LoDTensor<std::int64_t>>("x");
  CHECK(!is_mapped(loaded.data(), path));
  CHECK(!is_mapped(loaded.lod().offsets(0).data(), path));
  CHECK(reinterpret_cast<std::uintptr_t>(loaded.data()) % lod::alignment == 0);
}

TEST_CASE("File: tensors keep the mapping alive, whatever becomes of the file") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  const auto x = counted();
  lod::save(path, {{"x", x}});
  std::optional<lod::File> file = lod::File::open(path);
  const auto mapped = file->tensor<std::int64_t>("x");
  const lod::AnyLoDTensor any = file->any_tensor("x");
  const auto slice = file->slice<std::int64_t>("x", {0});
  const lod::LoD levels = file->tensor<std::int64_t>("x").lod();
  const lod::File copy = *file;
  file.reset();

  lod::save(path, {{"x", lod::LoDTensor<std::int64_t>({4})}});
  CHECK(same_bits(copy.tensor<std::int64_t>("x"), x));
  CHECK(lod::File::open(path).tensor<std::int64_t>("x").shape() == lod::Shape{4});
  std::filesystem::remove(path);
  CHECK(same_bits(mapped, x));
  CHECK(same_bits(any.view<std::int64_t>(), x));
  CHECK(same_bits(slice, lod::LoDTensor<std::int64_t>::copy_of(x.slice({0}))));
  CHECK(levels == x.lod());
  CHECK(same_bits(copy.load<lod::LoDTensor<std::int64_t>>("x"), x));
  copy.verify();

  // A copy of a tensor on a file has memory of its own.
  CHECK(is_mapped(mapped.data(), path));
  const auto copied = any.copy<std::int64_t>();
  CHECK(!is_mapped(copied.data(), path));
}

TEST_CASE("File: one that was moved from is still open") {
  const TemporaryFolder folder;
  lod::save(folder / "x", {{"x", counted()}});
  lod::File file = lod::File::open(folder / "x"), other = std::move(file);
  CHECK(file.names() == other.names());
  CHECK(file.tensor<std::int64_t>("x").rows() == counted().rows());
  file = std::move(other);
  CHECK(other.contains("x"));
}

TEST_CASE("File: opening and mapping take memory by the number of variables and sequences, not of values") {
  const TemporaryFolder folder;
  const lod::LoD lod = lod::LoD::from_lengths({{1000, 3}});
  lod::save(folder / "large", {{"x", lod::LoDTensor<float>(lod, {5000})}});
  const std::int64_t before = allocated_bytes;
  const lod::File file = lod::File::open(folder / "large");
  const auto x = file.tensor<float>("x");
  const auto part = file.slice<float>("x", {1});
  CHECK(allocated_bytes - before < 20000);
  CHECK(x.rows() + part.rows() == 1006);
  const std::int64_t before_verify = allocated_bytes;
  file.verify();
  CHECK(allocated_bytes - before_verify < 300000);
}

TEST_CASE("File: values are loaded into memory of the resource given") {
  const TemporaryFolder folder;
  lod::save(folder / "x", {{"x", counted()}, {"g", lod::SelectedRows<float>({1}, 2, {3})}});
  CountingResource resource;
  {
    const lod::File file = lod::File::open(folder / "x");
    auto x = file.load<lod::LoDTensor<std::int64_t>>("x", &resource);
    CHECK(resource.allocations == 1);
    CHECK(x.resource() == &resource);
    x.data()[0] = 9;
    CHECK(file.tensor<std::int64_t>("x").data()[0] == 0);
    const auto g = file.load<lod::SelectedRows<float>>("g", &resource);
    CHECK(resource.live == 2);
    resource.fail_from = resource.allocations;
    CHECK_THROWS_AS(file.load<lod::AnyLoDTensor>("x", &resource), std::bad_alloc);
  }
  CHECK(resource.live == 0);
}

TEST_CASE("File: a slice reads and checks the offsets that lead to it and those that belong to it, no others") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  const auto x = counted();  // offsets {0,2,3,3}, {0,3,4,6}, {0,3,5,5,6,8,11}
  lod::save(path, {{"x", x}});
  const std::string intact = read_bytes(path);
  const format::Tensor tensor = FileParts(intact).decoded().variables[0].tensors[0];

  const auto at = [&](std::size_t level, std::size_t position) { return tensor.offsets[level].begin + 8 * position; };
  const auto with = [&](std::size_t level, std::size_t position, std::int64_t number) {
    std::string file = intact;
    put_number(file, at(level, position), number);
    write_bytes(path, file);
    return lod::File::open(path);
  };
  const auto copy = [&](std::initializer_list<std::int64_t> branch) {
    return lod::LoDTensor<std::int64_t>::copy_of(x.slice(branch));
  };

  constexpr std::int64_t wild[] = {-1, 1000, INT64_MIN, INT64_MAX};
  for (const std::int64_t number : wild) {
    CAPTURE(number);
    constexpr std::size_t places[][2] = {{0, 2}, {0, 3}, {1, 0}, {1, 3}, {2, 6}, {2, 0}};
    for (const auto& place : places) {
      const std::size_t level = place[0], position = place[1];
      CAPTURE(level);
      CAPTURE(position);
      const lod::File file = with(level, position, number);
      // The whole tensor is refused, and so is loading it, by its checksum.
      CHECK_THROWS_AS(file.tensor<std::int64_t>("x"), lod::ParseError);
      CHECK_THROWS_AS(file.load<lod::AnyLoDTensor>("x"), lod::ParseError);
    }
    CHECK(same_bits(with(0, 3, number).slice<std::int64_t>("x", {0}), copy({0})));
    CHECK(same_bits(with(1, 3, number).slice<std::int64_t>("x", {0}), copy({0})));
    CHECK(same_bits(with(2, 6, number).slice<std::int64_t>("x", {0, 1}), copy({0, 1})));
    CHECK(same_bits(with(2, 1, number).slice<std::int64_t>("x", {1}), copy({1})));
    CHECK(same_bits(with(0, 0, number).slice<std::int64_t>("x", {1, 0, 1}), copy({1, 0, 1})));

    const auto refused = [&](const lod::File& file, std::initializer_list<std::int64_t> branch, std::size_t position) {
      try {
        file.slice<std::int64_t>("x", branch);
        FAIL_CHECK("nothing was thrown");
      } catch (const lod::ParseError& error) {
        CHECK(error.position() == position);
        CHECK(std::string(error.what()).starts_with("'" + path + "': variable 'x': tensors[0].offsets["));
      }
    };
    refused(with(0, 1, number), {0}, at(0, 1));
    refused(with(0, 0, number), {0, 1}, at(0, 0));
    refused(with(1, 2, number), {0}, at(1, 2));
    refused(with(2, 2, number), {0}, at(2, 2));
    refused(with(2, 5, number), {1, 0, 1}, at(2, 5));
  }

  // Offsets that descend, all in their range.
  CHECK_THROWS_WITH_AS(
      with(2, 1, 6).slice<std::int64_t>("x", {0}),
      ("'" + path + "': variable 'x': tensors[0].offsets[2]: position 2: offset 5 follows 6 of 11 (at byte " +
       std::to_string(at(2, 2)) + ")")
          .c_str(),
      lod::ParseError);
  try {
    with(1, 1, 4).tensor<std::int64_t>("x");  // 0 4 4 6: in order, and of no consequence but for the slices
    with(1, 2, 2).tensor<std::int64_t>("x");
    FAIL_CHECK("nothing was thrown");
  } catch (const lod::ParseError& error) {
    CHECK(error.position() == at(1, 2));
    CHECK(std::string(error.what()).find("level 1, position 2: offset 2 follows 3") != std::string::npos);
  }
}

TEST_CASE("File: a slice of a large file touches its own pages only") {
  const TemporaryFolder folder;
  const std::int64_t sequences = 200000;
  const lod::LoD lod = lod::LoD::from_lengths({std::vector<std::int64_t>(static_cast<std::size_t>(sequences), 2)});
  lod::LoDTensor<std::int64_t> x(lod, {32});  // 100 MiB of values
  std::iota(x.values().begin(), x.values().end(), 0);
  lod::save(folder / "x", {{"x", x}});
  const lod::File file = lod::File::open(folder / "x");
  const std::int64_t before = allocated_bytes;
  for (std::int64_t i = 0; i < sequences; i += 40000) {
    const auto slice = file.slice<std::int64_t>("x", {i});
    CHECK(slice.rows() == 2);
    CHECK(slice.data()[0] == i * 64);
  }
  CHECK(allocated_bytes - before < 20000);
  // How much of a mapping is in memory is in smaps; pages come in groups around those that are touched.
  std::ifstream maps("/proc/self/smaps");
  std::int64_t resident = -1;
  bool is_ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(folder.path()) != std::string::npos) {
      is_ours = true;
    } else if (is_ours && line.starts_with("Rss:")) {
      resident = std::stoll(line.substr(4));
      break;
    }
  }
  CHECK(resident >= 0);
  CHECK(resident < 4096);  // KiB, of 100 MiB
}

TEST_CASE("File: large values, whose pages a second thread finds, are loaded the same, and what is wrong with them") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  // Neither the values nor the memory end at a page.
  lod::LoDTensor<std::int64_t> x({(std::int64_t{5} << 19) + 3});
  std::iota(x.values().begin(), x.values().end(), 0);
  lod::save(path, {{"x", x}});
  using X = lod::LoDTensor<std::int64_t>;
  CHECK(same_bits(lod::load<X>(path, "x"), x));
  CountingResource resource;
  CHECK(same_bits(lod::load<X>(path, "x", &resource), x));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 3; ++t) threads.emplace_back([&] { wrong += !same_bits(lod::load<X>(path, "x"), x); });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);

  const lod::File file = lod::File::open(path);
  {
    std::fstream damaged(path, std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(20000000);
    damaged.put('\x55');
  }
  CHECK_THROWS_AS(file.load<X>("x", &resource), lod::ParseError);
  std::filesystem::resize_file(path, 300000);
  CHECK_THROWS_AS(file.load<X>("x", &resource), lod::ParseError);
  CHECK(resource.live == 0);
}

TEST_CASE("File: threads read at the same time, from one file and from copies of it") {
  const TemporaryFolder folder;
  const auto x = counted();
  lod::save(folder / "x", {{"x", x}, {"y", x}});
  const lod::File shared = lod::File::open(folder / "x");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const lod::File file = t % 2 == 0 ? shared : lod::File(shared);
        const std::string name = i % 2 == 0 ? "x" : "y";
        wrong += !same_bits(file.tensor<std::int64_t>(name), x);
        wrong += !same_bits(file.load<lod::LoDTensor<std::int64_t>>(name), x);
        wrong += file.slice<std::int64_t>(name, {0, i % 2}).rows() != x.slice({0, i % 2}).rows();
        file.verify(name);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("File: who loads from a file that has become shorter gets a ParseError, not a signal") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  lod::save(path, {{"x", lod::LoDTensor<float>({100000})}});
  const lod::File file = lod::File::open(path);
  std::filesystem::resize_file(path, 300000);
  const std::string text = "'" + path + "': ends here, and was longer when it was opened (at byte 300000)";
  CHECK_THROWS_WITH_AS(file.load<lod::LoDTensor<float>>("x"), text.c_str(), lod::ParseError);
  CHECK_THROWS_WITH_AS(file.verify(), text.c_str(), lod::ParseError);
  CHECK(file.describe("x").name == "x");
}
