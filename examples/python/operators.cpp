// SPDX-License-Identifier: Apache-2.0
#include "operators.hpp"

#include <lod/run.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod_python {

namespace {

/// A program, and what runs it.
struct Prepared {
  Prepared(lod::ProgramDesc desc, lod::Scope& scope, const std::vector<std::string>& fetch)
      : program(std::move(desc)), prepared(lod::default_executor<lod::Cpu>(), program, scope, fetch) {}

  lod::ProgramDesc program;
  lod::PreparedProgram<> prepared;
};

}  // namespace

PreparedRun prepare(const lod::ProgramDesc& program, lod::Scope& scope, const std::vector<std::string>& fetch) {
  return [made = std::make_shared<Prepared>(program, scope, fetch)](const lod::Feed& feed) {
    return made->prepared.run(feed);
  };
}

void infer_shapes(lod::ProgramDesc& program) { lod::infer_shapes(program); }

lod::ProgramDesc prune(const lod::ProgramDesc& program, const std::vector<std::string>& targets) {
  return lod::prune(program, targets);
}

std::vector<lod::ParameterGradient> append_backward(lod::ProgramDesc& program, std::string_view loss,
                                                    const lod::BackwardOptions& options) {
  return lod::append_backward(program, loss, options);
}

std::vector<lod::ParameterGradient> minimize(lod::ProgramDesc& program, lod::ProgramDesc& startup,
                                             std::string_view loss, const lod::Optimizer& optimizer,
                                             const lod::MinimizeOptions& options) {
  return lod::minimize(program, startup, loss, optimizer, options);
}

std::vector<std::string> operator_types() { return lod::operators().types(); }

}  // namespace lod_python
