// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program from outside that uses every optional component.
#include <lod/blas.hpp>
#include <lod/desc.hpp>
#include <lod/dlpack.hpp>
#include <lod/dnnl.hpp>
#include <lod/io/file.hpp>
#include <lod/io/npz.hpp>
#include <lod/lod.hpp>
#include <lod/mpi.hpp>
#include <lod/proto.hpp>
#include <lod/thrust.hpp>
#include <lod/xtensor.hpp>
#ifdef WITH_CUDA
#  include <lod/cuda.hpp>
#endif

#include <omp.h>
#include <thrust/system/omp/execution_policy.h>

#include <cstdio>
#include <iostream>
#include <string>

int main(int count, char** arguments) {
  lod::LoDTensor<float> words(lod::LoD::from_lengths({{2, 3}}), {4});
  auto first = lod::as_xtensor<2>(words[0]);
  first(1, 3) = 5;

  const lod::ThrustExecutor over_thrust(thrust::omp::par);
  const auto sums = lod::sequence_pool(over_thrust, words, lod::PoolType::SUM);

#ifdef WITH_CUDA
  try {
    const lod::CudaExecutor on_gpu;
    if (lod::to<lod::Cpu>(on_gpu, lod::to<lod::Cuda>(on_gpu, sums)).row(0)[3] != 5) return 1;
  } catch (const lod::CudaError& error) {
    std::cout << error.what() << '\n';
  }
#endif

  const auto array = lod::to_dlpack(words);
  if (array->dl_tensor.data != words.data()) return 1;

  const auto description = lod::VarDesc::lod_tensor("words", {lod::DataType::FP32, {-1, 4}}, 1);
  const std::string bytes = lod::encode(description);
  const auto decoded = lod::decode<lod::VarDesc>(bytes);

  lod::save("words.lod", {{"words", words}});
  const float stored = lod::File::open("words.lod").slice<float>("words", {0}).row(1)[3];
  std::remove("words.lod");
  const std::string archive = lod::encode_npz({{"words", words}});
  const bool same_levels = lod::NpzFile::decode(archive).load<lod::LoDTensor<float>>("words").lod() == words.lod();

  MPI_Init(&count, &arguments);
  const auto all_words = lod::mpi::all_gather(lod::mpi::Communicator(MPI_COMM_SELF), words);
  MPI_Finalize();

  std::cout << "row 1 ends with " << words.row(1)[3] << "; '" << decoded.name << "' takes " << bytes.size()
            << " bytes; the file holds " << stored << "; the sum over Thrust is " << sums.row(0)[3] << "; "
            << omp_get_max_threads() << " threads; oneDNN " << dnnl_version()->major << "; BLAS adds "
            << cblas_sasum(8, words.data(), 1) << "; all ranks have " << all_words.rows() << " rows\n";
  return words.row(1)[3] == 5 && stored == 5 && sums.row(0)[3] == 5 && same_levels && decoded == description &&
                 all_words.rows() == 5
             ? 0
             : 1;
}
