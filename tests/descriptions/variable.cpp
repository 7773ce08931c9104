// SPDX-License-Identifier: Apache-2.0
// Variables: of every type, from descriptions and back.
#include "support/counting_resource.hpp"
#include "support/random_lod.hpp"
#include <lod/proto/program.hpp>
#include <lod/scope.hpp>
#include <lod/variable.hpp>

#include <doctest/doctest.h>

#include <any>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::AnySelectedRows;
using lod::DataType;
using lod::LoD;
using lod::LoDTensor;
using lod::RankTable;
using lod::Reader;
using lod::TensorDesc;
using lod::VarDesc;
using lod::Variable;
using lod::VarType;
using Tensors = std::vector<AnyLoDTensor>;

namespace {

/// Two steps: the numbers 1 and 2.
class TwoSteps final : public Reader {
 public:
  lod::ReaderDesc desc() const override { return {{lod::LoDTensorDesc{{DataType::INT32, {1}}, 0}}}; }
  std::optional<Tensors> next() override {
    if (step_ == 2) return std::nullopt;
    LoDTensor<std::int32_t> x({1});
    x.data()[0] = ++step_;
    Tensors all;
    all.emplace_back(std::move(x));
    return all;
  }
  void restart() override { step_ = 0; }

 private:
  std::int32_t step_ = 0;
};

template <class X>
void check_holds(VarType::Type type) {
  CAPTURE(lod::to_string(type));
  Variable variable(type, "v");
  CHECK(variable.type() == type);
  CHECK(variable.name() == "v");
  CHECK(variable.holds<X>());
  CHECK_NOTHROW(variable.get<X>());
  CHECK(lod::describe(variable).type == type);
  CHECK(Variable::create(VarDesc::of_type("v", type)).template holds<X>());
  // One that holds another type is another variable.
  using Other = std::conditional_t<std::is_same_v<X, RankTable>, std::string, RankTable>;
  CHECK(!variable.holds<Other>());
  CHECK_THROWS_AS(variable.get<Other>(), lod::ShapeMismatch);
}

std::vector<std::int64_t> dims_of(const Variable& variable) {
  return lod::describe(variable).lod_tensor.value().tensor.dims;
}

}  // namespace

TEST_CASE("Variable: of every type, holding what the table says") {
  check_holds<AnyLoDTensor>(VarType::LOD_TENSOR);
  check_holds<AnySelectedRows>(VarType::SELECTED_ROWS);
  for (const auto type :
       {VarType::LOD_TENSOR_ARRAY, VarType::FEED_MINIBATCH, VarType::FETCH_LIST, VarType::FEED_LIST}) {
    check_holds<Tensors>(type);
  }
  check_holds<RankTable>(VarType::LOD_RANK_TABLE);
  check_holds<std::vector<lod::Scope*>>(VarType::STEP_SCOPES);
  check_holds<std::vector<lod::Place>>(VarType::PLACE_LIST);
  check_holds<std::shared_ptr<Reader>>(VarType::READER);
  check_holds<std::vector<Variable>>(VarType::TUPLE);
  check_holds<std::string>(VarType::STRING);
  check_holds<std::string>(VarType::PSTRING);
  check_holds<std::vector<std::string>>(VarType::STRINGS);
  check_holds<lod::Vocabulary>(VarType::VOCAB);
  check_holds<bool>(VarType::BOOL);
  check_holds<std::int8_t>(VarType::INT8);
  check_holds<std::int16_t>(VarType::INT16);
  check_holds<std::int32_t>(VarType::INT32);
  check_holds<std::int64_t>(VarType::INT64);
  check_holds<std::uint8_t>(VarType::UINT8);
  check_holds<std::uint32_t>(VarType::UINT32);
  check_holds<std::uint64_t>(VarType::UINT64);
  check_holds<std::uint64_t>(VarType::SIZE_T);
  check_holds<lod::float16>(VarType::FP16);
  check_holds<lod::bfloat16>(VarType::BF16);
  check_holds<float>(VarType::FP32);
  check_holds<double>(VarType::FP64);
  check_holds<std::shared_ptr<lod::Channel>>(VarType::CHANNEL);
  for (const auto type : {VarType::RAW, VarType::SPARSE_COO, VarType::SPARSE_CSR, VarType::COMPLEX64,
                          VarType::COMPLEX128, VarType::FP8_E4M3FN, VarType::FP8_E5M2}) {
    check_holds<std::any>(type);
  }
  for (const int number : {-1, 34, 36, 39, 1000}) {
    CHECK_THROWS_AS(Variable(static_cast<VarType::Type>(number)), std::invalid_argument);
  }
}

