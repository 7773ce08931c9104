// SPDX-License-Identifier: Apache-2.0
/// @file
/// How data come into programs that run: readers, of files and of channels, and channels between programs.
#include "programs/one_operator.hpp"
#include "support/grain.hpp"
#include "support/in_child.hpp"
#include "support/temporary_folder.hpp"
#include <lod/channel.hpp>
#include <lod/io/batches.hpp>
#include <lod/io/file.hpp>
#include <lod/io/reader_operators.hpp>
#include <lod/readers.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <any>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace lod_test;
using lod::AnyLoDTensor;
using lod::Channel;
using lod::LoD;
using lod::LoDTensor;
using Outcome = lod::Channel::Outcome;
using Step = std::vector<AnyLoDTensor>;
using std::chrono::milliseconds;

/// Steps of one tensor with the numbers 1, 2, ...; what comes after the last one is an error, if it is to be.
class Counting final : public lod::Reader {
 public:
  explicit Counting(int last, bool fails = false) : last_(last), fails_(fails) {}
  lod::ReaderDesc desc() const override { return {{{{lod::DataType::FP32, {-1}}}}}; }
  std::optional<Step> next() override {
    if (at_ < last_) return Step{plain<float>({1}, {static_cast<float>(++at_)})};
    if (fails_) throw std::runtime_error("the disk is gone");
    return std::nullopt;
  }
  void restart() override { at_ = 0; }

 private:
  int last_, at_ = 0;
  bool fails_;
};

float number(const AnyLoDTensor& x) { return numbers<float>(x).at(0); }
std::shared_ptr<lod::Reader>& reader_in(lod::Scope& scope, const std::string& name) {
  return scope.find(name)->get<std::shared_ptr<lod::Reader>>();
}
/// A program of one block with persistable variables of other types than tensors.
lod::ProgramDesc program_with(std::vector<lod::OpDesc> ops, lod::VarType::Type type,
                              const std::vector<std::string>& names) {
  lod::ProgramDesc program = program_of(std::move(ops), names);
  retype(program, type, names);
  return program;
}
lod::ProgramDesc reading(Attrs attrs = {}) {
  return program_with({op("read", {{"Reader", {"reader"}}}, {{"Out", {"x"}}}, std::move(attrs))}, lod::VarType::READER,
                      {"reader"});
}

}  // namespace

