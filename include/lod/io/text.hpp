// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Text for people: LoDs in one line and as drawings, tensors with their values. None of it is meant to be read back.
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/device.hpp>
#include <lod/core/floating_point_control.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <locale>
#include <ostream>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

/// Appends "{0, 3, 5}"; if there are more than `edges` numbers at either end, "..." replaces those between.
inline void append_numbers(std::string& text, std::span<const std::int64_t> numbers, std::size_t edges) {
  text += '{';
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += ", ";
    if (i == edges && numbers.size() > 2 * edges) {
      text += "..., ";
      i = numbers.size() - edges;
    }
    text += std::to_string(numbers[i]);
  }
  text += '}';
}

inline constexpr std::size_t all_numbers = std::numeric_limits<std::size_t>::max() / 2;

/// "{{0, 3}, {0, 2, 3, 7}}"; `offsets(level)` returns the numbers of a level.
template <class Offsets>
std::string levels_text(int levels, const Offsets& offsets, std::size_t edges = all_numbers) {
  std::string text = "{";
  for (int level = 0; level < levels; ++level) {
    if (level > 0) text += ", ";
    append_numbers(text, offsets(level), edges);
  }
  return text += '}';
}

inline std::int64_t digits(std::int64_t number) { return static_cast<std::int64_t>(std::to_string(number).size()); }

/// Lines of numbers, one for each level, above a line of bars: filled from left to right, up to a column. Remembers how
/// much of each line fit.
class Drawing {
 public:
  Drawing(int levels, std::int64_t columns)
      : lines_(static_cast<std::size_t>(levels) + 1), written_(lines_.size()), columns_(columns) {}

  void number(int level, std::int64_t column, std::int64_t number) {
    const auto line = static_cast<std::size_t>(level);
    const std::string text = std::to_string(number);
    if (column + static_cast<std::int64_t>(text.size()) > columns_) return;
    pad(lines_[line], column);
    lines_[line] += text;
    ++written_[line];
  }
  /// Returns the column after them; one beyond the last column if there is not enough room.
  std::int64_t bars(std::int64_t column, std::int64_t count) {
    const std::int64_t shown = std::min(count, columns_ - column);
    if (shown > 0) {
      pad(lines_.back(), column);
      lines_.back().append(static_cast<std::size_t>(shown), '|');
      written_.back() += shown;
    }
    return count > shown ? columns_ + 1 : column + count;
  }
  bool full(std::int64_t column) const noexcept { return column >= columns_; }

  /// The numbers written for `level`; the bars if `level` is the number of levels.
  std::int64_t written(int level) const { return written_[static_cast<std::size_t>(level)]; }
  /// Marks a line that continues beyond the last column.
  void cut(int level) {
    auto& line = lines_[static_cast<std::size_t>(level)];
    pad(line, columns_);
    line += " ...";
  }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines_) {
      if (&line != &lines_.front()) all += '\n';
      all += line;
    }
    return all;
  }

 private:
  static void pad(std::string& line, std::int64_t column) { line.resize(static_cast<std::size_t>(column), ' '); }

  std::vector<std::string> lines_;
  std::vector<std::int64_t> written_;
  std::int64_t columns_;
};

/// Draws the parts of `whole` (`level` is that of parts that are sequences) from `column` on, each below its length.
/// Returns the column after the last one.
inline std::int64_t draw_lengths(Drawing& drawing, const LoDView& whole, int level, std::int64_t column) {
  if (whole.levels() == 0) return drawing.bars(column, whole.rows());
  for (std::int64_t i = 0; i < whole.size() && !drawing.full(column); ++i) {
    if (i > 0) ++column;
    const LoDView part = whole.element(i);
    drawing.number(level, column, part.size());
    const std::int64_t least = std::max<std::int64_t>(digits(part.size()), whole.levels());
    column = std::max(column + least, draw_lengths(drawing, part, level + 1, column));
  }
  return column;
}

