// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on channels, between programs that run at the same time: channel_create, channel_send, channel_recv and
/// channel_close, as PaddlePaddle had them in 2018, and queue_generator, enqueue and dequeue, which name the variable
/// of a channel in an attribute. Waiting longer than RunLimits::wait throws LimitExceeded.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/target.hpp>
#include <lod/program/block_to_run.hpp>
#include <lod/program/channel.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/run.hpp>
#include <lod/program/variable.hpp>
#include <lod/program/waiting_time.hpp>

#include <any>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The channel of a variable of type CHANNEL, or, for PaddlePaddle's queues, RAW. Throws ShapeMismatch if it has none
/// yet.
inline std::shared_ptr<Channel> channel_of(const Variable& variable) {
  std::shared_ptr<Channel> found;
  if (variable.holds<std::any>()) {
    if (const auto* const held = std::any_cast<std::shared_ptr<Channel>>(&variable.get<std::any>())) found = *held;
  } else {
    found = variable.get<std::shared_ptr<Channel>>();
  }
  if (!found) throw ShapeMismatch(detail::text({"variable '", variable.name(), "' has no channel yet"}));
  return found;
}
/// Gives a variable a new channel.
inline void make_channel(Variable& variable, std::int32_t capacity) {
  auto made = std::make_shared<Channel>(static_cast<std::size_t>(capacity));
  if (variable.holds<std::any>()) {
    variable.get<std::any>() = std::move(made);
  } else {
    variable.get<std::shared_ptr<Channel>>() = std::move(made);
  }
}
/// The capacity of a channel, from an attribute.
inline std::int32_t capacity_of(const OperatorArguments& op, std::int32_t otherwise) {
  const std::int32_t capacity = op.attr("capacity", otherwise);
  if (capacity < 0) op.refuse_attr("capacity", "0 or more");
  return capacity;
}
/// Whether a value was sent or received. Throws LimitExceeded if it took too long.
inline bool is_done(Channel::Outcome outcome, const char* waited_for) {
  if (outcome == Channel::Outcome::TIMED_OUT) lod::detail::throw_waited_too_long(waited_for);
  return outcome == Channel::Outcome::DONE;
}
/// Writes Status, which may be left out: whether it was done.
template <Executor E>
void write_status(const OperatorCall<E>& call, const Slot& status, bool done) {
  if (status) *call.output_bytes(status, DataType::BOOL, LoD(), {}, 1).template elements<bool>() = done;
}
/// Moves the tensors of a value to the outputs of a slot, which must be as many.
template <Executor E>
void write_all(const OperatorCall<E>& call, const Slot& out, std::vector<AnyLoDTensor> value, const char* from) {
  if (value.size() != out.size) {
    throw ShapeMismatch(detail::text({from, " gives ", value.size(), " tensors, expected ", out.size}));
  }
  for (std::size_t i = 0; i < out.size; ++i) {
    call.variable(out, i).template get<AnyLoDTensor>() = std::move(value[i]);
  }
}

/// Sends a tensor, without copying: both sides share its memory. Returns whether the channel was open.
inline bool is_sent(BlockToRun& block, Channel& channel, AnyLoDTensor x) {
  lod::detail::let_go_of_resource(x);
  return is_done(block.wait([&](WaitingTime longest) { return channel.send({std::move(x)}, longest); }), "a receiver");
}
/// Receives a value. Returns whether there was one.
inline bool is_received(BlockToRun& block, Channel& channel, Channel::Value& value) {
  return is_done(block.wait([&](WaitingTime longest) { return channel.receive(value, longest); }), "a sender");
}

/// channel_create: -> Out, a new channel; capacity = 0: a sender waits for a receiver. The attribute data_type is not
/// read: tensors of any type can be sent.
template <Executor E>
RunOperator<E> channel_create(const OperatorArguments& op) {
  return [out = op.output("Out"), capacity = capacity_of(op, 0)](OperatorCall<E>& call) {
    make_channel(call.variable(out), capacity);
  };
}
/// channel_send: Channel, X -> Status?: false if the channel is closed. X is shared, not copied.
template <Executor E>
RunOperator<E> channel_send(const OperatorArguments& op) {
  return [channel = op.input("Channel"), x = op.input("X"), status = op.optional_output("Status"),
          block = &op.block()](OperatorCall<E>& call) {
    const auto to = channel_of(call.variable(channel));
    write_status(call, status, is_sent(*block, *to, call.tensor(x)));
  };
}
/// channel_recv: Channel -> Out, Status?: false if the channel is closed and everything has been received; then Out
/// stays unchanged.
template <Executor E>
RunOperator<E> channel_recv(const OperatorArguments& op) {
  return [channel = op.input("Channel"), out = op.output("Out"), status = op.optional_output("Status"),
          block = &op.block()](OperatorCall<E>& call) {
    Channel::Value value;
    const bool done = is_received(*block, *channel_of(call.variable(channel)), value);
    if (done) write_all(call, out, std::move(value), "the channel");
    write_status(call, status, done);
  };
}
/// channel_close: Channel.
template <Executor E>
RunOperator<E> channel_close(const OperatorArguments& op) {
  return [channel = op.input("Channel")](OperatorCall<E>& call) { channel_of(call.variable(channel))->close(); };
}

/// The variable that an attribute names: it must exist when the operator is prepared.
inline Variable* named_variable(const OperatorArguments& op, const std::string& name) {
  Variable* const found = op.block().scope().find(name);
  if (!found) op.refuse({"there is no variable '", name, "', expected one for a queue"});
  if (!found->holds<std::any>() && !found->holds<std::shared_ptr<Channel>>()) {
    op.refuse({"variable '", name, "' is a ", to_string(found->type()), ", expected RAW or CHANNEL"});
  }
  return found;
}
/// queue_generator: a new channel for each of `names`; capacity.
template <Executor E>
RunOperator<E> queue_generator(const OperatorArguments& op) {
  std::vector<Variable*> queues;
  for (const std::string& name : op.attr("names", std::vector<std::string>())) {
    queues.push_back(named_variable(op, name));
  }
  return [queues = std::move(queues), capacity = capacity_of(op, 1)](OperatorCall<E>&) {
    for (Variable* const queue : queues) make_channel(*queue, capacity);
  };
}
/// enqueue: X; queue_name. Throws EndOfData if the channel is closed.
template <Executor E>
RunOperator<E> enqueue(const OperatorArguments& op) {
  return [x = op.input("X"), queue = named_variable(op, op.desc().attr<std::string>("queue_name")),
          block = &op.block()](OperatorCall<E>& call) {
    if (is_sent(*block, *channel_of(*queue), call.tensor(x))) return;
    throw EndOfData(detail::text({"queue '", queue->name(), "' is closed"}));
  };
}
/// dequeue: -> Out...; queue_name. Throws EndOfData if the channel is closed and everything has been received.
template <Executor E>
RunOperator<E> dequeue(const OperatorArguments& op) {
  return [out = op.outputs("Out"), queue = named_variable(op, op.desc().attr<std::string>("queue_name")),
          block = &op.block()](OperatorCall<E>& call) {
    Channel::Value value;
    if (!is_received(*block, *channel_of(*queue), value)) {
      throw EndOfData(detail::text({"queue '", queue->name(), "' is closed"}));
    }
    write_all(call, out, std::move(value), "the queue");
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs
