// SPDX-License-Identifier: Apache-2.0
// Scopes: who finds which variable, how long it lives, and the variables of whole blocks.
#include "support/counting_resource.hpp"
#include "support/random_lod.hpp"
#include <lod/proto/program.hpp>
#include <lod/scope.hpp>

#include <doctest/doctest.h>

#include <any>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::BlockDesc;
using lod::DataType;
using lod::LoDTensor;
using lod::Scope;
using lod::VarDesc;
using lod::Variable;
using lod::VarType;
using Strings = std::vector<std::string>;

namespace {

VarDesc tensor(const std::string& name, std::vector<std::int64_t> dims, bool persistable = false) {
  VarDesc desc = VarDesc::lod_tensor(name, {DataType::FP32, std::move(dims)});
  if (persistable) desc.persistable = true;
  return desc;
}

}  // namespace

TEST_CASE("Scope: a name is looked for outwards, and created in the scope itself") {
  Scope outer;
  outer.var("x") = 1;
  Scope& inner = outer.new_scope();
  CHECK(inner.parent() == &outer);
  CHECK(outer.parent() == nullptr);
  CHECK(&inner.new_scope().root() == &outer);

  CHECK(inner.find("x") == &outer.var("x"));
  CHECK(inner.find_local("x") == nullptr);
  inner.var("y") = 2;
  CHECK(outer.find("y") == nullptr);

  // A new variable hides the one further out.
  Variable& hiding = inner.var("x");
  CHECK(&hiding != outer.find("x"));
  CHECK(hiding.type() == VarType::LOD_TENSOR);
  CHECK(hiding.name() == "x");
  CHECK(inner.find("x") == &hiding);
  CHECK(&inner.var("x") == &hiding);
  CHECK(inner.erase("x"));
  CHECK(!inner.erase("x"));
  CHECK(inner.find("x")->get<std::int32_t>() == 1);
  CHECK(std::as_const(inner).find("x") == outer.find("x"));
  CHECK(!std::is_copy_constructible_v<Scope>);
  CHECK(!std::is_move_constructible_v<Scope>);
}

TEST_CASE("Scope::at: throws where nobody has the variable") {
  Scope outer;
  Scope& inner = outer.new_scope().new_scope();
  outer.var("x") = LoDTensor<float>({3, 2});
  CHECK(inner.at("x").get<AnyLoDTensor>().rows() == 3);
  inner.at("x") = LoDTensor<float>({4, 2});
  CHECK(outer.at("x").get<AnyLoDTensor>().rows() == 4);
  CHECK_THROWS_WITH_AS(inner.at("y"), "no variable 'y' in the scope, nor in the 2 around it", lod::OutOfRange);
}

TEST_CASE("Scope::local_names: its own, ascending") {
  Scope outer;
  CHECK(outer.local_names().empty());
  for (const char* name : {"b", "c", "", "a"}) outer.var(name);
  outer.new_scope().var("inner");
  CHECK(outer.local_names() == Strings{"", "a", "b", "c"});
}

TEST_CASE("Scope: a variable stays at its address") {
  Scope scope;
  Variable* const first = &scope.var("first");
  for (int i = 0; i < 1000; ++i) scope.var(std::to_string(i)) = i;
  for (int i = 0; i < 1000; i += 2) scope.erase(std::to_string(i));
  for (int i = 0; i < 100; ++i) scope.new_scope();
  CHECK(&scope.var("first") == first);
  CHECK(scope.at("501").get<std::int32_t>() == 501);
}

