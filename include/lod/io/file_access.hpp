// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Who may read and write a file, and how that is transferred to the file that replaces it.
#pragma once

#include <lod/core/target.hpp>
#include <lod/io/system_file.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#ifdef __linux__
#  include <sys/xattr.h>
#endif

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Owner, group, permissions and access control list (POSIX.1e, as Linux has them) of a file.
class FileAccess {
 public:
  /// The access of a file, given what fstat says of it. It may have been opened for lookup only (O_PATH); its folder
  /// and its name there, which may be a link to it, are for systems without /proc.
  FileAccess(int file, const struct ::stat& found, int folder, const std::string& name)
      : owner_(found.st_uid), group_(found.st_gid), permissions_(found.st_mode & 0777U) {
    read_list(file, found, folder, name);
  }

  bool operator==(const FileAccess&) const = default;

  /// The permissions with which to create a file that will get this access: only its owner may use it.
  ::mode_t private_permissions() const noexcept { return permissions_ & 0600U; }

  /// Gives a new file the group, the permissions and the list, as far as the system allows, such that nobody may do
  /// more with it than with the old file. If the group cannot be kept, group and others get what both had; if the list
  /// cannot, what everybody it names had. Bits beyond 0777 are not kept. The file must have been created with
  /// `private_permissions()`, or have no name yet. Throws std::system_error.
  void give_to(int file, const std::string& path) const {
    struct ::stat created {};
    if (!look_up(file, created)) throw_file_error("look up", path);
    const auto no_owner = static_cast<::uid_t>(-1);
    const bool has_group = created.st_gid == group_ || give_away(file, no_owner, group_);
    remove_list(file, path);
    if (!list_.empty() && give_list(file, has_group)) return;

    ::mode_t permissions = without_list();
    if (!has_group) {
      const ::mode_t both = permissions >> 3 & permissions & 7U;
      permissions = (permissions & 0700U) | both << 3 | both;
    }
    // If all files have the same permissions, the file system does not let them be changed, and they need not be.
    if (!look_up(file, created)) throw_file_error("look up", path);
    if ((created.st_mode & 0777U) == permissions) return;
    if (!set_permissions(file, permissions)) throw_file_error("give the old permissions to", path);
  }
  /// Also gives it the owner, if that is allowed. It may be impossible to change it afterwards.
  void give_owner(int file) const noexcept {
    struct ::stat created {};
    const auto no_group = static_cast<::gid_t>(-1);
    if (look_up(file, created) && created.st_uid != owner_ && !give_away(file, owner_, no_group)) {
      return;  // it stays the writer's, the only one whom its owner's permissions serve
    }
  }

 private:
  // An access control list as the system returns it: a 4-byte version, and entries. Numbers are little-endian.
  enum Tag : std::uint16_t { OWNER = 1, USER = 2, GROUP = 4, NAMED_GROUP = 8, MASK = 16, OTHERS = 32 };
  struct Entry {
    std::uint16_t tag;
    std::uint16_t permissions;
    std::uint32_t id;
    bool operator==(const Entry&) const = default;
  };

  static bool give_away(int file, ::uid_t owner, ::gid_t group) noexcept {
    return uninterrupted([&] { return ::fchown(file, owner, group); }) == 0;
  }
  static bool set_permissions(int file, ::mode_t permissions) noexcept {
    return uninterrupted([&] { return ::fchmod(file, permissions); }) == 0;
  }

#ifdef __linux__
  static constexpr const char* attribute = "system.posix_acl_access";
  static constexpr std::uint32_t list_version = 2;

