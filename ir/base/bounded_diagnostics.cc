#include "ir/base/bounded_diagnostics.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {

bool BoundedDiagnostics::only_counts(std::string_view code) {
  const auto seen = seen_.find(code);
  // Only the first kKept findings of a code are kept, which bounds the memory.
  if (seen == seen_.end() || seen->second < kKept) return false;
  ++seen->second;
  ++count_;
  return true;
}

void BoundedDiagnostics::add(Diagnostic finding) {
  if (only_counts(finding.code)) return;
  // A duplicate of a kept finding is not counted again. only_counts() cannot detect duplicates.
  if (std::find(kept_.begin(), kept_.end(), finding) != kept_.end()) return;
  ++seen_[finding.code];
  ++count_;
  kept_.push_back(std::move(finding));
}

Diagnostics BoundedDiagnostics::take() {
  for (const auto& [code, seen] : seen_)
    if (seen > kKept)
      kept_.push_back(
          {Severity::error, code, fmt::format("and {} more with this code", seen - kKept), {}, {}});
  // kept_ is moved out below. The counts are reset with it, so that the object can be reused.
  seen_.clear();
  count_ = 0;
  return std::move(kept_);
}

}  // namespace moec
