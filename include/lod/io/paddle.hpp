// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The files in which PaddlePaddle stores models: programs, parameters, and both together.
///
///     lod::paddle::Model model = lod::paddle::load_model("custom_gap");   // custom_gap.pdmodel, custom_gap.pdiparams
///     auto weights = model.parameters.at("conv2d_0.w_0").as<float>();     // shares the memory: {6, 3, 3, 3}
///
/// | file | holds |
/// |---|---|
/// | `__model__`, `x.pdmodel` | a ProgramDesc |
/// | a file of its variable's name | a tensor, or selected rows |
/// | `__params__`, `x.pdiparams` | the tensors of all parameters one after the other, in the order of their names |
///
/// A file of parameters holds neither their names nor their number: these come from the program or from the caller.
///
/// Functions that read throw ParseError for malformed bytes, naming file, variable and byte, and std::system_error,
/// naming the file, for errors of the system; whether a file is there is not guessed. Values go from the file straight
/// to their destination. Functions that write throw std::system_error; a file is replaced as a whole or left unchanged.
/// Whatever is at a path already is treated as by FileWriter of <lod/io/file_writer.hpp>.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/io/atomic_file.hpp>
#include <lod/io/atomic_files.hpp>
#include <lod/io/folder.hpp>
#include <lod/io/input.hpp>
#include <lod/io/paddle_stream.hpp>
#include <lod/io/proto/program.hpp>
#include <lod/io/system_file.hpp>
#include <lod/program/program.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lod::inline LOD_INTERFACE::paddle {

/// Tensors by the names of their variables.
using Parameters = std::map<std::string, AnyLoDTensor>;

/// A program and the values of its parameters.
struct Model {
  ProgramDesc program = {};
  Parameters parameters = {};
};

/// From the library lodtensor::cpu.
namespace compiled {
/// See `load_model` of the namespace around.
Model load_model(const std::string& program_path, const std::string& parameters_path);
}

}  // namespace lod::inline LOD_INTERFACE::paddle

