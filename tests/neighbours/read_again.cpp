// SPDX-License-Identifier: Apache-2.0
// What the writers of other formats take, their readers give back, value for value; what they refuse leaves the old
// file as it was.
#include "support/interrupted_writers.hpp"
#include "support/odd_values.hpp"
#include <lod/io/json.hpp>
#include <lod/io/mapped_file.hpp>
#include <lod/io/npy.hpp>
#include <lod/io/npz.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using namespace lod_test;

namespace {

/// The same, whatever NaNs there are, of which JSON has one; sizes are 64-bit integers under another name there and in
/// NumPy's files.
bool same_numbers(const lod::AnyLoDTensor& a, const lod::AnyLoDTensor& b) {
  return lod::to_json(a, lod::JsonForm::OBJECT) == lod::to_json(b, lod::JsonForm::OBJECT);
}
lod::AnyLoDTensor with_known_type(const lod::AnyLoDTensor& x) {
  if (x.data_type() != lod::DataType::SIZE_T) return x;
  return lod::AnyLoDTensor(x.copy<std::uint64_t>());
}

}  // namespace

TEST_CASE("save_npy: odd tensors are read again, or refused before the old file goes") {
  const TemporaryFolder folder;
  int written = 0, refused = 0;
  for (int round = 0; round < 80; ++round) {
    Engine engine(first_seed() + static_cast<std::uint64_t>(round));
    INFO("LOD_TEST_SEED=", first_seed(), ", round ", round);
    lod::AnyLoDTensor x = odd_tensor(engine);
    if (random_number(engine, 0, 2) > 0)
      x = lod::AnyLoDTensor::wrap(x.data_type(), x.bytes(), {}, x.row_shape(), x, x.rows());
    const bool is_written = written_or_refused<std::invalid_argument>(
        folder, [&](const std::string& path) { lod::save_npy(path, x); },
        [&](const std::string& path) {
          CHECK(same_tensor(lod::load_npy(path), with_known_type(x)));
          CHECK(lod::load_npy_arrays(path).size() == 1);
        });
    ++(is_written ? written : refused);
  }
  CHECK(written > 20);
  CHECK(refused > 10);
}

TEST_CASE("save_npz: odd values under odd names are read again, or refused before the old file goes") {
  const TemporaryFolder folder;
  int written = 0, refused = 0;
  for (int round = 0; round < 120; ++round) {
    Engine engine(first_seed() + static_cast<std::uint64_t>(round));
    INFO("LOD_TEST_SEED=", first_seed(), ", round ", round);
    struct Variable {
      std::string name;
      std::variant<lod::AnyLoDTensor, lod::SelectedRows<float>> value;
    };
    std::vector<Variable> variables;
    for (std::int64_t count = random_number(engine, 0, 2); count >= 0; --count) {
      std::string name = odd_name(engine);
      if (random_number(engine, 0, 2) == 0) {
        variables.push_back({std::move(name), odd_rows(engine)});
      } else {
        variables.push_back({std::move(name), odd_tensor(engine)});
      }
    }
    const auto compression = engine() % 2 ? lod::NpzCompression::STORED : lod::NpzCompression::DEFLATED;
    const bool is_written = written_or_refused<std::invalid_argument>(
        folder,
        [&](const std::string& path) {
          std::vector<lod::NpzValue> values;
          for (const Variable& variable : variables) {
            std::visit([&](const auto& value) { values.emplace_back(variable.name, value); }, variable.value);
          }
          lod::save_npz(path, values, compression);
        },
        [&](const std::string& path) {
          const auto file = lod::NpzFile::open(path);
          CHECK(file.names().size() == variables.size());
          CHECK(file.other_members().empty());
          for (const auto& [name, value] : variables) {
            file.describe(name);
            if (const auto* const x = std::get_if<lod::AnyLoDTensor>(&value)) {
              CHECK(same_tensor(file.load<lod::AnyLoDTensor>(name), with_known_type(*x)));
            } else {
              CHECK(same_rows(file.load<lod::SelectedRows<float>>(name), std::get<lod::SelectedRows<float>>(value)));
            }
          }
        });
    ++(is_written ? written : refused);
  }
  CHECK(written > 20);
  CHECK(refused > 20);
}

