// Exports through export_model(), for tests that stop them half way.
#pragma once

#include <atomic>
#include <memory>

#include "backends/targets/find_target.h"
#include "frontends/export/export_model.h"
#include "frontends/formats/format.h"
#include "tests/frontends/cli/command.h"

namespace moec {

// Widths 1 and 8 of a golden case; Core ML packages hold both as functions.
inline ExportOptions export_options_of(const std::string& source, const std::string& target,
                                       const std::string& out, int jobs = 1) {
  ExportOptions options;
  options.source = source;
  options.out = out;
  options.passes.target = find_target(target).value();
  options.passes.attention = options.passes.target.attention;
  options.build.dtype = options.passes.target.dtype;
  options.build.tokens = {1, 8};
  options.build.cache = options.passes.target.has_state ? CacheForm::blend : CacheForm::append;
  options.build.head_slices = 0;
  if (format_of(options.passes.target.format).has(FormatOption::width_packaging))
    options.coreml.packaging = WidthPackaging::functions;
  options.jobs = jobs;
  return options;
}

// Says stop from the n-th time on that it is asked, and counts how often that was.
struct StopAfter {
  explicit StopAfter(size_t n) : calls(std::make_shared<std::atomic<size_t>>(0)), limit(n) {}
  bool operator()() const { return ++*calls >= limit; }

  std::shared_ptr<std::atomic<size_t>> calls;
  size_t limit;
};

inline Result<ExportSummary> export_until(ExportOptions options, size_t n) {
  options.stop = StopAfter(n);
  return export_model(options);
}

// How often an undisturbed export asks whether to stop.
inline size_t count_stops(ExportOptions options) {
  const StopAfter never(SIZE_MAX);
  options.stop = never;
  EXPECT_TRUE(export_model(options));
  return *never.calls;
}

}  // namespace moec
