// SPDX-License-Identifier: Apache-2.0
#include "ptx/program.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

namespace lod_test::ptx {
namespace {

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Takes what is before the first `separator` away from the text, and the separator.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view first = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return trimmed(first);
}

/// Parts between commas that are in no braces, brackets or parentheses.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t first = 0;
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == ',' && depth == 0) {
      parts.push_back(trimmed(text.substr(first, at - first)));
      first = at + 1;
    }
  }
  if (const auto last = trimmed(text.substr(first)); !last.empty()) parts.push_back(last);
  return parts;
}

/// A number as PTX writes it: 12, -12, 0x12, 0f3F800000, 0d3FF0000000000000; none if it is none.
std::optional<std::uint64_t> number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0) return std::nullopt;
  int base = 10;
  if (text.size() > 2 && text[0] == '0' && std::string_view("xXfFdD").find(text[1]) != std::string_view::npos) {
    base = 16;
    text.remove_prefix(2);
  }
  if (text.ends_with('U')) text.remove_suffix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return negative ? 0 - value : value;
}

std::size_t type_bits(std::string_view type) {
  if (type == ".pred") return 1;
  std::size_t bits = 0;
  for (const char c : type) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) bits = bits * 10 + static_cast<std::size_t>(c - '0');
  }
  if (bits == 0) throw std::runtime_error("ptx: " + std::string(type) + " is no type");
  return bits;
}

/// What `.param .align 8 .b8 name[24]` and its like declare.
struct Declaration {
  std::size_t alignment = 1;
  std::size_t bits = 0;  ///< of an element
  std::size_t count = 1;
  std::string_view name;

  explicit Declaration(std::string_view text) {
    bool has_alignment = false;
    while (text.starts_with('.')) {
      const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
      const std::string_view word = text.substr(0, end);
      text = trimmed(text.substr(end));
      if (word == ".align") {
        const std::size_t number_end = std::min(text.find_first_of(" \t\n"), text.size());
        alignment = number(text.substr(0, number_end)).value();
        has_alignment = true;
        text = trimmed(text.substr(number_end));
      } else if (word != ".visible" && word != ".extern" && word != ".weak" && word != ".param" && word != ".reg" &&
                 word != ".shared" && word != ".local" && word != ".global" && word != ".const" && word != ".ptr") {
        bits = type_bits(word);
      }
    }
    const std::size_t bracket = text.find('[');
    name = trimmed(text.substr(0, bracket));
    if (bracket != std::string_view::npos) {
      const std::string_view size = text.substr(bracket + 1, text.find(']') - bracket - 1);
      count = trimmed(size).empty() ? 0 : number(trimmed(size)).value();
    }
    if (!has_alignment) alignment = std::max<std::size_t>(bits / 8, 1);
  }
  [[nodiscard]] std::size_t bytes() const { return bits / 8 * count; }
};

std::size_t rounded_up(std::size_t size, std::size_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

/// The end of the block whose opening brace is the first character.
std::size_t block_end(std::string_view text) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at + 1;
  }
  throw std::runtime_error("ptx: a block does not end");
}

}  // namespace

/// Decodes one kernel. The functions that it calls become a part of it.
class Decoder {
 public:
  Decoder(const Program& program, Kernel& kernel) : program_(program), kernel_(kernel) {}

  void decode(std::string_view text) {
    Scope& top = scopes_.emplace_back();
    const std::size_t open = text.find('('), close = text.find(')', open);
    const std::size_t body = text.find('{');
    if (open < body) {
      for (const std::string_view each : split(text.substr(open + 1, close - open - 1))) {
        const Declaration parameter(each);
        const std::size_t offset = rounded_up(kernel_.parameter_bytes, parameter.alignment);
        kernel_.parameters.push_back({offset, parameter.bytes()});
        kernel_.parameter_bytes = offset + parameter.bytes();
        top.symbols[parameter.name] = {Space::parameter, offset};
      }
    }
    const std::string_view directives = text.substr(0, body);
    if (const std::size_t at = directives.find(".maxntid"); at != std::string_view::npos) {
      int most = 1;
      const std::string_view sizes = directives.substr(at + 8, directives.find('\n', at) - at - 8);
      for (const std::string_view size : split(sizes)) most *= static_cast<int>(number(size).value());
      kernel_.most_threads = most;
    }
    block(text.substr(body + 1, block_end(text.substr(body)) - 2));
    add_control(Control::exit, "the end of the kernel");
    close_scope();
  }