namespace lod::inline LOD_INTERFACE::paddle::detail::inline LOD_TARGET {

using lod::detail::AtomicFiles;

inline bool is_folder(const std::string& path) {
  const auto found = lod::detail::look_up(path);
  return found && S_ISDIR(found->st_mode);
}
inline bool exists(const std::string& path) { return lod::detail::look_up(path).has_value(); }

/// Returns read(in) for a whole file, whose name is put before the text of a ParseError.
template <class Read>
auto read_file(const std::string& path, const Read& read) {
  try {
    Input in = Input::open(path);
    return read_all(in, read);
  } catch (const ParseError& error) {
    throw error.inside(path);
  }
}
inline void write_file(const std::string& path, const Stream& stream) {
  AtomicFile file(path);
  stream.write_to(file);
  file.commit();
}

/// A parameter: its name, and what the program says of it; null if nothing is said.
struct Parameter {
  std::string name;
  const TensorDesc* desc;
};

/// The persistable variables of type LOD_TENSOR, in the order in which their values are saved. Python, which writes the
/// files, takes those of all blocks, each name once.
inline std::vector<Parameter> parameters_of(const ProgramDesc& program) {
  std::map<std::string_view, const VarDesc*> vars;
  for (const BlockDesc& block : program.blocks) {
    for (const VarDesc& var : block.vars) {
      if (var.persistable && var.type.type == VarType::LOD_TENSOR) vars.emplace(var.name, &var);
    }
  }
  std::vector<Parameter> parameters;
  parameters.reserve(vars.size());
  for (const auto& [name, var] : vars) {
    parameters.push_back({var->name, var->type.lod_tensor ? &var->type.lod_tensor->tensor : nullptr});
  }
  return parameters;
}
/// Throws std::invalid_argument for a repeated name.
inline std::vector<Parameter> parameters_of(std::span<const std::string> names) {
  std::vector<Parameter> parameters;
  for (const std::string& name : names) parameters.push_back({name, nullptr});
  std::vector<std::string> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    throw std::invalid_argument(lod::detail::readable(text({"parameter '", *twice, "' is named twice"})));
  return parameters;
}

/// The file of a variable in a folder. Names come from programs, which may come from anywhere: throws InvalidProgram
/// for a name that leads out of the folder or to something that cannot be a file, and for one with redundant steps,
/// such as "./x" and "a//x", which is the file of another name.
inline std::string file_of(const std::string& folder, const std::string& name) {
  if (!lod::detail::is_within_folder(name)) {
    throw InvalidProgram(text({"variable '", name, "': expected a name that a file in a folder can have"}));
  }
  return folder + "/" + name;
}

/// Throws InvalidProgram if the file of one is the folder of another: "x" and "x/y".
inline void check_folders(const std::vector<Parameter>& parameters) {
  std::set<std::string_view> names;
  for (const Parameter& parameter : parameters) names.insert(parameter.name);
  for (const std::string_view name : names) {
    for (std::size_t slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/', slash + 1)) {
      if (!names.contains(name.substr(0, slash))) continue;
      throw InvalidProgram(text({"variable '", std::string(name), "': '", std::string(name.substr(0, slash)),
                                 "' is a variable, too, and cannot be a file and a folder"}));
    }
  }
}

/// The files of a model in a folder: the program, and all parameters together.
inline constexpr const char* program_file = "__model__";
inline constexpr const char* parameters_file = "__params__";

/// Throws InvalidProgram if the file of a parameter would take the place of the program in the same folder, or be read
/// as that of all parameters.
inline void check_reserved(const std::vector<Parameter>& parameters) {
  for (const auto& [name, desc] : parameters) {
    if (name != program_file && name != parameters_file) continue;
    throw InvalidProgram(text({"variable '", name, "': in a folder, the file of this name is that of ",
                               name == program_file ? "the program" : "all parameters"}));
  }
}

inline AnyLoDTensor read_parameter(Input& in, const Parameter& parameter) {
  try {
    return read_tensor(in, parameter.desc);
  } catch (const ParseError& error) {
    throw error.inside(text({"'", parameter.name, "'"}));
  }
}
inline Parameters read_parameters(Input& in, const std::vector<Parameter>& parameters) {
  Parameters values;
  for (const Parameter& parameter : parameters) values.emplace(parameter.name, read_parameter(in, parameter));
  return values;
}
inline Parameters load_parameters(const std::string& path, const std::vector<Parameter>& parameters) {
  // A model without parameters may come without their file.
  if (parameters.empty() && !exists(path)) return {};
  if (!is_folder(path)) return read_file(path, [&](Input& in) { return read_parameters(in, parameters); });
  Parameters values;
  for (const Parameter& parameter : parameters) {
    values.emplace(parameter.name,
                   read_file(file_of(path, parameter.name), [&](Input& in) { return read_parameter(in, parameter); }));
  }
  return values;
}

inline ProgramDesc load_program(const std::string& path) {
  return read_file(path, [](Input& in) { return decode<ProgramDesc>(in.take(in.left())); });
}
inline Model load_model(const std::string& program_path, const std::string& parameters_path) {
  Model model{.program = load_program(program_path)};
  model.parameters = load_parameters(parameters_path, parameters_of(model.program));
  return model;
}

/// The bytes of each parameter. Throws std::invalid_argument if one has no value or a value belongs to no parameter,
/// and ShapeMismatch if a value is not as the program says.
inline std::vector<Stream> streams_of(const Parameters& values, const std::vector<Parameter>& parameters) {
  std::vector<Stream> streams;
  for (const Parameter& parameter : parameters) {
    const auto found = values.find(parameter.name);
    if (found == values.end())
      throw std::invalid_argument(lod::detail::readable(text({"parameter '", parameter.name, "' has no value"})));
    const AnyLoDTensor& x = found->second;
    // A tensor without dimensions is read as one scalar row.
    const bool is_scalar = parameter.desc && parameter.desc->dims.empty() && x.shape() == Shape{1};
    const Shape shape = is_scalar ? Shape() : x.shape();
    const TensorDesc desc{x.data_type(), {shape.begin(), shape.end()}};
    const std::string difference = parameter.desc ? mismatch(desc, *parameter.desc) : "";
    if (!difference.empty()) throw ShapeMismatch(text({"'", parameter.name, "': ", difference}));
    streams.push_back(stream_of(x.data_type(), x.lod().view(), shape, x.bytes(), Layout::CURRENT));
  }
  if (streams.size() < values.size()) {
    for (const auto& value : values) {
      const std::string& name = value.first;
      const auto is_it = [&](const Parameter& parameter) { return parameter.name == name; };
      if (std::none_of(parameters.begin(), parameters.end(), is_it)) {
        throw std::invalid_argument(
            lod::detail::readable(text({"'", name, "' has a value, but is none of the parameters"})));
      }
    }
  }
  return streams;
}
inline std::string encode_parameters(const Parameters& values, const std::vector<Parameter>& parameters) {
  std::string bytes;
  for (const Stream& stream : streams_of(values, parameters)) stream.append_to(bytes);
  return bytes;
}
/// Adds the file, or those in the folder where each parameter has one. All that can be wrong with names and values is
/// found before the first is written.
inline void add_parameters(AtomicFiles& files, const std::string& path, const Parameters& values,
                           const std::vector<Parameter>& parameters) {
  const std::vector<Stream> streams = streams_of(values, parameters);
  if (!is_folder(path)) {
    files.add(path, [&](AtomicFile& file) {
      for (const Stream& stream : streams) stream.write_to(file);
    });
    return;
  }
  std::vector<std::string> paths;
  paths.reserve(parameters.size());
  for (const Parameter& parameter : parameters) paths.push_back(file_of(path, parameter.name));
  check_folders(parameters);
  check_reserved(parameters);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    files.add(paths[i], [&](AtomicFile& file) { streams[i].write_to(file); });
  }
}
inline void save_parameters(const std::string& path, const Parameters& values,
                            const std::vector<Parameter>& parameters) {
  AtomicFiles files(is_folder(path) ? path + "/" : path);
  add_parameters(files, path, values, parameters);
  files.commit();
}

}  // namespace lod::inline LOD_INTERFACE::paddle::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::paddle {

