// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// NumPy's file of named arrays, `.npz`, which `numpy.savez` and `numpy.savez_compressed` write and `numpy.load` reads.
/// It also keeps the levels of tensors, and row-sparse values.
///
///     lod::save_npz("batch.npz", {{"words", words}, {"labels", labels}});
///
///     const auto file = lod::NpzFile::open("batch.npz");
///     auto words = file.load<lod::LoDTensor<float>>("words");
///
/// An `.npz` is a ZIP archive of `.npy` files. A variable `x` is stored as these arrays:
///
/// | variable | arrays |
/// |---|---|
/// | plain tensor | `x` |
/// | tensor with levels | `x`: the values; `x.lod0`, `x.lod1`, ...: the offsets of each level, int64, outermost first |
/// | row-sparse values | `x`: the value; `x.rows`: the ids, int64; `x.height`: one int64 without dimensions |
///
/// So in Python `file["words.lod0"]` are the offsets that `LoD::offsets(0)` returns, and a batch is written by
/// `numpy.savez("batch.npz", **{"words": values, "words.lod0": offsets})`. Arrays with such names but without an `x`,
/// or with only one of `x.rows` and `x.height`, are plain tensors of their own.
///
/// One odd member does not make the others unreadable: an error in a variable is reported when it is requested, and
/// members other than `.npy` are listed separately (`other_members`).
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/io/npy.hpp>
#include <lod/io/npz_members.hpp>
#include <lod/io/stored_values.hpp>
#include <lod/io/zip.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail::inline LOD_TARGET {

template <class X>
concept PlainRows = requires(const X& x) {
  { x.rows() } -> std::convertible_to<std::span<const std::int64_t>>;
  { x.height() } -> std::convertible_to<std::int64_t>;
  plain_values(x.value());
};

class NpzWriter;

}  // namespace detail::inline LOD_TARGET

/// A name and the borrowed value to be written under it: a tensor, a view or a slice in CPU memory, an AnyLoDTensor;
/// SelectedRows, AnySelectedRows.
class NpzValue {
 public:
  /// A tensor.
  template <detail::Plain X>
  LOD_TAGGED NpzValue(std::string name, const X& x) : name_(std::move(name)), values_(detail::plain_values(x)) {
    if constexpr (LoDTensorLike<X>) {
      lod_ = x.view().lod();
    } else {
      lod_ = x.lod();
    }
  }
  /// Row-sparse values. Throws ShapeMismatch unless there are as many rows of values as ids, and for values
  /// with a level.
  template <detail::PlainRows X>
  LOD_TAGGED NpzValue(std::string name, const X& x)
      : name_(std::move(name)),
        values_(detail::plain_values(x.value())),
        is_selected_rows_(true),
        rows_(x.rows()),
        height_(x.height()) {
    detail::check_stored_rows(x, detail::readable(detail::text({"npz: '", name_, "'"})).c_str());
  }

 private:
  friend class detail::NpzWriter;

  std::string name_;
  detail::PlainValues values_;
  LoD lod_;
  bool is_selected_rows_ = false;
  std::span<const std::int64_t> rows_;
  std::int64_t height_ = 0;
};

/// How the arrays of an `.npz` are stored: STORED as they are, by `numpy.savez`, or DEFLATED, by
/// `numpy.savez_compressed`.
enum class NpzCompression { STORED, DEFLATED };

namespace detail::inline LOD_TARGET {

/// Writes the members of an archive. The values stay where they are until libzip requests them.
class NpzWriter {
 public:
  explicit NpzWriter(const std::vector<NpzValue>& values) {
    for (const NpzValue& value : values) {
      add(value.name_, value.values_);
      for (int level = 0; level < value.lod_.levels(); ++level) {
        add(text({value.name_, ".lod", level}), integers(value.lod_.offsets(level)));
      }
      if (!value.is_selected_rows_) continue;
      add(value.name_ + ".rows", integers(value.rows_));
      const PlainValues height = integers({&value.height_, 1});
      add(value.name_ + ".height", {height.data_type, Shape(), height.bytes});
    }
    check_names(values);
  }