 private:
  struct Symbol {
    Space space;
    std::size_t offset;
    bool is_argument = false;      ///< of a function, or its result
    Register place = no_register;  ///< of an argument that is one number, which has no address
    std::size_t bytes = 0;
  };
  struct Address {
    std::string_view name;
    std::int64_t offset = 0;
  };
  struct Scope {
    std::map<std::string_view, Register> registers;
    std::map<Register, std::uint64_t> register_bits;
    std::map<std::string_view, std::pair<std::size_t, std::string_view>> ranges;  ///< of %r<50>: 50 and their type
    std::map<std::string_view, Symbol> symbols;
    std::map<std::string_view, std::uint32_t> labels;
    std::vector<std::pair<std::size_t, std::string_view>> branches;  ///< to labels of this scope or of an outer one
    std::string_view function;                                       ///< of which it is the body; otherwise empty
    std::vector<std::size_t> returns;
  };

  [[noreturn]] static void fail(std::string_view what, std::string_view text) {
    throw std::runtime_error("ptx: " + std::string(what) + ": " + std::string(text));
  }

  /// Null in the body of the kernel itself.
  Scope* innermost_function() {
    const auto found =
        std::find_if(scopes_.rbegin(), scopes_.rend(), [](const Scope& scope) { return !scope.function.empty(); });
    return found == scopes_.rend() ? nullptr : &*found;
  }

  void close_scope() {
    Scope scope = std::move(scopes_.back());
    scopes_.pop_back();
    for (const auto& [at, label] : scope.branches) {
      const auto found = scope.labels.find(label);
      if (found != scope.labels.end()) {
        kernel_.code[at].target = found->second;
      } else if (scopes_.empty() || !scope.function.empty()) {
        fail("a label is missing", label);
      } else {
        scopes_.back().branches.emplace_back(at, label);
      }
    }
  }