/// Draws the parts of `whole`, each between its two offsets. The first offset, which has already been written, is at
/// `column`; returns the column of the last one.
inline std::int64_t draw_offsets(Drawing& drawing, const LoDView& whole, int level, std::int64_t column) {
  if (whole.levels() == 0) {
    return drawing.bars(column == 0 ? digits(whole.first_row()) : column + 1, whole.rows());
  }
  for (std::int64_t i = 0; i < whole.size() && !drawing.full(column); ++i) {
    const LoDView part = whole.element(i);
    const std::int64_t after_number = column + digits(part.first_row()) + 1;
    const std::int64_t after_part = part.size() > 0 ? draw_offsets(drawing, part, level + 1, column) : 0;
    column = std::max(after_number, after_part);
    drawing.number(level, column, part.last_row());
  }
  return column;
}

/// Calls fill(drawing) for a drawing of `part` with `columns` columns; if they are too few, with some of them for marks
/// that say what is missing. A level has `more` numbers than sequences.
template <class Fill>
std::string draw_within(std::int64_t columns, const LoDView& part, std::int64_t more, const Fill& fill) {
  constexpr std::int64_t mark = 4, least_columns = 20;
  const int levels = part.levels();
  columns = std::max(columns, least_columns);
  Drawing drawing(levels, columns);
  fill(drawing);
  const auto expected = [&](int line) { return line < levels ? part.size(line) + more : part.rows(); };
  const auto complete = [&](int line) { return drawing.written(line) == expected(line); };
  bool all = true;
  for (int line = 0; line <= levels; ++line) all = all && complete(line);
  if (all) return drawing.text();

  drawing = Drawing(levels, columns - mark);
  fill(drawing);
  for (int line = 0; line <= levels; ++line) {
    if (!complete(line)) drawing.cut(line);
  }
  std::string text = drawing.text() + "\n(drawn: ";
  if (levels > 0) {
    const std::int64_t sequences = std::max<std::int64_t>(drawing.written(0) - more, 0);
    text += std::to_string(sequences) + " of " + std::to_string(part.size()) + " sequences, ";
  }
  return text + std::to_string(drawing.written(levels)) + " of " + std::to_string(part.rows()) + " rows)";
}

}  // namespace detail::inline LOD_TARGET

/// All levels in one line, as offsets: "{{0, 3, 4, 6}, {0, 3, 5, 9, 10, 12, 15}}". "{}" without a level.
LOD_TAGGED inline std::string to_string(const LoD& lod) {
  return detail::levels_text(lod.levels(), [&](int level) { return lod.offsets(level); });
}
/// All levels of a part in one line, as absolute offsets: "{{10, 15}, {10, 12, 15}}".
LOD_TAGGED inline std::string to_string(const LoDView& part) {
  return detail::levels_text(part.levels(), [&](int level) { return part.absolute_offsets(level); });
}

/// The LoD as the design document draws it: a line of lengths for each level, and a bar for each row.
///
///     3           1  2
///     3   2  4    1  2  3
///     ||| || |||| |  || |||
///
/// What belongs to a sequence is under its length, starting at the same column, with one space before the next
/// sequence. A sequence is as wide as its contents, and at least one column for each level from its own to the last: so
/// the article of one sentence of one word takes two, and an empty sequence is a 0 with nothing below it. No line is
/// longer than `columns` (at least 20): longer ones end with "...", and a last line tells how much is drawn.
LOD_TAGGED inline std::string draw(const LoD& lod, std::int64_t columns = 100) {
  const LoDView whole = lod.view();
  if (lod.levels() == 0) return "(no level)";
  if (whole.size() == 0) return "(no sequences)";
  return detail::draw_within(columns, whole, 0,
                             [&](detail::Drawing& drawing) { detail::draw_lengths(drawing, whole, 0, 0); });
}
/// A part as the design document draws slices: its absolute offsets, with the rows between them. The <2>-slice of the
/// above:
///
///     10      15
///     10  12  15
///       || |||
///
/// An empty sequence is two equal numbers with no bar between them. Rows without levels are just bars.
LOD_TAGGED inline std::string draw(const LoDView& part, std::int64_t columns = 100) {
  if (part.levels() == 0 && part.rows() == 0) return "(no rows)";
  return detail::draw_within(columns, part, 1, [&](detail::Drawing& drawing) {
    if (part.levels() == 0) {
      drawing.bars(0, part.rows());
      return;
    }
    for (int level = 0; level < part.levels(); ++level) drawing.number(level, 0, part.first_row());
    detail::draw_offsets(drawing, part, 0, 0);
  });
}
/// Draws the LoD of a tensor; for a plain tensor, its rows.
template <class T, class Device>
LOD_TAGGED std::string draw(const LoDTensor<T, Device>& x, std::int64_t columns = 100) {
  return x.levels() > 0 ? draw(x.lod(), columns) : draw(x.lod_view(), columns);
}
/// Draws a view as a part.
template <class T, class Device>
LOD_TAGGED std::string draw(const LoDTensorView<T, Device>& x, std::int64_t columns = 100) {
  return draw(x.lod_view(), columns);
}

