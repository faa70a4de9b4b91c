#include "frontends/jobs/family/check_family.h"

#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/open_source.h"

namespace moec {

Result<FamilyReport> check_family(const Family& family, const std::string& config,
                                  const std::string& checkpoint, TensorsEqual& same) {
  MOEC_TRY(refuse_gguf(config));
  MOEC_TRY(refuse_gguf(checkpoint));
  MOEC_ASSIGN(ExplainedConfig explained,
              explain_config_of(config.empty() ? checkpoint : config, &family));
  FamilyReport report{std::move(explained.config), std::move(explained.errors), {}};
  if (!report.config_errors.empty()) return report;
  FolderWeights weights;
  report.has_checkpoint = !checkpoint.empty();
  if (report.has_checkpoint) {
    MOEC_ASSIGN(weights, read_folder_weights(checkpoint));
    resolve_names(*report.config.family, weights, report.config.model);
    MOEC_TRY(untie_own_head(report.config.model, weights.table, same, report.config.warnings));
  }
  report.tensors = account_for_tensors(report.config, weights);
  return report;
}

}  // namespace moec
