// SPDX-License-Identifier: Apache-2.0
/// @file
/// benchmark_cliffs: walks operations, and writes what it measured. `tools/bench --cliffs` is what people use.
#include "cliffs.hpp"

#include <suite/json.hpp>
#include <suite/measure.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#ifdef _OPENMP
#  include <omp.h>
#endif

namespace {

using namespace benchmarks;

constexpr const char* usage =
    "benchmark_cliffs [--form=short|full] [--threads=N] [--only=REGEX]\n"
    "\n"
    "Each line of its output is a JSON object: an operation along one axis. The full form also leaves the ordinary\n"
    "place of one other axis. With --only, operations whose name has a match.\n";

struct Arguments {
  bool full = false;
  int threads = 1;
  std::string only;
};

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = values[i];
    if (argument == "--form=short" || argument == "--form=full") {
      arguments.full = argument.ends_with("full");
    } else if (argument.starts_with("--threads=")) {
      arguments.threads = std::stoi(std::string(argument.substr(10)));
    } else if (argument.starts_with("--only=")) {
      arguments.only = argument.substr(7);
    } else {
      throw std::invalid_argument("unknown argument " + std::string(argument));
    }
  }
  if (arguments.threads < 1) throw std::invalid_argument("a number of threads is 1 or more");
  return arguments;
}

std::vector<Name> all_of(const Places& places) {
  std::vector<Name> names = places.in_order;
  if (std::ranges::find(names, places.ordinary) == names.end()) names.insert(names.begin(), places.ordinary);
  names.insert(names.end(), places.others.begin(), places.others.end());
  return names;
}
std::vector<Name> neighbours(const Places& places, const Name& name) {
  std::vector<Name> names;
  if (name != places.ordinary) names.push_back(places.ordinary);
  const auto& order = places.in_order;
  if (const auto here = std::ranges::find(order, name); here != order.end()) {
    if (here != order.begin() && here[-1] != places.ordinary) names.push_back(here[-1]);
    if (here + 1 != order.end() && here[1] != places.ordinary) names.push_back(here[1]);
  }
  return names;
}

/// The places through which lines are drawn: the ordinary one, and for axes other than the row size the same with
/// scalar rows, in the short form that alone. In the full form also all that differ from these on one other axis.
std::vector<Place> crossings(const Walk& walk, Axis along, bool full) {
  Place ordinary;
  for (std::size_t i = 0; i < walk.axes.size(); ++i) ordinary[i] = walk.axes[i].ordinary;
  Place scalar = ordinary;
  scalar[static_cast<std::size_t>(Axis::ROW_SIZE)] = "1";
  std::vector<Place> places{along == Axis::ROW_SIZE ? ordinary : scalar};
  if (!full) return places;
  if (places.front() != ordinary) places.push_back(ordinary);
  for (std::size_t i = 0, bases = places.size(); i < bases; ++i) {
    for (const Axis axis : all_axes) {
      if (axis == along || (axis == Axis::ROW_SIZE && i > 0)) continue;
      const auto place = static_cast<std::size_t>(axis);
      for (const Name& name : all_of(walk.axes[place])) {
        if (name == places[i][place]) continue;
        places.push_back(places[i]);
        places.back()[place] = name;
      }
    }
  }
  std::ranges::sort(places);
  places.erase(std::ranges::unique(places).begin(), places.end());
  return places;
}

/// One line: an operation along an axis, through a place.
class Line {
 public:
  Line(const Walk& walk, Axis axis, Place through, int threads)
      : walk_(walk), axis_(static_cast<std::size_t>(axis)), through_(std::move(through)) {
    for (const Name& name : all_of(walk.axes[axis_])) {
      Place place = through_;
      place[axis_] = name;
      Job job = walk.make(place, threads);
      if (job.bytes < 4096) continue;  // a call costs more than the data
      job.contenders.front().by = name;
      contenders_.push_back(std::move(job.contenders.front()));
      bytes_[name] = static_cast<double>(job.bytes);
    }
  }
  std::size_t size() const { return contenders_.size(); }

  void measure(const Patience& patience) {
    for (const auto& [name, seconds] : benchmarks::measure(contenders_, patience)) {
      const double least = std::ranges::min(seconds);
      const auto [at, is_new] = seconds_.try_emplace(name, least);
      if (!is_new) at->second = std::min(at->second, least);
    }
  }
  /// How many times as long a byte takes at the worst place as at its best neighbour.
  double worst() const {
    double worst = 0;
    for (const auto& [name, seconds] : seconds_) {
      for (const Name& other : measured_neighbours(name)) worst = std::max(worst, per_byte(name) / per_byte(other));
    }
    return worst;
  }
  std::string json() const {
    std::string text = "{\"name\": " + quoted(walk_.name) + ", \"axis\": " + quoted(axis_names[axis_]);
    for (std::size_t axis = 0; axis < through_.size(); ++axis) {
      if (axis != axis_) text += std::string(", \"") + axis_names[axis] + "\": " + quoted(through_[axis]);
    }
    text += ", \"places\": [";
    for (const Contender& contender : contenders_) {
      const Name& name = contender.by;
      std::string others;
      for (const Name& other : measured_neighbours(name)) {
        others += (others.empty() ? "" : ", ") + quoted(other);
      }
      text += (&contender == contenders_.data() ? "" : ", ");
      text += "{\"at\": " + quoted(name) + ", \"seconds\": " + number(seconds_.at(name)) +
              ", \"bytes\": " + number(bytes_.at(name)) + ", \"neighbours\": [" + others + "]}";
    }
    return text + "]}";
  }

 private:
  std::vector<Name> measured_neighbours(const Name& name) const {
    std::vector<Name> names = neighbours(walk_.axes[axis_], name);
    std::erase_if(names, [this](const Name& other) { return !seconds_.contains(other); });
    return names;
  }
  double per_byte(const Name& name) const { return seconds_.at(name) / bytes_.at(name); }

  const Walk& walk_;
  std::size_t axis_;
  Place through_;
  std::vector<Contender> contenders_;
  std::map<Name, double> bytes_, seconds_;
};

}  // namespace

int main(int count, char** values) {
  try {
    const Arguments arguments = parse(count, values);
    prepare_to_measure(values[0]);
#ifdef _OPENMP
    omp_set_num_threads(arguments.threads);  // also for those that fill the data
#endif
    const Patience patience = arguments.full ? Patience{.seconds = 0.01, .repetition_seconds = 5e-4}
                                             : Patience{.seconds = 2e-3, .repetition_seconds = 3e-4};
    const std::regex only(arguments.only);
    for (const Walk& walk : all_walks()) {
      if (!std::regex_search(walk.name, only)) continue;
      for (const Axis axis : all_axes) {
        for (const Place& place : crossings(walk, axis, arguments.full)) {
          Line line(walk, axis, place, arguments.threads);
          if (line.size() < 2) continue;
          line.measure(patience);
          // What something else on the machine has slowed down is no cliff the next time.
          for (int again = 0; again < 2 && line.worst() > 2; ++again) line.measure(patience);
          std::cout << line.json() << std::endl;
        }
      }
    }
    return 0;
  } catch (const std::logic_error& error) {
    std::cerr << "benchmark_cliffs: " << error.what() << "\n" << usage;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "benchmark_cliffs: " << error.what() << "\n";
    return 1;
  }
}
