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
#include "frontends/cli/print/print_findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/invariant.h"
#include "ir/base/refusals.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

// CLI11 prints its help through std::cout; all other output goes through stdout.
bool flush_results() {
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  // A full disk may be noticed only by the flush. An earlier failed write may be noticed only by
  // ferror().
  return flushed && std::cout.good() && std::ferror(stdout) == 0;
}

int report_lost_results(int code) {
  say("{}\n", render(Diagnostic{Severity::error,
                                "cli.output",
                                "the results could not be written to stdout",
                                "check the disk or the program that reads them",
                                {}}));
  // An error code of the command says more than the lost output.
  return code == kExitFine ? kExitBadInput : code;
}

void report_as_json(const std::string& message, const std::string& reproducer) {
  const std::string with = reproducer.empty() ? "the command and its input" : reproducer;
  print_json(failure_json({{Severity::error,
                            "internal.error",
                            message,
                            fmt::format("report this moec bug with {}", with),
                            {}}}));
}

}  // namespace

void report_internal_errors(bool json) { set_up_internal_errors(json ? report_as_json : nullptr); }

int run_and_flush(int argc, const char* const* argv) {
  // Searched in the raw words: the handlers must exist before anything is parsed.
  const bool json = std::any_of(
      argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  // The message is made in advance, because no memory may be left when it is needed.
  end_without_memory({failure_text({refused_memory()}, json), json ? STDOUT_FILENO : STDERR_FILENO,
                      kExitBadInput});
  report_internal_errors(json);
  try {
    const int code = run_cli(argc, argv);
    return flush_results() ? code : report_lost_results(code);
  } catch (const std::system_error& error) {
    // fmt::print throws if a write to stdout fails. Any other std::system_error is a resource that
    // the system refused, e.g. a thread.
    if (std::ferror(stdout) != 0) return report_lost_results(kExitFine);
    return report_failure({refused_resource(error)}, json);
  } catch (const std::bad_alloc&) {
    return report_failure({refused_memory()}, json);
  }
}

}  // namespace moec
