// SPDX-License-Identifier: Apache-2.0
/// @file
/// Shows what is in a file of LoD tensors: `lodinfo --help`.
#include "contents.hpp"
#include "difference.hpp"
#include "options.hpp"
#include "picture.hpp"
#include "report.hpp"
#include "text.hpp"
#include <lod/error.hpp>
#include <lod/version.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace {

using namespace lodinfo;

enum ExitStatus { OK = 0, UNREADABLE = 1, WRONG_USAGE = 2, DIFFERENT = 3 };

void complain(const std::string& text) { std::cerr << "lodinfo: " << printable(text) << '\n'; }

/// Readers do not all know how the file is called.
std::string with_path(const std::string& path, const std::string& error) {
  const bool is_there = error.starts_with(path + ": ") || error.find("'" + path + "'") != std::string::npos;
  return is_there ? error : path + ": " + error;
}

std::string about(const Options& options, const std::exception& error) {
  return options.diff ? error.what() : with_path(options.file, error.what());
}

Style style_for(const Options& options) {
  Style style{.all = options.all};
  const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  winsize size{};
  if (options.width) {
    style.columns = *options.width;
  } else if (is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.columns = size.ws_col;
  }
  style.cuts_names = options.width || is_terminal;
  const char* const no_color = std::getenv("NO_COLOR");
  const bool wanted = is_terminal && !(no_color && *no_color);
  style.colours = options.colour == Options::Colour::ALWAYS || (options.colour == Options::Colour::AUTO && wanted);
  return style;
}

template <class Report>
void write(const Options& options, const Report& report) {
  if (options.json) {
    write_json(std::cout, style_for(options), report);
  } else {
    write_text(std::cout, style_for(options), report);
  }
}

/// A variable, and which tensor of it where it is an array.
struct Chosen {
  lod::VarDesc desc;
  std::optional<std::int64_t> number;
};

/// The variable of that name, or of one that is printed so. Throws UsageError.
Chosen choose(const Contents& contents, const std::string& name) {
  const std::vector<lod::VarDesc> all = contents.variables();
  for (const lod::VarDesc& desc : all) {
    if (desc.name == name) return {desc, {}};
  }
  for (const lod::VarDesc& desc : all) {
    if (printable(desc.name) == name) return {desc, {}};
    const std::string rest = name.starts_with(desc.name) ? name.substr(desc.name.size()) : "";
    std::int64_t number = 0;
    if (desc.type.type != lod::VarType::LOD_TENSOR_ARRAY || !rest.starts_with('[') || !rest.ends_with(']')) continue;
    const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size() - 1, number);
    if (error == std::errc() && end == rest.data() + rest.size() - 1) return {desc, number};
  }
  throw UsageError("there is no variable '" + name + "'");
}

void show_file(const Options& options, const Contents& contents, int& status) {
  Summary summary{options.file, {}, contents, {}, options.verify};
  if (!std::filesystem::is_directory(options.file)) summary.bytes = std::filesystem::file_size(options.file);
  for (const lod::VarDesc& desc : contents.variables()) {
    const Row& row = summary.rows.emplace_back(examine(contents, desc, options.verify));
    if (row.error.empty()) continue;
    complain(with_path(options.file, row.error));
    status = UNREADABLE;
  }
  summary.verified = options.verify && status == OK;
  write(options, summary);
}

/// A tensor of an array. Throws UsageError.
lod::AnyLoDTensor tensor_of_array(const Contents& contents, const std::string& name, std::int64_t number) {
  const auto tensors = std::get<std::vector<lod::AnyLoDTensor>>(contents.value(name));
  if (number < 0 || static_cast<std::size_t>(number) >= tensors.size()) {
    throw UsageError("'" + name + "' is an array of " + std::to_string(tensors.size()) + " tensors");
  }
  return tensors[static_cast<std::size_t>(number)];
}

/// The slice that was asked for. Throws UsageError.
Part slice(const Contents& contents, const Chosen& chosen, const std::vector<std::int64_t>& branch) {
  const std::string& name = chosen.desc.name;
  try {
    if (chosen.number) return slice_of(tensor_of_array(contents, name, *chosen.number), branch);
    if (chosen.desc.type.type == lod::VarType::LOD_TENSOR) return contents.slice(name, branch);
  } catch (const lod::OutOfRange& error) {
    throw UsageError(error.what());
  } catch (const std::bad_variant_access&) {  // a program describes it only
  }
  throw UsageError("'" + name + "' is not a tensor with a value, and has no branches");
}

void show_variable(const Options& options, const Contents& contents) {
  const Chosen chosen = choose(contents, *options.variable);
  const std::string& name = chosen.desc.name;
  if (options.verify) contents.verify(name);
  Detail detail{options.file, {chosen.desc}, chosen.number, options.branch, {}, 0, options.verify};
  if (options.branch) {
    Part part = slice(contents, chosen, *options.branch);
    detail.value = std::move(part.tensor);
    detail.first_row = part.first_row;
  } else if (chosen.number) {
    detail.value = tensor_of_array(contents, name, *chosen.number);
  } else {
    detail.value = contents.value(name);
    detail.row = described(chosen.desc, detail.value);
  }
  if (!options.svg) {
    write(options, detail);
  } else if (const auto* const x = std::get_if<lod::AnyLoDTensor>(&detail.value); x && x->levels() > 0) {
    write_svg(std::cout, *options.variable, x->lod().view());
  } else {
    throw UsageError("'" + *options.variable + "' has no levels");
  }
}

void show_graph(const Contents& contents) {
  if (!contents.program()) throw UsageError("it is no program");
  write_dot(std::cout, *contents.program());
}

/// Errors say which of the files they are about.
int show_differences(const Options& options) {
  const auto open_named = [](const std::string& path) {
    try {
      return open(path);
    } catch (const std::exception& error) {
      throw std::runtime_error(with_path(path, error.what()));
    }
  };
  const Opened a = open_named(options.file), b = open_named(options.other_file);
  const bool differ = write_differences(std::cout, {options.file, *a}, {options.other_file, *b}, options.variable,
                                        options.tolerance.value_or(0));
  return differ ? DIFFERENT : OK;
}

}  // namespace

int main(int count, char** arguments) {
  // Who reads the output may have seen enough.
  std::signal(SIGPIPE, SIG_DFL);
  Options options;
  try {
    options = read_options({arguments + 1, arguments + count});
    if (options.show_help) {
      std::cout << help;
    } else if (options.show_version) {
      std::cout << "lodinfo " << lod::version << '\n' << known_kinds() << '\n';
    }
  } catch (const UsageError& error) {
    complain(error.what());
    std::cerr << "lodinfo --help tells how it is used\n";
    return WRONG_USAGE;
  }
  int status = OK;
  try {
    if (options.diff) {
      status = show_differences(options);
    } else if (!options.file.empty()) {
      const Opened contents = open(options.file);
      if (options.dot) {
        show_graph(*contents);
      } else if (options.variable) {
        show_variable(options, *contents);
      } else {
        show_file(options, *contents, status);
      }
    }
  } catch (const UsageError& error) {
    complain(about(options, error));
    return WRONG_USAGE;
  } catch (const std::exception& error) {
    complain(about(options, error));
    return UNREADABLE;
  }
  if (!std::cout.flush()) {
    complain("the output could not be written");
    return UNREADABLE;
  }
  return status;
}