  void read_list(int file, const struct ::stat& found, int folder, const std::string& name) {
    // A file that may not be read has a list too; fgetxattr requires it to be open for reading.
    const std::string path = text({"/proc/self/fd/", file});
    const auto by_path = [&](void* to, std::size_t size) {
      return uninterrupted([&] { return ::getxattr(path.c_str(), attribute, to, size); });
    };
    if (read_list(by_path)) return;
    const FileDescriptor readable = open_at(folder, name.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct ::stat same {};
    const bool is_same =
        readable && look_up(readable.get(), same) && same.st_dev == found.st_dev && same.st_ino == found.st_ino;
    const auto by_file = [&](void* to, std::size_t size) {
      return uninterrupted([&] { return ::fgetxattr(readable.get(), attribute, to, size); });
    };
    if (is_same && read_list(by_file)) return;
    permissions_ &= 0700U;  // unknown whom the list names, and for whom the group's bits are
  }
  /// Reads the list; returns whether it is known now.
  template <class Get>
  bool read_list(const Get& get) {
    std::vector<char> bytes;
    ::ssize_t size = 0;
    do {
      bytes.resize(std::max<std::size_t>(2 * bytes.size(), 1024));
      size = get(bytes.data(), bytes.size());
    } while (size < 0 && errno == ERANGE && bytes.size() < (std::size_t{1} << 20));
    if (size < 0) return errno == ENODATA || errno == ENOTSUP;
    std::uint32_t version = 0;
    if (size < static_cast<::ssize_t>(sizeof(version))) return false;
    std::memcpy(&version, bytes.data(), sizeof(version));
    if (version != list_version) return false;
    list_.resize((static_cast<std::size_t>(size) - sizeof(version)) / sizeof(Entry));
    std::memcpy(list_.data(), bytes.data() + sizeof(version), list_.size() * sizeof(Entry));
    return true;
  }
  /// Removes what a new file inherits from the default list of its folder.
  static void remove_list(int file, const std::string& path) {
    if (uninterrupted([&] { return ::fgetxattr(file, attribute, nullptr, 0); }) <= 0) return;
    // In the meantime those whom the list names may do nothing, nor may the group afterwards.
    if (!set_permissions(file, 0600) || uninterrupted([&] { return ::fremovexattr(file, attribute); }) != 0) {
      throw_file_error("take the folder's access control list from", path);
    }
  }
  bool give_list(int file, bool has_group) const {
    std::vector<Entry> entries = list_;
    if (!has_group) {
      const ::mode_t group = permissions_of(GROUP) & mask();
      for (Entry& entry : entries) {
        if (entry.tag == GROUP) entry.permissions = 0;
        if (entry.tag == OTHERS) entry.permissions = static_cast<std::uint16_t>(entry.permissions & group);
      }
    }
    std::vector<char> bytes(sizeof(list_version) + entries.size() * sizeof(Entry));
    std::memcpy(bytes.data(), &list_version, sizeof(list_version));
    std::memcpy(bytes.data() + sizeof(list_version), entries.data(), entries.size() * sizeof(Entry));
    return uninterrupted([&] { return ::fsetxattr(file, attribute, bytes.data(), bytes.size(), 0); }) == 0;
  }
#else
  void read_list(int, const struct ::stat&, int, const std::string&) noexcept {}
  static void remove_list(int, const std::string&) noexcept {}
  static bool give_list(int, bool) noexcept { return false; }
#endif

  ::mode_t permissions_of(Tag tag) const noexcept {
    const auto entry = std::find_if(list_.begin(), list_.end(), [tag](const Entry& known) { return known.tag == tag; });
    return entry == list_.end() ? ::mode_t{7} : entry->permissions;
  }
  ::mode_t mask() const noexcept { return permissions_of(MASK); }

  /// The permissions for a file that has no list: its own if it had none; if it had one, such that anyone it names gets
  /// no more access as a member of the group, or of the others, than the list gave.
  ::mode_t without_list() const noexcept {
    if (list_.empty()) return permissions_;
    ::mode_t group = permissions_of(GROUP) & mask(), others = permissions_of(OTHERS);
    for (const Entry& entry : list_) {
      const ::mode_t allowed = entry.permissions & mask();
      if (entry.tag == USER) group &= allowed;
      if (entry.tag == USER || entry.tag == NAMED_GROUP) others &= allowed;
    }
    return (permissions_ & 0700U) | group << 3 | others;
  }

  ::uid_t owner_;
  ::gid_t group_;
  ::mode_t permissions_;
  std::vector<Entry> list_;  // empty if the permissions say everything
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