// ---- One variable ----

/// @{
/// The variable in a file that holds nothing else. Throws as `decode_tensor` and `decode_selected_rows` do, and if
/// bytes are left over. `lod::check` compares it with a VarDesc.
LOD_TAGGED inline AnyLoDTensor load_tensor(const std::string& path) {
  return detail::read_file(path, [](auto& in) { return detail::read_tensor(in); });
}
LOD_TAGGED inline AnySelectedRows load_selected_rows(const std::string& path) {
  return detail::read_file(path, [](auto& in) { return detail::read_selected_rows(in); });
}
/// @}

/// @{
/// Writes a variable to a file of its own: an AnyLoDTensor, LoDTensor or a view of one; AnySelectedRows or
/// SelectedRows. Throws as `encode_tensor` and `encode_selected_rows` do.
template <detail::Tensor X>
LOD_TAGGED void save_tensor(const std::string& path, const X& x) {
  detail::write_file(path, detail::stream_of(x, Layout::CURRENT));
}
template <detail::Rows X>
LOD_TAGGED void save_selected_rows(const std::string& path, const X& x) {
  detail::write_file(path, detail::stream_of(x));
}
/// @}

// ---- Programs ----

/// The program in a file. It is not validated; `lod::validate` does that.
LOD_TAGGED inline ProgramDesc load_program(const std::string& path) { return detail::load_program(path); }
/// Writes a program to a file. Throws as `encode` does. A program that was read, and not changed, gives the bytes that
/// it was read from.
LOD_TAGGED inline void save_program(const std::string& path, const ProgramDesc& program) {
  detail::write_file(path, {.before = encode(program), .values = {}, .after = {}});
}

// ---- The parameters of a program ----

/// The names of the parameters of a program, in the order in which their values are saved: the persistable variables of
/// type LOD_TENSOR of all blocks, sorted bytewise. Excludes feed and fetch variables and RAW ones.
LOD_TAGGED inline std::vector<std::string> parameter_names(const ProgramDesc& program) {
  std::vector<std::string> names;
  for (const detail::Parameter& parameter : detail::parameters_of(program)) names.push_back(parameter.name);
  return names;
}

