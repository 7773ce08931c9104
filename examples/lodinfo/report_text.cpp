// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"
#include "statistics.hpp"
#include "text.hpp"
#include <lod/io/text.hpp>
#include <lod/program.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <map>
#include <span>

namespace lodinfo {

namespace {

constexpr int digits = 6;  // of numbers that are for people
constexpr int indent = 2;  // of lines below a title

std::string bold(const Style& style, const std::string& text) {
  return style.colours ? "\x1b[1m" + text + "\x1b[0m" : text;
}
std::string red(const Style& style, const std::string& text) {
  return style.colours ? "\x1b[31m" + text + "\x1b[0m" : text;
}

std::string kind_text(const Row& row) {
  switch (row.desc.type.type) {
    case lod::VarType::LOD_TENSOR:
      return "LoDTensor";
    case lod::VarType::SELECTED_ROWS:
      return "SelectedRows";
    case lod::VarType::LOD_TENSOR_ARRAY:
      return "array";
    default:
      return to_string(row.desc.type.type);
  }
}

/// ", 3 ids", ", 2 tensors", or nothing.
std::string parts_text(const Row& row) {
  const bool is_array = row.desc.type.type == lod::VarType::LOD_TENSOR_ARRAY;
  return row.parts ? ", " + with_plural(*row.parts, is_array ? "tensor" : "id") : "";
}

// ---- Tables ----

/// Lines of cells, the first line being the names of the columns, each of which is as wide as its widest cell.
class Table {
 public:
  explicit Table(std::vector<std::string> names) { lines_.push_back(std::move(names)); }
  void add(std::vector<std::string> cells) { lines_.push_back(std::move(cells)); }
  /// Lets the first column be cut, so that lines have `columns`.
  void fit(std::int64_t columns) {
    constexpr std::int64_t least = 16;
    std::int64_t others = 0;
    for (std::size_t i = 1; i < lines_[0].size(); ++i) others += width(i) + gap;
    for (auto& cells : lines_) cells[0] = shortened(cells[0], std::max(least, columns - others));
  }
  void write(std::ostream& out, const Style& style) const {
    std::vector<std::int64_t> widths;
    for (std::size_t i = 0; i < lines_[0].size(); ++i) widths.push_back(width(i));
    for (const auto& cells : lines_) {
      std::string line;
      std::int64_t spaces = 0;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::int64_t missing = widths[i] - columns_of(cells[i]);
        if (!cells[i].empty()) line += std::string(static_cast<std::size_t>(spaces), ' ') + cells[i];
        spaces = cells[i].empty() ? spaces + widths[i] + gap : missing + gap;
      }
      out << (&cells == &lines_[0] ? bold(style, line) : line) << '\n';
    }
  }

 private:
  static constexpr std::int64_t gap = 2;
  std::int64_t width(std::size_t i) const {
    std::int64_t widest = 0;
    for (const auto& cells : lines_) widest = std::max(widest, columns_of(cells[i]));
    return widest;
  }

