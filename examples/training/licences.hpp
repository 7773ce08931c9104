// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

/// The licence texts that every Debian and Ubuntu has, by name. Those that are links to others are left out.
std::vector<std::filesystem::path> licence_texts();
