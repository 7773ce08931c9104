// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include "descriptions.hpp"
#include "operators.hpp"
#include "tensor.hpp"
#include "text.hpp"
#include <lod/io/paddle.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/gradient.hpp>
#include <lod/proto/program.hpp>

#include <pybind11/stl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace py = pybind11;

namespace lod_python {

namespace {

/// A tensor that nobody changes, on the memory of a variable, which takes other memory when it is written to.
Tensor snapshot(const lod::AnyLoDTensor& tensor) {
  return Tensor(lod::AnyLoDTensor::wrap(tensor.data_type(), tensor.bytes(), tensor.lod(), tensor.row_shape(), tensor,
                                        tensor.rows()));
}

/// A program, the values of its persistable variables, and the parts of it that have been run.
///
/// Operators that read nothing and write persistable variables are initial ones: each runs once, before the first run
/// that needs a variable of it that has no value yet, and is left out of runs.
class Program {
 public:
  Program() { program_.blocks.emplace_back(); }
  explicit Program(const py::bytes& bytes) : program_(lod::decode<lod::ProgramDesc>(std::string(bytes))) {
    lod::validate(program_);
  }

  const lod::ProgramDesc& desc() const noexcept { return program_; }
  const lod::BlockDesc& block(std::int32_t idx) const { return program_.block(idx); }

  // ---- Its description. What is changed has to be prepared anew. ----

  std::int32_t append_block(std::int32_t parent) {
    static_cast<void>(program_.block(parent));
    change();
    const auto idx = static_cast<std::int32_t>(program_.blocks.size());
    program_.blocks.push_back({.idx = idx, .parent_idx = parent});
    return idx;
  }
  /// Describes variables, those that there are already anew, and adds operators on them, whose outputs are described,
  /// too, if `infers_shapes`; all of it or nothing. Costs no more in a long program than in a short one, unless an
  /// operator owns blocks.
  void append(std::int32_t idx, std::vector<lod::VarDesc> vars, std::vector<lod::OpDesc> ops, bool infers_shapes) {
    static_cast<void>(program_.block(idx));
    change();
    const std::size_t given = vars.size();
    if (infers_shapes && !infer_alone(idx, vars, ops)) return append_and_infer(idx, vars, ops);
    for (std::size_t i = 0; i < vars.size(); ++i) {
      const std::int32_t in = i < given ? idx : owner(vars[i].name, idx);
      set_var(in, std::move(vars[i]));
    }
    std::ranges::move(ops, std::back_inserter(program_.block(idx).ops));
  }
  bool has_var(std::int32_t idx, const Text& name) { return names_of(idx).vars.contains(name.bytes); }
  /// A name that no variable of the block has.
  Text unused_name(std::int32_t idx) {
    const Names& names = names_of(idx);
    std::size_t number = names.vars.size();
    while (names.vars.contains("variable_" + std::to_string(number))) ++number;
    return {"variable_" + std::to_string(number)};
  }
  std::optional<lod::VarDesc> find_var(const Text& name, std::int32_t from) {
    const lod::VarDesc* const found = visible_var(name.bytes, from);
    return found ? std::optional(*found) : std::nullopt;
  }
  /// The first operator of the block that writes the variable.
  std::optional<lod::OpDesc> writer(const Text& name, std::int32_t idx) {
    const Names& names = names_of(idx);
    const auto found = names.writers.find(name.bytes);
    return found == names.writers.end() ? std::nullopt : std::optional(program_.block(idx).ops[found->second]);
  }
  void infer_shapes() {
    change();
    lod_python::infer_shapes(program_);
  }
  std::vector<std::pair<Text, Text>> append_backward(const Text& loss, const std::vector<Text>& parameters,
                                                     const std::vector<Text>& constants) {
    rewrite();
    return to_pairs(lod_python::append_backward(program_, loss.bytes, {to_names(parameters), to_names(constants)}));
  }
  /// Adds what fills the states of the optimizer to this program, too.
  std::vector<std::pair<Text, Text>> minimize(const Text& loss, const lod::Optimizer& optimizer,
                                              const std::vector<Text>& parameters, const std::vector<Text>& constants,
                                              const decltype(lod::MinimizeOptions::weight_decay)& weight_decay,
                                              const decltype(lod::MinimizeOptions::grad_clip)& grad_clip) {
    rewrite();
    lod::ProgramDesc startup;
    const lod::MinimizeOptions options{weight_decay, grad_clip, {to_names(parameters), to_names(constants)}};
    auto pairs = to_pairs(lod_python::minimize(program_, startup, loss.bytes, optimizer, options));
    for (lod::BlockDesc& block : startup.blocks) {
      std::ranges::move(block.ops, std::back_inserter(program_.blocks.front().ops));
    }
    return pairs;
  }

