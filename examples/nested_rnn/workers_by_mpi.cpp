// SPDX-License-Identifier: Apache-2.0
#include "workers.hpp"
#include <lod/mpi.hpp>
#include <lod/mpi_files.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

namespace {

/// MPI, from its beginning to its end.
struct Initialized {
  Initialized() { MPI_Init(nullptr, nullptr); }
  Initialized(const Initialized&) = delete;
  Initialized& operator=(const Initialized&) = delete;
  ~Initialized() { MPI_Finalize(); }
};

/// Part i of a batch is sections [first_of(i), first_of(i + 1)) of it.
std::int64_t count_of_parts(std::int64_t batch) { return std::min(Workers::most_parts, batch); }
std::int64_t first_of(std::int64_t part, std::int64_t batch) { return batch * part / count_of_parts(batch); }

/// For parts that descend in size the places where they stand so that halves of the list, quarters and so on are even:
/// as the best are seeded in a tournament.
std::vector<std::size_t> seeded_places(std::size_t count) {
  std::vector<std::size_t> seeds = {0};
  while (seeds.size() < count) {
    std::vector<std::size_t> next;
    for (std::size_t seed : seeds) next.insert(next.end(), {seed, 2 * seeds.size() - 1 - seed});
    seeds = std::move(next);
  }
  std::erase_if(seeds, [&](std::size_t seed) { return seed >= count; });
  std::vector<std::size_t> places(count);
  for (std::size_t place = 0; place < count; ++place) places[seeds[place]] = place;
  return places;
}

/// Processors are shared by the workers of a machine.
lod::CpuExecutor own_executor() {
  MPI_Comm neighbours = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &neighbours);
  int count = 1;
  MPI_Comm_size(neighbours, &count);
  MPI_Comm_free(&neighbours);
  return lod::CpuExecutor(std::max(1, lod::CpuExecutor().threads() / count));
}

template <class T>
lod::LoDTensor<T> as_tensor(const std::vector<T>& list) {
  return lod::LoDTensor<T>::from_values({}, {}, list);
}
template <class T>
std::vector<T> load_list(const lod::File& file, const char* name) {
  const auto list = file.load<lod::LoDTensor<T>>(name);
  return {list.values().begin(), list.values().end()};
}

class Ranks final : public Workers {
 public:
  int count() const override { return ranks_.size(); }
  bool is_first() const override { return ranks_.rank() == 0; }
  lod::CpuExecutor executor() const override { return ranks_.executor(); }
  void first(const std::function<void()>& f) override {
    lod::mpi::together(ranks_, [&] {
      if (is_first()) f();
    });
  }
  void share(lod::LoDTensor<std::int64_t>& x) override { lod::mpi::broadcast_into(ranks_, 0, x); }

