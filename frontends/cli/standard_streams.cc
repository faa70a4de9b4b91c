#include "frontends/cli/standard_streams.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "backends/files/process.h"
#include "frontends/cli/cli.h"
#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/invariant.h"
#include "ir/base/refusals.h"
#include "ir/base/report_json.h"

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

void report_as_json(const std::string& message, const std::string& reproducer) {
  const std::string with = reproducer.empty() ? "the command and its input" : reproducer;
  print_json(failure_json({{Severity::error,
                            "internal.error",
                            message,
                            fmt::format("this is an error of moec: report it with {}", with),
                            {}}}));
}

}  // namespace

void report_internal_errors(bool json) { set_up_internal_errors(json ? report_as_json : nullptr); }

int run_and_flush(int argc, const char* const* argv) {
  const bool json = std::any_of(
      argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  end_without_memory({failure_text({refused_memory()}, json), json ? STDOUT_FILENO : STDERR_FILENO,
                      kExitBadInput});
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
