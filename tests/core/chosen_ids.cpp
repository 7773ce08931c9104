// SPDX-License-Identifier: Apache-2.0
/// @file
/// Ids and values that somebody has chosen who knows how they are hashed, but not the key.
#include "support/random_lod.hpp"
#include <lod/core/keyed_hash.hpp>
#include <lod/core/name_hash.hpp>
#include <lod/sparse_table.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <unordered_set>
#include <vector>

using lod::detail::HashKey;
using lod::detail::IdIndex;
using lod_test::Engine;
using Numbers = std::vector<std::int64_t>;

namespace {

/// The number whose product with `factor`, which is odd, is 1.
constexpr std::uint64_t inverse(std::uint64_t factor) {
  std::uint64_t found = factor;
  for (int i = 0; i < 6; ++i) found *= 2 - factor * found;
  return found;
}

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15U;

/// Ids that all begin at the slot that `top` names, in a table without a key.
Numbers meeting(std::int64_t count, std::uint64_t top) {
  Numbers ids;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int64_t>((top << 40 | static_cast<std::uint64_t>(i)) * inverse(golden)));
  }
  return ids;
}

/// Ids as a table takes them in.
struct Filled {
  IdIndex index;
  Numbers ids;
  std::int64_t greatest = 0;  ///< of the probes that taking in an id took

  void add(std::int64_t id) {
    if (index.find(id) >= 0) return;
    index.reserve(static_cast<std::int64_t>(ids.size()) + 1, ids);
    ids.push_back(id);
    index.insert(id, static_cast<std::int64_t>(ids.size()) - 1);
    greatest = std::max(greatest, index.probes(id));
  }
  double mean_probes() const {
    std::int64_t sum = 0;
    for (const std::int64_t id : ids) sum += index.probes(id);
    return static_cast<double>(sum) / static_cast<double>(ids.size());
  }
};

/// Sets of ids with a structure, which a weak hash lets meet.
std::vector<Numbers> structured(Engine& engine, std::int64_t count) {
  std::vector<Numbers> sets;
  const auto add = [&](const auto& id) {
    sets.emplace_back();
    for (std::int64_t i = 0; i < count; ++i) {
      sets.back().push_back(static_cast<std::int64_t>(id(static_cast<std::uint64_t>(i))));
    }
  };
  for (const int shift : {0, 7, 20, 32, 44, 50}) {
    add([=](std::uint64_t i) { return i << shift; });
    add([=, base = engine()](std::uint64_t i) { return base + (i << shift); });
  }
  for (int k = 0; k < 4; ++k) add([step = engine()](std::uint64_t i) { return i * step; });
  add([](std::uint64_t i) { return i << 52 | i; });
  add([](std::uint64_t i) { return i << 32 | (i ^ 0x5555); });
  add([](std::uint64_t i) { return i * inverse(golden); });
  add([](std::uint64_t i) { return (i << 63) ^ (i >> 1 << 31) ^ i >> 2; });
  return sets;
}

}  // namespace

TEST_CASE("IdIndex: ids that all belong to one slot are found with few probes") {
  for (const std::uint64_t top : {0U, 1U, 12345U, 0xffffffU}) {
    CAPTURE(top);
    Filled filled;
    for (const std::int64_t id : meeting(20000, top)) filled.add(id);
    CHECK(filled.greatest <= IdIndex::most_probes);
    CHECK(filled.mean_probes() < 3);
    for (std::size_t i = 0; i < filled.ids.size(); ++i) {
      if (filled.index.find(filled.ids[i]) != static_cast<std::int64_t>(i)) FAIL_CHECK("id " << filled.ids[i]);
    }
    CHECK(filled.index.find(-1) == -1);
  }
}

TEST_CASE("IdIndex: ids that are chosen to stay just below the bound cost no more than that") {
  // Many groups, each of which meets in a slot of its own.
  Filled filled;
  for (std::uint64_t group = 0; group < 200; ++group) {
    for (const std::int64_t id : meeting(120, group << 16)) filled.add(id);
  }
  CHECK(filled.greatest <= 2 * IdIndex::most_probes);
  CHECK(filled.mean_probes() < static_cast<double>(IdIndex::most_probes));
}

TEST_CASE("IdIndex: ids without a choice, in a row or drawn by chance, have few probes and no key") {
  Filled row, drawn;
  Engine engine(5);
  for (std::int64_t i = 0; i < 50000; ++i) {
    row.add(3 * i);
    drawn.add(static_cast<std::int64_t>(engine()));
  }
  CHECK(row.greatest <= 8);
  CHECK(row.mean_probes() < 1.5);
  CHECK(drawn.greatest < IdIndex::most_probes);
  CHECK(drawn.mean_probes() < 3);
}

