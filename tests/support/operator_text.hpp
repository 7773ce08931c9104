// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators as lines of text: the type, the inputs, an arrow, the outputs, and attributes with a letter for their
/// type.
///
///     sequence_conv X=x Filter=w -> Out=y contextLength:i=3 contextStart:i=-1
///
/// A parameter with several arguments comes several times. The letters: i INT, l LONG, f FLOAT, d FLOAT64, b BOOLEAN,
/// s STRING, B BLOCK; I INTS, L LONGS, F FLOATS, S STRINGS, with commas between the elements.
#pragma once

#include <lod/program.hpp>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace lod_test {

/// The elements of "a,b,c".
template <class Read>
auto list_of(const std::string& text, const Read& read) {
  std::vector<decltype(read(text))> elements;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) elements.push_back(read(word));
  return elements;
}

inline lod::OpDesc::Attr attr_of(const std::string& word) {
  const std::size_t colon = word.find(':');
  const std::string text = word.substr(colon + 3);
  const auto integer = [](const std::string& digits) { return std::stoll(digits); };
  const auto narrow = [](const std::string& digits) { return static_cast<std::int32_t>(std::stoll(digits)); };
  const auto number = [](const std::string& digits) { return std::stof(digits); };
  lod::OpDesc::Attr attr{.name = word.substr(0, colon)};
  switch (word[colon + 1]) {
    case 'i':
      attr.i = narrow(text);
      break;
    case 'l':
      attr.type = lod::AttrType::LONG;
      attr.l = integer(text);
      break;
    case 'f':
      attr.type = lod::AttrType::FLOAT;
      attr.f = number(text);
      break;
    case 'd':
      attr.type = lod::AttrType::FLOAT64;
      attr.float64 = std::stod(text);
      break;
    case 'b':
      attr.type = lod::AttrType::BOOLEAN;
      attr.b = text == "1";
      break;
    case 's':
      attr.type = lod::AttrType::STRING;
      attr.s = text;
      break;
    case 'B':
      attr.type = lod::AttrType::BLOCK;
      attr.block_idx = narrow(text);
      break;
    case 'I':
      attr.type = lod::AttrType::INTS;
      attr.ints = list_of(text, narrow);
      break;
    case 'L':
      attr.type = lod::AttrType::LONGS;
      for (const long long each : list_of(text, integer)) attr.longs.push_back(each);
      break;
    case 'F':
      attr.type = lod::AttrType::FLOATS;
      attr.floats = list_of(text, number);
      break;
    default:
      attr.type = lod::AttrType::STRINGS;
      attr.strings = list_of(text, [](const std::string& element) { return element; });
  }
  return attr;
}

inline lod::OpDesc operator_of(const std::string& line) {
  lod::OpDesc op;
  std::istringstream words(line);
  words >> op.type;
  auto* vars = &op.inputs;
  for (std::string word; words >> word;) {
    // Names of variables may have a colon, those of parameters and attributes have none.
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (word == "->") {
      vars = &op.outputs;
    } else if (name.find(':') != name.npos) {
      op.attrs.push_back(attr_of(word));
    } else if (!vars->empty() && vars->back().parameter == name) {
      vars->back().arguments.push_back(word.substr(equals + 1));
    } else {
      vars->push_back({.parameter = name, .arguments = {word.substr(equals + 1)}});
    }
  }
  return op;
}

}  // namespace lod_test
