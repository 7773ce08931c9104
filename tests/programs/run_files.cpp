// SPDX-License-Identifier: Apache-2.0
// Runs programs for paddle_test.py: for each folder that it is given, the program `__model__` on the tensors in feed/
// and the parameters in parameters/; writes what is fetched to fetch0, fetch1, ..., or the text of an error to `error`,
// and before that to `inferred` the program as infer_shapes describes it, from its parameters and feeds alone. After
// the word --dnnl, oneDNN runs what it can.
#include <lod/io/paddle.hpp>
#include <lod/run.hpp>
#ifdef LOD_TEST_DNNL
#  include <lod/dnnl.hpp>
#endif

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

lod::ProgramDesc inferred(lod::ProgramDesc program) {
  for (lod::BlockDesc& block : program.blocks) {
    for (const lod::OpDesc& op : block.ops) {
      if (op.type == "feed") continue;
      for (const auto& output : op.outputs) {
        for (lod::VarDesc& var : block.vars) {
          const bool is_written =
              std::find(output.arguments.begin(), output.arguments.end(), var.name) != output.arguments.end();
          if (is_written && !var.persistable) var.type.lod_tensor.reset();
        }
      }
    }
  }
  lod::infer_shapes(program);
  return program;
}

}  // namespace

int main(int count, char** folders) {
#ifdef LOD_TEST_DNNL
  if (count > 1 && std::string(folders[1]) == "--dnnl") {
    lod::use_dnnl();
    --count;
    ++folders;
  }
#endif
  for (int i = 1; i < count; ++i) {
    const std::filesystem::path folder = folders[i];
    try {
      const lod::ProgramDesc program = lod::paddle::load_program((folder / "__model__").string());
      lod::paddle::save_program((folder / "inferred").string(), inferred(program));
      lod::Scope scope;
      lod::Feed feed;
      for (const auto& file : std::filesystem::directory_iterator(folder / "parameters")) {
        scope.var(file.path().filename().string()).get<lod::AnyLoDTensor>() =
            lod::paddle::load_tensor(file.path().string());
      }
      for (const auto& file : std::filesystem::directory_iterator(folder / "feed")) {
        feed.emplace(file.path().filename().string(), lod::paddle::load_tensor(file.path().string()));
      }
      // Twice: the second time into the memory of the first.
      lod::PreparedProgram prepared(lod::default_executor<lod::Cpu>(), program, scope);
      prepared.run(feed);
      const auto& fetched = prepared.run(feed);
      for (std::size_t k = 0; k < fetched.size(); ++k) {
        lod::paddle::save_tensor((folder / ("fetch" + std::to_string(k))).string(), fetched[k]);
      }
    } catch (const std::exception& error) {
      std::ofstream(folder / "error") << error.what();
    }
  }
}
