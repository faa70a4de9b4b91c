#include "backends/weights/encode/hessian_sum.h"

#include <Eigen/Core>
#include <algorithm>

namespace moec {
namespace {

constexpr int64_t kBlockRows = 256;

}  // namespace

void HessianSum::add(std::span<const float> rows) {
  tokens_ += std::ssize(rows) / inputs_;
  const auto block = static_cast<size_t>(kBlockRows * inputs_);
  while (!rows.empty()) {
    const size_t taken = std::min(rows.size(), block - pending_.size());
    pending_.insert(pending_.end(), rows.begin(),
                    rows.begin() + static_cast<std::ptrdiff_t>(taken));
    rows = rows.subspan(taken);
    if (pending_.size() < block) continue;
    add_block(pending_);
    pending_.clear();
  }
}

void HessianSum::add_block(std::span<const float> rows) {
  sums_.resize(static_cast<size_t>(inputs_ * inputs_), 0);
  // A row of tokens is a column here.
  const Eigen::Map<const Eigen::MatrixXf> x(rows.data(), inputs_, std::ssize(rows) / inputs_);
  Eigen::Map<Eigen::MatrixXf>(sums_.data(), inputs_, inputs_)
      .selfadjointView<Eigen::Lower>()
      .rankUpdate(x);
}

Hessian HessianSum::finish() {
  if (!pending_.empty()) add_block(pending_);
  sums_.resize(static_cast<size_t>(inputs_ * inputs_), 0);
  Eigen::Map<Eigen::MatrixXf> sums(sums_.data(), inputs_, inputs_);
  sums.triangularView<Eigen::StrictlyUpper>() = sums.transpose();
  return {inputs_, tokens_, std::move(sums_)};
}

}  // namespace moec
