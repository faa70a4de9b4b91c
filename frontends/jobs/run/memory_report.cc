#include "frontends/jobs/run/memory_report.h"

#include <fmt/format.h>

#include "ir/base/process_memory.h"

namespace moec {
namespace {

std::string line_of(const std::string& what, uint64_t bytes, uint64_t machine) {
  const auto size = static_cast<double>(bytes);
  const double share = machine > 0 ? 100 * size / static_cast<double>(machine) : 0;
  return fmt::format("{:<44}{:>10.1f} MB{:>8.2f} %\n", what, size / 1e6, share);
}

}  // namespace

MemoryReport memory_report(const Session& session) {
  MemoryReport report;
  report.machine = machine_memory();
  report.peak = process_memory().peak;
  const LoadedShards& loaded = session.loaded();
  const SessionParts parts = parts_beside_shards(session.manifest(), 1);
  report.items = {
      {"weights of loaded shards, in mapped files", loaded.kept_mapped()},
      {"graphs and small weights of loaded shards", loaded.kept_bytes() - loaded.kept_mapped()},
      {"values between ops, and shards that pass", loaded.reserve()},
      {"caches", parts.caches},
      {"rows between shards, and logits", parts.rows}};
  if (const auto experts = session.experts())
    report.items.push_back({fmt::format("slots of experts, {} of each layer", experts->capacity()),
                            experts->used_bytes()});
  uint64_t known = 0;
  for (const MemoryItem& item : report.items) known += item.bytes;
  report.items.push_back(
      {"the program, and what it read of graphs", report.peak > known ? report.peak - known : 0});
  return report;
}

std::string memory_table(const MemoryReport& report) {
  std::string table;
  for (const MemoryItem& item : report.items)
    table += line_of(item.what, item.bytes, report.machine);
  return table + line_of("peak of the process", report.peak, report.machine);
}

}  // namespace moec