  void write(NpzCompression compression, ZipSink& sink) const {
    if (members_.empty()) {
      // libzip removes an empty archive. Python writes one as an end record and nothing else.
      constexpr char end[22] = {'P', 'K', 5, 6};
      return sink.append(end, sizeof(end));
    }
    Zip archive = sink.open();
    for (const Member& member : members_) {
      const zip_buffer_fragment_t parts[] = {part(member.header.data(), member.header.size()),
                                             part(member.values.data(), member.values.size())};
      ZipSource source(zip_source_buffer_fragment(archive.get(), parts, 2, 0));
      const zip_int64_t number = source ? zip_file_add(archive.get(), (member.name + std::string(npy_suffix)).c_str(),
                                                       source.get(), ZIP_FL_ENC_UTF_8)
                                        : -1;
      if (number < 0) fail(archive.get(), member.name);
      static_cast<void>(source.release());  // now owned by the archive
      const auto index = static_cast<zip_uint64_t>(number);
      const bool deflated = compression == NpzCompression::DEFLATED;
      // The earliest possible date, as in NumPy: the same values give the same bytes.
      constexpr zip_uint16_t midnight = 0, first_of_1980 = 0x21;
      if (zip_set_file_compression(archive.get(), index, deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) < 0 ||
          zip_file_set_dostime(archive.get(), index, midnight, first_of_1980, 0) < 0) {
        fail(archive.get(), member.name);
      }
    }
    if (zip_close(archive.get()) < 0) {
      sink.rethrow();
      throw std::runtime_error(text({sink.place(), ": ", zip_strerror(archive.get())}));
    }
    static_cast<void>(archive.release());  // closed
  }

 private:
  struct Member {
    std::string name;
    std::string header;
    std::span<const std::byte> values;
  };

  void add(std::string name, const PlainValues& values) {
    const std::string place = readable(text({"npz: '", name, "'"}));
    check_stored_values(values.data_type, values.bytes, place.c_str());
    members_.push_back({std::move(name), npy_header(values.data_type, values.shape, place), values.bytes});
  }
  static PlainValues integers(std::span<const std::int64_t> numbers) {
    return {DataType::INT64, {static_cast<std::int64_t>(numbers.size())}, std::as_bytes(numbers)};
  }
  static zip_buffer_fragment_t part(const void* bytes, std::size_t size) noexcept {
    // libzip only reads, though its type does not say so.
    return {static_cast<zip_uint8_t*>(const_cast<void*>(bytes)), size};
  }
  /// Throws std::invalid_argument unless the names of the members stand for exactly the variables that were given.
  void check_names(const std::vector<NpzValue>& values) const {
    ByName<std::uint64_t> arrays;
    for (const Member& member : members_) {
      if (member.name.find('\0') != std::string::npos) {
        throw std::invalid_argument(readable(text({"npz: '", member.name, "': a name with a zero byte"})));
      }
      constexpr std::size_t longest = 0xffff - npy_suffix.size();
      if (member.name.size() > longest) {
        throw std::invalid_argument(
            text({"npz: a name of ", member.name.size(), " bytes, expected ", longest, " at most"}));
      }
      if (!arrays.emplace(member.name, 0).second) {
        throw std::invalid_argument(readable(text({"npz: two arrays would be called '", member.name, "'"})));
      }
    }
    const ByName<NpzMembers> variables = npz_variables(arrays);
    for (const auto& [variable, members] : variables) {
      if (!members.wrong.empty()) throw std::invalid_argument(readable("npz: " + members.wrong));
    }
    for (const NpzValue& value : values) {
      const auto read = variables.find(value.name_);
      if (read == variables.end() || read->second.is_selected_rows != value.is_selected_rows_ ||
          read->second.levels.size() != static_cast<std::size_t>(value.lod_.levels())) {
        throw std::invalid_argument(readable(text(
            {"npz: '", value.name_, "' would be read as a part of another variable, or another one as its part"})));
      }
    }
  }
  [[noreturn]] static void fail(zip_t* archive, const std::string& name) {
    zip_error_t* const error = zip_get_error(archive);
    if (zip_error_code_zip(error) == ZIP_ER_MEMORY) throw std::bad_alloc();
    const bool is_name = zip_error_code_zip(error) == ZIP_ER_INVAL;  // whatever else that may be was made here
    const char* const what = is_name ? "a name that is not UTF-8" : zip_error_strerror(error);
    throw std::invalid_argument(readable(text({"npz: '", name, "': ", what})));
  }