  // ---- Its values. ----

  /// None where there is none, or where it is no tensor.
  std::optional<Tensor> value(const Text& name) const {
    check_idle();
    const lod::Variable* const found = scope_.find(name.bytes);
    if (!found || found->type() != lod::VarType::LOD_TENSOR || !filled_.contains(name.bytes)) return std::nullopt;
    return snapshot(found->get<lod::AnyLoDTensor>());
  }
  void set_value(const Text& name, const Tensor& value) {
    check_idle();
    const lod::VarDesc* const var = program_.find_var(name.bytes);
    if (!var || !var->persistable) {
      throw std::invalid_argument("'" + name.bytes + "': expected a variable that is persistable; others are fed");
    }
    lod::check(value.tensor(), *var);
    scope_.var(name.bytes).get<lod::AnyLoDTensor>() = value.tensor();
    filled_.insert(name.bytes);
  }

  /// The values of the variables `fetch`; if there are none of these, what the program's own operators fetch. If
  /// `is_pruned`, only what they need is run, and what is fed beside that is not looked at.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& given, const std::vector<Text>& fetch, bool is_pruned) {
    check_idle();
    const Busy busy(is_busy_);
    lod::Feed feed;
    std::vector<lod::AnyLoDTensor> results;
    const std::vector<std::string> names = to_names(fetch);
    {
      const py::gil_scoped_release unlocked;
      Part& part = prepared(names, is_pruned);
      for (const auto& [name, value] : given) {
        if (is_pruned && program_.find_var(name) && !part.program.find_var(name)) continue;
        feed.emplace(name, value.tensor());
      }
      results = part.run(feed);
      feed.clear();
    }
    std::vector<Tensor> tensors;
    for (const lod::AnyLoDTensor& result : results) tensors.push_back(snapshot(result));
    return tensors;
  }

  // ---- Files. ----

  /// The part that computes the targets from what is fed, with its parameters, as PaddlePaddle writes models.
  void save_model(const std::string& path, const std::vector<Text>& feeds, const std::vector<Text>& targets) {
    check_idle();
    lod::paddle::Model model;
    model.program = lod_python::prune(without_initial(), to_names(targets));
    fill(model.program);
    lod::BlockDesc& block = model.program.blocks.front();
    for (const Text& feed : feeds) static_cast<void>(find(block, feed.bytes));
    lod::VarDesc feed_list = lod::VarDesc::of_type("feed", lod::VarType::FEED_MINIBATCH);
    lod::VarDesc fetch_list = lod::VarDesc::of_type("fetch", lod::VarType::FETCH_LIST);
    for (lod::VarDesc* const var : {&feed_list, &fetch_list}) {
      var->persistable = true;
      block.vars.push_back(std::move(*var));
    }
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      block.ops.insert(block.ops.begin() + static_cast<std::ptrdiff_t>(i),
                       {.inputs = {{"X", {"feed"}}},
                        .outputs = {{"Out", {feeds[i].bytes}}},
                        .type = "feed",
                        .attrs = {lod::make_attr("col", static_cast<std::int32_t>(i))}});
    }
    for (std::size_t i = 0; i < targets.size(); ++i) {
      block.ops.push_back({.inputs = {{"X", {targets[i].bytes}}},
                           .outputs = {{"Out", {"fetch"}}},
                           .type = "fetch",
                           .attrs = {lod::make_attr("col", static_cast<std::int32_t>(i))}});
    }
    for (const std::string& name : lod::paddle::parameter_names(model.program)) {
      model.parameters.emplace(name, scope_.at(name).get<lod::AnyLoDTensor>());
    }
    lod::paddle::save_model(path, model);
  }
  static std::unique_ptr<Program> load_model(const std::string& path) {
    lod::paddle::Model model = lod::paddle::load_model(path);
    lod::validate(model.program);
    auto made = std::make_unique<Program>();
    made->program_ = std::move(model.program);
    for (auto& [name, value] : model.parameters) {
      made->scope_.var(name).get<lod::AnyLoDTensor>() = std::move(value);
      made->filled_.insert(name);
    }
    return made;
  }