  std::vector<std::vector<std::string>> lines_;
};

/// The variables `rows`, of a program with what programs say of them.
void write_variables(std::ostream& out, const Style& style, std::span<const Row> rows, bool is_program) {
  constexpr std::int64_t many = 100;
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t shown = std::min(count, style.at_most(many));
  Table table({"name", "kind", "type", "shape", "levels", is_program ? "persistable" : "sequences", "bytes"});
  for (const Row& row : rows.first(static_cast<std::size_t>(shown))) {
    const lod::TensorDesc* const tensor = tensor_of(row.desc);
    const std::string persistable = row.desc.persistable ? "yes" : "";
    table.add({printable(row.desc.name), kind_text(row) + parts_text(row), tensor ? to_string(tensor->data_type) : "",
               tensor ? dims_text(tensor->dims) : "", tensor ? std::to_string(levels_of(row.desc)) : "",
               !row.error.empty() ? "DAMAGED"
               : is_program       ? persistable
                                  : joined(row.sequences),
               row.bytes ? human_bytes(*row.bytes) : ""});
  }
  if (style.cuts_names) table.fit(style.line());
  table.write(out, style);
  if (shown < count) out << "... and " << count - shown << " more, which --all shows\n";
}

void write_blocks(std::ostream& out, const Style& style, const Summary& summary) {
  std::span<const Row> rest = summary.rows;
  for (const lod::BlockDesc& block : summary.contents.program()->blocks) {
    out << '\n' << bold(style, "block " + std::to_string(block.idx));
    if (block.parent_idx >= 0) out << " in block " << block.parent_idx;
    out << ": " << with_plural(std::ssize(block.ops), "operator") << ", "
        << with_plural(std::ssize(block.vars), "variable") << "\n\n";
    std::map<std::string, std::size_t> counts;
    for (const lod::OpDesc& op : block.ops) ++counts[op.type];
    if (!counts.empty()) {
      Table operators({"operator", "count"});
      for (const auto& [type, count] : counts) operators.add({printable(type), std::to_string(count)});
      operators.write(out, style);
      out << '\n';
    }
    write_variables(out, style, rest.first(block.vars.size()), true);
    rest = rest.subspan(block.vars.size());
  }
}

// ---- One variable ----

/// A line for each level, and bars for the lengths of its sequences.
void write_lengths(std::ostream& out, const Style& style, const lod::LoDView& part) {
  std::vector<LengthStatistics> levels;
  Table table({"level", "sequences", "empty", "min", "median", "mean", "max"});
  for (int level = 0; level < part.levels(); ++level) {
    const LengthStatistics& all = levels.emplace_back(statistics_of_lengths(part.offsets(level)));
    table.add({std::to_string(level), std::to_string(all.count), std::to_string(all.empty), std::to_string(all.min),
               number_text(all.median, digits), number_text(all.mean, digits), std::to_string(all.max)});
  }
  out << '\n';
  table.write(out, style);
  for (int level = 0; level < part.levels(); ++level) {
    const auto& bars = levels[static_cast<std::size_t>(level)].histogram;
    if (bars.size() < 2) continue;  // all are as long as each other
    out << '\n' << bold(style, "lengths of level " + std::to_string(level)) << '\n';
    std::vector<std::string> labels;
    std::int64_t label_width = 0, most = 0;
    for (const auto& bar : bars) {
      labels.push_back(range_text(bar.first, bar.last - bar.first + 1));
      label_width = std::max(label_width, columns_of(labels.back()));
      most = std::max(most, bar.count);
    }
    // Room for the label, the count, and the spaces around them.
    const std::int64_t room =
        std::max<std::int64_t>(style.columns - label_width - columns_of(std::to_string(most)) - 5, 1);
    for (std::size_t i = 0; i < bars.size(); ++i) {
      const double share = static_cast<double>(bars[i].count) / static_cast<double>(most);
      auto length = static_cast<std::size_t>(share * static_cast<double>(std::min<std::int64_t>(room, 60)));
      if (bars[i].count > 0) length = std::max<std::size_t>(length, 1);
      out << "  " << std::string(static_cast<std::size_t>(label_width - columns_of(labels[i])), ' ') << labels[i] << ' '
          << std::string(length, '#') << (length > 0 ? " " : "") << bars[i].count << '\n';
    }
  }
}

std::string text_of(const Number& number) {
  return std::visit([](auto value) { return number_text(value, digits); }, number);
}

void write_values(std::ostream& out, const Style& style, const lod::AnyLoDTensor& x) {
  const ValueStatistics all = statistics_of_values(x);
  const bool is_complex = x.data_type() == lod::DataType::COMPLEX64 || x.data_type() == lod::DataType::COMPLEX128;
  Table table({is_complex ? "absolute values" : "values", std::to_string(all.count)});
  table.add({"zeros", std::to_string(all.zeros)});
  table.add({"NaN", std::to_string(all.nans)});
  table.add({"infinite", std::to_string(all.infinities)});
  if (all.finite) {
    table.add({"min", text_of(all.finite->min)});
    table.add({"mean", number_text(all.finite->mean, digits)});
    table.add({"max", text_of(all.finite->max)});
    table.add({"standard deviation", number_text(all.finite->standard_deviation, digits)});
  }
  out << '\n';
  table.write(out, style);
}

/// Lines of values, each with what it is at its beginning.
class ValueLines {
 public:
  ValueLines(std::ostream& out, const Style& style, std::int64_t greatest_label, bool are_ranges)
      : out_(out),
        style_(style),
        label_width_((are_ranges ? 2 : 1) * columns_of(std::to_string(greatest_label)) + (are_ranges ? 1 : 0)) {}

