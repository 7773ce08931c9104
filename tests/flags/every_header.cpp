// SPDX-License-Identifier: Apache-2.0
// Compiled for AVX2, to see which of its functions have AVX code (untagged_vectors.sh): all operations on float, but
// not the kernels, which are in LOD_TARGET as a whole; and of the other headers what a program does with them. With
// optimisation, which takes long, only the types that files pass to each other: without it, no function is left out
// that has a name without the flags.
#define LOD_CPU_LIBRARY
#include <lod/lod_tensor.hpp>
#include <lod/program.hpp>
#include <lod/scope.hpp>
#include <lod/selected_rows.hpp>
#include <lod/sparse_table.hpp>

#ifndef __OPTIMIZE__
#  include "catalogue/every_operation.hpp"
#  include <lod/arrow.hpp>
#  include <lod/dlpack.hpp>
#  include <lod/io/file.hpp>
#  include <lod/io/file_writer.hpp>
#  include <lod/io/json.hpp>
#  include <lod/io/npy.hpp>
#  include <lod/io/npz.hpp>
#  include <lod/io/paddle.hpp>
#  include <lod/io/text.hpp>
#  include <lod/lod.hpp>
#  include <lod/plan_memory.hpp>
#  include <lod/program_partition.hpp>
#  include <lod/proto.hpp>
#  include <lod/proto/revisions.hpp>
#  include <lod/xtensor.hpp>

#  include <sstream>
#endif

#include <string>
#include <string_view>
#include <vector>

// All members, used or not.
template class lod::Buffer<float>;
template class lod::LoDTensor<float>;
template class lod::LoDTensorView<float, lod::Cpu>;
template class lod::SelectedRows<float>;
template class lod::SparseTable<float>;
template class lod::ScratchMemory<lod::Cpu>;

lod::ProgramDesc copied(const lod::ProgramDesc& program) { return program; }

void use_variables(lod::Scope& scope, const lod::BlockDesc& block) {
  lod::create_variables(scope, block);
  for (const std::string& name : scope.local_names()) scope.new_scope().var(name) = scope.at(name);
}

#ifndef __OPTIMIZE__
/// What these calls give is not looked at.
template <class Result>
void called(const Result&) {}

void use_operations() { lod_test::call_every_operation_for<float>(lod::CpuExecutor(2)); }

std::string use_texts(const lod::LoDTensor<float>& x, const lod::SelectedRows<float>& rows) {
  std::ostringstream text;
  text << x << x.lod() << x.slice({0}) << rows << lod::to_string(x.shape()) << lod::Scalar(1.5F).to<int>();
  text << lod::to_json(x) << lod::from_json<float>(text.str(), 1);
  return text.str();
}

void use_files(const lod::AnyLoDTensor& x, const lod::SelectedRows<float>& rows) {
  lod::save("x.lod", {{"x", x}, {"rows", rows}});
  const lod::File file = lod::File::open("x.lod");
  called(file.tensor<float>("x"));
  called(file.any_tensor("x"));
  file.verify();
  lod::save_npy("x.npy", x.view<float>());
  called(lod::load_npy<float>("x.npy"));
  const lod::paddle::Model model = lod::paddle::load_model("model");
  lod::paddle::save_model("model", model);
}

void use_other_libraries(const lod::LoDTensor<float>& x) {
  const auto array = lod::to_arrow(x);
  called(array);
  called(lod::as_xtensor<1>(x.slice({0, 0})));
  called(lod::from_dlpack<const float>(lod::to_dlpack(x), x.lod()));
}

void use_programs(std::string_view bytes) {
  const auto program = lod::decode<lod::ProgramDesc>(bytes);
  called(lod::plan_memory(program));
  called(lod::join(lod::split(program, std::vector<std::int64_t>{0, 1}, 2)));
  lod::Scope scope;
  use_variables(scope, program.blocks.front());
  called(lod::encode(program));
}
#endif