/// @{
/// Writes its `to_string`.
LOD_TAGGED inline std::ostream& operator<<(std::ostream& out, const LoD& lod) { return out << to_string(lod); }
LOD_TAGGED inline std::ostream& operator<<(std::ostream& out, const LoDView& part) { return out << to_string(part); }
LOD_TAGGED inline std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }
/// @}

namespace detail::inline LOD_TARGET {

/// Text in which numbers have no separators and base 10, whatever the locale and the flags of `like`; the precision of
/// `like`, and whether it is fixed or scientific, are kept.
class PlainNumbers : public std::ostringstream {
 public:
  explicit PlainNumbers(const std::ostream& like) {
    imbue(std::locale::classic());
    precision(like.precision());
    setf(like.flags() & floatfield, floatfield);
  }

 private:
  StandardArithmetic standard_;  // or digits would follow the caller's mode of rounding, and subnormal ones be 0
};

/// Writes values as nested lists. For a tensor with more than `plenty` elements, rows or sequences of a level, lists
/// are cut to the `edges` items at either end, and after `plenty` elements (or empty lists) the rest is "...".
template <class T>
class ValueWriter {
 public:
  static constexpr std::int64_t plenty = 200, edges = 3;

  ValueWriter(std::ostream& out, const LoDTensorView<const T, Cpu>& x) : out_(out) {
    // A tensor without elements may have any number of rows, and a row any number of lists.
    std::int64_t items = x.rows();
    for (const std::int64_t dim : x.row_shape()) items = saturated_product(items, std::max<std::int64_t>(dim, 1));
    shorten_ = items > plenty || x.rows() > plenty;
    for (int level = 0; level < x.levels(); ++level) shorten_ = shorten_ || x.lod_view().size(level) > plenty;
  }

  std::size_t offset_edges() const noexcept { return shorten_ ? edges : all_numbers; }

  /// Sequences of sequences, or of rows. Items that are lists themselves go on lines of their own.
  void sequences(const LoDTensorView<const T, Cpu>& x, std::size_t indent) {
    const bool numbers = x.levels() == 0 && x.row_shape().empty();
    list(x.size(), numbers ? ", " : ",\n" + std::string(indent + 1, ' '), '[', ']', [&](std::int64_t i) {
      if (x.levels() > 0) {
        sequences(x.element(i), indent + 1);
      } else {
        row(x.data() + i * x.row_size(), x.row_shape(), indent + 1);
      }
    });
  }
  /// A row, or a part of it with dimensions `shape`.
  void row(const T* values, const Shape& shape, std::size_t indent) {
    if (shape.empty()) {
      number(*values);
      return;
    }
    const Shape rest = shape.without_first();
    list(shape.front(), rest.empty() ? ", " : ",\n" + std::string(indent + 1, ' '), '[', ']',
         [&](std::int64_t i) { row(values + i * rest.elements(), rest, indent + 1); });
  }
  /// Lines; line(i) writes the i-th.
  template <class Line>
  void lines(std::int64_t count, const Line& line) {
    list(count, "\n", '\0', '\0', line);
  }