  /// Returns false where no more lines are wanted.
  bool is_full() const noexcept { return lines_ >= style_.at_most(few); }
  template <class T>
  void write(const std::string& label, std::span<const T> values) {
    std::string line =
        std::string(static_cast<std::size_t>(std::max<std::int64_t>(label_width_ - columns_of(label), 0)), ' ');
    line += label + ':';
    constexpr std::int64_t mark = 4;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string next = ' ' + number_text(values[i], style_.all ? 0 : digits);
      const std::int64_t left = style_.line() - indent - columns_of(line) - columns_of(next);
      if (left < (i + 1 < values.size() ? mark : 0)) {
        line += " ...";
        break;
      }
      line += next;
    }
    out_ << std::string(indent, ' ') << line << '\n';
    ++lines_;
  }
  void write_rest(std::int64_t count, const std::string& things) const {
    if (count > 0) out_ << "  ... and " << count << " more " << things << ", which --all shows\n";
  }

 private:
  static constexpr std::int64_t few = 10;

  std::ostream& out_;
  const Style& style_;
  std::int64_t label_width_, lines_ = 0;
};

/// Rows of several numbers are a line each, with their number or id before it. Single numbers share a line: those of a
/// sequence of the last level; without a level, some of them.
template <class T>
void write_rows(std::ostream& out, const Style& style, const lod::LoDTensorView<const T>& x, std::int64_t first_row,
                std::span<const std::int64_t> ids) {
  if (x.row_size() != 1 || !ids.empty()) {
    const std::int64_t greatest = ids.empty() ? first_row + x.rows() : *std::max_element(ids.begin(), ids.end());
    ValueLines lines(out, style, greatest, false);
    std::int64_t row = 0;
    for (; row < x.rows() && !lines.is_full(); ++row) {
      const std::int64_t label = ids.empty() ? first_row + row : ids[static_cast<std::size_t>(row)];
      lines.write<T>(std::to_string(label), x.row(row));
    }
    lines.write_rest(x.rows() - row, "rows");
    return;
  }
  ValueLines lines(out, style, first_row + x.rows(), true);
  constexpr std::int64_t of_a_line = 10;
  const std::int64_t count =
      x.levels() > 0 ? x.lod_view().size(x.levels() - 1) : (x.rows() + of_a_line - 1) / of_a_line;
  std::int64_t line = 0, begin = 0;
  for (; line < count && !lines.is_full(); ++line) {
    std::int64_t end = std::min(begin + of_a_line, x.rows());
    if (x.levels() > 0) end = x.lod_view().offsets(x.levels() - 1)[static_cast<std::size_t>(line) + 1];
    lines.write<T>(range_text(first_row + begin, end - begin),
                   x.values().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
    begin = end;
  }
  lines.write_rest(x.levels() > 0 ? count - line : x.rows() - begin, x.levels() > 0 ? "sequences" : "rows");
}

/// A LoD or a part of one, without the last line where no row stands in it.
template <class Drawn>
std::string drawing_of(const Style& style, const Drawn& lod, const lod::AnyLoDTensor& x) {
  // Rows without elements take no place in a file, and may be more than any drawing has room for.
  constexpr std::int64_t most = 100000;
  std::string drawing = lod::draw(lod, x.row_size() > 0 ? style.line() : std::min(style.line(), most));
  while (drawing.ends_with('\n')) drawing.pop_back();
  return drawing;
}

/// Numbers as far as a line has room for them.
std::string offsets_text(const Style& style, std::span<const std::int64_t> numbers) {
  constexpr std::int64_t mark = 5;
  std::string text = "{";
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::string next = i > 0 ? ", " : "";
    next += std::to_string(numbers[i]);
    if (indent + columns_of(text + next) + mark > style.line() && i > 0) return text + ", ...";
    text += next;
  }
  return text + '}';
}