TEST_CASE("read: the steps of a reader, until there is none") {
  lod::Scope scope;
  scope.var("reader") = lod::Variable(std::shared_ptr<lod::Reader>(std::make_shared<Counting>(2)));
  lod::PreparedProgram step(lod::CpuExecutor(1), reading(), scope, {"x"});
  CHECK(number(step.run()[0]) == 1);
  CHECK(number(step.run()[0]) == 2);
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(step.run(),
                         "block 0, operator 0 'read' (Reader: 'reader'; Out: 'x'): variable 'reader' has no next step",
                         lod::EndOfData);
  }
  reader_in(scope, "reader")->restart();
  CHECK(number(step.run()[0]) == 1);

  const lod::RunOptions x{.fetch = {"x"}};
  CHECK(number(lod::run(reading({attr("throw_eof_exp", false)}), scope, x)[0]) == 2);
  CHECK(lod::run(reading({attr("throw_eof_exp", false)}), scope, x)[0].rows() == 0);
  const auto two =
      program_with({op("read", {{"Reader", {"reader"}}}, {{"Out", {"x", "y"}}})}, lod::VarType::READER, {"reader"});
  reader_in(scope, "reader")->restart();
  CHECK_THROWS_WITH_AS(lod::run(two, scope, x), doctest::Contains("the reader gives 1 tensors, expected 2"),
                       lod::ShapeMismatch);
  reader_in(scope, "reader") = nullptr;
  CHECK_THROWS_WITH_AS(lod::run(reading(), scope, x), doctest::Contains("variable 'reader' has no reader"),
                       lod::ShapeMismatch);
  scope.find("reader")->get<std::shared_ptr<lod::Reader>>() = std::make_shared<lod::EmptyReader>();
  CHECK_THROWS_AS(lod::run(reading(), scope, x), lod::EndOfData);

  lod::ProgramDesc described = reading();
  for (lod::VarDesc& var : described.blocks[0].vars) {
    if (var.name == "reader") var.type.reader = Counting(1).desc();
  }
  lod::infer_shapes(described);
  CHECK(described.blocks[0].find_var("x")->type.lod_tensor->tensor.dims == std::vector<std::int64_t>{-1});
  // What is read must be as described.
  reader_in(scope, "reader") = std::make_shared<Counting>(9);
  CHECK(number(lod::run(described, scope, x)[0]) == 1);
  lod::LoDTensorDesc* const desc =
      &*std::ranges::find(described.blocks[0].vars, "x", &lod::VarDesc::name)->type.lod_tensor;
  for (const auto& [expected, text] : {std::pair(lod::LoDTensorDesc{{lod::DataType::INT64, {-1}}},
                                                 "variable 'x': FP32 of shape {1}, expected INT64 of shape {-1}"),
                                       {{{lod::DataType::FP32, {-1, 2}}}, "FP32 of shape {1}, expected FP32 of shape"},
                                       {{{lod::DataType::FP32, {-1}}, 1}, "'x': 0 levels, expected 1"}}) {
    *desc = expected;
    CHECK_THROWS_WITH_AS(lod::run(described, scope, x), doctest::Contains(text), lod::ShapeMismatch);
  }
}

TEST_CASE("FileBatches: a file by sequences and rows, in order or shuffled by a seed") {
  const TemporaryFolder folder;
  const std::string path = folder / "data.lod";
  const auto words = LoDTensor<double>::from_values(LoD::from_lengths({{1, 0, 2, 1, 1}, {2, 1, 0, 3, 1}}), {},
                                                    std::vector<double>{0, 1, 20, 40, 41, 42, 50});
  const auto labels = plain<std::int64_t>({5, 1}, {0, 10, 20, 30, 40});
  lod::save(path, {{"words", words}, {"labels", labels}, {"none", LoDTensor<float>(LoD::from_lengths({{}}), {2})}});
  const lod::File file = lod::File::open(path);

  lod::FileBatches in_order(file, {"labels", "words"}, {.size = 2});
  CHECK(in_order.size() == 5);
  CHECK(in_order.desc().lod_tensor[1].lod_level == 2);
  std::vector<std::int64_t> seen;
  std::int64_t steps = 0, first = 0;
  while (const auto batch = in_order.next()) {
    const auto ids = numbers<std::int64_t>((*batch)[0]);
    seen.insert(seen.end(), ids.begin(), ids.end());
    const std::int64_t count = std::min<std::int64_t>(2, 5 - first);
    CHECK((*batch)[1].lod() == words.between(first, first + count).lod());
    first += count;
    ++steps;
  }
  CHECK(seen == Ids{0, 10, 20, 30, 40});
  CHECK(steps == 3);

  std::vector<Ids> passes;
  for (const std::uint64_t seed : {7U, 7U, 8U}) {
    lod::FileBatches shuffled(file, {"labels", "words"}, {.size = 2, .shuffle = seed});
    for (int pass = 0; pass < 2; ++pass, shuffled.restart()) {
      passes.emplace_back();
      while (const auto batch = shuffled.next()) {
        for (std::size_t i = 0; i < numbers<std::int64_t>((*batch)[0]).size(); ++i) {
          const std::int64_t label = numbers<std::int64_t>((*batch)[0])[i];
          passes.back().push_back(label);
          const auto place = static_cast<std::int64_t>(i);
          const auto found = (*batch)[1].view<double>()[place], expected = words.view()[label / 10];
          CHECK(found.lod() == expected.lod());
          CHECK(std::ranges::equal(found.values(), expected.values()));
        }
      }
    }
  }
  for (const Ids& pass : passes) {
    Ids sorted = pass;
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == Ids{0, 10, 20, 30, 40});
  }
  CHECK(passes[0] == passes[2]);
  CHECK(passes[1] == passes[3]);
  CHECK(passes[0] != passes[1]);
  CHECK(passes[0] != passes[4]);

  lod::FileBatches dropped(file, {"labels"}, {.size = 2, .drop_last = true});
  CHECK((dropped.next() && dropped.next() && !dropped.next()));
  for (const auto seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(1)}) {
    lod::FileBatches none(file, {"none"}, {.size = 2, .shuffle = seed});
    CHECK(!none.next());
  }
  CHECK_THROWS_WITH_AS(lod::FileBatches(file, {}, {}), doctest::Contains("'none' has 0 sequences, 'words' has 5"),
                       lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::FileBatches(file, {"other"}, {}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::FileBatches(file, {"words"}, {.size = 0}), std::invalid_argument);
}

