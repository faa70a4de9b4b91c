#include "frontends/cli/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "frontends/cli/cli.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/invariant.h"
#include "ir/base/process_memory.h"
#include "ir/base/refusals.h"

namespace moec {
namespace {

// The command line library prints its help through std::cout, everything else through stdout.
bool flush_results() {
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  return flushed && std::cout.good() && std::ferror(stdout) == 0;
}

int report_lost_results(int code) {
  say("{}\n", render(Diagnostic{Severity::error,
                                "cli.output",
                                "the results could not be written to stdout",
                                "check the disk or the program that reads them",
                                {}}));
  return code == kExitFine ? kExitBadInput : code;
}

// What is said of memory that is refused, made while there is some, and where it goes.
struct LastWords {
  std::string text;
  int descriptor = STDERR_FILENO;
};
LastWords last_words;

// Ends the process at the first memory that is refused, in whatever thread. Nothing is unwound: the
// libraries of the formats crash when they are. An export that ends so can be resumed.
[[noreturn]] void end_without_memory() {
  static std::atomic_flag is_ending;
  while (is_ending.test_and_set()) ::pause();  // another thread ends the process
  const std::string& text = last_words.text;
  [[maybe_unused]] const ssize_t written = ::write(last_words.descriptor, text.data(), text.size());
  ::_exit(kExitBadInput);
}

void prepare_last_words(bool json) {
  last_words = {failure_text({refused_memory()}, json), json ? STDOUT_FILENO : STDERR_FILENO};
  std::set_new_handler(end_without_memory);
}

void report_as_json(const std::string& message, const std::string& reproducer) {
  const std::string with = reproducer.empty() ? "the command and its input" : reproducer;
  print_json(false, nlohmann::ordered_json::object(),
             {{Severity::error,
               "internal.error",
               message,
               fmt::format("this is an error of moec: report it with {}", with),
               {}}});
}

}  // namespace

void report_internal_errors(bool json) { set_up_internal_errors(json ? report_as_json : nullptr); }

void set_up_process() {
  open_standard_descriptors();
  // A file that reaches its limit (ulimit -f) fails with an error then, instead of a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  return_freed_pieces();
}

void open_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    // open() takes the lowest free number, which is this one. Otherwise the first file of an export
    // would take it, and messages would be written into that file.
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) ::open("/dev/null", O_RDWR);
}

int run_and_flush(int argc, const char* const* argv) {
  const bool json = std::any_of(
      argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  prepare_last_words(json);
  report_internal_errors(json);
  try {
    const int code = run_cli(argc, argv);
    return flush_results() ? code : report_lost_results(code);
  } catch (const std::system_error& error) {
    // fmt::print throws where stdout takes no more. Anything else is a resource that the system
    // refused, a thread for example.
    if (std::ferror(stdout) != 0) return report_lost_results(kExitFine);
    return report_failure({refused_resource(error)}, json);
  } catch (const std::bad_alloc&) {
    return report_failure({refused_memory()}, json);
  }
}

}  // namespace moec