TEST_CASE("Scope: owns those inside it, which end first") {
  Strings ended;
  const auto witness = [&ended](const char* name) {
    return std::any(std::shared_ptr<void>(nullptr, [&ended, name](void*) { ended.push_back(name); }));
  };
  {
    Scope outer;
    outer.var("w") = witness("outer");
    Scope& first = outer.new_scope();
    Scope& second = outer.new_scope();
    Scope& third = outer.new_scope();
    first.var("w") = witness("first");
    second.var("w") = witness("second");
    second.new_scope().var("w") = witness("inside second");
    third.var("w") = witness("third");
    outer.var("steps") = outer.children();
    CHECK(outer.at("steps").get<std::vector<Scope*>>() == std::vector<Scope*>{&first, &second, &third});

    outer.drop(second);
    CHECK(ended == Strings{"inside second", "second"});
    CHECK(outer.children() == std::vector<Scope*>{&first, &third});
    CHECK_THROWS_AS(outer.drop(outer), lod::OutOfRange);
    CHECK_THROWS_AS(first.drop(third), lod::OutOfRange);
    ended.clear();
  }
  CHECK(ended == Strings{"first", "third", "outer"});

  ended.clear();
  Scope outer;
  outer.var("w") = witness("outer");
  outer.new_scope().var("w") = witness("inner");
  outer.drop_all();
  CHECK(ended == Strings{"inner"});
  CHECK(outer.children().empty());
  outer.erase("w");
  CHECK(ended == Strings{"inner", "outer"});
}

TEST_CASE("create_variables: what is persistable in the outermost scope, the rest in this one") {
  BlockDesc block;
  block.vars = {tensor("w", {2, 3}, true), tensor("x", {-1, 2}), VarDesc::of_type("feed", VarType::FEED_MINIBATCH)};
  Scope outer;
  Scope& run = outer.new_scope().new_scope();
  lod::create_variables(run, block);
  CHECK(outer.local_names() == Strings{"w"});
  CHECK(run.parent()->local_names().empty());
  CHECK(run.local_names() == Strings{"feed", "x"});
  CHECK(run.at("w").get<AnyLoDTensor>().rows() == 2);
  CHECK(run.at("w").name() == "w");
  CHECK(run.at("feed").type() == VarType::FEED_MINIBATCH);

  Scope alone;
  lod::create_variables(alone, block);
  CHECK(alone.local_names() == Strings{"feed", "w", "x"});
  lod::create_variables(alone, BlockDesc{});
  CHECK(alone.local_names().size() == 3);
}

TEST_CASE("create_variables: leaves what is there already as it is") {
  BlockDesc block;
  block.vars = {tensor("w", {2, 3}, true), tensor("x", {1})};
  Scope outer;
  outer.var("w") = LoDTensor<double>({7});
  lod::create_variables(outer.new_scope(), block);
  CHECK(outer.at("w").get<AnyLoDTensor>().rows() == 7);
  // What is further out does not count, unless it is to be there.
  outer.var("x") = 3;
  CHECK_NOTHROW(lod::create_variables(outer.new_scope(), block));
}

TEST_CASE("create_variables: what cannot be created changes nothing") {
  lod_test::CountingResource resource;  // of what the scopes hold
  Scope outer;
  Scope& run = outer.new_scope();
  run.var("y") = 1;
  BlockDesc block;
  block.vars = {tensor("w", {2}, true), tensor("x", {2}), tensor("y", {2})};
  const auto unchanged = [&] { return outer.local_names().empty() && run.local_names() == Strings{"y"}; };
  CHECK_THROWS_WITH_AS(lod::create_variables(run, block), "variable 'y': expected type LOD_TENSOR, found INT32",
                       lod::ShapeMismatch);
  CHECK(unchanged());
  block.vars[2] = tensor("z", {-3});
  CHECK_THROWS_AS(lod::create_variables(run, block), lod::ShapeMismatch);
  CHECK(unchanged());
  block.vars[2] = VarDesc::of_type("x", VarType::RAW);
  CHECK_THROWS_AS(lod::create_variables(run, block), lod::ShapeMismatch);
  CHECK(unchanged());
  block.vars.pop_back();
  resource.fail_from = 1;
  CHECK_THROWS_AS(lod::create_variables(run, block, &resource), std::bad_alloc);
  CHECK(unchanged());
  CHECK(resource.live == 0);
  resource.fail_from = -1;
  lod::create_variables(run, block, &resource);
  CHECK(resource.live == 2);
}

