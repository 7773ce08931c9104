// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is different in two files.
#pragma once

#include "contents.hpp"

#include <optional>
#include <ostream>
#include <string>

namespace lodinfo {

/// A file, and what it is called.
struct Named {
  const std::string& path;
  const Contents& contents;
};

/// Says what is different in `b`, a line for each difference, and returns whether something is. With a name, of that
/// variable alone, which one of the two must have: throws UsageError. Numbers that are `tolerance` apart, or less, are
/// the same; so are two NaNs.
bool write_differences(std::ostream& out, const Named& a, const Named& b, const std::optional<std::string>& variable,
                       double tolerance);

}  // namespace lodinfo
