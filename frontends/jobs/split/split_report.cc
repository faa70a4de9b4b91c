#include "frontends/jobs/split/split_report.h"

namespace moec {

NodeRouting SplitReport::routing_of(const NodePlan& node) const {
  if (node.node.count == experts) return NodeRouting::whole;
  if (!node.kept_share.empty()) return NodeRouting::compensated;
  constexpr NodeRouting kBy[] = {NodeRouting::masked, NodeRouting::inflated, NodeRouting::unknown};
  return kBy[static_cast<size_t>(routing)];
}

}  // namespace moec
