// SPDX-License-Identifier: Apache-2.0
/// @file
/// A model in a file: for each tensor the length of its description, the description (an encoded lod::VarDesc, which
/// names it, its type and its shape), and its values as they lie in memory.
#pragma once

#include "network.hpp"

#include <filesystem>

/// Throws std::runtime_error where the file cannot be written.
void save(const std::filesystem::path& file, Network<float>& network);
/// Reads the values into a network of the same sizes. Throws lod::ParseError for a description that is none,
/// lod::ShapeMismatch where it does not describe the network's tensor, std::runtime_error for a file that ends early.
void load(const std::filesystem::path& file, Network<float>& network);
