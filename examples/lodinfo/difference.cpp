// SPDX-License-Identifier: Apache-2.0
#include "difference.hpp"

#include "options.hpp"
#include "report.hpp"
#include "statistics.hpp"
#include "text.hpp"
#include <lod/program.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

namespace lodinfo {

namespace {

/// The sequence numbers, from the outermost on, that lead to sequence `i` of a level.
std::vector<std::int64_t> branch_of(const lod::LoD& lod, int level, std::int64_t i) {
  std::vector<std::int64_t> branch;
  for (; level > 0; --level) {
    const auto above = lod.offsets(level - 1);
    const auto parent = std::upper_bound(above.begin(), above.end(), i) - above.begin() - 1;
    branch.insert(branch.begin(), i - above[static_cast<std::size_t>(parent)]);
    i = parent;
  }
  branch.insert(branch.begin(), i);
  return branch;
}

/// "row 3, <0, 1>".
std::string row_text(const lod::LoD& lod, std::int64_t row) {
  std::string text = "row " + std::to_string(row);
  if (lod.levels() == 0) return text;
  const auto offsets = lod.offsets(-1);
  const auto sequence = std::upper_bound(offsets.begin(), offsets.end(), row) - offsets.begin() - 1;
  return text + ", <" + joined(branch_of(lod, lod.levels() - 1, sequence)) + '>';
}

std::string change(const std::string& before, const std::string& after) { return before + " -> " + after; }
std::string change(std::int64_t before, std::int64_t after) {
  return change(std::to_string(before), std::to_string(after));
}

/// "LOD_TENSOR FP32 {15, 2}, 2 levels".
std::string description_of(const lod::VarDesc& desc) {
  std::string text = to_string(desc.type.type);
  if (const lod::TensorDesc* const tensor = tensor_of(desc)) {
    text += std::string(" ") + to_string(tensor->data_type) + ' ' + dims_text(tensor->dims);
    text += ", " + with_plural(levels_of(desc), "level");
  }
  return text;
}

/// What is different in two values. Each difference is a line.
class Comparison {
 public:
  explicit Comparison(double tolerance) : tolerance_(tolerance) {}

  void compare(const std::string& name, const Value& a, const Value& b) {
    if (a.index() != b.index()) {
      add(name, a.index() == 0   ? "has no value -> has one"
                : b.index() == 0 ? "has a value -> has none"
                                 : "other kinds");
    } else if (const auto* const x = std::get_if<lod::AnyLoDTensor>(&a)) {
      tensors(name, *x, std::get<lod::AnyLoDTensor>(b));
    } else if (const auto* const selected = std::get_if<lod::AnySelectedRows>(&a)) {
      const auto& other = std::get<lod::AnySelectedRows>(b);
      if (selected->height() != other.height()) add(name, "height: " + change(selected->height(), other.height()));
      const auto& ids = selected->rows();
      const auto place = std::mismatch(ids.begin(), ids.end(), other.rows().begin(), other.rows().end());
      if (place.first != ids.end() && place.second != other.rows().end()) {
        add(name, "id " + std::to_string(place.first - ids.begin()) + ": " + change(*place.first, *place.second));
      }
      tensors(name, selected->value(), other.value());
    } else if (const auto* const array = std::get_if<std::vector<lod::AnyLoDTensor>>(&a)) {
      const auto& other = std::get<std::vector<lod::AnyLoDTensor>>(b);
      if (array->size() != other.size()) add(name, "tensors: " + change(std::ssize(*array), std::ssize(other)));
      for (std::size_t i = 0; i < std::min(array->size(), other.size()); ++i) {
        tensors(name + '[' + std::to_string(i) + ']', (*array)[i], other[i]);
      }
    }
  }
  void add(const std::string& name, const std::string& what) { lines_.push_back(name + ": " + what); }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void tensors(const std::string& name, const lod::AnyLoDTensor& a, const lod::AnyLoDTensor& b) {
    lengths(name, a.lod(), b.lod());
    if (a.data_type() != b.data_type()) {
      add(name, std::string("type: ") + to_string(a.data_type()) + " -> " + to_string(b.data_type()));
    } else if (a.shape() != b.shape()) {
      add(name, "shape: " + change(lod::to_string(a.shape()), lod::to_string(b.shape())));
    } else if (!has_numbers(a.data_type())) {
      if (!std::ranges::equal(a.bytes(), b.bytes())) add(name, "the bytes of the values differ");
    } else {
      a.visit([&]<class T>(const lod::LoDTensorView<const T>& x) { values(name, a.lod(), x, b.view<T>()); });
    }
  }

  /// The first level that differs: those below it have other sequences then.
  void lengths(const std::string& name, const lod::LoD& a, const lod::LoD& b) {
    if (a.levels() != b.levels()) return add(name, "levels: " + change(a.levels(), b.levels()));
    for (int level = 0; level < a.levels(); ++level) {
      const std::string title = "level " + std::to_string(level) + ": ";
      if (a.size(level) != b.size(level)) {
        return add(name,
                   title + change(with_plural(a.size(level), "sequence"), with_plural(b.size(level), "sequence")));
      }
      const auto x = a.offsets(level), y = b.offsets(level);
      const auto place = std::mismatch(x.begin(), x.end(), y.begin()).first - x.begin();
      if (place == std::ssize(x)) continue;
      const auto i = static_cast<std::size_t>(place);
      return add(name, title + "the length of <" + joined(branch_of(a, level, place - 1)) +
                           ">: " + change(x[i] - x[i - 1], y[i] - y[i - 1]));
    }
  }

