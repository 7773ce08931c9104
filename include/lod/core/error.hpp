// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The exceptions of the library, and the assertion that guards its hot code.
///
/// Data from outside (lengths, offsets, shapes, branches, ids, bytes) is always checked, before anything is changed: a
/// function that throws one of these leaves its arguments unchanged. The text says what was wrong, where, and what was
/// expected, in little more than 2000 bytes at most. Every type derives from the standard exception of its kind, so
/// callers may catch coarsely or finely.
#pragma once

#include <lod/core/target.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

/// A precondition of hot code: the caller must ensure it, and the library does not check it in release builds. Define
/// the macro before the first include to make it throw, log or trap; the tests make it throw.
#ifndef LOD_ASSERT
#  include <cassert>
#  define LOD_ASSERT(condition) assert(condition)
#endif

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// The text of an error, no longer than people read: a longer text, such as a name or a list from outside, loses its
/// middle, which is replaced by the text's length.
[[gnu::cold]] LOD_TAGGED inline std::string readable(std::string what) {
  constexpr std::size_t most = 2000, edge = 900;
  if (what.size() <= most) return what;
  const auto is_inside_letter = [&](std::size_t at) { return (static_cast<unsigned>(what[at]) & 0xC0u) == 0x80u; };
  std::size_t head = edge, tail = what.size() - edge;
  while (head > edge - 4 && is_inside_letter(head)) --head;  // do not split UTF-8 characters
  while (tail < what.size() - edge + 4 && is_inside_letter(tail)) ++tail;
  return what.substr(0, head) + " ... (" + std::to_string(what.size()) + " bytes) ... " + what.substr(tail);
}

}  // namespace detail

/// An invalid LoD: offsets that descend or do not begin at 0, a negative length, levels that do not add up, a sum
/// beyond 64 bits. The text names the level and the position.
class InvalidLoD : public std::invalid_argument {
 public:
  /// What is wrong, in words; a very long text loses its middle.
  LOD_TAGGED explicit InvalidLoD(const std::string& what) : std::invalid_argument(detail::readable(what)) {}
};

/// Things that must agree but do not: a LoD and the number of rows, the shapes of two arguments, an output and what is
/// to be written into it; or an invalid shape (negative, or more elements than 64 bits can count).
class ShapeMismatch : public std::invalid_argument {
 public:
  /// What is wrong, in words; a very long text loses its middle.
  LOD_TAGGED explicit ShapeMismatch(const std::string& what) : std::invalid_argument(detail::readable(what)) {}
};

/// An index outside its range: a level, a sequence, a branch, a row, an id.
class OutOfRange : public std::out_of_range {
 public:
  /// What is wrong, in words; a very long text loses its middle.
  LOD_TAGGED explicit OutOfRange(const std::string& what) : std::out_of_range(detail::readable(what)) {}
};

/// Malformed bytes. `position()` is the byte, counted from the start of the outermost input, at which the reader
/// stopped; the text repeats it.
class ParseError : public std::runtime_error {
 public:
  /// `position` is appended to the text.
  LOD_TAGGED ParseError(const std::string& what, std::size_t position) : ParseError(position, detail::readable(what)) {}
  /// The byte at which the reader stopped.
  LOD_TAGGED std::size_t position() const noexcept { return position_; }

  /// The same error for readers of a larger input, in which these bytes begin at byte `begin`: `where` and a colon are
  /// put before the text.
  LOD_TAGGED ParseError inside(const std::string& where, std::size_t begin = 0) const {
    return ParseError(where + ": " + std::string(what(), length_), begin + position_);
  }

 private:
  LOD_TAGGED ParseError(std::size_t position, const std::string& readable)
      : std::runtime_error(readable + " (at byte " + std::to_string(position) + ")"),
        position_(position),
        length_(readable.size()) {}

  std::size_t position_;
  std::size_t length_;  // of the text, without the position
};

/// A call of the CUDA runtime that failed: the call, the error's name and its number.
class CudaError : public std::runtime_error {
 public:
  /// A text, and the number of a cudaError_t.
  LOD_TAGGED CudaError(const std::string& what, int code) : std::runtime_error(what), code_(code) {}
  /// The runtime's own number (cudaError_t).
  LOD_TAGGED int code() const noexcept { return code_; }

 private:
  int code_;
};

namespace detail {

/// A piece of an error's text. Joining pieces costs a user's compiler far less than chains of string operators do, and
/// every header of this library describes in words what it rejects.
class Piece {
 public:
  LOD_TAGGED Piece(const char* words) : words_(words) {}
  LOD_TAGGED Piece(const std::string& words) : words_(words) {}
  LOD_TAGGED Piece(std::unsigned_integral auto number) : magnitude_(number) {}
  LOD_TAGGED Piece(std::signed_integral auto number)
      : magnitude_(static_cast<std::uint64_t>(number)), negative_(number < 0) {}

  LOD_TAGGED void append_to(std::string& text) const {
    if (words_.data()) {
      append_words(text);
      return;
    }
    if (negative_) text += '-';
    text += std::to_string(negative_ ? 0 - magnitude_ : magnitude_);
  }

 private:
  /// The text of an exception ends at a zero byte: one in a name is written as "\0".
  LOD_TAGGED void append_words(std::string& text) const {
    std::string_view rest = words_;
    for (std::size_t end = rest.find('\0'); end != std::string_view::npos; end = rest.find('\0')) {
      text.append(rest.substr(0, end)).append("\\0");
      rest.remove_prefix(end + 1);
    }
    text += rest;
  }

  std::string_view words_ = {};  // empty for a number
  std::uint64_t magnitude_ = 0;
  bool negative_ = false;
};

LOD_TAGGED inline std::string text(std::initializer_list<Piece> pieces) {
  std::string all;
  for (const Piece& piece : pieces) piece.append_to(all);
  return all;
}

/// Returns call(); errors in its arguments begin with `what` and a colon as well: for public functions that are another
/// one under their own name, as many gradients are.
template <class Call>
LOD_TAGGED decltype(auto) with_name(const char* what, const Call& call) {
  try {
    return call();
  } catch (const InvalidLoD& error) {
    throw InvalidLoD(text({what, ": ", error.what()}));
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(text({what, ": ", error.what()}));
  } catch (const OutOfRange& error) {
    throw OutOfRange(text({what, ": ", error.what()}));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(readable(text({what, ": ", error.what()})));
  }
}

}  // namespace detail

}  // namespace lod::inline LOD_INTERFACE
