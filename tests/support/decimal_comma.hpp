// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <clocale>
#include <string>

namespace lod_test {

/// While it lives, C's functions write a comma before fractions, if the machine has a locale that does.
class DecimalComma {
 public:
  DecimalComma() {
    const char* const before = std::setlocale(LC_NUMERIC, nullptr);
    before_ = before ? before : "C";
    for (const char* const name : {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8", "fr_FR"}) {
      if (std::setlocale(LC_NUMERIC, name)) return;
    }
  }
  DecimalComma(const DecimalComma&) = delete;
  DecimalComma& operator=(const DecimalComma&) = delete;
  ~DecimalComma() { std::setlocale(LC_NUMERIC, before_.c_str()); }

 private:
  std::string before_;
};

}  // namespace lod_test