  void block(std::string_view text) {
    while (!(text = trimmed(text)).empty()) {
      if (text.starts_with("//") || text.starts_with(".loc\t") || text.starts_with(".loc ") ||
          text.starts_with(".file")) {
        take_until(text, '\n');
      } else if (text[0] == '{') {
        const std::size_t end = block_end(text);
        scopes_.emplace_back();
        block(text.substr(1, end - 2));
        close_scope();
        text.remove_prefix(end);
      } else if (const std::size_t colon = label_end(text); colon > 0) {
        scopes_.back().labels[text.substr(0, colon)] = static_cast<std::uint32_t>(kernel_.code.size());
        text.remove_prefix(colon + 1);
      } else {
        statement(take_until(text, ';'));
      }
    }
  }
  static std::size_t label_end(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size() && is_name(text[at])) ++at;
    return at < text.size() && text[at] == ':' && (at + 1 == text.size() || text[at + 1] != ':') ? at : 0;
  }

  void statement(std::string_view text) {
    if (text.empty()) return;
    if (text.starts_with(".pragma")) return;
    if (text.starts_with(".reg")) return declare_registers(text);
    if (text.starts_with(".shared")) {
      if (innermost_function() != nullptr) fail("shared memory of a function is not understood", text);
      return declare(text, Space::shared, kernel_.shared_bytes);
    }
    if (text.starts_with(".local")) return declare(text, Space::local, kernel_.local_bytes);
    if (text.starts_with(".param")) return declare_argument(Declaration(text));
    if (text[0] == '.') fail("a directive is not understood", text);
    instruction(text);
  }
  void declare_registers(std::string_view text) {
    text = trimmed(text.substr(4));
    const std::size_t end = text.find_first_of(" \t");
    const std::string_view type = text.substr(0, end);
    for (const std::string_view name : split(text.substr(end))) {
      const std::size_t bracket = name.find('<');
      if (bracket == std::string_view::npos) {
        add_register(scopes_.back(), name, type_bits(type));
      } else {
        const std::size_t count = number(name.substr(bracket + 1, name.size() - bracket - 2)).value();
        scopes_.back().ranges[name.substr(0, bracket)] = {count, type};
      }
    }
  }
  void declare(std::string_view text, Space space, std::size_t& used) {
    for (const std::string_view each : split(text)) {
      const Declaration variable(each);
      used = rounded_up(used, variable.alignment);
      scopes_.back().symbols[variable.name] = {space, used};
      used += variable.bytes();
    }
  }
  /// Numbers are in registers, as they are on a GPU; the rest is in local memory.
  void declare_argument(const Declaration& argument) {
    Symbol& symbol = scopes_.back().symbols[argument.name] = {Space::local, 0, true};
    if (argument.count == 1 && argument.bytes() <= 8) {
      symbol.place = kernel_.registers++;
      symbol.bytes = argument.bytes();
    } else {
      symbol.offset = kernel_.local_bytes = rounded_up(kernel_.local_bytes, argument.alignment);
      kernel_.local_bytes += argument.bytes();
    }
  }

  Register add_register(Scope& scope, std::string_view name, std::size_t bits) {
    const Register place = kernel_.registers++;
    scope.registers[name] = place;
    scope.register_bits[place] = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    return place;
  }
  /// The register of a name, and its bits; none if it is not one.
  std::optional<std::pair<Register, std::uint64_t>> find_register(std::string_view name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      auto found = scope->registers.find(name);
      if (found == scope->registers.end()) {
        const std::size_t digits = name.find_last_not_of("0123456789") + 1;
        const auto range = scope->ranges.find(name.substr(0, digits));
        if (range != scope->ranges.end() && digits < name.size()) {
          if (number(name.substr(digits)).value() >= range->second.first) fail("a register is not declared", name);
          add_register(*scope, name, type_bits(range->second.second));
          found = scope->registers.find(name);
        }
      }
      if (found != scope->registers.end()) return std::pair{found->second, scope->register_bits[found->second]};
      if (!scope->function.empty()) break;
    }
    return std::nullopt;
  }
  Register constant(std::uint64_t value) {
    const auto [found, is_new] = constants_.try_emplace(value, kernel_.registers);
    if (is_new) kernel_.constants.push_back({kernel_.registers++, value});
    return found->second;
  }
  std::optional<Symbol> find_symbol(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->symbols.find(name);
      if (found != scope->symbols.end()) return found->second;
      if (!scope->function.empty()) break;
    }
    return std::nullopt;
  }

  /// The register that holds an operand.
  Register source(std::string_view text) {
    if (const auto found = find_register(text)) return found->first;
    if (const auto value = number(text)) return constant(*value);
    static constexpr std::pair<std::string_view, Special> specials[] = {{"%tid.x", tid_x},
                                                                        {"%tid.y", tid_y},
                                                                        {"%tid.z", tid_z},
                                                                        {"%ntid.x", ntid_x},
                                                                        {"%ntid.y", ntid_y},
                                                                        {"%ntid.z", ntid_z},
                                                                        {"%ctaid.x", ctaid_x},
                                                                        {"%ctaid.y", ctaid_y},
                                                                        {"%ctaid.z", ctaid_z},
                                                                        {"%nctaid.x", nctaid_x},
                                                                        {"%nctaid.y", nctaid_y},
                                                                        {"%nctaid.z", nctaid_z},
                                                                        {"%laneid", lane},
                                                                        {"%warpid", warp_number},
                                                                        {"%lanemask_lt", lanes_below},
                                                                        {"%lanemask_le", lanes_up_to},
                                                                        {"%lanemask_gt", lanes_above},
                                                                        {"%lanemask_ge", lanes_from},
                                                                        {"%lanemask_eq", lane_bit},
                                                                        {"%clock64", clock},
                                                                        {"%clock", clock}};
    for (const auto& [name, place] : specials) {
      if (name == text) return place;
    }
    if (const auto symbol = find_symbol(text)) {
      if (symbol->is_argument) fail("the address of an argument is not understood", text);
      return constant(symbol->offset);
    }
    if (const std::byte* const memory = program_.variable(text))
      return constant(reinterpret_cast<std::uintptr_t>(memory));
    fail("an operand is not understood", text);
  }
  void destination(Instruction& to, std::size_t place, std::string_view text) {
    if (text == "_") return;
    const auto found = find_register(text);
    if (!found) fail("a result is no register", text);
    to.to[place] = found->first;
    to.to_bits[place] = found->second;
  }

  Instruction& add(std::string_view text) {
    Instruction& added = kernel_.code.emplace_back();
    added.text = text;
    return added;
  }
  void add_control(Control control, std::string_view text) { add(text).control = control; }

  static std::vector<std::string_view> braced(std::string_view text) {
    return text.starts_with('{') ? split(text.substr(1, text.size() - 2)) : std::vector{text};
  }

  void instruction(std::string_view text) {
    Instruction one;
    one.text = text;
    if (text[0] == '@') {
      text.remove_prefix(1);
      one.guard_negated = text[0] == '!';
      if (one.guard_negated) text.remove_prefix(1);
      const std::size_t end = text.find_first_of(" \t");
      one.guard = source(text.substr(0, end));
      text = trimmed(text.substr(end));
    }
    const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    const std::string_view operation = text.substr(0, end), rest = trimmed(text.substr(end));
    const std::string_view base = operation.substr(0, operation.find('.'));
    if (base == "call") {
      if (one.guard != no_register) fail("a call that some lanes leave out is not understood", one.text);
      return call(rest, text);
    }
    auto operands = split(rest);
    if (base == "bra") {
      one.control = Control::branch;
      scopes_.back().branches.emplace_back(kernel_.code.size(), operands.at(0));
      kernel_.code.push_back(one);
      return;
    }
    if (base == "ret" || base == "exit") {
      Scope* const function = innermost_function();
      if (base == "ret" && function != nullptr) {
        one.control = Control::branch;
        function->returns.push_back(kernel_.code.size());
      } else {
        one.control = Control::exit;
      }
      kernel_.code.push_back(one);
      return;
    }
    one.handler = find_handler(operation, one);
    if (one.handler == nullptr) fail("an instruction is not understood", text);
    if (base == "ld" || base == "st") {
      const bool loads = base == "ld";
      const auto values = braced(operands.at(loads ? 0 : 1));
      const Address where = address_in(operands.at(loads ? 1 : 0));
      const auto symbol = find_symbol(where.name);
      if (symbol && symbol->place != no_register) {
        const bool is_all = one.bytes == symbol->bytes || (loads && one.bytes < symbol->bytes);
        if (one.space != Space::parameter || where.offset != 0 || values.size() != 1 || !is_all) {
          fail("a part of an argument is not understood", text);
        }
        const bool is_signed = loads && one.is_signed;
        one.handler = find_handler((is_signed ? "cvt.s64.s" : "cvt.u64.u") + std::to_string(8 * one.bytes), one);
        one.from[0] = loads ? symbol->place : source(values[0]);
        if (loads) {
          destination(one, 0, values[0]);
        } else {
          one.to[0] = symbol->place;
          one.to_bits[0] = ~std::uint64_t{0};
        }
        kernel_.code.push_back(one);
        return;
      }
      address(one, where);
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (loads) {
          destination(one, k, values[k]);
        } else {
          one.from.at(k + 1) = source(values[k]);
        }
      }
    } else if (base == "atom" || base == "red") {
      std::size_t k = 0;
      if (base == "atom") destination(one, 0, operands.at(k++));
      address(one, address_in(operands.at(k++)));
      for (std::size_t place = 1; k < operands.size(); ++k, ++place) one.from.at(place) = source(operands[k]);
    } else if (base == "cp" && operands.size() < 2) {
      if (!operands.empty()) one.from[0] = source(operands[0]);
    } else if (base == "cp") {
      const Address source_address = address_in(operands[1]);
      address(one, address_in(operands[0]));
      one.from[1] = source(source_address.name);
      one.source_offset = source_address.offset;
      one.bytes = static_cast<std::uint8_t>(number(operands.at(2)).value());
      // Code that was not optimised has copies of fewer bytes, but does not come there.
      if (operands.size() > 3 && operands[3] != operands[2]) one.handler = find_handler("trap", one);
    } else if (base == "prefetch" || base == "membar" || base == "fence" || base == "griddepcontrol" ||
               base == "nanosleep" || base == "trap") {
    } else if (base == "bar" || base == "barrier") {
      std::size_t k = 0;
      if (operation.find(".red") != std::string_view::npos) {
        destination(one, 0, operands.at(k++));
        one.from[1] = source(operands.back());
        operands.pop_back();
      }
      if (operation.find(".warp") != std::string_view::npos) {
        one.from[0] = source(operands.at(0));
      } else if (k + 1 != operands.size() || operands[k] != "0") {
        fail("only barriers of whole blocks are understood", text);
      }
    } else {
      std::size_t place = 0;
      // What has two results, as in p|q.
      for (std::string_view each : braced(operands.at(0))) {
        while (!each.empty()) destination(one, place++, take_until(each, '|'));
      }
      if (base == "mov") one.numbers = static_cast<std::uint8_t>(std::max(place, braced(operands.at(1)).size()));
      place = 0;
      for (std::size_t k = 1; k < operands.size(); ++k) {
        for (std::string_view each : braced(operands[k])) {
          if (each.starts_with('!')) fail("a negated operand is not understood", text);
          one.from.at(place++) = source(each);
        }
      }
    }
    kernel_.code.push_back(one);
  }
  /// What is in [brackets].
  static Address address_in(std::string_view text) {
    if (!text.starts_with('[')) fail("an address has no brackets", text);
    text = trimmed(text.substr(1, text.size() - 2));
    const std::size_t plus = text.find_first_of("+-", 1);
    Address address{trimmed(text.substr(0, plus))};
    if (plus != std::string_view::npos) {
      std::string_view offset = trimmed(text.substr(plus));
      if (offset[0] == '+') offset.remove_prefix(1);
      address.offset = static_cast<std::int64_t>(number(offset).value());
    }
    return address;
  }
  void address(Instruction& one, const Address& where) {
    const auto symbol = find_symbol(where.name);
    if (symbol && symbol->place != no_register) fail("the address of an argument is not understood", one.text);
    if (symbol && one.space == Space::parameter) one.space = symbol->space;
    one.from[0] = symbol ? constant(symbol->offset) : source(where.name);
    one.offset = where.offset;
  }

  /// call (result), function, (arguments)
  void call(std::string_view rest, std::string_view text) {
    const auto parts = split(rest);
    std::vector<std::string_view> results, arguments;
    std::string_view name;
    for (const std::string_view part : parts) {
      if (part.starts_with('(')) {
        (name.empty() ? results : arguments) = split(part.substr(1, part.size() - 2));
      } else {
        name = part;
      }
    }
    const auto function = program_.functions_.find(name);
    if (function == program_.functions_.end()) fail("a function is missing", text);
    // (results) name (parameters) {
    std::string_view rest_of_function = function->second;
    Scope scope;
    scope.function = name;
    const std::size_t body = rest_of_function.find('{');
    std::string_view head = rest_of_function.substr(0, body);
    const auto bind = [&](const std::vector<std::string_view>& actual) {
      if (actual.empty()) return;
      const std::size_t open = head.find('('), close = head.find(')');
      const auto formal = split(head.substr(open + 1, close - open - 1));
      for (std::size_t k = 0; k < formal.size(); ++k) {
        scope.symbols[Declaration(formal[k]).name] = find_symbol(actual.at(k)).value();
      }
      head = head.substr(close + 1);
    };
    bind(results);
    bind(arguments);
    if (std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& each) { return each.function == name; })) {
      fail("functions that call themselves are not understood", text);
    }
    scopes_.push_back(std::move(scope));
    block(rest_of_function.substr(body + 1, block_end(rest_of_function.substr(body)) - 2));
    for (const std::size_t at : scopes_.back().returns) {
      kernel_.code[at].target = static_cast<std::uint32_t>(kernel_.code.size());
    }
    close_scope();
  }

  const Program& program_;
  Kernel& kernel_;
  std::vector<Scope> scopes_;
  std::map<std::uint64_t, Register> constants_;
};

