#include "frontends/cli/print/print_split.h"

#include <fmt/format.h>

#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

void print_node(const SplitReport& report, const NodePlan& node) {
  print_out("{:<16} {:>6} of {:<5} {:<12} {:>16} {:>16}\n", node.node.name, node.node.count,
            report.experts, enum_name(report.routing_of(node)), node.experts.layout.file_bytes,
            report.plan.bytes_of(node));
}

}  // namespace

void print_split(const SplitReport& report, double seconds) {
  print_notes(report.notes);
  print_out("{:<16} {:>15} {:<12} {:>16} {:>16}\n", "node", "experts/layer", "routing",
            "experts' bytes", "bytes in all");
  for (const NodePlan& node : report.plan.nodes) print_node(report, node);
  const uint64_t trunk = report.plan.trunk.layout.file_bytes;
  print_out("trunk, shared by all: {} bytes ({})\n", trunk,
            binary_bytes(static_cast<double>(trunk)));
  const uint64_t unique = report.plan.unique_bytes();
  const std::string bytes = binary_bytes(static_cast<double>(unique));
  if (report.dry_run)
    print_out("{} bytes ({}) would be written\n", unique, bytes);
  else
    print_out("{} bytes ({}) in {}, {:.1f} s\n", unique, bytes, report.out, seconds);
}

void print_split(const ExportSplit& split, double seconds) {
  print_notes(split.notes);
  print_out("{:<16} {:>8} {:>16} {:>16}\n", "node", "layers", "experts' bytes", "bytes in all");
  for (const ExportNode& node : split.nodes)
    print_out("{:<16} {:>8} {:>16} {:>16}\n", node.name,
              fmt::format("{}-{}", node.manifest.first_layer(), node.manifest.end_layer() - 1),
              node.expert_bytes(), node.bytes());
  print_out("trunk, shared by all: {} bytes ({})\n", split.trunk_bytes(),
            binary_bytes(static_cast<double>(split.trunk_bytes())));
  const std::string bytes = binary_bytes(static_cast<double>(split.unique_bytes()));
  if (split.dry_run)
    print_out("{} bytes ({}) would be in the nodes\n", split.unique_bytes(), bytes);
  else
    print_out("{} bytes ({}) in {}, {}, {:.1f} s\n", split.unique_bytes(), bytes, split.out,
              split.linked ? "linked to the export's files" : "copied", seconds);
}

}  // namespace moec
