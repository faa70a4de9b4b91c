#include "frontends/hf/fused_roles.h"

namespace moec {
namespace {

constexpr std::string_view kExperts[] = {"expert_gate", "expert_up", "expert_down"};
constexpr std::string_view kAllExperts[] = {"experts_gate_up", "experts_down"};
constexpr std::string_view kUngated[] = {"expert_up", "expert_down"};
constexpr std::string_view kAllUngated[] = {"experts_up", "experts_down"};
constexpr std::string_view kShared[] = {"shared_gate_proj", "shared_up"};
constexpr std::string_view kSharedBoth[] = {"shared_gate_up"};
constexpr std::string_view kDense[] = {"gate", "up"};
constexpr std::string_view kDenseBoth[] = {"gate_up"};

constexpr FusedRoles kFusedRoles[] = {
    {kExperts, kAllExperts}, {kUngated, kAllUngated}, {kShared, kSharedBoth}, {kDense, kDenseBoth}};

}  // namespace

std::span<const FusedRoles> fused_roles() { return kFusedRoles; }

}  // namespace moec
