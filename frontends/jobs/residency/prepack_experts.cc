#include "frontends/jobs/residency/prepack_experts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_file.h"
#include "backends/residency/pinned_experts.h"
#include "ir/base/byte_text.h"
#include "ir/base/output_apart.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

Result<ExpertProfile> summed(const std::vector<std::string>& files, const ExpertGrid& grid) {
  ExpertProfile sum;
  for (const std::string& file : files) {
    MOEC_ASSIGN(ExpertProfile profile, read_expert_profile(file));
    MOEC_TRY(check_profile(profile, grid, file));
    // The first profile sets the shape; check_profile() guarantees the same grid for the others.
    if (sum.layers.empty())
      sum = std::move(profile);
    else
      add_selections(sum, profile);
  }
  return sum;
}

Prepacked told(const PrepackedTable& table, const std::string& file) {
  Prepacked prepacked{file, 0, table.capacity, std::ssize(table.resident), 0, 0};
  std::set<int64_t> layers;
  // Pinned experts are part of the resident ones.
  for (const PrepackedExpert& expert : table.resident) {
    layers.insert(expert.key.layer);
    prepacked.pinned += expert.pinned ? 1 : 0;
    prepacked.bytes += expert.bytes;
  }
  prepacked.layers = std::ssize(layers);
  return prepacked;
}

}  // namespace

Result<Prepacked> prepack_experts(const PrepackOptions& options) {
  // Refuses an output inside the export before anything is read.
  MOEC_TRY(check_user_output({options.file, "--out", options.force}, options.exported));
  MOEC_ASSIGN(const Manifest manifest, read_manifest(options.exported));
  MOEC_ASSIGN(const ExpertProfile profile, summed(options.profiles, expert_grid(manifest)));
  // Orders the used experts of each layer by use, most used first. write_prepacked() applies the
  // capacity.
  const PrepackChoice choice{options.capacity, options.pin_top_k,
                             most_chosen(profile, profile.experts), options.stop, options.progress};
  MOEC_ASSIGN(const PrepackedTable table,
              write_prepacked(manifest, options.exported, choice, options.file));
  return told(table, options.file);
}

std::string prepacked_text(const Prepacked& prepacked) {
  return fmt::format("{} experts of {} layers, {} of them pinned, {} in {}\n", prepacked.experts,
                     prepacked.layers, prepacked.pinned, decimal_bytes(prepacked.bytes),
                     prepacked.file);
}

nlohmann::ordered_json prepacked_json(const Prepacked& prepacked) {
  return report_json(true,
                     {{"file", prepacked.file},
                      {"layers", prepacked.layers},
                      {"capacity", prepacked.capacity},
                      {"experts", prepacked.experts},
                      {"pinned", prepacked.pinned},
                      {"bytes", prepacked.bytes}},
                     {});
}

}  // namespace moec
