// SPDX-License-Identifier: Apache-2.0
// The programs that PaddlePaddle wrote, against libprotobuf and the code that protoc makes of the schema. Random
// programs are among the messages of the other files.
#include "descriptions/paddle_data.hpp"
#include "descriptions/random_message.hpp"

#include <doctest/doctest.h>
#include <google/protobuf/util/message_differencer.h>

#include <string>

using namespace lod_test;

TEST_CASE("decode: of PaddlePaddle's programs, what libprotobuf reads") {
  for (const char* name : {"fit_a_line/__model__", "custom_gap/custom_gap.pdmodel"}) {
    CAPTURE(name);
    const std::string bytes = paddle_bytes(name);
    lod::schema::ProgramDesc expected;
    REQUIRE(expected.ParseFromString(bytes));

    lod::schema::ProgramDesc ours;
    copy(lod::decode<lod::ProgramDesc>(bytes), ours);
    CHECK(google::protobuf::util::MessageDifferencer::Equals(ours, expected));
    CHECK(ours.SerializeAsString() == bytes);
  }
}
