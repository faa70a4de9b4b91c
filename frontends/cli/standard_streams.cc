#include "frontends/cli/standard_streams.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "frontends/cli/cli.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "frontends/process/process.h"
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

}  // namespace

int run_and_flush(int argc, const char* const* argv) {
  const bool json = std::any_of(
      argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  end_without_memory({failure_text({refused_memory()}, json), json ? STDOUT_FILENO : STDERR_FILENO,
                      kExitBadInput});
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
