#include "frontends/jobs/upcycle/upcycle_model.h"

#include <fmt/format.h>

#include "backends/output/carried_files.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/jobs/upcycle/other_weights.h"
#include "frontends/jobs/upcycle/result_folder.h"
#include "frontends/sources/open_source.h"
#include "ir/base/output_apart.h"

namespace moec {
namespace {

Status check_apart(const UpcycleOptions& options) {
  MOEC_TRY(check_apart_from(options.source, options.output.folder, "--out"));
  for (const std::string& folder : options.sources.experts)
    MOEC_TRY(check_apart_from(folder, options.output.folder, "--out"));
  for (const std::string& folder : options.sources.adapters)
    MOEC_TRY(check_apart_from(folder, options.output.folder, "--out"));
  return check_carried_files(source_folder(options.source));
}

// What was written is a checkpoint of the architecture, with each tensor in its shape.
Status check_reads_back(const UpcycleOptions& options, const std::string& folder) {
  const auto made = open_source(folder, result_family(options), equal_tensors);
  return made ? Status() : fail(made.error());
}

void warn_of_nonfinite(uint64_t values, UpcycleReport& report) {
  if (values == 0) return;
  report.plan.notes.push_back(
      {Severity::warning,
       "upcycle.nonfinite_weights",
       fmt::format("{} weights are NaN or infinite, as in the source", values),
       "download the source again",
       {.file = report.out}});
}

Status write(const UpcycleOptions& options, const std::vector<SafetensorsPart>& parts,
             UpcycleReport& report) {
  uint64_t bytes = report.plan.config_text.size();
  for (const SafetensorsPart& part : parts) bytes += part.file_bytes();
  MOEC_TRY(check_apart(options));
  MOEC_ASSIGN(ResultFolder folder,
              ResultFolder::begin(options.output.folder, bytes, options.output.force));
  MOEC_ASSIGN(WrittenCheckpoint written,
              write_checkpoint(options, report.plan, parts, folder.path()));
  report.files = std::move(written.files);
  warn_of_nonfinite(written.nonfinite, report);
  MOEC_TRY(check_reads_back(options, folder.path()));
  return std::move(folder).publish();
}

}  // namespace

Result<UpcycleReport> upcycle_model(const UpcycleOptions& options) {
  UpcycleReport report{options.source, options.output.folder};
  report.max_error = options.verify.max_error;
  report.dry_run = options.dry_run;
  MOEC_ASSIGN(report.plan,
              options.sources.multiply > 0 ? plan_multiplied(options) : plan_upcycle(options));
  MOEC_ASSIGN(const std::vector<SafetensorsPart> parts,
              plan_files(report.plan, options.output.max_shard_bytes));
  for (const SafetensorsPart& part : parts) report.tensor_bytes += part.payload_bytes;
  if (options.dry_run) return report;
  MOEC_TRY(note_other_weights(options, report.plan));
  MOEC_TRY(write(options, parts, report));
  if (options.verify.run) {
    MOEC_ASSIGN(report.comparison, verify_upcycle(options, report.plan, options.output.folder));
  }
  return report;
}

}  // namespace moec
