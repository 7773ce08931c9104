// SPDX-License-Identifier: Apache-2.0
#include "operations.hpp"

#include "data_types.hpp"
#include "operation_bytes.hpp"
#include "operation_calls.hpp"
#include "operation_values.hpp"
#include "tensor.hpp"

#include <pybind11/stl.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace lod_python {

extern template OperationCalls operation_calls<float>();
extern template OperationCalls operation_calls<double>();
extern template OperationCalls operation_calls<std::int32_t>();
extern template OperationCalls operation_calls<std::int64_t>();
extern template OperationCalls operation_calls<lod::float16>();
extern template OperationCalls operation_calls<lod::bfloat16>();
extern template OperationCalls operation_calls_but_moves<bool>();
extern template OperationCalls operation_calls_but_moves<std::int8_t>();
extern template OperationCalls operation_calls_but_moves<std::int16_t>();
extern template OperationCalls operation_calls_but_moves<std::uint8_t>();
extern template OperationCalls operation_calls_but_moves<std::uint32_t>();
extern template OperationCalls operation_calls_but_moves<std::uint64_t>();
extern template OperationCalls operation_calls_but_moves<std::complex<float>>();
extern template OperationCalls operation_calls_but_moves<std::complex<double>>();

namespace {

/// The enumerations of options, by their names.
py::dict& enums() {
  static py::dict& classes = *new py::dict;  // never given back: it would be destroyed after Python
  return classes;
}

/// One operation, as a function of Python's.
class Operation {
 public:
  Operation(Signature signature, std::map<lod::DataType, OperationCall> calls, OperationCall of_bytes)
      : signature_(std::move(signature)), calls_(std::move(calls)), of_bytes_(of_bytes) {}

  py::object call(const py::args& arguments, const py::kwargs& named) const {
    Values values(values_of(arguments, named));
    const lod::DataType type = with_place(values, [&] { return element_type(values); });
    const auto found = calls_.find(type);
    if (found == calls_.end()) return call_with_bytes(values, type);
    return with_place(values, [&] { return found->second.call(values); });
  }

  /// With annotations, as in stubs; or without.
  std::string signature(bool annotated) const {
    std::string text = "(";
    const auto add = [&](const Parameter& parameter) {
      const bool is_enum = enums().contains(parameter.hint);
      if (text.size() > 1) text += ", ";
      text += parameter.name;
      if (annotated) text += ": " + (is_enum ? "Union[" + parameter.hint + ", str]" : parameter.hint);
      if (parameter.initial.empty()) return;
      // `inspect` reads no members of enumerations.
      const std::string initial =
          is_enum ? "'" + parameter.initial.substr(parameter.hint.size() + 1) + "'" : parameter.initial;
      text += annotated ? " = ..." : "=" + initial;
    };
    for (const Parameter& argument : signature_.arguments) add(argument);
    if (!signature_.options.empty()) text += ", *";
    for (const Parameter& option : signature_.options) add(option);
    text += ")";
    if (annotated) text += " -> " + signature_.result;
    return text;
  }
  /// Begins with what Python's `inspect` reads.
  std::string documentation() const { return signature_.name + signature(false) + "\n--\n\n" + signature_.summary; }
  const std::string& name() const noexcept { return signature_.name; }

 private:
  /// f(), with errors of values that say which one it is.
  template <class F>
  std::invoke_result_t<const F&> with_place(const Values& values, const F& f) const {
    const auto parameter = [&]() -> const Parameter* {
      std::size_t place = values.place();
      for (const auto* const parameters : {&signature_.arguments, &signature_.options}) {
        if (place < parameters->size()) return &(*parameters)[place];
        place -= parameters->size();
      }
      return nullptr;
    };
    const auto text = [&](const char* what) {
      return signature_.name + ": " + (parameter() ? "'" + parameter()->name + "': " : "") + what;
    };
    try {
      return f();
    } catch (const py::cast_error& error) {
      if (!parameter()) throw;
      const char* const found = Py_TYPE(values[values.place()].ptr())->tp_name;
      throw py::type_error(text(found) + ", expected " + parameter()->hint);
    } catch (const py::type_error& error) {
      throw py::type_error(text(error.what()));
    } catch (const py::value_error& error) {
      throw py::value_error(text(error.what()));
    }
  }

