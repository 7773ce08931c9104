// SPDX-License-Identifier: Apache-2.0
/// @file
/// The values that go from rank to rank while all run their parts of a program, and the operators that send and receive
/// them.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/target.hpp>
#include <lod/mpi/communicator.hpp>
#include <lod/mpi/messages.hpp>
#include <lod/mpi/operators_on_ranks.hpp>
#include <lod/mpi/point_to_point.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/program.hpp>
#include <lod/program/program_partition.hpp>
#include <lod/program/variable.hpp>

#include <any>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// Sent in place of a value that there will not be: the receiver gets a RankError with the text.
struct Failure {
  std::exception_ptr error;
};
inline Outgoing outgoing(const Failure& failure) { std::rethrow_exception(failure.error); }

/// The transfers of a rank's part, and what is under way of them in a run.
class Links {
 public:
  /// Tag 0 is for what comes before and after a run.
  static constexpr int tag_of_run = 0;

  /// Transfers of a variable between two ranks have a tag of their own: only these are in the same order on both.
  Links(mpi::Communicator communicator, const ProgramPart& part) : communicator_(std::move(communicator)) {
    for (const Transfer& transfer : part.sends) add(transfer, static_cast<int>(transfer.to), true);
    first_received_ = links_.size();
    for (const Transfer& transfer : part.receives) add(transfer, static_cast<int>(transfer.from), false);
    std::map<std::pair<int, bool>, std::set<std::string>> variables;
    for (const Link& link : links_) variables[{link.peer, link.sends}].insert(link.variable);
    for (Link& link : links_) {
      const auto& names = variables[{link.peer, link.sends}];
      const auto place = std::distance(names.begin(), names.find(link.variable));
      if (place + 1 >= Group::user_tags) {
        throw InvalidProgram(
            detail::text({"more than ", Group::user_tags - 1, " variables go from one rank to another"}));
      }
      link.tag = static_cast<int>(place) + 1;
    }
  }
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  /// Inserts the operators that send and receive before and after those of block 0. `own` is the variable that holds
  /// this object.
  void insert_operators(const ProgramPart& part, const std::string& own, BlockDesc& block) const {
    std::vector<OpDesc> ops;
    std::size_t sent = 0, received = first_received_;
    const auto add = [&](const char* type, std::size_t link) {
      const std::string& variable = links_[link].variable;
      OpDesc op{.inputs = {{"Links", {own}}},
                .type = type,
                .attrs = {{.name = "link", .type = AttrType::INT, .i = static_cast<std::int32_t>(link)}}};
      (links_[link].sends ? op.inputs : op.outputs).push_back({links_[link].sends ? "X" : "Out", {variable}});
      ops.push_back(std::move(op));
    };
    const auto receive_before = [&](std::int64_t i) {
      while (received < links_.size() && part.receives[received - first_received_].before <= i) {
        add("mpi_recv", received++);
      }
    };
    const auto count = static_cast<std::int64_t>(block.ops.size());
    for (std::int64_t i = 0; i < count; ++i) {
      receive_before(i);
      ops.push_back(std::move(block.ops[static_cast<std::size_t>(i)]));
      while (sent < first_received_ && part.sends[sent].after == i) add("mpi_send", sent++);
    }
    receive_before(count);
    block.ops = std::move(ops);
  }

