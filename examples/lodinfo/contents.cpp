// SPDX-License-Identifier: Apache-2.0
#include "contents.hpp"

#include <lod/error.hpp>
#include <lod/lod_tensor.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace lodinfo {

namespace {

namespace fs = std::filesystem;

/// @{
/// What opens a file of a kind; null where that was left out.
using Open = Opened (*)(const std::string& path);
#ifdef LODINFO_HAS_FILE
constexpr Open lod_file = open_lod_file;
#else
constexpr Open lod_file = nullptr;
#endif
#ifdef LODINFO_HAS_PADDLE
constexpr Open paddle_folder = open_paddle_folder, paddle_program = open_paddle_program,
               paddle_values = open_paddle_values;
#else
constexpr Open paddle_folder = nullptr, paddle_program = nullptr, paddle_values = nullptr;
#endif
#ifdef LODINFO_HAS_NPZ
constexpr Open npz = open_npz;
#else
constexpr Open npz = nullptr;
#endif
/// @}

struct Kind {
  const char* name;
  const char* needs;  // libraries
  Open open;
  /// Whether files that begin so are of this kind.
  bool (*is_it)(std::string_view begin);
};

/// Whether there is a bracket first, and no control character after it: such are in PaddlePaddle's programs, which
/// begin with a new line and the size of a block.
bool begins_json(std::string_view begin) {
  constexpr std::string_view spaces = " \t\r\n";
  const std::size_t first = begin.find_first_not_of(spaces);
  if (first == std::string_view::npos || (begin[first] != '{' && begin[first] != '[')) return false;
  const std::string_view next = begin.substr(first + 1, 1);
  return next.empty() || next[0] >= ' ' || spaces.find(next[0]) != std::string_view::npos;
}

// PaddlePaddle's files have no mark. A program begins with the tag of its first block, a value with its version, which
// is 0.
constexpr Kind kinds[] = {
    {"lodtensor", "protozero and xxHash", lod_file,
     [](std::string_view begin) { return begin.starts_with("\x89LOD\r\n\x1a\n"); }},
    {"npy", "", open_npy, [](std::string_view begin) { return begin.starts_with("\x93NUMPY"); }},
    {"npz", "libzip", npz,
     [](std::string_view begin) { return begin.starts_with("PK\3\4") || begin.starts_with("PK\5\6"); }},
    {"json", "", open_json, begins_json},
    {"PaddlePaddle program", "protozero", paddle_program,
     [](std::string_view begin) { return begin.starts_with('\n'); }},
    {"PaddlePaddle values", "protozero", paddle_values,
     [](std::string_view begin) { return begin.starts_with(std::string_view("\0\0\0\0", 4)); }},
};

constexpr Kind folder = {"PaddlePaddle model", "protozero", paddle_folder, nullptr};

Opened opened_as(const Kind& kind, const std::string& path) {
  if (kind.open) return kind.open(path);
  throw std::runtime_error(std::string("of the kind ") + kind.name + ", which needs " + kind.needs +
                           "; this lodinfo was built without");
}

std::string first_bytes(const std::string& path, std::size_t count) {
  std::string bytes(count, '\0');
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  if (!file && !file.eof()) throw std::system_error(errno, std::generic_category(), path);
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

}  // namespace

Opened open(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw std::system_error(error, path);
  if (fs::is_directory(status)) return opened_as(folder, path);
  if (!fs::is_regular_file(status)) throw std::runtime_error("not a regular file");

  constexpr std::size_t enough = 64;
  const std::string begin = first_bytes(path, enough);
  const auto* const kind =
      std::find_if(std::begin(kinds), std::end(kinds), [&](const Kind& k) { return k.is_it(begin); });
  if (kind == std::end(kinds)) {
    throw lod::ParseError(begin.empty() ? "the file is empty" : "not a file of a kind that lodinfo knows", 0);
  }
  return opened_as(*kind, path);
}

std::string known_kinds() {
  std::string text = "files of the kinds";
  for (const Kind& kind : kinds) {
    text += std::string(&kind == std::begin(kinds) ? " " : ", ") + kind.name;
    if (!kind.open) text += std::string(" (left out: built without ") + kind.needs + ")";
  }
  return text;
}

Part slice_of(const lod::AnyLoDTensor& whole, const std::vector<std::int64_t>& branch) {
  return whole.visit([&](const auto& view) -> Part {
    const auto part = view.slice(branch);
    using T = typename std::remove_cvref_t<decltype(part)>::value_type;
    return {lod::LoDTensor<T>::copy_of(part), part.first_row()};
  });
}

std::string name_from(const std::string& path) { return fs::path(path).stem().string(); }

std::string read_bytes(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw std::system_error(errno, std::generic_category(), path);
  return bytes;
}

}  // namespace lodinfo
