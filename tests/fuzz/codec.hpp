// SPDX-License-Identifier: Apache-2.0
/// @file
/// What holds for any message of the wire format.
#pragma once

#include "target.hpp"
#include <lod/proto.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace lod_fuzz {

/// Decodes a message in all ways that there are, and expects that they agree. Returns it, if it is one.
template <class M>
std::optional<M> check_message(std::string_view bytes, const Bound& bound, const M& another) {
  std::optional<M> message = attempt<lod::ParseError>(bytes.size(), bound, [&] { return lod::decode<M>(bytes); });

  // Into a struct that holds another message, which is left as it was where the bytes are wrong.
  M reused = another;
  const bool is_read = attempt<lod::ParseError>(bytes.size(), bound, [&] {
                         lod::decode(bytes, reused);
                         return true;
                       }).has_value();
  LOD_FUZZ_EXPECT(is_read == message.has_value());
  // Compared as bytes, which are the same for a NaN, too.
  const std::string encoded = lod::encode(message ? *message : another);
  LOD_FUZZ_EXPECT(lod::encode(reused) == encoded);
  if (!message) return message;

  LOD_FUZZ_EXPECT(lod::encode(lod::decode<M>(encoded)) == encoded);
  std::string appended = "before";
  lod::encode(*message, appended);
  LOD_FUZZ_EXPECT(appended == "before" + encoded);
  return message;
}

}  // namespace lod_fuzz
