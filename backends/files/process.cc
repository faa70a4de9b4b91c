#include "backends/files/process.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <new>
#include <utility>

#include "ir/base/process_memory.h"

namespace moec {
namespace {

LastWords last_words;

// Runs as the new-handler, so it must not allocate: the message was allocated in advance, and
// _exit() runs no destructors.
[[noreturn]] void say_last_words() {
  static std::atomic_flag is_ending;
  while (is_ending.test_and_set()) ::pause();  // another thread is exiting
  const std::string& text = last_words.message;
  [[maybe_unused]] const ssize_t written = ::write(last_words.descriptor, text.data(), text.size());
  ::_exit(last_words.exit_code);
}

}  // namespace

void open_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    // open() returns the lowest free number, which is `descriptor`.
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) ::open("/dev/null", O_RDWR);
}

void set_up_process() {
  open_standard_descriptors();
  // Writes beyond the limit (ulimit -f) then fail with EFBIG instead of a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  return_freed_pieces();
}

void end_without_memory(LastWords words) {
  last_words = std::move(words);
  // Set after `last_words`: another thread may fail to allocate as soon as the handler is set.
  std::set_new_handler(say_last_words);
}

}  // namespace moec
