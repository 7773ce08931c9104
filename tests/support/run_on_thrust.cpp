// SPDX-License-Identifier: Apache-2.0
#include "support/run_on_thrust.hpp"

#include "support/thrust_system.hpp"
#include <lod/cpu.hpp>
#include <lod/operators.hpp>

#include <string>
#include <vector>

namespace lod_test {

bool runs_on_thrust(const std::string& type) { return lod::operators<ThrustExecutor>().find(type).has_value(); }

std::vector<lod::AnyLoDTensor> run_on_thrust(const lod::ProgramDesc& program, lod::Scope& scope,
                                             const lod::RunOptions& options) {
  return lod::run(ThrustExecutor(), program, scope, options);
}

}  // namespace lod_test