/// @{
/// The parameters of a program from the bytes of a file that holds all of them; or as many tensors as there are names,
/// in the order of the file. Throws ParseError, which names the variable, as `decode_tensor` does, if bytes are left
/// over, and if a tensor does not have the data type and the dimensions that the program says; -1 there matches
/// anything. Levels may be more or fewer: programs are known to forget them. Throws std::invalid_argument for a name
/// that occurs twice.
LOD_TAGGED inline Parameters decode_parameters(std::string_view bytes, const ProgramDesc& program) {
  detail::Input in(bytes);
  const auto parameters = detail::parameters_of(program);
  return detail::read_all(in, [&](auto& all) { return detail::read_parameters(all, parameters); });
}
LOD_TAGGED inline Parameters decode_parameters(std::string_view bytes, std::span<const std::string> names) {
  detail::Input in(bytes);
  const auto parameters = detail::parameters_of(names);
  return detail::read_all(in, [&](auto& all) { return detail::read_parameters(all, parameters); });
}
/// @}

/// @{
/// The same from a file of all of them, or a folder with a file for each. For a folder, throws InvalidProgram for names
/// that lead out of it or to something that cannot be a file, and for those with redundant steps ("./x", "a//x").
LOD_TAGGED inline Parameters load_parameters(const std::string& path, const ProgramDesc& program) {
  return detail::load_parameters(path, detail::parameters_of(program));
}
LOD_TAGGED inline Parameters load_parameters(const std::string& path, std::span<const std::string> names) {
  return detail::load_parameters(path, detail::parameters_of(names));
}
/// @}

/// @{
/// The bytes that `decode_parameters` reads. Throws std::invalid_argument unless exactly the parameters of the program,
/// or these names, have a value; ShapeMismatch if one is not as the program says.
LOD_TAGGED inline std::string encode_parameters(const Parameters& parameters, const ProgramDesc& program) {
  return detail::encode_parameters(parameters, detail::parameters_of(program));
}
LOD_TAGGED inline std::string encode_parameters(const Parameters& parameters, std::span<const std::string> names) {
  return detail::encode_parameters(parameters, detail::parameters_of(names));
}
/// @}

/// @{
/// Writes them to one file; or to a file for each, if `path` is a folder. Throws before anything is written: as
/// `encode_parameters` does, std::system_error if one of the files cannot be created, and InvalidProgram as
/// `load_parameters` does, for a variable whose file is the folder of another's, and for those called `__model__` and
/// `__params__`, the files of a model. Files of a folder are placed once all are on the disk, for which it needs room
/// beside the old ones: if it is full, or the system refuses to replace one of them, all old files are still there.
/// Only a process that is killed, or a machine that stops, while they are placed leaves new files and old ones.
LOD_TAGGED inline void save_parameters(const std::string& path, const Parameters& parameters,
                                       const ProgramDesc& program) {
  detail::save_parameters(path, parameters, detail::parameters_of(program));
}
LOD_TAGGED inline void save_parameters(const std::string& path, const Parameters& parameters,
                                       std::span<const std::string> names) {
  detail::save_parameters(path, parameters, detail::parameters_of(names));
}
/// @}

// ---- Models ----

/// The model in two files: the second may also be a folder with a file for each parameter. Throws as `load_program` and
/// `load_parameters` do.
LOD_TAGGED inline Model load_model(const std::string& program_path, const std::string& parameters_path) {
#ifdef LOD_PROTO_LIBRARY
  return compiled::load_model(program_path, parameters_path);
#else
  return detail::load_model(program_path, parameters_path);
#endif
}
/// The model in a folder: `__model__`, with `__params__` if there is one, otherwise with a file for each parameter. If
/// `path` is not a folder, the model in `<path>.pdmodel` and `<path>.pdiparams`.
LOD_TAGGED inline Model load_model(const std::string& path) {
  if (!detail::is_folder(path)) return load_model(path + ".pdmodel", path + ".pdiparams");
  const std::string all = path + "/" + detail::parameters_file;
  return load_model(path + "/" + detail::program_file, detail::exists(all) ? all : path);
}
/// Writes `<path>.pdmodel` and `<path>.pdiparams`. Throws as `save_program` and `save_parameters` do; both old files
/// are then still there.
LOD_TAGGED inline void save_model(const std::string& path, const Model& model) {
  const detail::Stream program{.before = encode(model.program), .values = {}, .after = {}};
  const std::string program_path = path + ".pdmodel";
  detail::AtomicFiles files(program_path);
  files.add(program_path, [&](detail::AtomicFile& file) { program.write_to(file); });
  detail::add_parameters(files, path + ".pdiparams", model.parameters, detail::parameters_of(model.program));
  files.commit();
}

}  // namespace lod::inline LOD_INTERFACE::paddle