TEST_CASE("IdIndex: with a key, ids of any structure are as far apart as those drawn by chance") {
  for (unsigned seed = 0; seed < 4; ++seed) {
    Engine engine(seed);
    for (const Numbers& set : structured(engine, 3000)) {
      Filled filled;
      for (const std::int64_t id : meeting(200, 7)) filled.add(id);
      for (const std::int64_t id : set) filled.add(id);
      CAPTURE(set[1]);
      CHECK(filled.mean_probes() < 3);
      CHECK(filled.greatest <= IdIndex::most_probes);
    }
  }
}

TEST_CASE("IdIndex: the id that came last goes again, whichever hash found its place") {
  Filled filled;
  for (const std::int64_t id : meeting(IdIndex::most_probes - 1, 3)) filled.add(id);
  const Numbers before = filled.ids;
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(filled.index.find(before[i]) == static_cast<std::int64_t>(i));
  // The last one that came may go again, whichever hash found its place.
  for (const std::int64_t id : meeting(300, 3)) {
    if (filled.index.find(id) >= 0) continue;
    filled.add(id);
    filled.index.remove(id);
    CHECK(filled.index.find(id) == -1);
    filled.index.insert(id, static_cast<std::int64_t>(filled.ids.size()) - 1);
  }
  for (std::size_t i = 0; i < filled.ids.size(); ++i) {
    CHECK(filled.index.find(filled.ids[i]) == static_cast<std::int64_t>(i));
  }
}

TEST_CASE("HashKey: each is another one, and numbers that meet by one key do not by another") {
  const HashKey key = HashKey::draw(), other = HashKey::draw();
  CHECK(key.start != other.start);
  CHECK(key.factor != other.factor);
  CHECK(key.factor % 2 == 1);
  CHECK(key.spread % 2 == 1);
  // Numbers whose top 8 bits by `key` are 0: one in 256 of them has these by another key, too.
  std::int64_t met = 0, meet_again = 0;
  for (std::uint64_t i = 0; i < 1 << 18; ++i) {
    if (key.of(i) >> 56 != 0) continue;
    ++met;
    if (other.of(i) >> 56 == 0) ++meet_again;
  }
  CHECK(met > 512);
  CHECK(met < 2048);
  CHECK(meet_again < 40);
}

TEST_CASE("HashKey: differences that a product of 64 bits passes on do not make bytes meet") {
  // Words in pairs that differ in the top bit, and in what is left of it after a shift by half: by a hash of products
  // and shifts, whatever its key, the two of a pair meet.
  constexpr std::size_t pairs = 12;
  constexpr std::uint64_t first = std::uint64_t{1} << 63;
  for (const std::uint64_t second : {first, first | std::uint64_t{1} << 31, std::uint64_t{1} << 31}) {
    const HashKey key = HashKey::draw();
    std::unordered_set<std::uint64_t> hashes;
    for (std::uint64_t choice = 0; choice < 1 << pairs; ++choice) {
      std::uint64_t words[2 * pairs];
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        const bool other = (choice >> pair & 1) != 0;
        words[2 * pair] = 17 * pair ^ (other ? first : 0);
        words[2 * pair + 1] = 23 * pair ^ (other ? second : 0);
      }
      hashes.insert(key.of(words, sizeof(words), key.start));
    }
    CHECK(hashes.size() == 1 << pairs);
  }
}

TEST_CASE("HashKey: the number of bytes counts, and so does each of them") {
  const HashKey key = HashKey::draw();
  std::unordered_set<std::uint64_t> hashes;
  std::vector<unsigned char> bytes(40);
  for (std::size_t count = 0; count <= bytes.size(); ++count) hashes.insert(key.of(bytes.data(), count, key.start));
  CHECK(hashes.size() == bytes.size() + 1);
  for (unsigned char& byte : bytes) {
    byte = 1;
    hashes.insert(key.of(bytes.data(), bytes.size(), key.start));
  }
  CHECK(hashes.size() == 2 * bytes.size() + 1);
}

TEST_CASE("NameHash: sets of names can be compared, and a name has one hash") {
  const lod::detail::NameSet a = {"x", "y", "x@GRAD"}, b = {"y", "x@GRAD", "x"};
  CHECK(a == b);
  const std::string name = "x@GRAD";
  CHECK(a.contains(name));
}
