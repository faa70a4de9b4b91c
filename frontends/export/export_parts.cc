#include "frontends/export/export_parts.h"

namespace moec {

Result<std::vector<ExportedParts>> export_parts(std::span<const ExportJob> jobs) {
  MOEC_ASSIGN(std::vector<ExportedTables> tables, export_tables(jobs));
  MOEC_ASSIGN(std::vector<std::vector<ExportedShard>> shards, export_shards(jobs));
  std::vector<ExportedParts> parts;
  for (size_t target = 0; target < jobs.size(); ++target)
    parts.push_back({std::move(tables[target]), std::move(shards[target])});
  return parts;
}

}  // namespace moec
