// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which level an operation takes where none is given: the rule that the guide states, option by option.
#include <lod/ops.hpp>

#include <doctest/doctest.h>

TEST_CASE("Options: what computes within sequences takes the last level where none is given") {
  CHECK(lod::PoolOptions{}.level == -1);
  CHECK(lod::LogsumexpOptions{}.level == -1);
  CHECK(lod::EmbeddingPoolOptions<float>{}.level == -1);
  CHECK(lod::SoftmaxOptions{}.level == -1);
  CHECK(lod::ReverseOptions{}.level == -1);
  CHECK(lod::CumsumOptions{}.level == -1);
  CHECK(lod::SortOptions{}.level == -1);
  CHECK(lod::TopKOptions{}.level == -1);
  CHECK(lod::ConvOptions<float>{}.level == -1);
  CHECK(lod::RowConvOptions{}.level == -1);
  CHECK(lod::JaggedBmmOptions{}.level == -1);
  CHECK(lod::GroupedLinearOptions{}.level == -1);
  CHECK(lod::EnumerateOptions{}.level == -1);
  CHECK(lod::SequenceScatterOptions{}.level == -1);
  CHECK(lod::EditDistanceOptions{}.level == -1);
  CHECK(lod::LstmOptions<float>{}.level == -1);
  CHECK(lod::GruOptions<float>{}.level == -1);
  CHECK(lod::ElementwiseOptions{}.level == -1);
  CHECK(lod::ExpandOptions{}.ref_level == -1);
}

TEST_CASE("Options: what deals with sequences as wholes takes the first level where none is given") {
  CHECK(lod::BeamSearchOptions<float>{}.level == 0);
  CHECK(lod::PadOptions{}.level == 0);
  CHECK(lod::FlattenOptions{}.level == 0);
  CHECK(lod::RemoveEmptyOptions{}.level == 0);
  CHECK(lod::SplitBranchOptions{}.level == 0);
  CHECK(lod::MergeBranchOptions{}.level == 0);
  CHECK(lod::RankOptions{}.level == 0);
}

TEST_CASE("Options: those of a description take the level that those of the operation take") {
  CHECK(lod::BeamSearchDescOptions{}.level == lod::BeamSearchOptions<float>{}.level);
  CHECK(lod::EmbeddingPoolDescOptions{}.level == lod::EmbeddingPoolOptions<float>{}.level);
  CHECK(lod::ConvDescOptions{}.level == lod::ConvOptions<float>{}.level);
  CHECK(lod::LstmDescOptions{}.level == lod::LstmOptions<float>{}.level);
  CHECK(lod::GruDescOptions{}.level == lod::GruOptions<float>{}.level);
}