TEST_CASE("to_json: odd tensors are read again, or refused") {
  int written = 0, refused = 0;
  for (int round = 0; round < 500; ++round) {
    Engine engine(first_seed() + static_cast<std::uint64_t>(round));
    INFO("LOD_TEST_SEED=", first_seed(), ", round ", round);
    const lod::AnyLoDTensor x = odd_tensor(engine, false);
    std::string object, nested;
    try {
      object = lod::to_json(x, lod::JsonForm::OBJECT);
      nested = lod::to_json(x);
    } catch (const std::invalid_argument&) {
      ++refused;
      continue;
    }
    ++written;
    const lod::AnyLoDTensor read = lod::from_json(object);
    CHECK(read.data_type() == with_known_type(x).data_type());
    CHECK(read.lod() == x.lod());
    CHECK(read.shape() == x.shape());
    CHECK(same_numbers(read, x));
    x.visit([&](const auto& view) {
      using T = typename std::remove_cvref_t<decltype(view)>::value_type;
      const lod::LoDTensor<T> again = lod::from_json<T>(nested, x.levels());
      CHECK(again.lod() == x.lod());
      CHECK(again.rows() == x.rows());
      CHECK(lod::to_json(again) == nested);
    });
  }
  CHECK(written > 200);
  CHECK(refused > 30);
}

TEST_CASE("Writers: row-sparse values with a level, and bools that are none, are refused in words") {
  lod::SelectedRows<float> g({1, 2}, 10, {});
  g.value() = lod::LoDTensor<float>(lod::LoD::from_lengths({{1}, {2}}), {});
  CHECK_THROWS_WITH_AS(lod::encode_npz({{"g", g}}),
                       "npz: 'g': row-sparse values with 2 levels, expected none; value().with_lod(LoD()) drops them",
                       lod::ShapeMismatch);
  lod::AnyLoDTensor x(lod::DataType::BOOL, {}, {}, lod::uninitialized, 3);
  for (std::byte& value : x.mutable_bytes()) value = std::byte{1};
  CHECK(lod::decode_npy<bool>(lod::encode_npy(x)).rows() == 3);
  x.mutable_bytes()[1] = std::byte{2};
  const char* const what = "a bool that is 2 at position 1, expected 0 or 1";
  CHECK_THROWS_WITH_AS(lod::encode_npy(x), doctest::Contains(what), std::invalid_argument);
  CHECK_THROWS_WITH_AS(lod::encode_npz({{"x", x}}), doctest::Contains(what), std::invalid_argument);
  CHECK_THROWS_WITH_AS(lod::to_json(x), doctest::Contains(what), std::invalid_argument);
}

TEST_CASE("save_npy, save_npz: full disks and kills leave one whole file or another") {
  check_interrupted_writer([](const std::string& path, std::int32_t size) { lod::save_npy(path, numbered(size)); },
                           [](const std::string& path) { return is_numbered(lod::load_npy(path)); });
  for (const auto compression : {lod::NpzCompression::STORED, lod::NpzCompression::DEFLATED}) {
    check_interrupted_writer(
        [=](const std::string& path, std::int32_t size) {
          lod::save_npz(path, {{"x", numbered(size)}, {"y", numbered(size)}}, compression);
        },
        [](const std::string& path) {
          const auto file = lod::NpzFile::open(path);
          const auto x = file.load<lod::AnyLoDTensor>("x");
          return is_numbered(x) && same_tensor(x, file.load<lod::AnyLoDTensor>("y"));
        });
  }
}

TEST_CASE("Readers and writers: what throws leaves no file open") {
  const TemporaryFolder folder;
  const std::string path = folder / "file", no_file = folder / "none/file";
  write_bytes(path, "no file of any kind, and long enough for the beginnings of each of them");
  std::filesystem::create_directory(folder / "folder");
  const lod::AnyLoDTensor wrong(lod::DataType::BF16, {}, {}, lod::uninitialized, 1);
  const std::vector<std::function<void()>> calls = {
      [&] { lod::load_npy(path); },
      [&] { lod::load_npy_arrays(path); },
      [&] { lod::load_npy(folder / "folder"); },
      [&] { lod::NpzFile::open(path); },
      [&] { lod::NpzFile::open(folder / "folder"); },
      [&] { lod::save_npy(no_file, numbered(1)); },
      [&] { lod::save_npy(folder / "folder", numbered(1)); },
      [&] { lod::save_npy(path, wrong); },
      [&] {
        lod::save_npz(path, {{"x", wrong}});
      },
      [&] {
        lod::save_npz(path, {{"\xff", numbered(1)}});
      },
      [&] { lod::detail::AtomicFile("/dev/null"); },
      [&] { lod::detail::MappedFile{folder / "folder"}; },
  };
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  if (!std::filesystem::exists("/proc/self/fd")) return;
  const auto before = open_files();
  for (const auto& call : calls) {
    CHECK_THROWS_AS(call(), std::exception);
    CHECK(open_files() == before);
  }
  CHECK(folder.size() == 2);
}