TEST_CASE("create_file_reader: programs read batches of files in a folder, and of no others") {
  const TemporaryFolder folder;
  lod::save(folder / "train.lod", {{"x", ragged<float>({2, 0, 1}, {}, {1, 2, 3})}});
  static const std::string allowed = folder.path();
  lod::add_reader_operators(allowed);
  CHECK_THROWS_AS(lod::add_reader_operators(allowed), std::invalid_argument);
  const auto opening = [](const std::string& path, Attrs attrs) {
    attrs.push_back(attr("file_path", path));
    return program_with({op("create_file_reader", {}, {{"Out", {"file"}}}, std::move(attrs)),
                         op("create_double_buffer_reader", {{"UnderlyingReader", {"file"}}}, {{"Out", {"reader"}}})},
                        lod::VarType::READER, {"file", "reader"});
  };
  lod::Scope scope;
  lod::run(opening("train.lod", {attr("batch_size", 2)}), scope);
  lod::ProgramDesc main = reading();
  main.blocks[0].vars.push_back(tensor_var("sum"));
  main.blocks[0].ops.push_back(
      op("sequence_pool", {{"X", {"x"}}}, {{"Out", {"sum"}}}, {attr("pooltype", std::string("SUM"))}));
  lod::PreparedProgram step(lod::CpuExecutor(1), main, scope, {"sum"});
  for (int pass = 0; pass < 2; ++pass) {
    CHECK(numbers<float>(step.run()[0]) == Floats{3, 0});
    CHECK(numbers<float>(step.run()[0]) == Floats{3});
    CHECK_THROWS_AS(step.run(), lod::EndOfData);
    reader_in(scope, "reader")->restart();
  }
  for (const std::string path : {"../train.lod", "/etc/passwd", "a/../../train.lod"}) {
    CHECK_THROWS_WITH_AS(lod::run(opening(path, {}), scope),
                         doctest::Contains("expected a path within the folder that programs may use"),
                         lod::InvalidProgram);
  }
  CHECK_THROWS_AS(lod::run(opening("train.lod", {attr("batch_size", 0)}), scope), lod::InvalidProgram);
  CHECK_THROWS_AS(lod::run(opening("other.lod", {}), scope), std::system_error);
}

