// SPDX-License-Identifier: Apache-2.0
/// @file
/// A small plot of the training, as SVG.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

struct Epoch {
  double loss;               ///< mean over the training sections
  double training_accuracy;  ///< between 0 and 1
  double held_out_accuracy;
};

/// Writes loss and accuracies by epoch. Throws std::runtime_error where the file cannot be written.
void write_plot(const std::filesystem::path& file, const std::vector<Epoch>& epochs, double baseline);
