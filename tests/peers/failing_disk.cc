// Simulates a failing disk through LD_PRELOAD. FAIL_CALL is the kind of call: read, write, sync,
// sync_folder, open, unlink, unlinkat, link, or thread (the start of any thread). From call number
// FAIL_AFTER onward, such calls on files whose path contains FAIL_PATH fail with errno FAIL_ERRNO
// or are delayed by FAIL_DELAY_MS. Writes the process's peak memory to the file FAIL_PEAK.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

long number(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atol(text) : otherwise;
}

// Returns the errno that the call must fail with, or 0.
int failure(const char* call, const char* path) {
  static std::atomic<long> seen{0};
  const char* failing_call = std::getenv("FAIL_CALL");
  const char* part = std::getenv("FAIL_PATH");
  if (!failing_call || std::strcmp(call, failing_call) != 0) return 0;
  if (part && !std::strstr(path, part)) return 0;
  usleep(static_cast<useconds_t>(number("FAIL_DELAY_MS", 0) * 1000));
  if (++seen < number("FAIL_AFTER", 1)) return 0;
  return static_cast<int>(number("FAIL_ERRNO", 0));
}

int failure_of(const char* call, int descriptor) {
  char link[64], path[4096] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  if (readlink(link, path, sizeof path - 1) < 0) return 0;
  return failure(call, path);
}

bool is_folder(int descriptor) {
  struct stat64 info {};
  return fstat64(descriptor, &info) == 0 && S_ISDIR(info.st_mode);
}

template <class Call>
Call* next(const char* name) {
  return reinterpret_cast<Call*>(dlsym(RTLD_NEXT, name));
}

ssize_t read_at(int descriptor, void* to, size_t bytes, off_t offset) {
  static auto* const real = next<ssize_t(int, void*, size_t, off_t)>("pread64");
  if (const int error = failure_of("read", descriptor)) return errno = error, -1;
  return real(descriptor, to, bytes, offset);
}

ssize_t write_at(int descriptor, const void* from, size_t bytes, off_t offset) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite64");
  if (const int error = failure_of("write", descriptor)) return errno = error, -1;
  return real(descriptor, from, bytes, offset);
}

int open_path(const char* path, int flags, mode_t mode) {
  static auto* const real = next<int(const char*, int, ...)>("open64");
  if (const int error = failure("open", path)) return errno = error, -1;
  return real(path, flags, mode);
}

int open_path_at(int folder, const char* name, int flags, mode_t mode) {
  static auto* const real = next<int(int, const char*, int, ...)>("openat64");
  char link[64], path[4096] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  const ssize_t length = name[0] == '/' ? 0 : readlink(link, path, sizeof path - 1);
  std::snprintf(path + (length < 0 ? 0 : length), sizeof path - (length < 0 ? 0 : length), "/%s",
                name);
  if (const int error = failure("open", path)) return errno = error, -1;
  return real(folder, name, flags, mode);
}

// Writes the process's peak memory in KiB to the file FAIL_PEAK.
__attribute__((destructor)) void tell_peak() {
  const char* to = std::getenv("FAIL_PEAK");
  std::FILE* status = to ? std::fopen("/proc/self/status", "r") : nullptr;
  if (!status) return;
  char line[256];
  long peak = 0;
  while (std::fgets(line, sizeof line, status)) std::sscanf(line, "VmHWM: %ld", &peak);
  std::fclose(status);
  if (std::FILE* file = std::fopen(to, "w")) {
    std::fprintf(file, "%ld\n", peak);
    std::fclose(file);
  }
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

ssize_t pread(int descriptor, void* to, size_t bytes, off_t offset) {
  return read_at(descriptor, to, bytes, offset);
}
ssize_t pread64(int descriptor, void* to, size_t bytes, off_t offset) {
  return read_at(descriptor, to, bytes, offset);
}
// The name of pread under _FORTIFY_SOURCE.
ssize_t __pread_chk(int descriptor, void* to, size_t bytes, off_t offset, size_t) {
  return read_at(descriptor, to, bytes, offset);
}
ssize_t __pread64_chk(int descriptor, void* to, size_t bytes, off_t offset, size_t) {
  return read_at(descriptor, to, bytes, offset);
}

ssize_t write(int descriptor, const void* from, size_t bytes) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  if (const int error = failure_of("write", descriptor)) return errno = error, -1;
  return real(descriptor, from, bytes);
}

ssize_t pwrite(int descriptor, const void* from, size_t bytes, off_t offset) {
  return write_at(descriptor, from, bytes, offset);
}
ssize_t pwrite64(int descriptor, const void* from, size_t bytes, off_t offset) {
  return write_at(descriptor, from, bytes, offset);
}

// Does not wait for the disk, which takes longer than most exports.
int fsync(int descriptor) {
  const char* call = is_folder(descriptor) ? "sync_folder" : "sync";
  if (const int error = failure_of(call, descriptor)) return errno = error, -1;
  return fcntl(descriptor, F_GETFD) < 0 ? -1 : 0;
}

int unlink(const char* path) {
  static auto* const real = next<int(const char*)>("unlink");
  if (const int error = failure("unlink", path)) return errno = error, -1;
  return real(path);
}

int unlinkat(int folder, const char* path, int flags) {
  static auto* const real = next<int(int, const char*, int)>("unlinkat");
  if (const int error = failure("unlinkat", path)) return errno = error, -1;
  return real(folder, path, flags);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  static auto* const real = next<int(int, const char*, int, const char*, int)>("linkat");
  if (const int error = failure("link", from)) return errno = error, -1;
  return real(from_folder, from, to_folder, to, flags);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_path(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_path(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_path_at(folder, path, flags, mode);
}

int openat64(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_path_at(folder, path, flags, mode);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*),
                   void* with) {
  static auto* const real =
      next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  if (const int error = failure("thread", "")) return error;
  return real(thread, attributes, work, with);
}

}  // extern "C"