  std::vector<py::object> values_of(const py::args& arguments, const py::kwargs& named) const {
    const std::size_t first_option = signature_.arguments.size();
    std::vector<py::object> values(first_option + signature_.options.size());
    if (arguments.size() > first_option) {
      throw py::type_error(signature_.name + ": " + std::to_string(arguments.size()) + " arguments, expected " +
                           std::to_string(first_option) + "; options are given by name");
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) values[i] = arguments[i];
    for (const auto& [key, value] : named) {
      const auto name = key.cast<std::string>();
      const std::size_t place = place_of(name);
      if (place == values.size()) {
        throw py::type_error(signature_.name + ": '" + name + "' is no parameter; expected " + signature(false));
      }
      if (values[place]) throw py::type_error(signature_.name + ": '" + name + "' is given twice");
      values[place] = py::reinterpret_borrow<py::object>(value);
    }
    for (std::size_t i = 0; i < first_option; ++i) {
      const Parameter& argument = signature_.arguments[i];
      if (values[i]) continue;
      if (argument.initial.empty()) {
        throw py::type_error(signature_.name + ": '" + argument.name + "' is missing; expected " + signature(false));
      }
      values[i] = py::none();
    }
    std::size_t place = 0;
    for (const auto* const parameters : {&signature_.arguments, &signature_.options}) {
      for (const Parameter& parameter : *parameters) {
        py::object& value = values[place++];
        if (value && py::isinstance<py::str>(value) && enums().contains(parameter.hint)) {
          value = member_of(parameter, value);
        }
      }
    }
    return values;
  }
  /// The member of an enumeration, by its name.
  py::object member_of(const Parameter& parameter, const py::object& name) const {
    const py::dict members = enums()[parameter.hint.c_str()].attr("__members__");
    if (members.contains(name)) return members[name];
    std::string known;
    for (const auto& [each, member] : members) known += (known.empty() ? "" : ", ") + std::string(py::str(each));
    throw py::value_error(signature_.name + ": '" + parameter.name + "': '" + std::string(py::str(name)) +
                          "', expected one of " + known);
  }
  std::size_t place_of(const std::string& name) const {
    std::size_t place = 0;
    for (const auto* const parameters : {&signature_.arguments, &signature_.options}) {
      for (const Parameter& parameter : *parameters) {
        if (parameter.name == name) return place;
        ++place;
      }
    }
    return place;
  }
  /// That of the argument that may have any; or the type that is an argument itself. INT64 of levels alone.
  lod::DataType element_type(Values& values) const {
    for (std::size_t i = 0; i < signature_.arguments.size(); ++i) {
      if (signature_.arguments[i].hint != std::string_view("TypeLike")) continue;
      const py::object& value = values[i];
      return value.is_none() ? lod::DataType::INT64 : to_data_type(value);
    }
    if (signature_.typed == signature_.arguments.size()) return lod::DataType::INT64;
    return values.type_of(signature_.typed, signature_.arguments[signature_.typed].hint);
  }
  /// For types of elements without calls of their own, where rows are only moved.
  py::object call_with_bytes(Values& values, lod::DataType type) const {
    const std::size_t pad_value = place_of("pad_value");
    const bool moves = pad_value == parameter_count() || !values[pad_value] || values[pad_value].equal(py::int_(0));
    if (!of_bytes_.call || !moves) {
      std::string known;
      for (const auto& [each, call] : calls_) known += std::string(known.empty() ? "" : ", ") + lod::to_string(each);
      throw py::type_error(signature_.name + ": elements of type " + lod::to_string(type) + ", expected one of " +
                           known);
    }
    values.replace([type](const py::object& value) { return as_bytes(value, type); });
    return from_bytes(with_place(values, [&] { return of_bytes_.call(values); }), type);
  }
  std::size_t parameter_count() const { return signature_.arguments.size() + signature_.options.size(); }