  /// Lets the value of a link go once in a run, however many parts the batch has.
  void once_in_run(std::size_t i) { links_[i].is_of_run = true; }
  /// Begins a run with a batch in so many parts.
  void begin(std::int64_t parts) {
    another_failed_ = false;
    for (Link& link : links_) link.left = link.is_of_run ? 1 : parts;
  }
  /// Whether a value did not come since its sender has failed.
  bool another_failed() const noexcept { return another_failed_; }
  /// Sends a copy, and does not wait for the receiver.
  void send(const Variable& variable, std::size_t i) {
    Link& link = links_[i];
    const auto start = [&](auto x) {
      auto& value = values_.emplace_back(std::move(x));
      under_way_.push_back(mpi::start_send(communicator_, *std::any_cast<decltype(x)>(&value), link.peer, link.tag));
    };
    forget_ended();
    if (variable.holds<AnySelectedRows>()) {
      const auto& rows = variable.get<AnySelectedRows>();
      auto copy = AnySelectedRows(rows.rows(), rows.height(), copy_of(rows.value()));
      --link.left;
      start(std::move(copy));
    } else if (variable.holds<std::vector<AnyLoDTensor>>()) {
      std::vector<AnyLoDTensor> copies;
      for (const AnyLoDTensor& x : variable.get<std::vector<AnyLoDTensor>>()) copies.push_back(copy_of(x));
      --link.left;
      start(one_number(static_cast<std::int64_t>(copies.size())));
      for (AnyLoDTensor& x : copies) start(std::move(x));
    } else if (variable.holds<RankTable>()) {
      const auto& table = variable.get<RankTable>();
      LoD ranked = table.lod();
      --link.left;
      start(std::move(ranked));
      start(one_number(table.level()));
    } else {
      auto copy = copy_of(variable.get<AnyLoDTensor>());
      --link.left;
      start(std::move(copy));
    }
  }
  /// Waits for a value. Throws RankError if the sender has failed.
  void receive(Variable& variable, std::size_t i) {
    Link& link = links_[i];
    --link.left;
    const auto take = [&](auto& y) { mpi::receive_into(communicator_, link.peer, link.tag, y); };
    try {
      if (variable.holds<AnySelectedRows>()) {
        take(variable.get<AnySelectedRows>());
      } else if (variable.holds<std::vector<AnyLoDTensor>>()) {
        variable.get<std::vector<AnyLoDTensor>>() = receive_all(link);
      } else if (variable.holds<RankTable>()) {
        const LoD ranked = mpi::receive<LoD>(communicator_, link.peer, link.tag);
        variable.get<RankTable>() = RankTable(ranked, {.level = static_cast<int>(receive_number(link))});
      } else {
        take(variable.get<AnyLoDTensor>());
      }
    } catch (const mpi::RankError&) {
      another_failed_ = true;
      throw;
    }
  }
  /// Ends what goes once in a run, or what goes for each part. After an error, tells those who wait for a value that
  /// there will be none, and drops what comes: so nobody waits for ever, and no message is left for the next run.
  void end(const BlockDesc& block, const std::exception_ptr& error, bool is_of_run) noexcept {
    const Failure failure{error};
    const bool another_failed = another_failed_;
    if (error) {
      for (const Link& link : links_) {
        if (link.is_of_run != is_of_run) continue;
        for (std::int64_t i = 0; link.sends && i < link.left; ++i) {
          under_way_.emplace_back(communicator_,
                                  std::make_unique<Sending<Failure>>(communicator_, failure, link.peer, link.tag));
        }
      }
      for (Link& link : links_) {
        if (link.is_of_run != is_of_run) continue;
        for (std::int64_t left = link.sends ? 0 : link.left; left > 0; --left) drop(block, link);
      }
      another_failed_ = another_failed;
    }
    for (auto& sending : under_way_) {
      try {
        sending.wait();
      } catch (...) {  // the failure, or one of MPI, which the receiver has seen
      }
    }
    under_way_.clear();
    values_.clear();
  }

 private:
  struct Link {
    std::string variable;
    int peer = 0;
    bool sends = false;
    int tag = 0;
    bool is_of_run = false;
    std::int64_t left = 0;  ///< so many values are still to go in this run
  };

  void add(const Transfer& transfer, int peer, bool sends) { links_.push_back({transfer.variable, peer, sends}); }
  AnyLoDTensor copy_of(const AnyLoDTensor& x) const {
    auto copy =
        AnyLoDTensor().resized(x.data_type(), x.lod(), x.row_shape(), x.rows(), communicator_.executor().resource());
    if (!x.bytes().empty()) std::memcpy(copy.mutable_bytes().data(), x.bytes().data(), x.bytes().size());
    return copy;
  }
  static AnyLoDTensor one_number(std::int64_t number) {
    LoDTensor<std::int64_t> x({1});
    x.data()[0] = number;
    return x;
  }
  std::int64_t receive_number(const Link& link) {
    return mpi::receive<LoDTensor<std::int64_t>>(communicator_, link.peer, link.tag).data()[0];
  }
  std::vector<AnyLoDTensor> receive_all(const Link& link) {
    std::vector<AnyLoDTensor> all;
    for (std::int64_t i = 0, count = receive_number(link); i < count; ++i) {
      all.push_back(mpi::receive<AnyLoDTensor>(communicator_, link.peer, link.tag));
    }
    return all;
  }
  void drop(const BlockDesc& block, Link& link) noexcept {
    VarType::Type type = VarType::LOD_TENSOR;
    for (const VarDesc& var : block.vars) {
      if (var.name == link.variable) type = var.type.type;
    }
    try {
      Variable unused(type);
      receive(unused, static_cast<std::size_t>(&link - links_.data()));
    } catch (...) {  // the other side has failed, too
    }
  }
  /// Lets go of what has arrived, from the first on.
  void forget_ended() {
    while (!under_way_.empty() && under_way_.front().ready()) {
      under_way_.pop_front();
      values_.pop_front();
    }
  }

  mpi::Communicator communicator_;
  std::vector<Link> links_;  ///< sends, then receives, each in the order of the part's list
  std::size_t first_received_ = 0;
  bool another_failed_ = false;
  std::list<mpi::Pending<void>> under_way_;
  std::list<std::any> values_;  ///< what is sent
};

/// mpi_send: Links, X; link, the number of the transfer. mpi_recv: Links -> Out; link.
template <Executor E = CpuExecutor>
void add_operators_of_links() {
  add_operator_once<E>(
      "mpi_send", {.prepare = [](const OperatorArguments& op) -> RunOperator<E> {
        return [links = op.input("Links"), x = op.input("X"), link = op.attr("link", 0)](OperatorCall<E>& call) {
          InScope<Links>::of(call.variable(links)).send(call.variable(x), static_cast<std::size_t>(link));
        };
      }});
  add_operator_once<E>(
      "mpi_recv", {.prepare = [](const OperatorArguments& op) -> RunOperator<E> {
        return [links = op.input("Links"), out = op.output("Out"), link = op.attr("link", 0)](OperatorCall<E>& call) {
          InScope<Links>::of(call.variable(links)).receive(call.variable(out), static_cast<std::size_t>(link));
        };
      }});
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET
