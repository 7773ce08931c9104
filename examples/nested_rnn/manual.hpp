// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

/// The chapters of the manual that CMake prints itself (`cmake --help-manual`), by name: a folder each. Those whose
/// pages say no more than where their text is are left out. None where CMake was installed without it.
std::vector<std::filesystem::path> chapters_of_manual();