 private:
  struct Part {
    lod::ProgramDesc program;
    PreparedRun run;
  };
  /// Where a block has its variables, and the first operator that writes each.
  struct Names {
    std::unordered_map<std::string, std::size_t> vars, writers;
    std::size_t known_vars = 0, known_ops = 0;
  };
  /// Says that a program is run, outside of Python's lock.
  class Busy {
   public:
    explicit Busy(bool& flag) : flag_(flag) { flag_ = true; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    ~Busy() { flag_ = false; }

   private:
    bool& flag_;
  };

  static std::vector<std::pair<Text, Text>> to_pairs(const std::vector<lod::ParameterGradient>& gradients) {
    std::vector<std::pair<Text, Text>> pairs;
    for (const auto& [parameter, gradient] : gradients) pairs.emplace_back(Text{parameter}, Text{gradient});
    return pairs;
  }
  static const lod::VarDesc& find(const lod::BlockDesc& block, const std::string& name) {
    const lod::VarDesc* const found = block.find_var(name);
    if (!found) throw std::invalid_argument("there is no variable '" + name + "' in what is needed");
    return *found;
  }

  void check_idle() const {
    if (is_busy_) throw std::runtime_error("the program is being run by another thread");
  }
  /// To be called before variables or operators are added, or described anew.
  void change() {
    check_idle();
    parts_.clear();
  }
  /// To be called before they are changed otherwise.
  void rewrite() {
    change();
    names_.clear();
  }

  /// Brought up to date with what the block has got since it was last asked for.
  Names& names_of(std::int32_t idx) {
    const lod::BlockDesc& block = program_.block(idx);
    if (names_.size() < program_.blocks.size()) names_.resize(program_.blocks.size());
    Names& names = names_[static_cast<std::size_t>(idx)];
    for (std::size_t& i = names.known_vars; i < block.vars.size(); ++i) names.vars.emplace(block.vars[i].name, i);
    for (std::size_t& i = names.known_ops; i < block.ops.size(); ++i) {
      for (const lod::OpDesc::Var& outputs : block.ops[i].outputs) {
        for (const std::string& name : outputs.arguments) names.writers.emplace(name, i);
      }
    }
    return names;
  }
  const lod::VarDesc* visible_var(const std::string& name, std::int32_t from) {
    const lod::VarDesc* found = nullptr;
    lod::detail::for_each_visible_block(program_, from, [&](const lod::BlockDesc& block) {
      const Names& names = names_of(block.idx);
      const auto place = names.vars.find(name);
      if (place != names.vars.end()) found = &block.vars[place->second];
      return found != nullptr;
    });
    return found;
  }
  /// The block that has the variable that an operator of block `from` sees; where there is none, `from`.
  std::int32_t owner(const std::string& name, std::int32_t from) {
    std::int32_t found = from;
    lod::detail::for_each_visible_block(program_, from, [&](const lod::BlockDesc& block) {
      const bool has = names_of(block.idx).vars.contains(name);
      if (has) found = block.idx;
      return has;
    });
    return found;
  }
  void set_var(std::int32_t idx, lod::VarDesc&& var) {
    std::vector<lod::VarDesc>& vars = program_.block(idx).vars;
    const Names& names = names_of(idx);
    const auto place = names.vars.find(var.name);
    if (place == names.vars.end()) {
      vars.push_back(std::move(var));
    } else {
      vars[place->second] = std::move(var);
    }
  }