TEST_CASE("ReadAhead: the steps of another reader in their order, its errors after them, and an end at any time") {
  lod::ReadAhead ahead(std::make_shared<Counting>(100));
  for (int pass = 0; pass < 2; ++pass, ahead.restart()) {
    for (int i = 1; i <= 100; ++i) REQUIRE(number((*ahead.next())[0]) == static_cast<float>(i));
    CHECK(!ahead.next());
  }
  CHECK(number((*ahead.next())[0]) == 1);
  ahead.restart();
  CHECK(number((*ahead.next())[0]) == 1);
  lod::ReadAhead failing(std::make_shared<Counting>(1, true));
  CHECK(failing.next());
  for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH_AS(failing.next(), "the disk is gone", std::runtime_error);
  const auto channel = std::make_shared<Channel>(1);
  {
    lod::ReadAhead waiting(std::make_shared<lod::ChannelReader>(channel));
    channel->send({plain<float>({1}, {5})});
    CHECK(number((*waiting.next())[0]) == 5);
  }  // does not wait for what nobody sends
  CHECK(channel->is_closed());
  CHECK_THROWS_AS(lod::ReadAhead(nullptr), std::invalid_argument);
}

#ifndef LOD_TEST_NO_THREADS_IN_CHILD

TEST_CASE("ReadAhead: in a child of fork(), which has no thread for it, it says so, begins again, and ends") {
  auto ahead = std::make_unique<lod::ReadAhead>(std::make_shared<Counting>(100));
  CHECK(ahead->next());
  std::this_thread::sleep_for(milliseconds(20));  // until the thread waits for room
  CHECK(in_child([&] {
          try {
            ahead->next();
            return 1;
          } catch (const std::runtime_error&) {
          }
          ahead->restart();
          for (int i = 1; i <= 100; ++i) {
            const auto step = ahead->next();
            if (!step || number((*step)[0]) != static_cast<float>(i)) return 2;
          }
          return ahead->next() ? 3 : 0;
        }) == 0);
  CHECK(in_child([&] {
          ahead.reset();
          return 0;
        }) == 0);
  for (int i = 2; i <= 100; ++i) REQUIRE(number((*ahead->next())[0]) == static_cast<float>(i));
}

TEST_CASE("Channel: in a child of fork() it works unless threads were in it, which it says") {
  auto channel = std::make_unique<Channel>(1);
  channel->send({plain<float>({1}, {1})});
  const auto passes_on = [&] {
    Channel::Value value;
    if (channel->receive(value) != Outcome::DONE || number(value[0]) != 1) return 1;
    std::thread sender([&] {
      for (int i = 0; i < 100; ++i) channel->send({});
    });
    for (int i = 0; i < 100; ++i) channel->receive(value);
    sender.join();
    channel.reset();
    return 0;
  };
  CHECK(in_child(passes_on) == 0);
  std::thread waiting([&] { CHECK(channel->send({}) == Outcome::CLOSED); });
  std::this_thread::sleep_for(milliseconds(20));
  const auto is_lost = [&] {
    Channel::Value value;
    int errors = 0;
    for (const int action : {0, 1, 2}) {
      try {
        if (action == 0) channel->send({});
        if (action == 1) channel->receive(value);
        if (action == 2) channel->reopen();
      } catch (const std::runtime_error&) {
        ++errors;
      }
    }
    channel->close();
    const bool is_closed = channel->is_closed() && channel->size() == 0;
    channel.reset();
    return errors == 3 && is_closed ? 0 : 1;
  };
  CHECK(in_child(is_lost) == 0);
  channel->close();
  waiting.join();
}

TEST_CASE("operators: children of fork() find them while other threads of the parent do, too") {
  std::atomic<bool> ends = false;
  std::thread finding([&] {
    while (!ends) static_cast<void>(lod::operators().find("mul"));
  });
  for (int i = 0; i < (lod_test::slow ? 50 : 300); ++i) {
    CHECK(in_child([] { return lod::operators().find("mul") ? 0 : 1; }) == 0);
  }
  ends = true;
  finding.join();
}

#endif