  template <class T>
  void values(const std::string& name, const lod::LoD& lod, const lod::LoDTensorView<const T>& a,
              const lod::LoDTensorView<const T>& b) {
    std::int64_t different = 0, first = 0;
    double greatest = 0;
    for (std::size_t i = 0; i < a.values().size(); ++i) {
      const double distance = distance_of(a.values()[i], b.values()[i]);
      if (distance <= tolerance_) continue;
      if (different++ == 0) first = static_cast<std::int64_t>(i);
      // That of a NaN is none.
      greatest = std::max(greatest, distance);
    }
    if (different == 0) return;
    std::string text = std::to_string(different) + " of " + with_plural(std::ssize(a.values()), "value");
    if (std::isfinite(greatest)) text += ", by " + number_text(greatest, digits) + " at most";
    text += "; " + row_text(lod, first / a.row_size());
    if (a.row_size() > 1) text += ", element " + std::to_string(first % a.row_size());
    const auto place = static_cast<std::size_t>(first);
    add(name, text + ": " + change(number_text(a.values()[place]), number_text(b.values()[place])));
  }
  /// 0 where they are the same, infinity where one is a NaN or infinite.
  template <class T>
  static double distance_of(const T& a, const T& b) {
    if constexpr (requires { a.imag(); }) {
      return std::hypot(distance_of(a.real(), b.real()), distance_of(a.imag(), b.imag()));
    } else if constexpr (std::is_integral_v<T>) {
      // Exact where the numbers are large and the distance is not.
      return static_cast<double>(a < b ? static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a)
                                       : static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
    } else {
      const double x = static_cast<double>(a), y = static_cast<double>(b);
      if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
      const double distance = std::abs(x - y);
      return std::isnan(distance) ? HUGE_VAL : distance;
    }
  }

  static constexpr int digits = 6;
  double tolerance_;
  std::vector<std::string> lines_ = {};
};

/// The first operator of each block that differs, and their numbers.
void compare_programs(Comparison& all, const lod::ProgramDesc& a, const lod::ProgramDesc& b) {
  if (a.blocks.size() != b.blocks.size()) {
    all.add("program", "blocks: " + change(std::ssize(a.blocks), std::ssize(b.blocks)));
  }
  for (std::size_t i = 0; i < std::min(a.blocks.size(), b.blocks.size()); ++i) {
    const auto &before = a.blocks[i].ops, &after = b.blocks[i].ops;
    const std::string block = "block " + std::to_string(i);
    if (before.size() != after.size()) all.add(block, "operators: " + change(std::ssize(before), std::ssize(after)));
    const auto place = std::mismatch(before.begin(), before.end(), after.begin(), after.end());
    if (place.first == before.end() || place.second == after.end()) continue;
    const bool same_type = place.first->type == place.second->type;
    all.add(block, "operator " + std::to_string(place.first - before.begin()) + ": " +
                       (same_type ? place.first->type + ", whose arguments or attributes differ"
                                  : change(place.first->type, place.second->type)));
  }
}

/// Which of the files is damaged, an error would not say.
Value value_of(const Named& file, const std::string& name) {
  try {
    return file.contents.value(name);
  } catch (const std::exception& error) {
    throw std::runtime_error(file.path + ": " + error.what());
  }
}

const lod::VarDesc* find(const std::vector<lod::VarDesc>& all, const std::string& name) {
  const auto found = std::ranges::find(all, name, &lod::VarDesc::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

bool write_differences(std::ostream& out, const Named& a, const Named& b, const std::optional<std::string>& variable,
                       double tolerance) {
  const std::vector<lod::VarDesc> before = a.contents.variables(), after = b.contents.variables();
  const auto wanted = [&](const lod::VarDesc& desc) {
    return !variable || desc.name == *variable || printable(desc.name) == *variable;
  };
  if (variable && std::ranges::none_of(before, wanted) && std::ranges::none_of(after, wanted)) {
    throw UsageError("neither file has a variable '" + *variable + "'");
  }
  Comparison all(tolerance);
  if (!variable && a.contents.program() && b.contents.program()) {
    compare_programs(all, *a.contents.program(), *b.contents.program());
  }
  for (const lod::VarDesc& desc : before) {
    if (!wanted(desc)) continue;
    const lod::VarDesc* const other = find(after, desc.name);
    if (!other) {
      all.add(desc.name, "only in " + a.path);
      continue;
    }
    const std::size_t known = all.lines().size();
    all.compare(desc.name, value_of(a, desc.name), value_of(b, desc.name));
    // Where a value says nothing, the description may.
    const std::string text = description_of(desc), other_text = description_of(*other);
    if (all.lines().size() == known && text != other_text) all.add(desc.name, change(text, other_text));
  }
  for (const lod::VarDesc& desc : after) {
    if (wanted(desc) && !find(before, desc.name)) all.add(desc.name, "only in " + b.path);
  }
  for (const std::string& line : all.lines()) out << printable(line) << '\n';
  return !all.lines().empty();
}

}  // namespace lodinfo