  Signature signature_;
  std::map<lod::DataType, OperationCall> calls_;
  OperationCall of_bytes_;
};

template <class Enum>
py::enum_<Enum> bind_enum(py::module_& module, const char* name, const char* documentation) {
  py::enum_<Enum> made(module, name, documentation);
  enums()[name] = made;
  return made;
}
void bind_enums(py::module_& module) {
  bind_enum<lod::PoolType>(module, "PoolType", "How the rows of a sequence become one.")
      .value("SUM", lod::PoolType::SUM)
      .value("AVERAGE", lod::PoolType::AVERAGE)
      .value("SQRT", lod::PoolType::SQRT)
      .value("MAX", lod::PoolType::MAX)
      .value("MIN", lod::PoolType::MIN)
      .value("FIRST", lod::PoolType::FIRST)
      .value("LAST", lod::PoolType::LAST);
  bind_enum<lod::RowIndex>(module, "RowIndex", "What the rows in an index are counted from.")
      .value("BATCH", lod::RowIndex::BATCH)
      .value("SEQUENCE", lod::RowIndex::SEQUENCE);
  bind_enum<lod::Side>(module, "Side", "Where the padding of a sequence is.")
      .value("LEFT", lod::Side::LEFT)
      .value("RIGHT", lod::Side::RIGHT);
  bind_enum<lod::Reduction>(module, "Reduction", "What a loss is the mean of.")
      .value("NONE", lod::Reduction::NONE)
      .value("ROWS", lod::Reduction::ROWS)
      .value("SEQUENCES", lod::Reduction::SEQUENCES);
  bind_enum<lod::ChunkScheme>(module, "ChunkScheme", "How labels mark the rows of a chunk.")
      .value("IOB", lod::ChunkScheme::IOB)
      .value("IOE", lod::ChunkScheme::IOE)
      .value("IOBES", lod::ChunkScheme::IOBES)
      .value("PLAIN", lod::ChunkScheme::PLAIN);
  bind_enum<lod::ScatterOp>(module, "ScatterOp", "How a row meets the one that is there.")
      .value("ASSIGN", lod::ScatterOp::ASSIGN)
      .value("ADD", lod::ScatterOp::ADD)
      .value("SUB", lod::ScatterOp::SUB)
      .value("SUBBY", lod::ScatterOp::SUBBY)
      .value("MUL", lod::ScatterOp::MUL)
      .value("DIV", lod::ScatterOp::DIV)
      .value("DIVBY", lod::ScatterOp::DIVBY);
  bind_enum<lod::Sparse>(module, "Sparse",
                         "What an optimizer does to rows without a gradient: nothing, or the same as "
                         "for a gradient of zeros.")
      .value("LAZY", lod::Sparse::LAZY)
      .value("EXACT", lod::Sparse::EXACT);
}

void bind_structures(py::module_& module) {
  py::class_<lod::RankTable>(module, "RankTable", "The sequences of a level by descending length.")
      .def(py::init([](const py::object& lod, int level) {
             Values values({});
             return lod::RankTable(values.lod(lod), {.level = level});
           }),
           py::arg("lod"), py::arg("level") = 0, "Those of a LoDTensor, or of lists of offsets.")
      .def_property_readonly(
          "items",
          [](const lod::RankTable& self) {
            std::vector<std::pair<std::int64_t, std::int64_t>> items;
            for (const auto& item : self.items()) items.emplace_back(item.index, item.length);
            return items;
          },
          "(index, length) of each sequence.")
      .def_property_readonly("level", &lod::RankTable::level)
      .def_property_readonly("steps", &lod::RankTable::steps, "The longest length.")
      .def("active", &lod::RankTable::active, py::arg("t"), "How many sequences take step t.")
      .def("__len__", &lod::RankTable::size);
  py::class_<TensorArray>(module, "TensorArray", "Tensors by index, of one row shape and number of levels.")
      .def(py::init([](const py::list& elements) {
             TensorArray made;
             for (const py::handle element : elements) {
               made.elements.push_back(py::isinstance<Tensor>(element) ? element.cast<Tensor>() : to_tensor(element));
             }
             return made;
           }),
           py::arg("elements") = py::list())
      .def("__len__", [](const TensorArray& self) { return self.elements.size(); })
      .def("__getitem__", [](const TensorArray& self, std::size_t i) {
        if (i >= self.elements.size()) {
          throw py::index_error("element " + std::to_string(i) + " of " + std::to_string(self.elements.size()));
        }
        return self.elements[i];
      });
}

/// The classes of named tuples, by their names.
py::dict& named_tuples() {
  static py::dict& classes = *new py::dict;  // never given back: it would be destroyed after Python
  return classes;
}

}  // namespace

