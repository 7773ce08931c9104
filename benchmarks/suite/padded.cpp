// SPDX-License-Identifier: Apache-2.0
#include "padded.hpp"

#include <lod/lod.hpp>

#if __has_include(<xtensor/containers/xtensor.hpp>)  // from 0.26 on
#  include <xtensor/containers/xtensor.hpp>
#  include <xtensor/core/xmath.hpp>
#  include <xtensor/core/xnoalias.hpp>
#  include <xtensor/core/xtensor_config.hpp>
#  include <xtensor/reducers/xreducer.hpp>
#  include <xtensor/views/xview.hpp>
#else
#  include <xtensor/xmath.hpp>
#  include <xtensor/xnoalias.hpp>
#  include <xtensor/xreducer.hpp>
#  include <xtensor/xtensor.hpp>
#  include <xtensor/xtensor_config.hpp>
#  include <xtensor/xview.hpp>
#endif

#include <limits>

namespace benchmarks {
namespace {

const std::string version = "xtensor " + std::to_string(XTENSOR_VERSION_MAJOR) + "." +
                            std::to_string(XTENSOR_VERSION_MINOR) + "." + std::to_string(XTENSOR_VERSION_PATCH);
constexpr const char* note = "padded before the clock starts; one thread";

/// Steps before sequences: sums along the first axis add whole rows.
struct Padded {
  xt::xtensor<float, 3> x;         // [longest, sequences, columns]
  xt::xtensor<float, 2> y, count;  // [sequences, columns]
  xt::xtensor<float, 3> soft;
};

std::shared_ptr<Padded> pad(const lod::LoDTensor<float>& x, float value, int threads) {
  const std::int64_t sequences = x.lod().size(0), columns = x.row_size();
  const std::int64_t longest = x.lod().max_length(0);
  if (sequences * longest > 4 * x.rows()) return nullptr;
  const lod::CpuExecutor executor(threads);
  const auto dense = lod::sequence_pad(executor, x, {.pad_value = value}).dense;
  auto padded = std::make_shared<Padded>();
  padded->x.resize(
      {static_cast<std::size_t>(longest), static_cast<std::size_t>(sequences), static_cast<std::size_t>(columns)});
  for (std::int64_t i = 0; i < sequences; ++i) {
    for (std::int64_t step = 0; step < longest; ++step) {
      for (std::int64_t column = 0; column < columns; ++column) {
        padded->x.data()[(step * sequences + i) * columns + column] =
            dense.data()[(i * longest + step) * columns + column];
      }
    }
  }
  padded->count.resize({static_cast<std::size_t>(sequences), 1});
  for (std::int64_t i = 0; i < sequences; ++i) {
    const auto offsets = x.lod().offsets(0);
    padded->count.data()[i] =
        static_cast<float>(offsets[static_cast<std::size_t>(i) + 1] - offsets[static_cast<std::size_t>(i)]);
  }
  padded->y.resize({static_cast<std::size_t>(sequences), static_cast<std::size_t>(columns)});
  return padded;
}

}  // namespace

void add_padded_pool(Job& job, const lod::LoDTensor<float>& x, const std::string& variant, int threads) {
  const bool maximum = variant == "MAX";
  const auto padded = pad(x, maximum ? -std::numeric_limits<float>::infinity() : 0, threads);
  if (!padded) return;
  const bool average = variant == "AVERAGE";
  job.contenders.push_back(
      {"padded xtensor",
       [padded, maximum, average] {
         if (maximum) {
           xt::noalias(padded->y) = xt::amax(padded->x, {0});
         } else {
           xt::noalias(padded->y) = xt::sum(padded->x, {0});
           if (average) padded->y /= padded->count;
         }
       },
       [padded] { return checksum_of(std::span<const float>(padded->y.data(), padded->y.size())); }, version, note});
}

void add_padded_softmax(Job& job, const lod::LoDTensor<float>& x, bool logarithm, int threads) {
  const auto padded = pad(x, -std::numeric_limits<float>::infinity(), threads);
  if (!padded) return;
  padded->soft.resize(padded->x.shape());
  job.contenders.push_back({"padded xtensor",
                            [padded, logarithm] {
                              const xt::xtensor<float, 2> greatest = xt::amax(padded->x, {0});
                              xt::noalias(padded->soft) = xt::exp(padded->x - greatest);
                              const xt::xtensor<float, 2> total = xt::sum(padded->soft, {0});
                              if (logarithm) {
                                const xt::xtensor<float, 2> shift = greatest + xt::log(total);
                                xt::noalias(padded->soft) = padded->x - shift;
                              } else {
                                padded->soft /= total;
                              }
                            },
                            [padded, logarithm] {
                              // The padding is no result: exp(-inf) is 0, but its logarithm is not.
                              if (!logarithm)
                                return checksum_of(std::span<const float>(padded->soft.data(), padded->soft.size()));
                              Checksum sum;
                              for (const float value : padded->soft) {
                                if (std::isinf(value)) continue;
                                sum.sum += value;
                                sum.magnitude += std::abs(value);
                              }
                              return sum;
                            },
                            version, note});
}

}  // namespace benchmarks
