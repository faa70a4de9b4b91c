#include "frontends/cli/print/print_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

nlohmann::ordered_json summary_json(const std::string& out, const ExportSummary& summary,
                                    double seconds) {
  const Manifest& manifest = summary.manifest;
  return {{"out", out},
          {"family", manifest.model.family},
          {"shards", manifest.shards.size()},
          {"bytes_read", summary.bytes_read},
          {"weight_bytes", summary.weight_bytes},
          {"file_bytes", summary.file_bytes},
          {"parts_kept", summary.parts_kept},
          {"seconds", seconds},
          {"exact_routing", manifest.build.exact}};
}

void print_summary(const std::string& out, const ExportSummary& summary, double seconds) {
  const Manifest& manifest = summary.manifest;
  print_out("exported {} as {} shards to {}: {} of weights in {} of files, {:.1f} s ({}/s)\n",
            manifest.model.family, manifest.shards.size(), out,
            binary_bytes(static_cast<double>(summary.weight_bytes)),
            binary_bytes(static_cast<double>(summary.file_bytes)), seconds,
            binary_bytes(static_cast<double>(summary.file_bytes) / std::max(seconds, 1e-3)));
  if (summary.parts_kept > 0)
    print_out("{} tables and shards were kept from an earlier run\n", summary.parts_kept);
  if (manifest.build.seeded) print_out("the weights are seeded noise (--seeded-weights)\n");
  if (manifest.model.left_out_layers > 0)
    print_out("a trial: the last {} layers are left out (--layers)\n",
              manifest.model.left_out_layers);
  if (!manifest.build.exact)
    print_out("routing form {} is INEXACT: every expert gets a weight, none is skipped\n",
              manifest.build.routing);
  print_out("next: moec check {}\n", out);
}

uint64_t bytes_read(std::span<const ExportSummary> summaries) {
  uint64_t bytes = 0;
  for (const ExportSummary& summary : summaries) bytes += summary.bytes_read;
  return bytes;
}

// The notes of all targets.
Diagnostics all_notes(std::span<const ExportSummary> summaries) {
  Diagnostics notes;
  for (const ExportSummary& summary : summaries)
    notes.insert(notes.end(), summary.notes.begin(), summary.notes.end());
  return notes;
}

// One of several targets: an object like the report of a single one.
nlohmann::ordered_json target_json(const ExportOptions& target, const ExportSummary& summary,
                                   double seconds) {
  nlohmann::ordered_json json = {{"ok", true}};
  json.update(summary_json(target.output.folder, summary, seconds));
  json["diagnostics"] = to_json(summary.notes);
  json["target"] = target.compile.passes.target.name;
  return json;
}

}  // namespace

// Prints an object for one target; for several a list, with the bytes that were read for all.
void print_export_json(const FinishedExport& finished) {
  const auto& [out, targets, summaries, seconds] = finished;
  if (targets.size() == 1)
    return print_json(true, summary_json(targets[0].output.folder, summaries[0], seconds),
                      summaries[0].notes);
  auto list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < targets.size(); ++i)
    list.push_back(target_json(targets[i], summaries[i], seconds));
  const nlohmann::ordered_json whole = {
      {"out", out}, {"bytes_read", bytes_read(summaries)}, {"seconds", seconds}, {"targets", list}};
  print_json(true, whole, all_notes(summaries));
}

void print_export(const FinishedExport& finished, bool quiet) {
  const auto& [out, targets, summaries, seconds] = finished;
  for (size_t i = 0; i < targets.size(); ++i) {
    print_notes(summaries[i].notes);
    if (!quiet) print_summary(targets[i].output.folder, summaries[i], seconds);
  }
  if (!quiet && targets.size() > 1)
    print_out("{} of the checkpoint were read for {} targets\n",
              binary_bytes(static_cast<double>(bytes_read(summaries))), targets.size());
}

}  // namespace moec