  /// Adds to `vars` what operators see that are about to be appended, and describes what they give, in a program that
  /// has nothing else. False, and nothing changed, where that is not enough: they own blocks, or contradict.
  bool infer_alone(std::int32_t idx, std::vector<lod::VarDesc>& vars, const std::vector<lod::OpDesc>& ops) {
    if (std::ranges::any_of(ops, lod::owns_blocks)) return false;
    lod::ProgramDesc alone;
    lod::BlockDesc& block = alone.blocks.emplace_back();
    block.vars = vars;
    block.ops = ops;
    const auto add = [&](const std::string& name) {
      const lod::VarDesc* const found = block.find_var(name) ? nullptr : visible_var(name, idx);
      if (found) block.vars.push_back(*found);
    };
    for (const lod::OpDesc& op : ops) {
      for (const auto* const parameters : {&op.inputs, &op.outputs}) {
        for (const lod::OpDesc::Var& parameter : *parameters) {
          for (const std::string& name : parameter.arguments) {
            add(name);
            // A gradient is described as what it is the gradient of.
            const std::size_t end = name.find(lod::gradient_suffix);
            if (end != std::string::npos) add(name.substr(0, end));
          }
        }
      }
    }
    try {
      lod_python::infer_shapes(alone);
    } catch (const lod::InvalidProgram&) {
      return false;
    }
    vars = std::move(block.vars);
    return true;
  }
  /// The same in the whole program, so that errors name the place of an operator.
  void append_and_infer(std::int32_t idx, std::vector<lod::VarDesc>& vars, std::vector<lod::OpDesc>& ops) {
    lod::ProgramDesc before = program_;
    try {
      for (lod::VarDesc& var : vars) set_var(idx, std::move(var));
      std::ranges::move(ops, std::back_inserter(program_.block(idx).ops));
      lod_python::infer_shapes(program_);
    } catch (...) {
      program_ = std::move(before);
      names_.clear();
      throw;
    }
  }

  bool is_initial(const lod::OpDesc& op) const {
    if (!op.inputs.empty() || op.outputs.empty()) return false;
    return std::ranges::all_of(op.outputs, [&](const lod::OpDesc::Var& outputs) {
      return std::ranges::all_of(outputs.arguments, [&](const std::string& name) {
        const lod::VarDesc* const var = program_.block(0).find_var(name);
        return var && var->persistable;
      });
    });
  }
  lod::ProgramDesc without_initial() const {
    lod::ProgramDesc rest = program_;
    std::erase_if(rest.blocks.front().ops, [&](const lod::OpDesc& op) { return is_initial(op); });
    return rest;
  }
  /// Runs the initial operators of variables of a part that have no value.
  void fill(const lod::ProgramDesc& part) {
    lod::ProgramDesc startup;
    lod::BlockDesc& block = startup.blocks.emplace_back();
    std::vector<std::string> names;
    for (const lod::OpDesc& op : program_.block(0).ops) {
      if (!is_initial(op)) continue;
      const std::size_t before = names.size();
      for (const lod::OpDesc::Var& outputs : op.outputs) {
        for (const std::string& name : outputs.arguments) {
          if (part.find_var(name) && !filled_.contains(name)) names.push_back(name);
        }
      }
      if (names.size() > before) block.ops.push_back(op);
    }
    if (names.empty()) return;
    for (const std::string& name : names) {
      if (!block.find_var(name)) block.vars.push_back(find(program_.block(0), name));
    }
    prepare(startup, scope_, {})({});
    filled_.insert(names.begin(), names.end());
  }

  Part& prepared(const std::vector<std::string>& fetch, bool is_pruned) {
    const auto found = parts_.find({is_pruned, fetch});
    if (found != parts_.end()) return found->second;
    Part part{without_initial(), {}};
    if (is_pruned) {
      // Values that stay are there, whatever trains them.
      std::vector<std::string> targets, values;
      for (const std::string& name : fetch) {
        (find(part.program.block(0), name).persistable ? values : targets).push_back(name);
      }
      lod::ProgramDesc pruned;
      pruned.blocks.emplace_back();
      if (!targets.empty()) pruned = lod_python::prune(part.program, targets);
      lod::BlockDesc& block = pruned.blocks.front();
      for (const std::string& name : values) {
        if (!block.find_var(name)) block.vars.push_back(find(part.program.block(0), name));
      }
      part.program = std::move(pruned);
    }
    fill(part.program);
    part.run = prepare(part.program, scope_, fetch);
    // What runs read and write has values from now on.
    for (const lod::VarDesc& var : part.program.block(0).vars) {
      if (var.persistable) filled_.insert(var.name);
    }
    return parts_.emplace(std::pair(is_pruned, fetch), std::move(part)).first->second;
  }

