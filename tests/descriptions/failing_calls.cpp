// SPDX-License-Identifier: Apache-2.0
// Calls of the system in this program, which find these functions before those of the C library.
#include "support/failing_calls.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string_view>

namespace {

std::atomic<lod_test::FailingCalls*> all_failing[2] = {};

bool must_fail(std::string_view name) {
  for (const auto& failing : all_failing) {
    if (failing && failing.load()->fails(name)) return true;
  }
  return false;
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

namespace lod_test {

FailingCalls::FailingCalls(std::string_view name, int code, int skipped, int times)
    : name_(name), code_(code), skipped_(skipped), left_(times) {
  (all_failing[0] ? all_failing[1] : all_failing[0]) = this;
}
FailingCalls::~FailingCalls() { (all_failing[1] ? all_failing[1] : all_failing[0]) = nullptr; }

bool FailingCalls::fails(std::string_view name) {
  if (name != name_ || skipped_.fetch_sub(1) > 0 || left_.fetch_sub(1) <= 0) return false;
  ++count_;
  errno = code_;
  return true;
}

}  // namespace lod_test

extern "C" {

int openat(int folder, const char* path, int flags, ...) {
  ::mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    std::va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, ::mode_t);
    va_end(arguments);
  }
  static auto* const real = next<int(int, const char*, int, ...)>("openat");
  return must_fail("openat") ? -1 : real(folder, path, flags, mode);
}
int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  return must_fail("fsync") ? -1 : real(file);
}
int fstat(int file, struct stat* found) __THROW {
  return must_fail("fstat") ? -1 : ::fstatat(file, "", found, AT_EMPTY_PATH);  // older C libraries have no function
}
int stat(const char* path, struct stat* found) __THROW {
  return must_fail("stat") ? -1 : ::fstatat(AT_FDCWD, path, found, 0);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) __THROW {
  static auto* const real = next<int(int, const char*, int, const char*, int)>("linkat");
  return must_fail("linkat") ? -1 : real(from_folder, from, to_folder, to, flags);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) __THROW {
  static auto* const real = next<int(int, const char*, int, const char*)>("renameat");
  return must_fail("renameat") ? -1 : real(from_folder, from, to_folder, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) __THROW {
  static auto* const real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return must_fail("renameat2") ? -1 : real(from_folder, from, to_folder, to, flags);
}
int fchmod(int file, ::mode_t mode) __THROW {
  static auto* const real = next<int(int, ::mode_t)>("fchmod");
  return must_fail("fchmod") ? -1 : real(file, mode);
}
int close(int file) {
  static auto* const real = next<int(int)>("close");
  const int result = real(file);  // it is closed in any case
  return must_fail("close") ? -1 : result;
}
::ssize_t read(int file, void* to, size_t size) {
  static auto* const real = next<::ssize_t(int, void*, size_t)>("read");
  return must_fail("read") ? -1 : real(file, to, size);
}
::ssize_t pread(int file, void* to, size_t size, ::off_t offset) {
  static auto* const real = next<::ssize_t(int, void*, size_t, ::off_t)>("pread");
  return must_fail("pread") ? -1 : real(file, to, size, offset);
}
::ssize_t write(int file, const void* from, size_t size) {
  static auto* const real = next<::ssize_t(int, const void*, size_t)>("write");
  return must_fail("write") ? -1 : real(file, from, size);
}
void* mmap(void* at, size_t size, int protection, int flags, int file, ::off_t offset) __THROW {
  static auto* const real = next<void*(void*, size_t, int, int, int, ::off_t)>("mmap");
  return must_fail("mmap") ? MAP_FAILED : real(at, size, protection, flags, file, offset);
}
}