TEST_CASE("Variable: takes what it holds, and the type with it") {
  CHECK(Variable().type() == VarType::LOD_TENSOR);
  CHECK(Variable(LoDTensor<float>({2, 3})).get<AnyLoDTensor>().shape() == lod::Shape{2, 3});
  CHECK(Variable(lod::SelectedRows<double>({1}, 4, {2})).get<AnySelectedRows>().height() == 4);
  CHECK(Variable(7).type() == VarType::INT32);
  CHECK(Variable(true).type() == VarType::BOOL);
  CHECK(Variable(2.5).get<double>() == 2.5);
  CHECK(Variable(std::string("aa"), "X").get<std::string>() == "aa");
  CHECK(Variable(Tensors(2)).type() == VarType::LOD_TENSOR_ARRAY);
  CHECK(Variable(VarType::FETCH_LIST, Tensors(2)).get<Tensors>().size() == 2);
  CHECK_THROWS_WITH_AS(Variable(VarType::READER, Tensors(2), "r"),
                       "variable 'r': expected std::vector<AnyLoDTensor>, found std::shared_ptr<Reader> (type READER)",
                       lod::ShapeMismatch);
  Variable raw(std::any(std::vector<int>{1, 2}));
  CHECK(std::any_cast<std::vector<int>&>(raw.get<std::any>()).size() == 2);
  CHECK(std::is_nothrow_move_constructible_v<Variable>);
  CHECK(!std::is_convertible_v<const char*, Variable>);
}

TEST_CASE("Variable: asked for what it does not hold, it says who it is, what it is, and what was asked for") {
  const Variable w(AnySelectedRows(), "w");
  CHECK_THROWS_WITH_AS(w.get<AnyLoDTensor>(),
                       "variable 'w': expected AnyLoDTensor, found AnySelectedRows (type SELECTED_ROWS)",
                       lod::ShapeMismatch);
  Variable count(std::int64_t{3}, "count");
  CHECK_THROWS_WITH_AS(count.get<std::int32_t>(), "variable 'count': expected INT32, found INT64 (type INT64)",
                       lod::ShapeMismatch);
  count.get<std::int64_t>() = 4;
  CHECK(count.get<std::int64_t>() == 4);
}

TEST_CASE("Variable: an assignment takes over what it holds, and keeps its name") {
  Variable x(VarType::LOD_TENSOR, "x");
  const Variable y(std::string("text"), "y");
  x = y;
  CHECK(x.name() == "x");
  CHECK(x.get<std::string>() == "text");
  CHECK(y.get<std::string>() == "text");
  x = 3.0f;
  CHECK(x.name() == "x");
  CHECK(x.type() == VarType::FP32);
  x = LoDTensor<float>({4, 2});
  CHECK(x.get<AnyLoDTensor>().rows() == 4);
  CHECK(Variable(y).name() == "y");
}

TEST_CASE("Variable: assigned to itself, or an element of what it holds, it has that") {
  const auto pair = [] {
    return Variable(std::vector<Variable>{Variable(LoDTensor<float>({3})), Variable(std::string("text"))});
  };
  Variable x = pair();
  Variable& same = x;
  x = std::move(same);
  x = same;
  REQUIRE(x.get<std::vector<Variable>>().size() == 2);
  x = std::move(x.get<std::vector<Variable>>()[0]);
  CHECK(x.type() == VarType::LOD_TENSOR);
  CHECK(x.get<AnyLoDTensor>().rows() == 3);
  x = pair();
  x = x.get<std::vector<Variable>>()[1];
  CHECK(x.get<std::string>() == "text");
}

