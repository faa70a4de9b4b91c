#include "frontends/jobs/split/export_split_report.h"

#include <map>

namespace moec {

uint64_t ExportSplit::trunk_bytes() const {
  std::map<std::string, int64_t> files;
  for (const ExportNode& node : nodes)
    for (const manifest::FileRef& file : node.trunk) files[file.path] = file.bytes;
  uint64_t bytes = 0;
  for (const auto& [path, size] : files) bytes += static_cast<uint64_t>(size);
  return bytes;
}

uint64_t ExportSplit::unique_bytes() const {
  uint64_t bytes = trunk_bytes();
  for (const ExportNode& node : nodes) bytes += node.expert_bytes() + node.manifest_bytes;
  return bytes;
}

}  // namespace moec
