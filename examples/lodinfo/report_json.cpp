// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"
#include "statistics.hpp"
#include "text.hpp"
#include <lod/program.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <span>
#include <string_view>
#include <type_traits>

namespace lodinfo {

namespace {

/// Writes members and values one after the other, with commas where they belong.
class JsonWriter {
 public:
  explicit JsonWriter(std::ostream& out) : out_(out) {}

  /// The name of a member, whose value comes next.
  JsonWriter& key(std::string_view name) {
    separate();
    out_ << json_string(name) << ':';
    is_first_ = true;
    return *this;
  }
  template <class Inside>
  void object(const Inside& inside) {
    bracketed('{', inside, '}');
  }
  template <class Items, class Each>
  void list(const Items& items, const Each& each) {
    bracketed(
        '[',
        [&] {
          for (const auto& item : items) each(item);
        },
        ']');
  }
  template <class Items>
  void list(const Items& items) {
    list(items, [&](const auto& item) { value(item); });
  }
  void value(std::string_view text) {
    separate();
    out_ << json_string(text);
  }
  template <class T>
    requires(!std::convertible_to<T, std::string_view>)
  void value(const T& number) {
    if constexpr (requires { number.imag(); }) {
      const typename T::value_type parts[] = {number.real(), number.imag()};
      list(parts);
    } else if constexpr (std::is_same_v<T, bool>) {
      separate();
      out_ << (number ? "true" : "false");
    } else {
      separate();
      const bool is_number = std::isfinite(static_cast<double>(number));
      out_ << (is_number ? "" : "\"") << number_text(number) << (is_number ? "" : "\"");
    }
  }
  void value(const Number& number) {
    std::visit([&](auto of_its_type) { value(of_its_type); }, number);
  }

 private:
  template <class Inside>
  void bracketed(char open, const Inside& inside, char close) {
    separate();
    out_ << open;
    is_first_ = true;
    inside();
    out_ << close;
    is_first_ = false;
  }
  void separate() {
    if (!is_first_) out_ << ',';
    is_first_ = false;
  }