  lod::ProgramDesc program_;
  std::vector<Names> names_;  // by block, as far as they have been asked for
  lod::Scope scope_;
  std::set<std::string> filled_;  // persistable variables that have a value
  std::map<std::pair<bool, std::vector<std::string>>, Part> parts_;
  bool is_busy_ = false;
};

void bind_optimizers(py::module_& module) {
  using py::arg;
  constexpr float rate = 0.001f;
  py::class_<lod::SGD>(module, "SGD", "parameter -= learning_rate * gradient.")
      .def(py::init([](float learning_rate) { return lod::SGD{learning_rate}; }), arg("learning_rate") = rate);
  py::class_<lod::Momentum>(module, "Momentum")
      .def(py::init([](float learning_rate, float momentum, bool use_nesterov) {
             return lod::Momentum{learning_rate, momentum, use_nesterov};
           }),
           arg("learning_rate") = rate, arg("momentum") = 0.9f, arg("use_nesterov") = false);
  py::class_<lod::Adagrad>(module, "Adagrad")
      .def(py::init([](float learning_rate, float epsilon, float initial_accumulator_value) {
             return lod::Adagrad{learning_rate, epsilon, initial_accumulator_value};
           }),
           arg("learning_rate") = rate, arg("epsilon") = 1e-6f, arg("initial_accumulator_value") = 0.0f);
  py::class_<lod::RMSProp>(module, "RMSProp")
      .def(py::init([](float learning_rate, float rho, float epsilon, float momentum, bool centered) {
             return lod::RMSProp{learning_rate, rho, epsilon, momentum, centered};
           }),
           arg("learning_rate") = rate, arg("rho") = 0.95f, arg("epsilon") = 1e-6f, arg("momentum") = 0.0f,
           arg("centered") = false);
  py::class_<lod::Adam>(module, "Adam")
      .def(py::init([](float learning_rate, float beta1, float beta2, float epsilon, bool lazy_mode) {
             return lod::Adam{learning_rate, beta1, beta2, epsilon, lazy_mode};
           }),
           arg("learning_rate") = rate, arg("beta1") = 0.9f, arg("beta2") = 0.999f, arg("epsilon") = 1e-8f,
           arg("lazy_mode") = false);
  py::class_<lod::Ftrl>(module, "Ftrl")
      .def(py::init([](float learning_rate, float l1, float l2, float lr_power) {
             return lod::Ftrl{learning_rate, l1, l2, lr_power};
           }),
           arg("learning_rate") = rate, arg("l1") = 0.0f, arg("l2") = 0.0f, arg("lr_power") = -0.5f);

  py::class_<lod::DecayedAdagrad>(module, "DecayedAdagrad")
      .def(py::init([](float learning_rate, float decay, float epsilon) {
             return lod::DecayedAdagrad{learning_rate, decay, epsilon};
           }),
           arg("learning_rate") = rate, arg("decay") = 0.95f, arg("epsilon") = 1e-6f);
  py::class_<lod::Adadelta>(module, "Adadelta")
      .def(py::init([](float learning_rate, float epsilon, float rho) {
             return lod::Adadelta{learning_rate, epsilon, rho};
           }),
           arg("learning_rate") = rate, arg("epsilon") = 1e-6f, arg("rho") = 0.95f);
  py::class_<lod::Adamax>(module, "Adamax")
      .def(py::init([](float learning_rate, float beta1, float beta2, float epsilon) {
             return lod::Adamax{learning_rate, beta1, beta2, epsilon};
           }),
           arg("learning_rate") = rate, arg("beta1") = 0.9f, arg("beta2") = 0.999f, arg("epsilon") = 1e-8f);
  py::class_<lod::Lamb>(module, "Lamb")
      .def(py::init([](float learning_rate, float lamb_weight_decay, float beta1, float beta2, float epsilon) {
             return lod::Lamb{learning_rate, lamb_weight_decay, beta1, beta2, epsilon};
           }),
           arg("learning_rate") = rate, arg("lamb_weight_decay") = 0.01f, arg("beta1") = 0.9f, arg("beta2") = 0.999f,
           arg("epsilon") = 1e-6f);
  py::class_<lod::LarsMomentum>(module, "LarsMomentum")
      .def(py::init([](float learning_rate, float momentum, float lars_coeff, float lars_weight_decay, float epsilon) {
             return lod::LarsMomentum{learning_rate, momentum, lars_coeff, lars_weight_decay, epsilon};
           }),
           arg("learning_rate") = rate, arg("momentum") = 0.9f, arg("lars_coeff") = 0.001f,
           arg("lars_weight_decay") = 0.0005f, arg("epsilon") = 0.0f);

  py::class_<lod::L1Decay>(module, "L1Decay", "coeff * sign(parameter) is added to each gradient.")
      .def(py::init([](float coeff) { return lod::L1Decay{coeff}; }), arg("coeff") = 0.0f);
  py::class_<lod::L2Decay>(module, "L2Decay", "coeff * parameter is added to each gradient.")
      .def(py::init([](float coeff) { return lod::L2Decay{coeff}; }), arg("coeff") = 0.0f);
  py::class_<lod::ClipGradByValue>(module, "ClipGradByValue", "Each number is at least min (-max), at most max.")
      .def(py::init([](float max, std::optional<float> min) {
             return lod::ClipGradByValue{max, min};
           }),
           arg("max"), arg("min") = py::none());
  py::class_<lod::ClipGradByNorm>(module, "ClipGradByNorm", "Each gradient is at most this long.")
      .def(py::init([](float clip_norm) { return lod::ClipGradByNorm{clip_norm}; }), arg("clip_norm"));
  py::class_<lod::ClipGradByGlobalNorm>(module, "ClipGradByGlobalNorm", "All together are at most this long.")
      .def(py::init([](float clip_norm) { return lod::ClipGradByGlobalNorm{clip_norm}; }), arg("clip_norm"));
}

}  // namespace