  std::vector<Member> members_;
};

}  // namespace detail::inline LOD_TARGET

/// The bytes of an `.npz`. The same values give the same bytes. Throws std::invalid_argument for names that are not
/// UTF-8 or longer than 64 KiB, for two arrays of one name, for names that would be read differently (a plain tensor
/// `x.lod0` beside `x`), for an element type that NumPy does not have, and for a bool that is neither 0 nor 1.
LOD_TAGGED inline std::string encode_npz(const std::vector<NpzValue>& values,
                                         NpzCompression compression = NpzCompression::STORED) {
  detail::ZipString archive;
  detail::NpzWriter(values).write(compression, archive);
  return archive.take();
}

/// Writes them to a file, which replaces the one at `path` once all of it is on the disk, as FileWriter of
/// <lod/io/file_writer.hpp> does: its access is kept, a symbolic link is replaced. Throws as above, and
/// std::system_error; the old file is then unchanged. Takes no memory for the values.
LOD_TAGGED inline void save_npz(const std::string& path, const std::vector<NpzValue>& values,
                                NpzCompression compression = NpzCompression::STORED) {
  const detail::NpzWriter writer(values);
  detail::ZipFile archive(path);
  writer.write(compression, archive);
  archive.commit();
}

/// An open `.npz`. Arrays are read when they are requested, one by one. Reading moves a position in the file: only one
/// thread at a time may use it.
///
/// Errors name the file, if there is one. A ParseError of an array also names the array, and counts its position from
/// the beginning of the unpacked array; the position of an error that is not in the bytes of one array is 0.
class NpzFile {
 public:
  static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

  /// Opens a file and reads the names of its arrays. Throws std::system_error if it cannot be read, ParseError for
  /// anything but an archive.
  ///
  /// Memory for an array is taken as its bytes arrive: stated sizes are not trusted. But DEFLATE packs a thousand equal
  /// bytes into one, and such an array may be legitimate: for archives from strangers, `max_bytes` is the most that one
  /// array may take; more is a ParseError. Limit the size of the archive too: libzip keeps its names in a hash table
  /// without a key, so that names chosen to collide take time quadratic in their number.
  LOD_TAGGED static NpzFile open(const std::string& path, std::uint64_t max_bytes = no_limit) {
    return detail::read_at(path, [&] { return NpzFile(detail::open_zip_file(path), max_bytes, path); });
  }
  /// The same from memory, which must outlive the NpzFile.
  LOD_TAGGED static NpzFile decode(std::string_view bytes, std::uint64_t max_bytes = no_limit) {
    return NpzFile(detail::open_zip(bytes), max_bytes, {});
  }
  /// @{
  /// A moved archive stays open; one that is moved to itself keeps its arrays.
  LOD_TAGGED NpzFile(NpzFile&&) noexcept = default;
  LOD_TAGGED NpzFile& operator=(NpzFile&& other) noexcept {
    if (this != &other) {  // names that are moved to themselves may be lost
      archive_ = std::move(other.archive_);
      max_bytes_ = other.max_bytes_;
      path_ = std::move(other.path_);
      variables_ = std::move(other.variables_);
      other_members_ = std::move(other.other_members_);
    }
    return *this;
  }
  LOD_TAGGED ~NpzFile() = default;
  /// @}

