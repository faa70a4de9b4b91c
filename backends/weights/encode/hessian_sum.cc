#include "backends/weights/encode/hessian_sum.h"

#include <Eigen/Core>
#include <algorithm>

namespace moec {
namespace {

// A fixed batch makes the order of additions independent of the calls of add(), as the header
// promises.
constexpr int64_t kBlockRows = 256;
constexpr int64_t kLeastTogether = 64;

}  // namespace

int64_t summed_together(int64_t inputs, uint64_t bytes) {
  int64_t blocks = 1;
  auto together = [&] { return (inputs + blocks - 1) / blocks; };
  auto sums = [&] {
    return static_cast<uint64_t>(blocks * together() * together()) * sizeof(float);
  };
  while (sums() > bytes && inputs / (blocks + 1) >= kLeastTogether) ++blocks;
  return together();
}

HessianSum::HessianSum(int64_t inputs, int64_t together) : inputs_(inputs) {
  // The sums are allocated with the first rows: an expert that no token reaches needs none.
  for (int64_t first = 0; first < inputs; first += together)
    blocks_.push_back({std::min(together, inputs - first), 0, {}});
}

void HessianSum::add(std::span<const float> rows) {
  for (Hessian& block : blocks_) block.tokens += std::ssize(rows) / inputs_;
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
  // Token rows are contiguous, so they are the columns of a column-major map.
  const Eigen::Map<const Eigen::MatrixXf> all(rows.data(), inputs_, std::ssize(rows) / inputs_);
  int64_t first = 0;
  for (Hessian& block : blocks_) {
    const int64_t size = block.inputs;
    block.sums.resize(static_cast<size_t>(size * size), 0);
    // Only the lower triangle is computed, which halves the multiplications. finish() mirrors it.
    Eigen::Map<Eigen::MatrixXf>(block.sums.data(), size, size)
        .selfadjointView<Eigen::Lower>()
        .rankUpdate(all.middleRows(first, size));
    first += size;
  }
}

std::vector<Hessian> HessianSum::finish() {
  if (!pending_.empty()) add_block(pending_);
  for (Hessian& block : blocks_) {
    const int64_t size = block.inputs;
    block.sums.resize(static_cast<size_t>(size * size), 0);
    Eigen::Map<Eigen::MatrixXf> sums(block.sums.data(), size, size);
    sums.triangularView<Eigen::StrictlyUpper>() = sums.transpose();
  }
  return std::move(blocks_);
}

}  // namespace moec