TEST_CASE("Channel: first in, first out, as many as there is room for") {
  Channel channel(2);
  const auto sent = [&](float v) { return channel.send({plain<float>({1}, {v})}, milliseconds(1)); };
  Channel::Value value;
  CHECK(channel.receive(value, milliseconds(1)) == Outcome::TIMED_OUT);
  CHECK(sent(1) == Outcome::DONE);
  CHECK(sent(2) == Outcome::DONE);
  CHECK(sent(3) == Outcome::TIMED_OUT);
  CHECK(channel.size() == 2);
  channel.close();
  CHECK(sent(4) == Outcome::CLOSED);
  for (const float expected : {1.0F, 2.0F}) {
    CHECK(channel.receive(value) == Outcome::DONE);
    CHECK(number(value[0]) == expected);
  }
  CHECK(channel.receive(value) == Outcome::CLOSED);
  CHECK(number(value[0]) == 2);
  channel.reopen();
  CHECK(sent(5) == Outcome::DONE);

  Channel handed_over(0);
  CHECK(handed_over.send({}, milliseconds(1)) == Outcome::TIMED_OUT);
  CHECK(handed_over.size() == 0);
  std::thread sender([&] { CHECK(handed_over.send({plain<float>({1}, {6})}) == Outcome::DONE); });
  CHECK(handed_over.receive(value) == Outcome::DONE);
  sender.join();
  CHECK(number(value[0]) == 6);
  std::thread refused([&] { CHECK(handed_over.send({}) == Outcome::CLOSED); });
  while (handed_over.size() == 0) std::this_thread::yield();
  handed_over.close();
  refused.join();
}

TEST_CASE("Channel: many senders and receivers lose nothing and see nothing twice, with room and without") {
  for (const std::size_t capacity : {0U, 1U, 3U}) {
    constexpr int threads = 3, each = 300;
    Channel channel(capacity);
    std::atomic<std::int64_t> sum = 0, count = 0;
    std::vector<std::thread> senders, receivers;
    for (int t = 0; t < threads; ++t) {
      senders.emplace_back([&, t] {
        for (int i = 0; i < each; ++i) channel.send({plain<float>({1}, {static_cast<float>(t * each + i)})});
      });
      receivers.emplace_back([&] {
        Channel::Value value;
        while (channel.receive(value) == Outcome::DONE) {
          sum += static_cast<std::int64_t>(number(value[0]));
          ++count;
        }
      });
    }
    for (std::thread& sender : senders) sender.join();
    channel.close();
    for (std::thread& receiver : receivers) receiver.join();
    CHECK(count == threads * each);
    CHECK(sum == std::int64_t{threads * each} * (threads * each - 1) / 2);
  }
}

TEST_CASE("channel_send, channel_recv: two programs in two threads pass batches") {
  for (const int capacity : {0, 2}) {
    lod::Scope scope;
    const auto program = [](std::vector<lod::OpDesc> ops) {
      return program_with(std::move(ops), lod::VarType::CHANNEL, {"channel"});
    };
    lod::run(program({op("channel_create", {}, {{"Out", {"channel"}}}, {attr("capacity", capacity)})}), scope);
    const auto closing = program({op("channel_close", {{"Channel", {"channel"}}}, {})});
    // The same variable is written again and again, while the other program reads what it had.
    lod::PreparedProgram producer(
        lod::CpuExecutor(1),
        program({op("scale", {{"X", {"x"}}}, {{"Out", {"y"}}}, {attr("scale", 2.0F)}),
                 op("channel_send", {{"Channel", {"channel"}}, {"X", {"y"}}}, {{"Status", {"sent"}}})}),
        scope, {"sent"});
    lod::PreparedProgram consumer(
        lod::CpuExecutor(1),
        program({op("channel_recv", {{"Channel", {"channel"}}}, {{"Out", {"z"}}, {"Status", {"more"}}}),
                 op("scale", {{"X", {"z"}}}, {{"Out", {"w"}}}, {attr("scale", 0.5F)})}),
        scope, {"more", "w"});
    std::thread sender([&] {
      for (int i = 1; i <= 50; ++i) {
        const auto sent = producer.run(
            {{"x", ragged<float>({i, 0}, {}, Floats(static_cast<std::size_t>(i), static_cast<float>(i)))}});
        CHECK(numbers<bool>(sent[0])[0]);
      }
      lod::run(closing, scope);
    });
    int count = 0;
    for (;; ++count) {
      const auto& results = consumer.run();
      if (!numbers<bool>(results[0])[0]) break;
      const Floats expected(static_cast<std::size_t>(count + 1), static_cast<float>(count + 1));
      REQUIRE(numbers<float>(results[1]) == expected);
      REQUIRE(results[1].lod() == LoD::from_lengths({{count + 1, 0}}));
    }
    sender.join();
    CHECK(count == 50);
    CHECK(!numbers<bool>(producer.run({{"x", plain<float>({1}, {1})}})[0])[0]);
  }
}

