#include "frontends/jobs/validate/validate_model.h"

#include "backends/formats/read_shard.h"
#include "backends/manifest/top_k.h"
#include "frontends/jobs/validate/check_golden.h"
#include "frontends/jobs/validate/validator.h"
#include "ir/analysis/code_bits.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

// Returns the thresholds per step of the schedule. Reads the bit widths from the graph files, not
// from the manifest.
Result<std::vector<Thresholds>> thresholds_of_steps(const Manifest& manifest,
                                                    const std::string& folder, Precision precision,
                                                    const ThresholdTable& table) {
  const bool half = precision == Precision::f16 || manifest.build.dtype == DType::f16;
  std::vector<Thresholds> thresholds;
  for (const manifest::Step& step : manifest.schedule) {
    const manifest::Shard& shard = *manifest.find_shard(step.shard);
    MOEC_ASSIGN(const LoadedShard loaded, read_shard(manifest, folder, shard.widths.front()));
    // Without quantized weights, the precision of the values decides.
    const int64_t bits = fewest_code_bits(loaded.shard).value_or(half ? 16 : 32);
    thresholds.push_back(table.of_bits(bits));
  }
  return thresholds;
}

Diagnostics note_mask(const Manifest& manifest, const SessionOptions& options) {
  // A node has only some of the experts, like a mask.
  const bool part = manifest.node && !manifest.node->experts.empty();
  if (options.expert_mask.empty() && !part) return {};
  return {
      {Severity::note,
       "validate.masked",
       "the golden uses all experts: results differ for tokens that would pick an expert which the "
       "mask or the node lacks",
       "run moec compare OUT --groups to measure the cost on a text",
       {}}};
}

}  // namespace

Result<ValidationReport> validate_model(const std::string& folder, const Golden& golden,
                                        const SessionOptions& options,
                                        const ThresholdTable& thresholds,
                                        const ValidationProgress& progress) {
  SessionOptions watching = options;
  // The names must be watched before the session is opened, because unused values are not computed.
  watching.watched = {std::string(kRouterLogits), std::string(kRoutingWeights)};
  MOEC_ASSIGN(Session session, Session::open(folder, read_shard, watching));
  MOEC_TRY(check_golden(golden, session, folder, options));
  MOEC_ASSIGN(const std::vector<Thresholds> of_steps,
              thresholds_of_steps(session.manifest(), folder, options.precision, thresholds));
  Validator validator(session, golden, of_steps, progress);
  // alone() reports the errors of single shards, and chained() their accumulation.
  MOEC_TRY(validator.alone());
  MOEC_TRY(validator.chained());
  MOEC_TRY(validator.greedy());
  ValidationReport report = validator.report(options.precision);
  report.engine = session.engine().name;
  report.device = session.engine().device;
  report.top_k = describe_top_k(session.top_k(), session.top_k_counts());
  if (session.drops()) report.drops = *session.drops();
  const Diagnostics notes = note_mask(session.manifest(), options);
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  return report;
}

}  // namespace moec
