// SPDX-License-Identifier: Apache-2.0
// Trains programs for paddle_training_test.py: in each folder that it is given, the program `program` of PaddlePaddle's
// with its `startup`, and what `minimize` makes of `forward`, both on the tensors in feed/, beginning with those in
// parameters/. Writes the losses to losses_of_theirs and losses_of_ours, our programs to our_program and our_startup,
// or the text of an error to `error`.
#include <lod/io/paddle.hpp>
#include <lod/run.hpp>

#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using Folder = std::filesystem::path;

lod::LoDTensor<float> train(const Folder& folder, const lod::ProgramDesc& program, const lod::ProgramDesc& startup,
                            const std::string& loss, int steps) {
  lod::Scope scope;
  lod::Feed feed;
  lod::run(startup, scope);
  for (const auto& file : std::filesystem::directory_iterator(folder / "parameters")) {
    scope.var(file.path().filename().string()).get<lod::AnyLoDTensor>() =
        lod::paddle::load_tensor(file.path().string());
  }
  for (const auto& file : std::filesystem::directory_iterator(folder / "feed")) {
    feed.emplace(file.path().filename().string(), lod::paddle::load_tensor(file.path().string()));
  }
  lod::PreparedProgram prepared(lod::default_executor<lod::Cpu>(), program, scope, {loss});
  lod::LoDTensor<float> losses({steps});
  for (float& each : losses.values()) each = prepared.run(feed)[0].view<float>().data()[0];
  return losses;
}

/// The optimizer and the options of a text such as "Momentum 0.1 nesterov".
std::pair<lod::Optimizer, lod::MinimizeOptions> read(const std::string& name, float rate, const std::string& option) {
  lod::MinimizeOptions options;
  if (option == "l2") options.weight_decay = lod::L2Decay{0.1F};
  if (option == "l1") options.weight_decay = lod::L1Decay{0.1F};
  if (option == "value") options.grad_clip = lod::ClipGradByValue{0.02F};
  if (option == "norm") options.grad_clip = lod::ClipGradByNorm{0.1F};
  if (option == "global") options.grad_clip = lod::ClipGradByGlobalNorm{0.1F};
  if (name == "SGD") return {lod::SGD{rate}, options};
  if (name == "Momentum") return {lod::Momentum{.learning_rate = rate, .use_nesterov = option == "nesterov"}, options};
  if (name == "Adagrad") return {lod::Adagrad{rate}, options};
  if (name == "RMSProp") {
    const bool centered = option == "centered";
    return {lod::RMSProp{.learning_rate = rate, .momentum = centered ? 0.5F : 0, .centered = centered}, options};
  }
  if (name == "Adam") return {lod::Adam{rate}, options};
  if (name == "Adadelta") return {lod::Adadelta{rate}, options};
  if (name == "Adamax") return {lod::Adamax{rate}, options};
  if (name == "Lamb") return {lod::Lamb{rate}, options};
  throw std::invalid_argument("optimizer " + name);
}

}  // namespace

int main(int count, char** folders) {
  for (int i = 1; i < count; ++i) {
    const Folder folder = folders[i];
    const auto program = [&](const char* name) { return lod::paddle::load_program((folder / name).string()); };
    try {
      std::string loss, name, option;
      int steps = 0;
      float rate = 0;
      std::ifstream(folder / "how") >> loss >> steps >> name >> rate >> option;
      const auto [optimizer, options] = read(name, rate, option);
      lod::ProgramDesc startup = program("startup"), ours = program("forward"), our_startup;
      lod::minimize(ours, our_startup, loss, optimizer, options);
      lod::paddle::save_program((folder / "our_program").string(), ours);
      lod::paddle::save_program((folder / "our_startup").string(), our_startup);
      lod::paddle::save_tensor((folder / "losses_of_ours").string(), train(folder, ours, our_startup, loss, steps));
      lod::paddle::save_tensor((folder / "losses_of_theirs").string(),
                               train(folder, program("program"), startup, loss, steps));
    } catch (const std::exception& error) {
      std::ofstream(folder / "error") << error.what();
    }
  }
}
