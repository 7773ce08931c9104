// SPDX-License-Identifier: Apache-2.0
/// @file
/// The processes that train together. Each has all sections and the whole network; they share the parts of each batch,
/// and add up their gradients.
#pragma once

#include "../training/random.hpp"
#include "network.hpp"
#include "plot.hpp"
#include <lod/lod.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

/// Some sections of a batch, [begin, end) of it.
struct Part {
  std::int64_t number;
  std::int64_t begin, end;
};

/// What the next epoch depends on, beside the network.
struct TrainingState {
  std::vector<std::int64_t> identity;  ///< of the training, whose states do not fit others
  std::vector<std::int64_t> order;     ///< of the training sections
  Random random;
  std::vector<Epoch> epochs;  ///< those that are done
};

/// This process alone, which takes a batch as one part. All functions but the first and the last two are collective.
class Workers {
 public:
  static constexpr std::int64_t most_parts = 8;

  Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  virtual ~Workers() = default;

  /// How many there are; 0 where there was to be no other.
  virtual int count() const { return 0; }
  /// Whether this is the one that prints, and reads and writes files.
  virtual bool is_first() const { return true; }
  /// With the threads that this one has for itself.
  virtual lod::CpuExecutor executor() const { return {}; }
  /// Calls f on the first one only; what it throws there is an error of all.
  virtual void first(const std::function<void()>& f) { f(); }
  /// Lets all have what the first one has.
  virtual void share(lod::LoDTensor<std::int64_t>&) {}

  /// An order of the sections by which each stays in its batch of `batch_size`, and the workers have about as many
  /// words as each other of any batch, however many workers there are.
  virtual std::vector<std::int64_t> arranged(const lod::LoDTensor<std::int64_t>& sections,
                                             std::int64_t batch_size) const {
    static_cast<void>(batch_size);
    std::vector<std::int64_t> order(static_cast<std::size_t>(sections.size()));
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  /// The parts of a batch that are this one's.
  virtual std::vector<Part> parts(const lod::LoDTensorView<const std::int64_t>& batch) {
    return {{0, 0, batch.size()}};
  }
  /// Takes the gradient of the next of its parts from the network.
  virtual void keep_gradient(Network<float>&) {}
  /// Lets the gradient of the network be the sum of those of all parts.
  virtual void add_up_gradients(Network<float>&) {}
  /// Sums over all; each element is 0 on all but one.
  virtual void add_up(lod::LoDTensor<double>&) {}

  /// Replaces the checkpoint `file`. The options see to it that this process alone has none.
  virtual void save(const std::string& /*file*/, Network<float>&, const TrainingState&) {}
  /// Reads it. Throws std::runtime_error where it is of another training.
  virtual void load(const std::string& /*file*/, Network<float>&, TrainingState&) {}

  /// Whether another one has thrown this, and tells the user.
  virtual bool is_of_another(const std::exception&) const { return false; }
  /// Ends all of them, those too that wait for this one.
  virtual void abort() const {}
};

/// The processes that mpirun has started, this one among them. Batches are cut into as many parts as they have
/// sections, up to `most_parts`, whatever the number of processes. Throws std::runtime_error where the program was
/// built without MPI.
std::unique_ptr<Workers> start_workers();
