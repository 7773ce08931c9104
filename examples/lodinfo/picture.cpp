// SPDX-License-Identifier: Apache-2.0
#include "picture.hpp"

#include "statistics.hpp"
#include "text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

namespace lodinfo {

namespace {

/// What does no harm in XML, or between the quotes of dot.
std::string escaped(std::string_view text, std::string_view special, const std::vector<const char*>& instead) {
  std::string result;
  for (const char c : printable(text)) {
    const std::size_t place = special.find(c);
    result += place == special.npos ? std::string(1, c) : instead[place];
  }
  return result;
}
std::string xml(std::string_view text) { return escaped(text, "&<>", {"&amp;", "&lt;", "&gt;"}); }
std::string quoted(std::string_view text) { return '"' + escaped(text, "\"\\", {"\\\"", "\\\\"}) + '"'; }

/// An identifier of dot: what it is, and its number or name in its block.
std::string node(const char* kind, std::int32_t block, const std::string& name) {
  return quoted(kind + std::to_string(block) + ' ' + name);
}

/// The index of the block that declares a variable which `block` uses; `block` itself where none does.
std::int32_t declared_in(const lod::ProgramDesc& program, std::int32_t block, const std::string& name) {
  std::set<std::int32_t> seen;  // a file may say that blocks are in each other
  for (std::int32_t i = block; i >= 0 && i < std::ssize(program.blocks) && seen.insert(i).second;) {
    const lod::BlockDesc& around = program.blocks[static_cast<std::size_t>(i)];
    if (around.find_var(name)) return i;
    i = around.parent_idx;
  }
  return block;
}

}  // namespace

void write_svg(std::ostream& out, const std::string& name, const lod::LoDView& part) {
  constexpr double width = 640, level_height = 200, left = 20, top = 50, bars_width = 600, bars_height = 110;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << level_height * part.levels()
      << "\" font-family=\"sans-serif\" font-size=\"11\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (int level = 0; level < part.levels(); ++level) {
    const LengthStatistics all = statistics_of_lengths(part.offsets(level));
    const double begin = level * level_height, bottom = begin + top + bars_height;
    out << "<text x=\"" << left << "\" y=\"" << begin + 20 << "\" font-size=\"13\">" << xml(name) << ", level " << level
        << ": " << with_plural(all.count, "sequence") << ", " << all.empty << " empty, lengths " << all.min << " to "
        << all.max << ", median " << number_text(all.median, 4) << ", mean " << number_text(all.mean, 4) << "</text>\n";
    std::int64_t most = 1;
    for (const auto& bar : all.histogram) most = std::max(most, bar.count);
    const double step = bars_width / static_cast<double>(std::max<std::size_t>(all.histogram.size(), 1));
    double x = left;
    for (const auto& bar : all.histogram) {
      const double height = bars_height * static_cast<double>(bar.count) / static_cast<double>(most);
      const std::string range = range_text(bar.first, bar.last - bar.first + 1);
      const double middle = x + step / 2;
      out << "<rect x=\"" << x + 1 << "\" y=\"" << bottom - height << "\" width=\"" << step - 2 << "\" height=\""
          << height << "\" fill=\"#1f77b4\"><title>" << bar.count << " of length " << range << "</title></rect>\n"
          << "<text x=\"" << middle << "\" y=\"" << bottom - height - 4 << "\" text-anchor=\"middle\">" << bar.count
          << "</text><text x=\"" << middle << "\" y=\"" << bottom + 14 << "\" text-anchor=\"middle\">" << range
          << "</text>\n";
      x += step;
    }
  }
  out << "</svg>\n";
}

void write_dot(std::ostream& out, const lod::ProgramDesc& program) {
  out << "digraph program {\n  compound=true;\n  node [fontname=\"sans-serif\", fontsize=10];\n";
  std::set<std::string> edges;  // those between blocks stand outside of all clusters
  for (std::size_t i = 0; i < program.blocks.size(); ++i) {
    const lod::BlockDesc& block = program.blocks[i];
    const auto index = static_cast<std::int32_t>(i);
    out << "  subgraph cluster_" << i << " {\n    label=\"block " << i << "\";\n";
    std::set<std::string> used;
    for (std::size_t j = 0; j < block.ops.size(); ++j) {
      const lod::OpDesc& op = block.ops[j];
      const std::string from = node("operator ", index, std::to_string(j));
      out << "    " << from << " [shape=box, style=filled, fillcolor=\"#dbe9f6\", label=" << quoted(op.type) << "];\n";
      const auto connect = [&](const std::vector<lod::OpDesc::Var>& parameters, bool reads) {
        for (const lod::OpDesc::Var& parameter : parameters) {
          for (const std::string& name : parameter.arguments) {
            const std::int32_t home = declared_in(program, index, name);
            if (home == index) used.insert(name);
            const std::string variable = node("variable ", home, name);
            edges.insert((reads ? variable + " -> " + from : from + " -> " + variable) +
                         " [tooltip=" + quoted(parameter.parameter) + "]");
          }
        }
      };
      connect(op.inputs, true);
      connect(op.outputs, false);
      for (const lod::OpDesc::Attr& attr : op.attrs) {
        if (!attr.block_idx || *attr.block_idx < 0 || *attr.block_idx >= std::ssize(program.blocks)) continue;
        const auto inner = static_cast<std::size_t>(*attr.block_idx);
        if (program.blocks[inner].ops.empty()) continue;
        edges.insert(from + " -> " + node("operator ", *attr.block_idx, "0") + " [style=dashed, lhead=cluster_" +
                     std::to_string(inner) + "]");
      }
    }
    for (const lod::VarDesc& var : block.vars) used.insert(var.name);
    for (const std::string& name : used) {
      const lod::VarDesc* const var = block.find_var(name);
      out << "    " << node("variable ", index, name) << " [label=" << quoted(name)
          << (var && var->persistable ? ", style=filled, fillcolor=\"#f2e6c8\"" : "") << "];\n";
    }
    out << "  }\n";
  }
  for (const std::string& edge : edges) out << "  " << edge << ";\n";
  out << "}\n";
}

}  // namespace lodinfo