void bind_program(py::module_& module) {
  bind_optimizers(module);
  const std::vector<Text> none;
  py::class_<Program>(module, "Program")
      .def(py::init<>())
      .def(py::init<const py::bytes&>(), py::arg("bytes"))
      .def("to_proto", [](const Program& self) { return py::bytes(lod::encode(self.desc())); })
      .def("block_to_proto",
           [](const Program& self, std::int32_t idx) { return py::bytes(lod::encode(self.block(idx))); })
      .def_property_readonly("block_count", [](const Program& self) { return self.desc().blocks.size(); })
      .def("parent_idx", [](const Program& self, std::int32_t idx) { return self.block(idx).parent_idx; })
      .def("append_block", &Program::append_block)
      .def("var_names",
           [](const Program& self, std::int32_t idx) {
             std::vector<Text> names;
             for (const lod::VarDesc& var : self.block(idx).vars) names.push_back({var.name});
             return names;
           })
      .def("append", &Program::append)
      .def("has_var", &Program::has_var)
      .def("unused_name", &Program::unused_name)
      .def("find_var", &Program::find_var)
      .def("writer", &Program::writer)
      .def("ops", [](const Program& self, std::int32_t idx) { return self.block(idx).ops; })
      .def("infer_shapes", &Program::infer_shapes)
      .def("append_backward", &Program::append_backward)
      .def("minimize", &Program::minimize)
      .def("value", &Program::value)
      .def("set_value", &Program::set_value)
      .def("run", &Program::run)
      .def("save_model", &Program::save_model)
      .def_static("load_model", &Program::load_model);
  module.def("operator_types", [] { return operator_types(); });
}

}  // namespace lod_python