void write_tensor(std::ostream& out, const Style& style, const Detail& detail, const lod::AnyLoDTensor& x,
                  std::span<const std::int64_t> ids = {}) {
  if (detail.branch && x.levels() > 0) {
    const lod::LoD lod = placed(x.lod(), detail.first_row);
    const lod::LoDView part = lod.view().between(1, 2);
    out << "\nabsolute LoD\n";
    for (int level = 0; level < part.levels(); ++level) {
      out << "  " << offsets_text(style, part.absolute_offsets(level)) << '\n';
    }
    out << '\n' << drawing_of(style, part, x) << '\n';
    write_lengths(out, style, part);
  } else if (x.levels() > 0) {
    out << '\n' << drawing_of(style, x.lod(), x) << '\n';
    write_lengths(out, style, x.lod().view());
  }
  if (!has_numbers(x.data_type())) {
    out << "\nThere is no C++ type for values of type " << to_string(x.data_type()) << ".\n";
    return;
  }
  write_values(out, style, x);
  if (x.bytes().empty()) return;
  out << '\n' << bold(style, ids.empty() ? "rows" : "rows, by their ids") << '\n';
  x.visit([&](const auto& view) { write_rows(out, style, view, detail.first_row, ids); });
}

void write_array(std::ostream& out, const Style& style, const std::vector<lod::AnyLoDTensor>& array) {
  std::vector<Row> rows;
  for (const lod::AnyLoDTensor& x : array) {
    rows.push_back(described(describe('[' + std::to_string(rows.size()) + ']', x), x));
  }
  out << '\n';
  write_variables(out, style, rows, false);
}

}  // namespace

void write_text(std::ostream& out, const Style& style, const Summary& summary) {
  out << bold(style, printable(summary.path)) << ": " << printable(summary.contents.kind());
  if (summary.bytes) out << ", " << human_bytes(*summary.bytes);
  out << ", " << with_plural(std::ssize(summary.rows), "variable") << '\n';
  std::int64_t damaged = 0;
  for (const Row& row : summary.rows) damaged += !row.error.empty();
  if (summary.verified && damaged == 0) out << "verified: nothing is damaged\n";
  if (damaged > 0) out << red(style, "damaged: " + with_plural(damaged, "variable")) << '\n';
  if (const lod::ProgramDesc* const program = summary.contents.program()) {
    if (program->version && program->version->version != 0) {
      const std::int64_t version = program->version->version;
      out << "written by PaddlePaddle " << version / 1000000 << '.' << version / 1000 % 1000 << '.' << version % 1000
          << '\n';
    }
    write_blocks(out, style, summary);
  } else {
    out << '\n';
    write_variables(out, style, summary.rows, false);
  }
}

void write_text(std::ostream& out, const Style& style, const Detail& detail) {
  const Row& row = detail.row;
  out << bold(style, printable(row.desc.name) + (detail.number ? '[' + std::to_string(*detail.number) + ']' : ""));
  if (detail.branch) out << bold(style, '<' + joined(*detail.branch) + '>');
  out << ": " << (detail.number ? "LoDTensor" : kind_text(row));
  if (const lod::TensorDesc* const tensor = tensor_of(row.desc)) {
    const auto* const part = std::get_if<lod::AnyLoDTensor>(&detail.value);
    const std::string shape = part ? lod::to_string(part->shape()) : dims_text(tensor->dims);
    const int levels = part ? part->levels() : levels_of(row.desc);
    out << ' ' << to_string(tensor->data_type) << ' ' << shape;
    out << parts_text(row);
    if (levels > 0) out << ", " << with_plural(levels, "level");
    if (part) out << ", " << human_bytes(part->bytes().size());
    if (!part && row.bytes) out << ", " << human_bytes(*row.bytes);
    if (detail.branch && part) {
      out << ", " << (part->rows() == 1 ? "row " : "rows ") << range_text(detail.first_row, part->rows()) << " of "
          << dims_text(tensor->dims);
    }
  }
  if (row.desc.persistable) out << ", persistable";
  out << '\n';
  if (detail.verified) out << "verified: nothing is damaged\n";
  if (const auto* const x = std::get_if<lod::AnyLoDTensor>(&detail.value)) {
    write_tensor(out, style, detail, *x);
  } else if (const auto* const selected = std::get_if<lod::AnySelectedRows>(&detail.value)) {
    write_tensor(out, style, detail, selected->value(), selected->rows());
  } else if (const auto* const array = std::get_if<std::vector<lod::AnyLoDTensor>>(&detail.value)) {
    write_array(out, style, *array);
  } else {
    out << "The file has no value of it.\n";
  }
}

}  // namespace lodinfo
