#include "frontends/export/export_json.h"

#include <nlohmann/json.hpp>

#include "ir/base/report_json.h"

namespace moec {
namespace {

using nlohmann::ordered_json;

ordered_json summary_json(const std::string& out, const ExportSummary& summary, double seconds) {
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

// Concatenates the notes of all targets.
Diagnostics all_notes(std::span<const ExportSummary> summaries) {
  Diagnostics notes;
  for (const ExportSummary& summary : summaries)
    notes.insert(notes.end(), summary.notes.begin(), summary.notes.end());
  return notes;
}

// Report of one of several targets: an object like the report of a single target.
ordered_json target_json(const ExportOptions& target, const ExportSummary& summary,
                         double seconds) {
  ordered_json json = {{"ok", true}};
  json.update(summary_json(target.output.folder, summary, seconds));
  json["diagnostics"] = to_json(summary.notes);
  json["target"] = target.compile.passes.target.name;
  return json;
}

}  // namespace

// A shared view counts only for the target that reads it, so the sum does not count it twice.
uint64_t bytes_read(std::span<const ExportSummary> summaries) {
  uint64_t bytes = 0;
  for (const ExportSummary& summary : summaries) bytes += summary.bytes_read;
  return bytes;
}

ordered_json export_json(const FinishedExport& finished) {
  const auto& [out, targets, summaries, seconds] = finished;
  if (targets.size() == 1) {
    ordered_json summary = summary_json(targets[0].output.folder, summaries[0], seconds);
    if (const auto& share = targets[0].output.share)
      summary["part"] = {{"index", share->index}, {"count", share->count}};
    return report_json(true, summary, summaries[0].notes);
  }
  auto list = ordered_json::array();
  for (size_t i = 0; i < targets.size(); ++i)
    list.push_back(target_json(targets[i], summaries[i], seconds));
  const ordered_json whole = {
      {"out", out}, {"bytes_read", bytes_read(summaries)}, {"seconds", seconds}, {"targets", list}};
  return report_json(true, whole, all_notes(summaries));
}

}  // namespace moec
