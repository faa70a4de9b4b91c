#include "ir/base/bounded_diagnostics.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {

bool BoundedDiagnostics::only_counts(std::string_view code) {
  const auto seen = seen_.find(code);
  if (seen == seen_.end() || seen->second < kKept) return false;
  ++seen->second;
  ++count_;
  return true;
}

void BoundedDiagnostics::add(Diagnostic finding) {
  if (only_counts(finding.code)) return;
  if (std::find(kept_.begin(), kept_.end(), finding) != kept_.end()) return;
  ++seen_[finding.code];
  ++count_;
  kept_.push_back(std::move(finding));
}

Diagnostics BoundedDiagnostics::take() {
  for (const auto& [code, seen] : seen_)
    if (seen > kKept)
      kept_.push_back(
          {Severity::error, code, fmt::format("and {} more of this kind", seen - kKept), {}, {}});
  seen_.clear();
  count_ = 0;
  return std::move(kept_);
}

}  // namespace moec