TEST_CASE("create_variables: the variables of programs that PaddlePaddle wrote") {
  for (const std::string name : {"fit_a_line/__model__", "custom_gap/custom_gap.pdmodel"}) {
    CAPTURE(name);
    std::ifstream file(LOD_TEST_DATA "/paddle/" + name, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    const auto program = lod::decode<lod::ProgramDesc>(bytes);
    Scope global;
    Scope& run = global.new_scope();
    lod::create_variables(run, program.block(0));
    for (const VarDesc& desc : program.block(0).vars) {
      CAPTURE(desc.name);
      const Scope& home = desc.persistable ? global : run;
      REQUIRE(home.find_local(desc.name) != nullptr);
      CHECK(home.find_local(desc.name)->type() == desc.type.type);
    }
    CHECK(global.local_names().size() + run.local_names().size() == program.block(0).vars.size());
  }
}

TEST_CASE("Scope: as a chain of maps") {
  // The reference: names to numbers, and the number of the scope around.
  struct Reference {
    std::map<std::string, std::int32_t> values;
    std::size_t outer;
  };
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    INFO("LOD_TEST_SEED=", lod_test::first_seed(), ": sample ", sample);
    lod_test::Engine engine(lod_test::first_seed() + sample);
    Scope root;
    std::vector<Scope*> scopes{&root};
    std::vector<Reference> references{{{}, 0}};
    for (std::int32_t step = 0; step < 300; ++step) {
      const std::size_t which = engine() % scopes.size();
      const std::string name(1, static_cast<char>('a' + engine() % 6));
      switch (engine() % 4) {
        case 0:
          if (scopes.size() < 12) {
            scopes.push_back(&scopes[which]->new_scope());
            references.push_back({{}, which});
          }
          break;
        case 1:
          scopes[which]->var(name) = step;
          references[which].values[name] = step;
          break;
        case 2:
          CHECK(scopes[which]->erase(name) == (references[which].values.erase(name) == 1));
          break;
        default:
          std::size_t at = which;
          while (at != 0 && !references[at].values.contains(name)) at = references[at].outer;
          const auto expected = references[at].values.find(name);
          const Variable* const found = scopes[which]->find(name);
          REQUIRE((found != nullptr) == (expected != references[at].values.end()));
          if (found) {
            CHECK(found->get<std::int32_t>() == expected->second);
            CHECK(found == scopes[at]->find_local(name));
          }
      }
    }
  }
}

TEST_CASE("Scope: however deeply scopes are nested, they go, the inner ones first") {
  Scope outer;
  Scope* at = &outer;
  for (int depth = 0; depth < 1000000; ++depth) at = &at->new_scope();
  std::string order;
  const auto note = [&](Scope& scope, char name) {
    scope.var("last") = std::any(std::shared_ptr<void>(nullptr, [&order, name](void*) { order += name; }));
  };
  note(outer.children()[0]->new_scope(), 'b');
  note(*outer.children()[0], 'c');
  note(*at, 'a');
  outer.drop_all();
  CHECK(order.back() == 'c');
  CHECK(order.size() == 3);
  at = &outer;
  for (int depth = 0; depth < 1000000; ++depth) at = &at->new_scope();
  outer.drop(*outer.children()[0]);
  CHECK(outer.children().empty());
}

TEST_CASE("Scope: threads look for variables at a time, and fill scopes of their own") {
  Scope outer;
  for (int i = 0; i < 100; ++i) outer.var(std::to_string(i)) = i;
  std::vector<Scope*> steps;
  for (int t = 0; t < 4; ++t) steps.push_back(&outer.new_scope());
  std::vector<int> sums(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string name = std::to_string(i);
        sums[t] += std::as_const(*steps[t]).at(name).get<std::int32_t>();
        steps[t]->var(name) = i + 1;
        sums[t] += steps[t]->at(name).get<std::int32_t>();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int sum : sums) CHECK(sum == 2 * 4950 + 100);
}