TEST_CASE("Variable: copies share the memory of tensors") {
  Variable x(LoDTensor<float>({2}));
  const Variable copy = x;
  x.get<AnyLoDTensor>().mutable_bytes()[0] = std::byte{1};
  CHECK(copy.get<AnyLoDTensor>().bytes()[0] == std::byte{1});
  CHECK(copy.get<AnyLoDTensor>().bytes().data() == x.get<AnyLoDTensor>().bytes().data());
}

TEST_CASE("Variable::create: a tensor of the described type and shape, as zeros") {
  VarDesc desc = VarDesc::lod_tensor("w", {DataType::FP64, {3, 2}});
  desc.persistable = true;
  const Variable w = Variable::create(desc);
  CHECK(w.name() == "w");
  const auto view = w.get<AnyLoDTensor>().view<double>();
  CHECK(view.shape() == lod::Shape{3, 2});
  for (const double value : view.values()) CHECK(value == 0);
  CHECK(dims_of(Variable::create(VarDesc::lod_tensor("x", {DataType::BOOL, {0, 7}}))) ==
        std::vector<std::int64_t>{0, 7});
  CHECK(Variable::create(VarDesc::lod_tensor("x", {DataType::FP8_E5M2, {3}})).get<AnyLoDTensor>().data_type() ==
        DataType::FP8_E5M2);

  const VarDesc scalar = VarDesc::lod_tensor("s", {DataType::FP32, {}});
  const Variable s = Variable::create(scalar);
  CHECK(dims_of(s) == std::vector<std::int64_t>{1});
  CHECK(s.get<AnyLoDTensor>().view<float>().values()[0] == 0);
  CHECK_NOTHROW(lod::check(s.get<AnyLoDTensor>(), scalar));
}

TEST_CASE("Variable::create: what is not known is not there") {
  const auto dims = [](std::vector<std::int64_t> described, int levels = 0) {
    return dims_of(Variable::create(VarDesc::lod_tensor("x", {DataType::INT64, std::move(described)}, levels)));
  };
  CHECK(dims({-1, 640, 480}) == std::vector<std::int64_t>{0, 640, 480});
  CHECK(dims({-1, -1, 4}) == std::vector<std::int64_t>{0, 0, 4});
  CHECK(dims({5, -1}) == std::vector<std::int64_t>{0, 0});
  CHECK(dims({}, 1) == std::vector<std::int64_t>{0});
  CHECK(dims({15, 4}, 2) == std::vector<std::int64_t>{0, 4});

  const Variable x = Variable::create(VarDesc::lod_tensor("x", {DataType::INT64, {-1, 4}}, 2));
  CHECK(x.get<AnyLoDTensor>().lod() == LoD::from_offsets({{0}, {0}}));
  CHECK(lod::describe("x", x) == VarDesc::lod_tensor("x", {DataType::INT64, {0, 4}}, 2));
  CHECK(Variable::create(VarDesc::of_type("x", VarType::LOD_TENSOR)).get<AnyLoDTensor>().rows() == 0);
}

TEST_CASE("Variable::create: row-sparse values of the described height, without rows") {
  const VarDesc desc = VarDesc::selected_rows("g", {DataType::BF16, {10, 8, 2}});
  const Variable g = Variable::create(desc);
  CHECK(g.get<AnySelectedRows>().rows().empty());
  CHECK(lod::describe("g", g) == desc);
  CHECK(lod::describe("g", Variable::create(VarDesc::selected_rows("g", {DataType::FP32, {-1, 8}}))) ==
        VarDesc::selected_rows("g", {DataType::FP32, {0, 8}}));
  CHECK(Variable::create(VarDesc::selected_rows("g", {DataType::FP32, {}})).get<AnySelectedRows>().height() == 0);
  CHECK_THROWS_AS(Variable::create(VarDesc::selected_rows("g", {DataType::FP32, {-2, 8}})), lod::ShapeMismatch);
}

