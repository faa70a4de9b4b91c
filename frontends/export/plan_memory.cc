#include "frontends/export/plan_memory.h"

#include <fmt/format.h>

#include "backends/weights/encode/error_feedback.h"
#include "frontends/export/parallel_targets.h"

namespace moec {
namespace {

// Bytes that the process keeps per shard until the manifest is written, measured as the difference
// between Core ML exports with 7,800 and 3,100 shards.
constexpr uint64_t kShardBytes = uint64_t{32} << 10;
// Bytes per tensor while the manifest is written, measured with 99,203 tensors.
constexpr uint64_t kRecordBytes = uint64_t{1} << 10;

// Fails if the memory does not suffice to encode with the calibration in the requested number of
// jobs per target. Without a requested number, checks one job per target.
Status check_encoder(const ExportResources& resources, size_t targets, uint64_t plan_bytes,
                     const EncoderMemory& encoder) {
  const int jobs = std::max(resources.jobs, 1) * static_cast<int>(targets);
  const uint64_t memory = resources.memory_bytes;
  // If the jobs do not fit even without the encoder, open_reader() returns the error of
  // export_reader() instead.
  if (encoder.bytes == 0 || export_reader(memory, jobs, plan_bytes, encoder.bytes) ||
      !export_reader(memory, jobs, plan_bytes))
    return {};
  return fail(
      "encode.over_budget",
      fmt::format("encoding {} with a calibration needs {} MiB, {} MiB of it for the moments of "
                  "its {} inputs; {} at a time do not fit into {} MiB",
                  encoder.what, (encoder.bytes >> 20) + 1,
                  (metric_bytes(encoder.inputs, MetricParts::factor) / encoder.blocks >> 20) + 1,
                  encoder.inputs, jobs, memory >> 20),
      jobs > 1 ? "raise --memory, or reduce --jobs or the number of targets, or omit --calibration"
               : "raise --memory, keep this group float, or omit --calibration");
}

}  // namespace

Result<OpenReader> open_reader(const ExportOptions& options, const Plan& plan, size_t targets,
                               const PlanMemory& planned, const EncoderMemory& encoder) {
  MOEC_ASSIGN(WeightReader reader,
              // An empty table: seeded weights are generated, and the files may be absent.
              WeightReader::open(plan.weight_seed ? WeightTable() : plan.weights));
  return_free_memory();
  const ExportResources& resources = options.resources;
  // Held memory grows with the plan and with the entries of the finished shards.
  const uint64_t held = targets * (planned.held() + plan.shards.size() * kShardBytes);
  MOEC_TRY(check_encoder(resources, targets, beyond_usual(held), encoder));
  const int workers = resources.jobs > 0 ? resources.jobs
                                         : default_jobs(resources.memory_bytes, targets,
                                                        beyond_usual(held), encoder.bytes);
  MOEC_ASSIGN(const ReaderOptions reading,
              export_reader(resources.memory_bytes, workers * static_cast<int>(targets),
                            beyond_usual(held), encoder.bytes));
  // The two memory peaks outside of reading: planning (before) and writing the manifest (after).
  const uint64_t written = held + targets * plan.weights.tensors.size() * kRecordBytes;
  MOEC_TRY(
      check_plan_bytes(resources.memory_bytes, beyond_usual(std::max(planned.peak(), written))));
  return OpenReader{std::move(reader).with_options(reading), workers};
}

}  // namespace moec
