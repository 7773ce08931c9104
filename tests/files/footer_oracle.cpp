// SPDX-License-Identifier: Apache-2.0
// The footer against libprotobuf and the code that protoc makes of proto/file.proto.
#include "descriptions/random_message.hpp"
#include "files/file_parts.hpp"
#include "support/temporary_folder.hpp"
#include <lod/io/file.hpp>

#include <doctest/doctest.h>
#include <file.pb.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace lod_test;

namespace {

template <class M>
void check_names(const google::protobuf::Descriptor& in_schema) {
  CHECK(lod::proto::Schema<M>::name == in_schema.name());
  CHECK(codec::field_count<M> == static_cast<std::size_t>(in_schema.field_count()));
  codec::for_each_field<M>([&](auto index) {
    using F = codec::FieldOf<M, index>;
    const auto* field = in_schema.FindFieldByNumber(static_cast<int>(F::number));
    REQUIRE(field);
    CHECK(field->name() == codec::field_name<M, index>());
    CHECK(field->is_required() == (F::rule == codec::Rule::REQUIRED));
    CHECK(field->is_repeated() == (F::rule == codec::Rule::REPEATED));
    CHECK(field->is_packed() == F::is_packed);
    if constexpr (lod::proto::Message<typename F::Element>) check_names<typename F::Element>(*field->message_type());
  });
}

}  // namespace

TEST_CASE("Footer: the structs have the fields and rules of proto/file.proto") {
  check_names<DecodedFooter>(*lod::schema::file::Footer::descriptor());
}

TEST_CASE("FileWriter: the footer has the bytes that libprotobuf writes, and says what was written") {
  const TemporaryFolder folder;
  const lod::LoDTensor<float> x(lod::LoD::from_lengths({{2, 0, 1}, {300, 2, 0}}), {7});
  const std::vector<lod::LoDTensor<double>> array(3, lod::LoDTensor<double>({2, 5}));
  lod::save(folder / "x", {{"x", x}, {"g", lod::SelectedRows<float>({4, 0, 4}, 10, {2})}, {"array", array}});
  const std::string footer = FileParts(read_bytes(folder / "x")).footer;

  lod::schema::file::Footer theirs;
  REQUIRE(theirs.ParseFromString(footer));
  CHECK(theirs.SerializeAsString() == footer);
  REQUIRE(theirs.variables_size() == 3);
  const auto& first = theirs.variables(0);
  CHECK(first.description().name() == "x");
  CHECK(first.description().type().lod_tensor().lod_level() == 2);
  CHECK(first.description().type().lod_tensor().tensor().data_type() == lod::schema::VarType::FP32);
  REQUIRE(first.tensors_size() == 1);
  CHECK(first.tensors(0).dims_size() == 2);
  CHECK(first.tensors(0).dims(0) == 302);
  REQUIRE(first.tensors(0).offsets_size() == 2);
  CHECK(first.tensors(0).offsets(0).begin() == 64);
  CHECK(first.tensors(0).offsets(0).size() == 4 * 8);
  CHECK(first.tensors(0).values().size() == 302 * 7 * 4);
  CHECK(!first.has_row_ids());
  CHECK(theirs.variables(1).row_ids().size() == 3 * 8);
  CHECK(theirs.variables(1).description().type().selected_rows().dims(0) == 10);
  CHECK(theirs.variables(2).tensors_size() == 3);
}

TEST_CASE("File: reads a footer that libprotobuf wrote") {
  const TemporaryFolder folder;
  const auto x = lod::LoDTensor<std::int32_t>::from_nested(std::vector<std::vector<std::int32_t>>{{1, 2}, {}, {3}});
  lod::save(folder / "x", {{"x", x}});
  const FileParts parts(read_bytes(folder / "x"));
  lod::schema::file::Footer theirs;
  REQUIRE(theirs.ParseFromString(parts.footer));
  auto& variable = *theirs.mutable_variables(0);
  variable.mutable_description()->set_name("another name");
  variable.mutable_description()->set_persistable(true);
  write_bytes(folder / "y", FileParts(parts.beginning, theirs.SerializeAsString()).file());
  const lod::File file = lod::File::open(folder / "y");
  file.verify();
  CHECK(file.describe("another name").persistable);
  CHECK(file.tensor<std::int32_t>("another name").values()[2] == 3);
}

TEST_CASE("Footer: random messages are the same as libprotobuf's, both ways") {
  const google::protobuf::LogSilencer quiet;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    INFO("LOD_TEST_SEED=", first_seed(), ": message ", i);
    Engine engine(first_seed() + i);
    const auto footer = random_value<DecodedFooter>(engine);
    lod::schema::file::Footer theirs;
    copy(footer, theirs);
    const std::string expected = theirs.SerializeAsString();
    REQUIRE(lod::encode(footer) == expected);
    REQUIRE(lod::encode(lod::decode<DecodedFooter>(expected)) == expected);
    // As the library reads it: variables stay bytes.
    const auto views = lod::decode<format::Footer>(expected);
    REQUIRE(views.variables.size() == footer.variables.size());
    REQUIRE(lod::encode(views) == expected);
    for (std::size_t v = 0; v < views.variables.size(); ++v) {
      REQUIRE(lod::encode(lod::decode<format::Variable>(views.variables[v])) == lod::encode(footer.variables[v]));
    }
  }
}