TEST_CASE("Variable::create: a reader and a tuple, empty, of what is described") {
  const VarDesc desc = VarDesc::reader("r", {{{DataType::FP32, {-1, 8}}, 1}, {{DataType::INT64, {-1}}, 0}});
  Variable reader = Variable::create(desc);
  CHECK(lod::describe("r", reader) == desc);
  CHECK(!reader.get<std::shared_ptr<Reader>>()->next());
  reader.get<std::shared_ptr<Reader>>() = std::make_shared<TwoSteps>();
  CHECK(lod::describe(reader).reader.value().lod_tensor.size() == 1);
  Reader& steps = *reader.get<std::shared_ptr<Reader>>();
  CHECK(steps.next().value()[0].view<std::int32_t>().values()[0] == 1);
  CHECK(steps.next().value()[0].view<std::int32_t>().values()[0] == 2);
  CHECK(!steps.next());
  steps.restart();
  CHECK(steps.next());
  reader.get<std::shared_ptr<Reader>>() = nullptr;
  CHECK(lod::describe(reader) == VarDesc::of_type("r", VarType::READER).type);

  VarDesc tuple = VarDesc::of_type("t", VarType::TUPLE);
  tuple.type.tuple = VarType::Tuple({VarType::SELECTED_ROWS, VarType::RAW, VarType::TUPLE});
  const Variable variable = Variable::create(tuple);
  CHECK(lod::describe("t", variable) == tuple);
  CHECK(variable.get<std::vector<Variable>>()[1].name() == "t[1]");
}

TEST_CASE("Variable::create: what describes no tensor is refused") {
  const auto refused = [](TensorDesc tensor, int levels, const char* text) {
    CHECK_THROWS_WITH_AS(Variable::create(VarDesc::lod_tensor("x", std::move(tensor), levels)), doctest::Contains(text),
                         lod::ShapeMismatch);
  };
  const std::int64_t large = std::int64_t{1} << 40;
  refused({DataType::FP32, {-2, 3}}, 0, "variable 'x': dimension -2");
  refused({DataType::FP32, {3, -5}}, 0, "variable 'x': dimension -5");
  refused({DataType::FP32, {3}}, -1, "variable 'x': lod_level -1");
  refused({DataType::FP32, {3}}, 65, "variable 'x': lod_level 65, expected 0 to 64");
  refused({DataType::FP32, {}}, 0x7fffffff, "expected 0 to 64");
  refused({DataType::FP32, {}}, -1, "variable 'x': lod_level -1, expected 0 to 64");
  refused({DataType::FP32, {large, large}}, 0, "exceeds 64 bits");
  refused({DataType::FP32, {large, large}}, 0, "variable 'x': shape: ");
  refused({DataType::FP32, {-1, large, large}}, 0, "exceeds 64 bits");
  refused({DataType::FP64, {large, large >> 19}}, 0, "more than memory can hold");
  refused({DataType::FP64, {large, large >> 19}}, 0, "variable 'x': ");
  refused({DataType::FP32, {1, 1, 1, 1, 1, 1, 1, 1, 1}}, 0, "variable 'x': shape: more than 8 dimensions");
  CHECK_THROWS_WITH_AS(Variable::create(VarDesc::lod_tensor("x", {static_cast<DataType>(7), {3}})),
                       "variable 'x': AnyLoDTensor: 7 is no DataType", std::invalid_argument);
  CHECK_THROWS_WITH_AS(Variable::create(VarDesc::selected_rows("g", {DataType::FP32, {3, large, large}})),
                       doctest::Contains("variable 'g': shape: "), lod::ShapeMismatch);
}