  std::vector<std::int64_t> arranged(const lod::LoDTensor<std::int64_t>& sections,
                                     std::int64_t batch_size) const override {
    std::vector<std::int64_t> order;
    for (std::int64_t begin = 0; begin < sections.size(); begin += batch_size) {
      const std::int64_t size = std::min(batch_size, sections.size() - begin);
      std::vector<std::int64_t> longest_first(static_cast<std::size_t>(size));
      std::iota(longest_first.begin(), longest_first.end(), begin);
      const auto words = [&](std::int64_t section) { return sections[section].rows(); };
      std::ranges::stable_sort(longest_first, std::ranges::greater(), words);
      // Each section goes to the shortest part that has room for it.
      struct Filling {
        std::int64_t words = 0;
        std::vector<std::int64_t> sections = {};
      };
      const auto places = seeded_places(static_cast<std::size_t>(count_of_parts(size)));
      std::vector<Filling> parts(places.size());
      for (std::int64_t section : longest_first) {
        Filling* shortest = nullptr;
        for (std::size_t place : places) {
          const auto part = static_cast<std::int64_t>(place);
          const std::int64_t room = first_of(part + 1, size) - first_of(part, size);
          if (static_cast<std::int64_t>(parts[place].sections.size()) == room) continue;
          if (!shortest || parts[place].words < shortest->words) shortest = &parts[place];
        }
        shortest->words += words(section);
        shortest->sections.push_back(section);
      }
      for (const Filling& part : parts) order.insert(order.end(), part.sections.begin(), part.sections.end());
    }
    return order;
  }
  std::vector<Part> parts(const lod::LoDTensorView<const std::int64_t>& batch) override {
    std::vector<Part> mine;
    std::int64_t before = 0;
    for (std::int64_t i = 0; i < count_of_parts(batch.size()); ++i) {
      const Part part{i, first_of(i, batch.size()), first_of(i + 1, batch.size())};
      const std::int64_t words = batch.between(part.begin, part.end).rows();
      // Sections differ in length: a worker has the parts whose middle is in its share of the words.
      if ((2 * before + words) * ranks_.size() / (2 * batch.rows()) == ranks_.rank()) mine.push_back(part);
      before += words;
    }
    return mine;
  }
  void keep_gradient(Network<float>& network) override {
    std::int64_t size = 0;
    for (const auto& [name, gradient] : network.dense_gradient.by_name()) {
      size += static_cast<std::int64_t>(gradient->values().size());
    }
    // Memory of the step before is used again.
    if (words_.size() == dense_.size()) dense_.emplace_back(lod::Shape{size}, lod::uninitialized);
    lod::LoDTensor<float>& all = dense_[words_.size()];
    float* to = all.data();
    for (const auto& [name, gradient] : network.dense_gradient.by_name()) {
      to = std::ranges::copy(std::as_const(*gradient).values(), to).out;
    }
    words_.push_back(std::move(network.word_gradient));
  }
  void add_up_gradients(Network<float>& network) override {
    const std::span mine(dense_.data(), words_.size());
    auto others = lod::mpi::start_all_reduce_into(ranks_, mine, {.fixed_tree = true}, dense_sum_);
    lod::mpi::all_reduce_into(ranks_, words_, {.fixed_tree = true}, network.word_gradient);
    others.wait();
    const float* from = std::as_const(dense_sum_).data();
    for (const auto& [name, gradient] : network.dense_gradient.by_name()) {
      std::copy_n(from, gradient->values().size(), gradient->data());
      from += gradient->values().size();
    }
    words_.clear();
  }
  void add_up(lod::LoDTensor<double>& tallies) override { lod::mpi::all_reduce_into(ranks_, tallies, tallies); }

  void save(const std::string& file, Network<float>& network, const TrainingState& state) override {
    lod::mpi::CheckpointWriter writer(ranks_, file);
    for (const auto& [name, parameter] : network.parameters()) writer.add(name, *parameter);
    writer.add("training", as_tensor(state.identity));
    writer.add("order", as_tensor(state.order));
    writer.add("random", as_tensor(state.random.state()));
    lod::LoDTensor<double> epochs({static_cast<std::int64_t>(state.epochs.size()), 3});
    double* to = epochs.data();
    for (const Epoch& epoch : state.epochs) {
      for (double number : {epoch.loss, epoch.training_accuracy, epoch.held_out_accuracy}) *to++ = number;
    }
    writer.add("epochs", epochs);
    writer.commit();
  }
  void load(const std::string& path, Network<float>& network, TrainingState& state) override {
    const lod::File file = lod::mpi::open_checkpoint(ranks_, path);
    first([&] {
      if (load_list<std::int64_t>(file, "training") != state.identity) {
        throw std::runtime_error(path +
                                 " is of another training: of other documents or sizes of batches, of another "
                                 "seed or number of epochs");
      }
    });
    for (const auto& [name, parameter] : network.parameters()) *parameter = file.load<lod::LoDTensor<float>>(name);
    state.order = load_list<std::int64_t>(file, "order");
    state.random = Random(load_list<std::uint64_t>(file, "random"));
    state.epochs.clear();
    const auto epochs = file.tensor<double>("epochs");
    for (std::int64_t i = 0; i < epochs.rows(); ++i) {
      const auto numbers = epochs.row(i);
      state.epochs.push_back({numbers[0], numbers[1], numbers[2]});
    }
  }

  bool is_of_another(const std::exception& error) const override {
    return dynamic_cast<const lod::mpi::RankError*>(&error) != nullptr;
  }
  void abort() const override {
    if (count() > 1) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }

 private:
  Initialized initialized_;  // before the communicator, which goes first
  lod::mpi::Communicator ranks_{MPI_COMM_WORLD, own_executor()};
  std::vector<lod::LoDTensor<float>> dense_;  // of parts: all of a part's, one after the other
  std::vector<lod::SelectedRows<float>> words_;
  lod::LoDTensor<float> dense_sum_;
};

}  // namespace

std::unique_ptr<Workers> start_workers() { return std::make_unique<Ranks>(); }
