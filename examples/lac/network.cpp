// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include <lod/desc.hpp>

#include <string>
#include <utility>
#include <vector>

namespace lac {

namespace {

/// A network on its way: layers, which return the name of what they give.
class Layers {
 public:
  std::string input(const std::string& name) {
    block().vars.push_back({.name = name, .type = {.type = lod::VarType::LOD_TENSOR}});
    return name;
  }
  std::string embedding(const std::string& ids) {
    return add("lookup_table", {{"W", {parameter("word_emb")}}, {"Ids", {ids}}}, "Out");
  }
  std::string fc(const std::string& x) {
    const std::string layer = "fc_" + std::to_string(fcs_++);
    const std::string product = add("mul", {{"X", {x}}, {"Y", {parameter(layer + ".w_0")}}}, "Out");
    return add("elementwise_add", {{"X", {product}}, {"Y", {parameter(layer + ".b_0")}}}, "Out", {number("axis", 1)});
  }
  /// Both directions.
  std::string bidirectional_gru(const std::string& x) {
    const std::string forwards = gru(x, false);
    return add("concat", {{"X", {forwards, gru(x, true)}}}, "Out", {number("axis", 1)});
  }
  std::string crf_decoding(const std::string& emissions) {
    return add("crf_decoding", {{"Emission", {emissions}}, {"Transition", {parameter("crfw")}}}, "ViterbiPath");
  }

  lod::ProgramDesc program;

 private:
  lod::BlockDesc& block() { return program.blocks.empty() ? program.blocks.emplace_back() : program.blocks.front(); }

  std::string parameter(const std::string& name) {
    input(name);
    block().vars.back().persistable = true;
    return name;
  }
  std::string gru(const std::string& x, bool is_reverse) {
    const std::string projected = fc(x);
    const std::string layer = "gru_" + std::to_string(grus_++);
    lod::OpDesc::Attr reverse{.name = "is_reverse", .type = lod::AttrType::BOOLEAN};
    reverse.b = is_reverse;
    return add("gru",
               {{"Input", {projected}}, {"Weight", {parameter(layer + ".w_0")}}, {"Bias", {parameter(layer + ".b_0")}}},
               "Hidden", {reverse});
  }
  static lod::OpDesc::Attr number(const char* name, int value) {
    lod::OpDesc::Attr attr{.name = name, .type = lod::AttrType::INT};
    attr.i = value;
    return attr;
  }
  std::string add(const char* type, std::vector<lod::OpDesc::Var> inputs, const char* output,
                  std::vector<lod::OpDesc::Attr> attrs = {}) {
    const std::string result = input("tmp_" + std::to_string(block().ops.size()));
    block().ops.push_back({.inputs = std::move(inputs),
                           .outputs = {{.parameter = output, .arguments = {result}}},
                           .type = type,
                           .attrs = std::move(attrs)});
    return result;
  }

  int fcs_ = 0;
  int grus_ = 0;
};

}  // namespace

lod::ProgramDesc network() {
  Layers layers;
  std::string x = layers.embedding(layers.input("word"));
  x = layers.bidirectional_gru(layers.bidirectional_gru(x));
  const std::string tags = layers.crf_decoding(layers.fc(x));
  layers.program.blocks[0].ops.push_back({.inputs = {{.parameter = "X", .arguments = {tags}}}, .type = "fetch"});
  return std::move(layers.program);
}

}  // namespace lac
