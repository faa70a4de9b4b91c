#include "frontends/cli/standard_streams.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <system_error>

#include "frontends/cli/cli.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"

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

int report_refused(const std::system_error& error) {
  say("{}\n", render(Diagnostic{Severity::error,
                                "cli.system",
                                fmt::format("the system refused a resource: {}", error.what()),
                                "raise the limits of processes and memory, or use fewer --jobs",
                                {}}));
  return kExitBadInput;
}

}  // namespace

void open_standard_descriptors() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor)
    // open() takes the lowest free number, which is this one. Otherwise the first file of an export
    // would take it, and messages would be written into that file.
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) ::open("/dev/null", O_RDWR);
}

int run_and_flush(int argc, const char* const* argv) {
  try {
    const int code = run_cli(argc, argv);
    return flush_results() ? code : report_lost_results(code);
  } catch (const std::system_error& error) {
    // fmt::print throws where stdout takes no more. Anything else is a resource that the system
    // refused, a thread for example.
    return std::ferror(stdout) != 0 ? report_lost_results(kExitFine) : report_refused(error);
  }
}

}  // namespace moec
