// SPDX-License-Identifier: Apache-2.0
// A program of two files with different versions of the library: names, types and exceptions are each file's own. It
// passes no strings of the standard library, of which the files may have different ones.
#include <lod/error.hpp>

#include <cstdio>
#include <cstring>
#include <stdexcept>

const char* of_this_version(bool valid);
const char* of_another_version(bool valid);

namespace {

enum class Caught { NOTHING, OURS, OTHERS };

template <class Function>
Caught caught(const Function& function) {
  try {
    function(false);
  } catch (const lod::InvalidLoD&) {
    return Caught::OURS;
  } catch (const std::invalid_argument&) {
    return Caught::OTHERS;
  }
  return Caught::NOTHING;
}

}  // namespace

int main() {
  const char *const one = of_this_version(true), *const other = of_another_version(true);
  if (std::strcmp(one, other) == 0) {
    std::printf("both versions have the types %s\n", one);
    return 1;
  }
  if (caught(of_this_version) != Caught::OURS || caught(of_another_version) != Caught::OTHERS) {
    std::printf("an exception of one version is taken for the other's\n");
    return 1;
  }
  return 0;
}