  std::ostream& out_;
  bool is_first_ = true;
};

void write_members(JsonWriter& json, const Row& row) {
  json.key("name").value(row.desc.name);
  json.key("kind").value(std::string_view(to_string(row.desc.type.type)));
  if (const lod::TensorDesc* const tensor = tensor_of(row.desc)) {
    json.key("data_type").value(std::string_view(to_string(tensor->data_type)));
    json.key("dims").list(tensor->dims);
    json.key("lod_level").value(levels_of(row.desc));
  }
  if (!row.sequences.empty()) json.key("sequences").list(row.sequences);
  if (row.parts) json.key("parts").value(*row.parts);
  if (row.bytes) json.key("bytes").value(*row.bytes);
  json.key("persistable").value(row.desc.persistable.value());
  if (!row.error.empty()) json.key("error").value(row.error);
}

void write_lengths(JsonWriter& json, const lod::LoDView& part) {
  json.key("lengths");
  std::vector<int> levels;
  for (int level = 0; level < part.levels(); ++level) levels.push_back(level);
  json.list(levels, [&](int level) {
    const LengthStatistics all = statistics_of_lengths(part.offsets(level));
    json.object([&] {
      json.key("count").value(all.count);
      json.key("empty").value(all.empty);
      json.key("min").value(all.min);
      json.key("median").value(all.median);
      json.key("mean").value(all.mean);
      json.key("max").value(all.max);
      json.key("histogram").list(all.histogram, [&](const LengthStatistics::Bar& bar) {
        json.object([&] {
          json.key("first").value(bar.first);
          json.key("last").value(bar.last);
          json.key("count").value(bar.count);
        });
      });
    });
  });
}

void write_statistics(JsonWriter& json, const ValueStatistics& all) {
  json.key("statistics").object([&] {
    json.key("count").value(all.count);
    json.key("zeros").value(all.zeros);
    json.key("nans").value(all.nans);
    json.key("infinities").value(all.infinities);
    if (!all.finite) return;
    json.key("min").value(all.finite->min);
    json.key("max").value(all.finite->max);
    json.key("mean").value(all.finite->mean);
    json.key("standard_deviation").value(all.finite->standard_deviation);
  });
}

/// The name of a member that has all numbers, or the first ones only.
std::string first_key(const Style& style, const std::string& key) { return style.all ? key : "first_" + key; }
template <class T>
std::span<T> first_of(const Style& style, std::span<T> numbers) {
  constexpr std::int64_t few = 20;
  return numbers.first(std::min(numbers.size(), static_cast<std::size_t>(style.at_most(few))));
}

void write_offsets(JsonWriter& json, const Style& style, const std::string& key,
                   const std::vector<std::span<const std::int64_t>>& levels) {
  json.key(first_key(style, key)).list(levels, [&](const auto& offsets) { json.list(first_of(style, offsets)); });
}

void write_tensor(JsonWriter& json, const Style& style, const Detail& detail, const lod::AnyLoDTensor& x) {
  json.key("shape").list(x.shape());
  if (detail.branch) {
    const lod::LoD lod = placed(x.lod(), detail.first_row);
    const lod::LoDView part = lod.view().between(1, 2);
    json.key("first_row").value(detail.first_row);
    std::vector<std::vector<std::int64_t>> offsets = part.absolute_lod();
    write_offsets(json, style, "absolute_lod", {offsets.begin(), offsets.end()});
    write_lengths(json, part);
  } else {
    std::vector<std::span<const std::int64_t>> offsets;
    for (int level = 0; level < x.levels(); ++level) offsets.push_back(x.lod().offsets(level));
    write_offsets(json, style, "lod", offsets);
    write_lengths(json, x.lod().view());
  }
  if (!has_numbers(x.data_type())) return;
  write_statistics(json, statistics_of_values(x));
  x.visit([&](const auto& view) { json.key(first_key(style, "values")).list(first_of(style, view.values())); });
}

void write_value(JsonWriter& json, const Style& style, const Detail& detail) {
  if (const auto* const x = std::get_if<lod::AnyLoDTensor>(&detail.value)) {
    write_tensor(json, style, detail, *x);
  } else if (const auto* const selected = std::get_if<lod::AnySelectedRows>(&detail.value)) {
    json.key("height").value(selected->height());
    json.key(first_key(style, "ids")).list(first_of(style, std::span(selected->rows())));
    write_tensor(json, style, detail, selected->value());
  } else if (const auto* const array = std::get_if<std::vector<lod::AnyLoDTensor>>(&detail.value)) {
    json.key("tensors").list(*array, [&](const lod::AnyLoDTensor& tensor) {
      json.object([&] {
        json.key("shape").list(tensor.shape());
        json.key("lod_level").value(tensor.levels());
        json.key("bytes").value(tensor.bytes().size());
      });
    });
  }
}

void write_program(JsonWriter& json, const Summary& summary) {
  const lod::ProgramDesc& program = *summary.contents.program();
  json.object([&] {
    if (program.version) json.key("version").value(program.version->version.value());
    json.key("blocks").list(program.blocks, [&](const lod::BlockDesc& block) {
      std::map<std::string, std::size_t> counts;
      for (const lod::OpDesc& op : block.ops) ++counts[op.type];
      json.object([&] {
        json.key("idx").value(block.idx);
        json.key("parent_idx").value(block.parent_idx);
        json.key("variables").value(block.vars.size());
        json.key("operators").object([&] {
          for (const auto& [type, count] : counts) json.key(type).value(count);
        });
      });
    });
  });
}

}  // namespace

void write_json(std::ostream& out, const Style&, const Summary& summary) {
  JsonWriter json(out);
  json.object([&] {
    json.key("file").value(summary.path);
    json.key("kind").value(summary.contents.kind());
    if (summary.bytes) json.key("bytes").value(*summary.bytes);
    json.key("verified").value(summary.verified);
    if (summary.contents.program()) {
      json.key("program");
      write_program(json, summary);
    }
    json.key("variables").list(summary.rows, [&](const Row& row) { json.object([&] { write_members(json, row); }); });
  });
  out << '\n';
}

void write_json(std::ostream& out, const Style& style, const Detail& detail) {
  JsonWriter json(out);
  json.object([&] {
    json.key("file").value(detail.path);
    write_members(json, detail.row);
    json.key("verified").value(detail.verified);
    if (detail.number) json.key("number").value(*detail.number);
    if (detail.branch) json.key("branch").list(*detail.branch);
    write_value(json, style, detail);
  });
  out << '\n';
}

}  // namespace lodinfo
