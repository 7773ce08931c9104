// SPDX-License-Identifier: Apache-2.0
/// @file
/// What benchmarks run on: lengths of sequences and lists of ids by name. The same numbers on every machine and with
/// every standard library: only the engine is the standard's, whose output it fixes; its distributions are not used.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace benchmarks {

/// Lengths of sequences with `rows` rows in all, by name:
///   u<mean>    even over 1 to 2 mean - 1: u16, u256, ...
///   <number>   so long each; the last is cut
///   zipf11     Pareto with exponent 1.1, at most an eighth of the rows
///   giant      nine tenths of the rows in one sequence in the middle, the others 4 long
///   empty      as many empty sequences as there would be rows
///   empty90    nine of ten are empty, the others even over 1 to 31
///   all1       1 each
///   one        one sequence
///   mixed      15 of 3, then one of 100, and so on
///   pow2align  16 each: what a dense tensor would do too
///   real-like  log-normal, as words in documents are: mean of the logarithm 4.5, deviation 1
/// Throws std::invalid_argument for another name.
std::vector<std::int64_t> lengths(std::string_view name, std::int64_t rows);

/// `count` ids in [0, height), by name:
///   uniform  each as often as the others
///   zipf     Zipf with exponent 1.05, the frequent ones spread over the whole range
///   same     one id
///   sorted   uniform, ascending
///   reversed descending in even steps
/// Throws std::invalid_argument for another name.
std::vector<std::int64_t> ids(std::string_view name, std::int64_t count, std::int64_t height);

/// "64KiB", "128MiB", ... as a number of bytes.
std::int64_t bytes_of(const std::string& size);

}  // namespace benchmarks