Program::Program(std::string text) : text_(std::move(text)) {
  std::string_view rest = text_;
  while (!(rest = trimmed(rest)).empty()) {
    if (rest.starts_with("//") || rest.starts_with(".version") || rest.starts_with(".target") ||
        rest.starts_with(".address_size") || rest.starts_with(".file")) {
      take_until(rest, '\n');
      continue;
    }
    const std::size_t end = rest.find_first_of("{;");
    if (end == std::string_view::npos) break;
    const std::string_view head = rest.substr(0, end);
    const std::size_t entry = head.find(".entry"), function = head.find(".func");
    if (entry != std::string_view::npos || function != std::string_view::npos) {
      if (rest[end] == ';') {  // declared, and defined elsewhere
        rest.remove_prefix(end + 1);
        continue;
      }
      const std::size_t all = end + block_end(rest.substr(end));
      if (entry != std::string_view::npos) {
        const std::string_view signature = trimmed(rest.substr(entry + 6, all - entry - 6));
        const std::size_t name_end = signature.find_first_of("( \t\n{");
        entries_[std::string(signature.substr(0, name_end))] = signature.substr(name_end);
      } else {
        std::string_view signature = trimmed(rest.substr(function + 5, all - function - 5));
        std::string_view named = signature;
        if (named[0] == '(') named = trimmed(named.substr(named.find(')') + 1));
        functions_[std::string(trimmed(named.substr(0, named.find_first_of("( \t\n{"))))] = signature;
      }
      rest.remove_prefix(all);
      continue;
    }
    // A variable, perhaps with the numbers that it begins with.
    const std::size_t semicolon = rest.find(';');
    const std::string_view all = rest.substr(0, semicolon);
    rest.remove_prefix(semicolon + 1);
    const std::size_t equals = all.find('=');
    const Declaration declared(trimmed(all.substr(0, equals)));
    if (all.find(".shared") != std::string_view::npos) {
      throw std::runtime_error("ptx: shared memory of a whole file is not understood: " + std::string(all));
    }
    Variable variable{std::make_unique<std::byte[]>(declared.bytes() + declared.alignment), nullptr, declared.bytes()};
    const auto address = reinterpret_cast<std::uintptr_t>(variable.memory.get());
    variable.first = variable.memory.get() + (rounded_up(address, declared.alignment) - address);
    if (equals != std::string_view::npos) {
      std::string_view list = trimmed(all.substr(equals + 1));
      if (list.starts_with('{')) list = list.substr(1, list.size() - 2);
      std::size_t at = 0;
      for (const std::string_view each : split(list)) {
        const std::uint64_t value = number(each).value();
        std::memcpy(variable.first + at, &value, declared.bits / 8);
        at += declared.bits / 8;
      }
    }
    variables_.emplace(std::string(declared.name), std::move(variable));
  }
}

Program::~Program() = default;

const Kernel* Program::find(const std::string& name) {
  if (const auto found = kernels_.find(name); found != kernels_.end()) return found->second.get();
  const auto entry = entries_.find(name);
  if (entry == entries_.end()) return nullptr;
  auto kernel = std::make_unique<Kernel>();
  kernel->name = name;
  Decoder(*this, *kernel).decode(entry->second);
  return kernels_.emplace(name, std::move(kernel)).first->second.get();
}

const std::byte* Program::variable(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : found->second.first;
}

Range Program::around(std::uintptr_t address) const {
  for (const auto& [name, variable] : variables_) {
    const auto first = reinterpret_cast<std::uintptr_t>(variable.first);
    if (address >= first && address < first + variable.bytes) return {first, first + variable.bytes};
  }
  return {};
}

}
