// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace lodinfo {

const char* const help = R"(usage: lodinfo [option...] FILE [VARIABLE [BRANCH]]
       lodinfo --diff [option...] FILE FILE [VARIABLE]

Shows what is in a file of LoD tensors.

  lodinfo FILE                 what kind of file it is, and a table of its variables; of a
                               program, also its blocks and its operators
  lodinfo FILE VARIABLE        one variable: its levels, drawn; statistics of the lengths of
                               its sequences and of its values; its first rows
  lodinfo FILE VARIABLE 2,0    the same of a slice: of the sequence at branch <2,0>, in row
                               numbers of the whole tensor
  lodinfo --diff FILE FILE     what is different in the second file: variables, types, lengths
                               of sequences, values, operators of programs
  lodinfo --svg FILE VARIABLE  a picture of the lengths of its sequences
  lodinfo --dot FILE           the graph of a program, for graphviz: lodinfo --dot FILE |
                               dot -Tsvg

FILE is one of these. Its contents say which, its name does not matter but where two files
belong together.

  lodtensor     the library's own files. They are not read but where it is needed: a slice
                takes as long as it is large.
  PaddlePaddle  a program (__model__, NAME.pdmodel), whose parameters are beside it;
                a file of parameters (__params__, NAME.pdiparams), whose names are in the
                program beside it; a file of one variable; a folder with a __model__
  NumPy         .npy and .npz, with the levels that the library keeps in an .npz
  JSON          a tensor as an object; nested lists, which are given as few levels as they
                allow

VARIABLE is a name as the table has it. NAME[3] is tensor 3 of an array. BRANCH is a sequence
number for each level from the outermost on, counted from 0, with commas between them.

options:
  --all            leave nothing out: every variable, every row, and names in full
  --json           the same as JSON, in ASCII. Numbers are exact; NaN and infinities are the
                   texts "NaN", "Infinity" and "-Infinity". With --all it has all offsets (lod,
                   absolute_lod of a slice), ids and values; else the first 20 of each
                   level and of each list (first_lod, first_ids, first_values, ...)
  --diff           compare two files. Values are the same where they are equal, or both NaN
  --tolerance=X    of --diff: or no farther apart than X
  --svg            a histogram of the lengths at each level, as SVG
  --dot            operators and variables of a program as a graph, in the language of dot
  --verify         read and check all of the file, or of VARIABLE: also the checksums of the
                   library's own files and of .npz
  --width=N        columns for drawings and rows, and for tables as far as it takes to cut
                   names (default: those of the terminal; else 100, and names are not cut)
  --color=WHEN     auto (default: on a terminal, unless NO_COLOR is set), always, never
  --no-color       --color=never
  --version        the version, and which kinds of files this program was built with
  --help           this text

exit status:
  0  all went well
  1  a file cannot be read, or is damaged: standard error says where
  2  the command line is wrong, or the file has no such variable or branch
  3  --diff found a difference

What is not printable in a name (control characters, bytes that are no UTF-8) is shown as
\x1b or \u{202e}, and may be given so. Standard input cannot be read: a FILE called - is ./-
)";

namespace {

std::optional<std::int64_t> read_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return {};
  return number;
}

std::vector<std::int64_t> read_branch(const std::string& text) {
  std::vector<std::int64_t> branch;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto step = read_number(std::string_view(text).substr(begin, end - begin));
    if (!step) throw UsageError("branch '" + text + "': expected numbers from 0 on, with commas between them");
    branch.push_back(*step);
    begin = end + 1;
  }
  return branch;
}

Options::Colour read_colour(const std::string& when) {
  if (when == "auto") return Options::Colour::AUTO;
  if (when == "always") return Options::Colour::ALWAYS;
  if (when == "never") return Options::Colour::NEVER;
  throw UsageError("--color=" + when + ": expected auto, always or never");
}

std::int64_t read_width(const std::string& text) {
  constexpr std::int64_t least = 20, most = 100000;
  const auto width = read_number(text);
  if (!width || *width < least || *width > most) throw UsageError("--width=" + text + ": expected 20 to 100000");
  return *width;
}

double read_tolerance(const std::string& text) {
  double tolerance = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tolerance);
  if (error != std::errc() || end != text.data() + text.size() || !(tolerance >= 0)) {
    throw UsageError("--tolerance=" + text + ": expected a number from 0 on");
  }
  return tolerance;
}

}  // namespace

Options read_options(const std::vector<std::string>& arguments) {
  Options options;
  std::vector<std::string> operands;
  bool more_options = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!more_options || !argument.starts_with('-')) {
      operands.push_back(argument);
      continue;
    }
    const std::string name = argument.substr(0, argument.find('='));
    const bool has_value = name.size() < argument.size();
    const auto value = [&] {
      if (has_value) return argument.substr(name.size() + 1);
      if (++i == arguments.size()) throw UsageError(name + " needs a value");
      return arguments[i];
    };
    if (argument == "--") {
      more_options = false;
    } else if (argument == "-") {
      throw UsageError("standard input cannot be read; a file called - is ./-");
    } else if (name == "--width") {
      options.width = read_width(value());
    } else if (name == "--color") {
      options.colour = read_colour(value());
    } else if (argument == "--no-color") {
      options.colour = Options::Colour::NEVER;
    } else if (argument == "--all") {
      options.all = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--diff") {
      options.diff = true;
    } else if (name == "--tolerance") {
      options.tolerance = read_tolerance(value());
    } else if (argument == "--svg") {
      options.svg = true;
    } else if (argument == "--dot") {
      options.dot = true;
    } else if (argument == "--verify") {
      options.verify = true;
    } else if (argument == "--help" || argument == "-h") {
      options.show_help = true;
    } else if (argument == "--version") {
      options.show_version = true;
    } else {
      throw UsageError("there is no option " + argument);
    }
  }
  if (options.show_help || options.show_version) return options;
  if (options.json + options.diff + options.svg + options.dot > 1) {
    throw UsageError("--json, --diff, --svg and --dot exclude each other");
  }
  if (options.tolerance && !options.diff) throw UsageError("--tolerance is for --diff");
  if (operands.empty()) throw UsageError("no file was named");
  if (options.diff) {
    if (operands.size() < 2 || operands.size() > 3) throw UsageError("--diff takes two files, and a variable at most");
    options.other_file = operands[1];
    operands.erase(operands.begin() + 1);
  }
  // An empty name is that of a variable of the shell which has none.
  if (operands[0].empty() || (options.diff && options.other_file.empty())) throw UsageError("no file was named");
  if (options.svg && operands.size() < 2) throw UsageError("--svg needs a variable");
  if (options.dot && operands.size() > 1) throw UsageError("--dot takes a file alone");
  if (operands.size() > 3) throw UsageError("more than a file, a variable and a branch");
  options.file = operands[0];
  if (operands.size() > 1) options.variable = operands[1];
  if (operands.size() > 2) options.branch = read_branch(operands[2]);
  return options;
}

}  // namespace lodinfo
