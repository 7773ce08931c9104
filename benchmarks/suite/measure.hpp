// SPDX-License-Identifier: Apache-2.0
/// @file
/// The time that contenders take.
#pragma once

#include "workload.hpp"

#include <map>
#include <string>
#include <vector>

namespace benchmarks {

/// How long is measured.
struct Patience {
  double seconds = 0.3;  ///< for each contender, unless that makes too few or too many repetitions
  int fewest_repetitions = 3;
  int most_repetitions = 20;
  double repetition_seconds = 1e-3;  ///< as many calls a repetition as take that long: the clock is no part of a result
};

/// Once, before the first measurement: tells Google Benchmark the name of the program.
void prepare_to_measure(std::string program);

/// The seconds of a call in each repetition, for each contender by its name. The contenders take turns, repetition by
/// repetition: what the machine does meanwhile meets them all.
std::map<std::string, std::vector<double>> measure(const std::vector<Contender>& contenders, const Patience& patience);

}  // namespace benchmarks