TEST_CASE("channel_send: what is sent outlives the program, with rows and without") {
  for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{3}}) {
    lod::Scope scope;
    const auto program = program_with({op("channel_create", {}, {{"Out", {"channel"}}}, {attr("capacity", 1)}),
                                       op("scale", {{"X", {"x"}}}, {{"Out", {"y"}}}, {attr("scale", 2.0F)}),
                                       op("channel_send", {{"Channel", {"channel"}}, {"X", {"y"}}}, {})},
                                      lod::VarType::CHANNEL, {"channel"});
    {
      lod::PreparedProgram<> sender(lod::CpuExecutor(1), program, scope);
      sender.run({{"x", plain<float>({rows, 1}, Floats(static_cast<std::size_t>(rows), 1.0F))}});
    }
    Channel::Value value;
    REQUIRE(scope.at("channel").get<std::shared_ptr<Channel>>()->receive(value) == Outcome::DONE);
    CHECK(numbers<float>(value[0]) == Floats(static_cast<std::size_t>(rows), 2.0F));
    CHECK(value[0].resized(lod::DataType::FP32, LoD(), {1}, 5, value[0].resource()).rows() == 5);
  }
}

TEST_CASE("RunLimits::wait: a program that waits for others does not do so for ever") {
  lod::Scope scope;
  const auto program = [](std::vector<lod::OpDesc> ops) {
    return program_with(std::move(ops), lod::VarType::CHANNEL, {"channel"});
  };
  const auto receiving = program({op("channel_recv", {{"Channel", {"channel"}}}, {{"Out", {"z"}}})});
  scope.var("channel") = lod::Variable(lod::VarType::CHANNEL);
  const lod::RunOptions impatient{.limits = {.wait = milliseconds(1)}};
  CHECK_THROWS_WITH_AS(lod::run(receiving, scope, impatient),
                       doctest::Contains("variable 'channel' has no channel yet"), lod::ShapeMismatch);
  lod::run(program({op("channel_create", {}, {{"Out", {"channel"}}})}), scope);
  CHECK_THROWS_WITH_AS(
      lod::run(receiving, scope, impatient),
      "block 0, operator 0 'channel_recv' (Channel: 'channel'; Out: 'z'): it has waited for a sender as "
      "long as it may",
      lod::LimitExceeded);
  const auto sending =
      program({constant("x", {2}, 1), op("channel_send", {{"Channel", {"channel"}}, {"X", {"x"}}}, {})});
  CHECK_THROWS_WITH_AS(lod::run(sending, scope, impatient), doctest::Contains("waited for a receiver"),
                       lod::LimitExceeded);
  // Of the whole run: what one operator has waited, the next one may not wait any more.
  const auto channel = scope.find("channel")->get<std::shared_ptr<Channel>>();
  const lod::OpDesc first = receiving.blocks[0].ops[0];
  std::thread sender([&] {
    while (channel->send({plain<float>({1}, {1})}) == Channel::Outcome::DONE)
      std::this_thread::sleep_for(milliseconds(2));
  });
  CHECK_THROWS_WITH_AS(lod::run(program(std::vector(100, first)), scope, {.limits = {.wait = milliseconds(20)}}),
                       doctest::Contains("waited for a sender"), lod::LimitExceeded);
  channel->close();
  sender.join();
  CHECK_THROWS_WITH_AS(
      lod::run(program({op("channel_create", {}, {{"Out", {"channel"}}}, {attr("capacity", -1)})}), scope),
      doctest::Contains("attribute 'capacity' has a value that is not supported, expected 0 or more"),
      lod::InvalidProgram);
}

