// SPDX-License-Identifier: Apache-2.0
// The example `lac`: what its command prints.
#include "../examples/lac/command.hpp"
#include "support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

namespace {

struct Printed {
  int status;
  std::string output, errors;
};
Printed lac_prints(std::vector<std::string> arguments, const std::string& input = "", bool is_interactive = false) {
  std::istringstream in(input);
  std::ostringstream out, errors;
  if (arguments.empty() || arguments[0] != "--parameters") {
    arguments.insert(arguments.begin(), {"--parameters", LOD_TEST_LAC_EXAMPLE, "--threads", "2"});
  }
  const int status =
      lac::run_command(arguments, {.input = in, .output = out, .errors = errors, .is_interactive = is_interactive});
  return {status, out.str(), errors.str()};
}

// By tags of PaddlePaddle 2.6.2.
const std::string example_text =
    "我来到北京清华大学\n乒乓球拍卖完了\n中国科学技术大学\n\n今天天气真好，我们去公园散步吧\n";
const std::string example_words =
    "我/r  来到/v  北京清华大学/ORG\n乒乓球/n  拍卖/v  完/v  了/xc\n中国科学技术大学/ORG\n\n"
    "今天/TIME  天气/n  真好/d  ，/v  我们/r  去/v  公园/n  散步/v  吧/xc\n";

}  // namespace

TEST_CASE("example lac: words and tags are those of PaddlePaddle, from arguments, a file or standard input") {
  CHECK(lac_prints({}, example_text).output == example_words);
  CHECK(lac_prints({"我来到北京清华大学", "中国科学技术大学"}).output ==
        "我/r  来到/v  北京清华大学/ORG\n中国科学技术大学/ORG\n");
  const lod_test::TemporaryFolder folder;
  lod_test::write_bytes(folder / "text", example_text);
  CHECK(lac_prints({"--file", folder / "text", "--file", "-"}, example_text).output == example_words + example_words);
  CHECK(lac_prints({}, "").output.empty());
}

TEST_CASE("example lac: lines in batches get what they get one by one") {
  // 256 lines are a batch; empty ones cost next to nothing.
  const std::string before(253, '\n');
  CHECK(lac_prints({}, before + example_text + example_text).output == before + example_words + example_words);
  const Printed typed = lac_prints({}, example_text, true);
  CHECK(typed.output == example_words);
  CHECK(typed.errors.find("Ctrl-D") != std::string::npos);
}

TEST_CASE("example lac: JSON is in ASCII, and has the text byte for byte") {
  CHECK(lac_prints({"--json", "我\"\xff\t", ""}).output ==
        "{\"text\": \"\\u6211\\\"\\udcff\", \"words\": [{\"word\": \"\\u6211\", \"tag\": \"r\"}, "
        "{\"word\": \"\\\"\", \"tag\": \"w\"}, {\"word\": \"\\udcff\", \"tag\": \"xc\"}]}\n{\"text\": \"\", \"words\": "
        "[]}\n");
}

TEST_CASE("example lac: what would do something to a terminal is printed as what it is") {
  const std::string printed = lac_prints({"我\x1b[2J\xff爱"}).output;
  CHECK(printed.find("\\x1b") != std::string::npos);
  CHECK(printed.find("\\xff") != std::string::npos);
  CHECK(printed.find('\x1b') == std::string::npos);
}

TEST_CASE("example lac: errors say what is wrong") {
  const auto check_error = [](const std::vector<std::string>& arguments, int status, const std::string& text) {
    const Printed printed = lac_prints(arguments);
    CHECK(printed.status == status);
    CHECK(printed.output.empty());
    CHECK(printed.errors.starts_with("lac: " + text));
  };
  check_error({"--colour"}, 2, "--colour: there is no such option");
  check_error({"--file"}, 2, "--file: expected something after it");
  check_error({"--threads", "0"}, 2, "--threads 0: expected a number from 1 to 1024");
  check_error({"--file", "/no/such/file"}, 1, "/no/such/file: it cannot be read");
  const lod_test::TemporaryFolder folder;
  check_error({"--parameters", folder.path()}, 1, folder / "tag.dic" + ": it cannot be read");
  lod_test::write_bytes(folder / "tag.dic", "0\tn-B\n-1\tn-I\n");
  check_error({"--parameters", folder.path()}, 1, folder / "tag.dic" + ": the line '-1\\x09n-I', expected a number");
  CHECK(lac_prints({"--help"}).output.starts_with("usage: lac"));
}
