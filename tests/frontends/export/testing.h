// Exports with export_model() for tests that interrupt exports.
#pragma once

#include <atomic>
#include <memory>

#include "backends/formats/format.h"
#include "backends/targets/find_target.h"
#include "frontends/export/export_model.h"
#include "tests/frontends/cli/command.h"

namespace moec {

// Options for a golden case with the token widths 1 and 8. Core ML packages contain both widths as
// functions.
inline ExportOptions export_options_of(const std::string& source, const std::string& target,
                                       const std::string& out, int jobs = 1) {
  ExportOptions options;
  options.source.path = source;
  options.output.folder = out;
  options.compile.passes.target = find_target(target).value();
  options.compile.passes.attention = options.compile.passes.target.attention;
  options.compile.build.dtype = options.compile.passes.target.dtype;
  options.compile.build.tokens = {1, 8};
  if (options.compile.passes.target.format == ShardFormat::tflite)
    options.compile.build.layout = Layout::rows;
  options.compile.build.cache =
      options.compile.passes.target.has_state ? CacheForm::blend : CacheForm::append;
  options.compile.build.head_slices = 0;
  if (options.compile.passes.target.format == ShardFormat::coreml)
    options.compile.coreml.packaging = WidthPackaging::functions;
  options.resources.jobs = jobs;
  return options;
}

// A stop callback that counts its calls and returns true from the n-th call onward.
struct StopAfter {
  explicit StopAfter(size_t n) : calls(std::make_shared<std::atomic<size_t>>(0)), limit(n) {}
  bool operator()() const { return ++*calls >= limit; }

  std::shared_ptr<std::atomic<size_t>> calls;
  size_t limit;
};

inline Result<ExportSummary> export_until(ExportOptions options, size_t n) {
  options.callbacks.stop = StopAfter(n);
  return export_model(options);
}

// Runs an uninterrupted export and returns the number of polls of its stop callback.
inline size_t count_polls(ExportOptions options) {
  const StopAfter never(SIZE_MAX);
  options.callbacks.stop = never;
  EXPECT_TRUE(export_model(options));
  return *never.calls;
}

}  // namespace moec