 private:
  template <class Item>
  void list(std::int64_t count, const std::string& separator, char open, char close, const Item& item) {
    if (open) out_ << open;
    for (std::int64_t i = 0; i < count; ++i) {
      if (i > 0) out_ << separator;
      if (shorten_ && written_ >= plenty) {
        out_ << "...";
        break;
      }
      if (shorten_ && i == edges && count > 2 * edges) {
        out_ << "..." << separator;
        i = count - edges;
      }
      item(i);
    }
    if (count == 0) ++written_;
    if (close) out_ << close;
  }
  void number(T value) {
    ++written_;
    if constexpr (requires { value.imag(); }) {
      out_ << '(' << value.real() << ", " << value.imag() << ')';
    } else if constexpr (std::is_integral_v<T> && sizeof(T) == 1) {
      out_ << static_cast<int>(value);
    } else if constexpr (std::is_arithmetic_v<T>) {
      out_ << value;
    } else {
      out_ << static_cast<float>(value);
    }
  }

  std::ostream& out_;
  bool shorten_ = false;
  std::int64_t written_ = 0;
};

}  // namespace detail::inline LOD_TARGET

/// Writes type, shape, levels, and the values as nested lists, from the sequences of level 0 down to single elements; a
/// large tensor is abbreviated. Elements of 8 and 16 bits and bool are written as numbers too. Of the stream's
/// settings, the precision and whether it is fixed or scientific apply; the base is always 10 and the locale the
/// classic one, so that no separators come between digits. A width applies to the whole text, as for a string.
///
///     LoDTensor INT32 {6}, LoD {{0, 2, 3}, {0, 2, 3, 6}}
///     [[[1, 2],
///       [3]],
///      [[4, 5, 6]]]
template <class T>
requires has_data_type_v<T> LOD_TAGGED std::ostream& operator<<(std::ostream& out, const LoDTensor<T, Cpu>& x) {
  using Value = std::remove_const_t<T>;
  detail::PlainNumbers text(out);
  detail::ValueWriter<Value> writer(text, x.view());
  text << "LoDTensor " << to_string(data_type_v<T>) << ' ' << x.shape();
  if (x.levels() > 0) {
    const auto offsets = [&](int level) { return x.lod().offsets(level); };
    text << ", LoD " << detail::levels_text(x.levels(), offsets, writer.offset_edges());
  }
  text << '\n';
  writer.sequences(x.view(), 0);
  return out << text.str();
}
/// The same for a view, with its first row in the whole tensor and its absolute offsets:
///
///     LoDTensorView INT32 {3}, first row 3, absolute LoD {{3, 6}}
///     [[4, 5, 6]]
template <class T>
requires has_data_type_v<T> LOD_TAGGED std::ostream& operator<<(std::ostream& out, const LoDTensorView<T, Cpu>& x) {
  using Value = std::remove_const_t<T>;
  detail::PlainNumbers text(out);
  detail::ValueWriter<Value> writer(text, x);
  text << "LoDTensorView " << to_string(data_type_v<T>) << ' ' << x.shape() << ", first row " << x.first_row();
  if (x.levels() > 0) {
    const auto offsets = [&](int level) { return x.lod_view().absolute_offsets(level); };
    text << ", absolute LoD " << detail::levels_text(x.levels(), offsets, writer.offset_edges());
  }
  text << '\n';
  writer.sequences(x, 0);
  return out << text.str();
}
/// Writes type, shape of the value, height, and a line for each listed row:
///
///     SelectedRows FP32 {3, 2}, height 10
///     4: [1, 2]
///     0: [3, 4]
///     4: [5, 6]
///
/// Throws ShapeMismatch if there are more or fewer ids than rows of values.
template <class T>
requires has_data_type_v<T> LOD_TAGGED std::ostream& operator<<(std::ostream& out, const SelectedRows<T, Cpu>& x) {
  detail::check_value_rows(x, "SelectedRows");
  const LoDTensorView<const T, Cpu> value = x.value().view();
  detail::PlainNumbers text(out);
  detail::ValueWriter<T> writer(text, value);
  text << "SelectedRows " << to_string(data_type_v<T>) << ' ' << value.shape() << ", height " << x.height();
  if (value.rows() > 0) text << '\n';
  writer.lines(value.rows(), [&](std::int64_t i) {
    const std::string id = std::to_string(x.rows()[static_cast<std::size_t>(i)]) + ": ";
    text << id;
    writer.row(value.row(i).data(), value.row_shape(), id.size());
  });
  return out << text.str();
}

}  // namespace lod::inline LOD_INTERFACE