TEST_CASE("queue_generator, enqueue, dequeue, create_py_reader: queues by the names of their variables") {
  lod::Scope scope;
  const auto program = [](std::vector<lod::OpDesc> ops) {
    lod::ProgramDesc made = program_of(std::move(ops), {"queue", "reader"});
    retype(made, lod::VarType::RAW, {"queue"});
    retype(made, lod::VarType::READER, {"reader"});
    return made;
  };
  const auto named = attr("queue_name", std::string("queue"));
  lod::OpDesc::Attr names{.name = "names", .type = lod::AttrType::STRINGS};
  names.strings = {"queue"};
  lod::run(program({op("queue_generator", {}, {}, {names, attr("capacity", 3)})}), scope);
  const auto enqueueing = program({constant("x", {2}, 7), op("enqueue", {{"X", {"x"}}}, {}, {named})});
  lod::run(enqueueing, scope);
  const auto dequeued = lod::run(program({op("dequeue", {}, {{"Out", {"y"}}}, {named})}), scope, {.fetch = {"y"}});
  CHECK(numbers<float>(dequeued[0]) == Floats{7, 7});

  const auto making =
      program({op("create_py_reader", {{"blocking_queue", {"queue"}}}, {{"Out", {"reader"}}},
                  {attr("shape_concat", std::vector<int>{-1, 4, 3}), attr("ranks", std::vector<int>{2, 1}),
                   attr("dtypes", std::vector<int>{5, 3}), attr("lod_levels", std::vector<int>{1, 0})})});
  lod::run(making, scope);
  const lod::ReaderDesc desc = reader_in(scope, "reader")->desc();
  CHECK(desc.lod_tensor[0].tensor.dims == std::vector<std::int64_t>{-1, 4});
  CHECK(desc.lod_tensor[1].tensor.data_type == lod::DataType::INT64);
  CHECK_THROWS_AS(lod::run(reading(), scope, {.limits = {.wait = milliseconds(1)}}), lod::LimitExceeded);
  const auto ahead = std::make_shared<lod::ReadAhead>(reader_in(scope, "reader"));
  CHECK_THROWS_AS(ahead->next_within(milliseconds(1)), lod::LimitExceeded);
  ahead->interrupt();
  CHECK_FALSE(ahead->next());
  ahead->restart();
  lod::run(enqueueing, scope);
  const auto channel = std::any_cast<std::shared_ptr<Channel>>(scope.find("queue")->get<std::any>());
  channel->close();
  CHECK(numbers<float>(lod::run(reading(), scope, {.fetch = {"x"}})[0]) == Floats{7, 7});
  CHECK_THROWS_AS(lod::run(reading(), scope, {.fetch = {"x"}}), lod::EndOfData);
  CHECK_THROWS_WITH_AS(lod::run(enqueueing, scope), doctest::Contains("queue 'queue' is closed"), lod::EndOfData);
  reader_in(scope, "reader")->restart();
  lod::run(enqueueing, scope);
  CHECK_THROWS_WITH_AS(
      lod::run(program({op("enqueue", {{"X", {"x"}}}, {}, {attr("queue_name", std::string("other"))})}), scope),
      doctest::Contains("there is no variable 'other', expected one for a queue"), lod::InvalidProgram);
  lod::OpDesc broken = making.blocks[0].ops[0];
  broken.attrs[1].ints = {2, 2};
  CHECK_THROWS_AS(lod::run(program({broken}), scope), lod::InvalidProgram);
}
