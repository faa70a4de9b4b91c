#include "frontends/cli/print/print_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "frontends/cli/print/findings.h"
#include "ir/base/byte_text.h"
#include "ir/base/json_output.h"

namespace moec {
namespace {

nlohmann::ordered_json summary_json(const std::string& out, const ExportSummary& summary,
                                    double seconds) {
  const Manifest& manifest = summary.manifest;
  return {{"ok", true},
          {"out", out},
          {"family", manifest.model.family},
          {"shards", manifest.shards.size()},
          {"bytes_read", summary.bytes_read},
          {"weight_bytes", summary.weight_bytes},
          {"file_bytes", summary.file_bytes},
          {"parts_kept", summary.parts_kept},
          {"seconds", seconds},
          {"exact_routing", manifest.build.exact},
          {"diagnostics", to_json(summary.notes)}};
}

void print_summary(const std::string& out, const ExportSummary& summary, double seconds) {
  const Manifest& manifest = summary.manifest;
  fmt::print("exported {} as {} shards to {}: {} of weights in {} of files, {:.1f} s ({}/s)\n",
             manifest.model.family, manifest.shards.size(), out,
             binary_bytes(static_cast<double>(summary.weight_bytes)),
             binary_bytes(static_cast<double>(summary.file_bytes)), seconds,
             binary_bytes(static_cast<double>(summary.file_bytes) / std::max(seconds, 1e-3)));
  if (summary.parts_kept > 0)
    fmt::print("{} tables and shards were kept from an earlier run\n", summary.parts_kept);
  if (manifest.build.seeded) fmt::print("the weights are seeded noise (--seeded-weights)\n");
  if (manifest.model.left_out_layers > 0)
    fmt::print("a trial: the last {} layers are left out (--layers)\n",
               manifest.model.left_out_layers);
  if (!manifest.build.exact)
    fmt::print("routing form {} is INEXACT: every expert gets a weight, none is skipped\n",
               manifest.build.routing);
  fmt::print("next: moec check {}\n", out);
}

uint64_t bytes_read(std::span<const ExportSummary> summaries) {
  uint64_t bytes = 0;
  for (const ExportSummary& summary : summaries) bytes += summary.bytes_read;
  return bytes;
}

}  // namespace

// Prints an object for one target; for several a list, with the bytes that were read for all.
void print_export_json(const FinishedExport& finished) {
  const auto& [out, targets, summaries, seconds] = finished;
  auto list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < targets.size(); ++i)
    list.push_back(summary_json(targets[i].output.folder, summaries[i], seconds));
  if (targets.size() == 1) {
    fmt::print("{}\n", json_text(list.front()));
    return;
  }
  for (size_t i = 0; i < targets.size(); ++i)
    list[i]["target"] = targets[i].compile.passes.target.name;
  const nlohmann::ordered_json whole = {{"ok", true},
                                        {"out", out},
                                        {"bytes_read", bytes_read(summaries)},
                                        {"seconds", seconds},
                                        {"targets", list}};
  fmt::print("{}\n", json_text(whole));
}

void print_export(const FinishedExport& finished, bool quiet) {
  const auto& [out, targets, summaries, seconds] = finished;
  for (size_t i = 0; i < targets.size(); ++i) {
    print_notes(summaries[i].notes);
    if (!quiet) print_summary(targets[i].output.folder, summaries[i], seconds);
  }
  if (!quiet && targets.size() > 1)
    fmt::print("{} of the checkpoint were read for {} targets\n",
               binary_bytes(static_cast<double>(bytes_read(summaries))), targets.size());
}

}  // namespace moec