  /// The names of the variables, sorted.
  LOD_TAGGED std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, members] : variables_) all.push_back(name);
    return all;
  }
  /// The names of the members that are not arrays, since their names do not end in `.npy`: notes, folders. In archive
  /// order. Passing one to `describe` or `load` throws ParseError.
  LOD_TAGGED const std::vector<std::string>& other_members() const noexcept { return other_members_; }
  /// Whether there is a variable of this name.
  LOD_TAGGED bool contains(std::string_view name) const noexcept { return variables_.contains(name); }
  /// The description of a variable without its values: whether it is a tensor or row-sparse, its element type, shape
  /// and number of levels. Throws OutOfRange if there is none of this name, and ParseError.
  LOD_TAGGED VarDesc describe(std::string_view name) const {
    const auto& entry = variable(name);
    const std::string& found = entry.first;
    const Members& members = entry.second;
    return detail::read_at(path_, [&] {
      detail::ZipMember member(archive_.get(), members.values, found, max_bytes_, path_);
      const detail::NpyHeader header = detail::read_npy_header(member);
      TensorDesc tensor{header.data_type, {header.shape.begin(), header.shape.end()}};
      if (tensor.dims.empty()) tensor.dims = {1};
      if (!members.is_selected_rows) {
        return VarDesc::lod_tensor(found, std::move(tensor), static_cast<std::int32_t>(members.levels.size()));
      }
      tensor.dims[0] = height(found, members);
      return VarDesc::selected_rows(found, std::move(tensor));
    });
  }

  /// A variable as an X: LoDTensor<T> or AnyLoDTensor, SelectedRows<T> or AnySelectedRows. Throws OutOfRange if there
  /// is none of this name, ShapeMismatch if it is of the other kind or has elements of another type, and ParseError: as
  /// `decode_npy`; for an array that is in the archive twice; for bytes that cannot be unpacked, as encrypted ones, or
  /// do not match their checksum; for invalid offsets, or offsets that do not fit the number of rows; for ids beyond
  /// the height. Offsets, ids and the height may be of any integer type.
  template <class X>
  LOD_TAGGED X load(std::string_view name) const {
    const auto& entry = variable(name);
    const std::string& found = entry.first;
    [[maybe_unused]] const Members& members = entry.second;
    if constexpr (std::is_same_v<X, AnyLoDTensor>) {
      check_kind(found, members, false);
      return detail::read_at(path_, [&] { return tensor(found, members); });
    } else if constexpr (std::is_same_v<X, AnySelectedRows>) {
      check_kind(found, members, true);
      return detail::read_at(path_, [&] { return selected_rows(found, members); });
    } else if constexpr (requires { typename X::element_type; }) {
      auto any = load<AnyLoDTensor>(name);
      check_elements<typename X::element_type>(found, any.data_type());
      return std::move(any).template take<typename X::element_type>();
    } else {
      auto any = load<AnySelectedRows>(name);
      check_elements<typename X::value_type>(found, any.value().data_type());
      return std::move(any).template take<typename X::value_type>();
    }
  }

 private:
  using Members = detail::NpzMembers;

  /// `path` is empty if the archive is not in a file.
  LOD_TAGGED NpzFile(detail::Zip archive, std::uint64_t max_bytes, std::string path)
      : archive_(std::move(archive)), max_bytes_(max_bytes), path_(std::move(path)) {
    detail::ByName<std::uint64_t> arrays;
    std::set<std::string> twice;
    const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
    for (zip_uint64_t number = 0; number < static_cast<zip_uint64_t>(count); ++number) {
      const char* const name = zip_get_name(archive_.get(), number, ZIP_FL_ENC_GUESS);
      if (!name) detail::throw_zip_error(zip_get_error(archive_.get()), "npz", 0, path_);
      const std::string_view array(name), suffix = detail::npy_suffix;
      if (!array.ends_with(suffix)) {
        other_members_.emplace_back(array);
        continue;
      }
      const auto [place, first] = arrays.emplace(array.substr(0, array.size() - suffix.size()), number);
      if (!first) twice.insert(place->first);
    }
    variables_ = detail::npz_variables(arrays, twice);
  }

  LOD_TAGGED const detail::ByName<Members>::value_type& variable(std::string_view name) const {
    const auto found = variables_.find(name);
    if (found != variables_.end()) {
      const std::string& wrong = found->second.wrong;
      if (!wrong.empty()) throw ParseError(place() + wrong, 0);
      return *found;
    }
    if (std::find(other_members_.begin(), other_members_.end(), name) != other_members_.end()) {
      throw ParseError(detail::text({place(), "'", std::string(name), "': not the name of an .npy"}), 0);
    }
    constexpr std::size_t shown = 20;
    std::string others;
    std::size_t count = 0;
    for (const auto& [other, members] : variables_) {
      if (++count > shown) break;
      others += detail::text({count > 1 ? ", '" : "'", other, "'"});
    }
    if (count > shown) others += ", ...";
    throw OutOfRange(
        detail::text({place(), "there is no '", std::string(name), "', but ", count > 0 ? others : "nothing"}));
  }
  /// The beginning of errors that are not in the bytes.
  LOD_TAGGED std::string place() const { return path_.empty() ? "npz: " : detail::text({"'", path_, "': npz: "}); }
  template <class T>
  LOD_TAGGED void check_elements(const std::string& name, DataType found) const {
    if (!detail::is_element_type<T>(found)) {
      detail::check_element_type<T>(found, detail::text({place(), "'", name, "'"}).c_str());
    }
  }
  LOD_TAGGED void check_kind(const std::string& name, const Members& members, bool selected_rows) const {
    if (members.is_selected_rows == selected_rows) return;
    const char* const kinds[] = {"LOD_TENSOR", "SELECTED_ROWS"};
    throw ShapeMismatch(detail::text(
        {place(), "'", name, "': type: expected ", kinds[selected_rows], ", found ", kinds[!selected_rows]}));
  }

  LOD_TAGGED AnyLoDTensor array(const std::string& name, std::uint64_t number) const {
    detail::ZipMember member(archive_.get(), number, name, max_bytes_, path_);
    return detail::read_npy(member);
  }
  /// Offsets, ids, or the single number that is a height.
  LOD_TAGGED std::vector<std::int64_t> integers(const std::string& name, std::uint64_t number) const {
    const AnyLoDTensor numbers = array(name, number);
    std::vector<std::int64_t> all;
    const bool are_integers = numbers.visit([&](const auto& view) {
      using T = typename std::remove_cvref_t<decltype(view)>::value_type;
      if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) {
        return false;
      } else {
        for (const T value : view.values()) {
          constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
          if (std::cmp_greater(value, most)) detail::fail_npz(name, {value, ", expected ", most, " at most"});
          all.push_back(static_cast<std::int64_t>(value));
        }
        return view.row_shape().empty();
      }
    });
    if (!are_integers) {
      detail::fail_npz(name, {to_string(numbers.data_type()), " of shape ", to_string(numbers.shape()),
                              ", expected integers in one dimension"});
    }
    return all;
  }
  LOD_TAGGED std::int64_t height(const std::string& name, const Members& members) const {
    const auto numbers = integers(name + ".height", members.height);
    if (numbers.size() != 1) detail::fail_npz(name + ".height", {numbers.size(), " numbers, expected 1"});
    return numbers[0];
  }

  LOD_TAGGED AnyLoDTensor tensor(const std::string& name, const Members& members) const {
    std::vector<std::vector<std::int64_t>> offsets;
    offsets.reserve(members.levels.size());
    for (const std::uint64_t level : members.levels) {
      offsets.push_back(integers(detail::text({name, ".lod", offsets.size()}), level));
    }
    AnyLoDTensor values = array(name, members.values);
    if (offsets.empty()) return values;
    try {
      return values.with_lod(LoD::from_offsets(offsets));
    } catch (const std::invalid_argument& mismatch) {  // InvalidLoD, ShapeMismatch
      detail::fail_npz(name, {mismatch.what()});
    }
  }
  LOD_TAGGED AnySelectedRows selected_rows(const std::string& name, const Members& members) const {
    std::vector<std::int64_t> rows = integers(name + ".rows", members.rows);
    const std::int64_t height = this->height(name, members);
    AnyLoDTensor value = array(name, members.values);
    try {
      return AnySelectedRows(std::move(rows), height, std::move(value));
    } catch (const std::logic_error& mismatch) {  // ShapeMismatch, OutOfRange
      detail::fail_npz(name, {mismatch.what()});
    }
  }

  detail::Zip archive_;
  std::uint64_t max_bytes_;
  std::string path_;
  detail::ByName<Members> variables_;
  std::vector<std::string> other_members_;
};

}  // namespace lod::inline LOD_INTERFACE