void named_tuple(const Aggregate& of, const std::vector<std::string>& hints) {
  const std::string name(of.name);
  if (named_tuples().contains(name)) return;
  const std::vector<std::string> names(of.members.begin(), of.members.end());
  py::list members;
  for (std::size_t i = 0; i < names.size(); ++i) members.append(py::make_tuple(names[i], hints[i]));
  const py::object make = py::module_::import("collections").attr("namedtuple");
  // Of weights, all but the first two may be omitted, and of layers either direction.
  const std::size_t needed = name.ends_with("Weights") ? 2 : name.ends_with("Layer") ? 0 : names.size();
  py::list defaults;
  for (std::size_t i = needed; i < names.size(); ++i) defaults.append(py::none());
  const py::object made = make(name, names, py::arg("defaults") = defaults);
  made.attr("__module__") = "lodtensor._core";
  made.attr("_hints") = members;
  named_tuples()[name.c_str()] = made;
}
py::object to_named_tuple(const Aggregate& of, const py::tuple& values) {
  return named_tuples()[std::string(of.name).c_str()](*values);
}

void bind_operations(py::module_& module) {
  bind_enums(module);
  bind_structures(module);
  const std::pair<lod::DataType, OperationCalls> by_type[] = {
      {lod::DataType::FP32, operation_calls<float>()},
      {lod::DataType::FP64, operation_calls<double>()},
      {lod::DataType::INT32, operation_calls<std::int32_t>()},
      {lod::DataType::INT64, operation_calls<std::int64_t>()},
      {lod::DataType::FP16, operation_calls<lod::float16>()},
      {lod::DataType::BF16, operation_calls<lod::bfloat16>()},
      {lod::DataType::BOOL, operation_calls_but_moves<bool>()},
      {lod::DataType::INT8, operation_calls_but_moves<std::int8_t>()},
      {lod::DataType::INT16, operation_calls_but_moves<std::int16_t>()},
      {lod::DataType::UINT8, operation_calls_but_moves<std::uint8_t>()},
      {lod::DataType::UINT32, operation_calls_but_moves<std::uint32_t>()},
      {lod::DataType::UINT64, operation_calls_but_moves<std::uint64_t>()},
      {lod::DataType::COMPLEX64, operation_calls_but_moves<std::complex<float>>()},
      {lod::DataType::COMPLEX128, operation_calls_but_moves<std::complex<double>>()},
  };
  const OperationCalls of_bytes = byte_calls();
  py::options options;
  options.disable_function_signatures();
  py::dict annotated;
  for (std::size_t i = 0; i < lod::AllOperations::size; ++i) {
    std::map<lod::DataType, OperationCall> calls;
    Signature signature;
    for (const auto& [type, all] : by_type) {
      if (all[i].call) calls.emplace(type, all[i]);
      if (all[i].describe) signature = all[i].describe();
    }
    const auto operation = std::make_shared<const Operation>(std::move(signature), std::move(calls), of_bytes[i]);
    const std::string documentation = operation->documentation();
    module.def(
        operation->name().c_str(),
        [operation](const py::args& arguments, const py::kwargs& named) { return operation->call(arguments, named); },
        documentation.c_str());
    annotated[operation->name().c_str()] = operation->signature(true);
  }
  // For those who write stubs.
  module.attr("_operations") = annotated;
  module.attr("_named_tuples") = named_tuples();
  for (const auto& [name, made] : named_tuples()) module.attr(name) = made;
}

}  // namespace lod_python
