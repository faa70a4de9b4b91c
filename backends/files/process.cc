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

[[noreturn]] void say_last_words() {
  static std::atomic_flag is_ending;
  while (is_ending.test_and_set()) ::pause();  // another thread ends the process
  const std::string& text = last_words.message;
  [[maybe_unused]] const ssize_t written = ::write(last_words.descriptor, text.data(), text.size());
  ::_exit(last_words.exit_code);
}

}  // namespace

void open_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    // open() takes the lowest free number, which is this one. Otherwise the first file of an export
    // would take it, and messages would be written into that file.
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) ::open("/dev/null", O_RDWR);
}

void set_up_process() {
  open_standard_descriptors();
  // A file that reaches its limit (ulimit -f) fails with an error then, instead of a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  return_freed_pieces();
}

void end_without_memory(LastWords words) {
  last_words = std::move(words);
  std::set_new_handler(say_last_words);
}

}  // namespace moec