TEST_CASE("Variable::create: memory is from the resource given") {
  lod_test::CountingResource resource;
  {
    const Variable w = Variable::create(VarDesc::lod_tensor("w", {DataType::FP32, {3, 2}}), &resource);
    CHECK(resource.live == 1);
    Variable::create(VarDesc::lod_tensor("x", {DataType::FP32, {-1, 2}}), &resource);
    CHECK(resource.allocations == 1);
  }
  CHECK(resource.live == 0);
  resource.fail_from = 0;
  CHECK_THROWS_AS(Variable::create(VarDesc::lod_tensor("w", {DataType::FP32, {3, 2}}), &resource), std::bad_alloc);
}

TEST_CASE("describe: an array by what its tensors have in common") {
  const auto described = [](Tensors tensors) { return lod::describe("a", Variable(std::move(tensors))); };
  const LoD one = LoD::from_lengths({{2, 1}});
  CHECK(described({LoDTensor<float>(one, {4}), LoDTensor<float>(one, {4})}) ==
        VarDesc::lod_tensor_array("a", {DataType::FP32, {3, 4}}, 1));
  CHECK(described({LoDTensor<float>(one, {4}), LoDTensor<float>({2, 4})}) ==
        VarDesc::lod_tensor_array("a", {DataType::FP32, {-1, 4}}, -1));
  CHECK(described({LoDTensor<float>({3, 4}), LoDTensor<double>({3, 4})}) ==
        VarDesc::of_type("a", VarType::LOD_TENSOR_ARRAY));
  CHECK(described({LoDTensor<float>({3, 4}), LoDTensor<float>({3})}) ==
        VarDesc::of_type("a", VarType::LOD_TENSOR_ARRAY));
  CHECK(described({}) == VarDesc::of_type("a", VarType::LOD_TENSOR_ARRAY));
}

TEST_CASE("describe: gives back what a variable was created from, where all of it is known") {
  constexpr DataType types[] = {DataType::BOOL, DataType::INT16, DataType::FP16,   DataType::FP32,
                                DataType::FP64, DataType::UINT8, DataType::SIZE_T, DataType::COMPLEX128};
  for (int i = 0; i < 300; ++i) {
    INFO("LOD_TEST_SEED=", lod_test::first_seed(), ": sample ", i);
    lod_test::Engine engine(lod_test::first_seed() + static_cast<std::uint64_t>(i));
    TensorDesc tensor{types[engine() % std::size(types)], {}};
    for (auto rank = lod_test::random_number(engine, 1, 4); rank > 0; --rank) {
      tensor.dims.push_back(lod_test::random_number(engine, 0, 5));
    }
    const VarDesc dense = VarDesc::lod_tensor("x", tensor, 0);
    CHECK(lod::describe("x", Variable::create(dense)) == dense);
    const VarDesc rows = VarDesc::selected_rows("x", tensor);
    CHECK(lod::describe("x", Variable::create(rows)) == rows);
  }
}

TEST_CASE("Variable::create: the variables of programs that PaddlePaddle wrote") {
  for (const std::string name : {"fit_a_line/__model__", "custom_gap/custom_gap.pdmodel"}) {
    CAPTURE(name);
    std::ifstream file(LOD_TEST_DATA "/paddle/" + name, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    const auto program = lod::decode<lod::ProgramDesc>(bytes);
    for (const VarDesc& desc : program.block(0).vars) {
      CAPTURE(desc.name);
      const Variable variable = Variable::create(desc);
      CHECK(variable.name() == desc.name);
      VarType expected = desc.type;
      if (expected.lod_tensor) {
        auto& dims = expected.lod_tensor->tensor.dims;
        bool is_known = true;
        for (auto& dim : dims) {
          if (dim == -1) is_known = false;
          if (dim == -1) dim = 0;
        }
        if (!is_known) dims[0] = 0;
      }
      CHECK(lod::describe(variable) == expected);
    }
  }
}
