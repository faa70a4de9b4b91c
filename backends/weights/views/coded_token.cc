#include "backends/weights/views/coded_token.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace moec {
namespace {

// Returns elements in planes, as code_kernels.h describes, and sets the distance of planes.
template <class Element>
std::vector<Element> in_planes(std::span<const Element> elements, int64_t planes, int64_t& plane) {
  plane = (std::ssize(elements) + planes - 1) / planes +
          kPlanePadding / static_cast<int64_t>(sizeof(Element));
  std::vector<Element> to(static_cast<size_t>(planes * plane));
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t i = p, at = p * plane; i < std::ssize(elements); i += planes, ++at)
      to[static_cast<size_t>(at)] = elements[static_cast<size_t>(i)];
  return to;
}

// Calls visit(first, count) for each group.
template <class Visit>
void for_each_group(int64_t columns, const Visit& visit) {
  for (int64_t at = 0; at < columns; at += kTokenGroup)
    visit(at, std::min(kTokenGroup, columns - at));
}

// The factors of a group; those beyond the last element are 0.
using GroupFactors = std::array<int8_t, kTokenGroup>;

int sum_of(const int8_t* factors, int64_t count) {
  return std::accumulate(factors, factors + count, 0);
}

// Distributes the factors of the group that begins at column `first` to the planes of codes of 4
// bits. Local arrays let the compiler vectorize the loops.
void spread_nibbles(const GroupFactors& factors, int64_t first, CodedToken& to) {
  constexpr int64_t kHalf = kTokenGroup / 2, kLane = lane_codes(4);
  std::array<int8_t, kHalf> even, odd;
  for (size_t i = 0; i < kHalf; ++i) {
    even[i] = factors[2 * i];
    odd[i] = factors[2 * i + 1];
  }
  std::ranges::copy(even, to.factors.begin() + first / 2);
  std::ranges::copy(odd, to.factors.begin() + to.plane + first / 2);
  for (int64_t lane = 0; lane < kTokenGroup / kLane; ++lane)
    to.lane_sums[static_cast<size_t>(first / kLane + lane)] =
        sum_of(factors.data() + kLane * lane, kLane);
}

CodedToken quantized(std::span<const float> token, int bits) {
  CodedToken to{.columns = std::ssize(token), .format = ActivationFormat::int8};
  const int64_t groups = (to.columns + kTokenGroup - 1) / kTokenGroup;
  // With room for whole groups.
  const int64_t planes = bits == 4 ? 2 : 1;
  to.plane = groups * kTokenGroup / planes + kPlanePadding;
  to.factors.resize(static_cast<size_t>(planes * to.plane));
  if (bits == 4)
    to.lane_sums.resize(
        static_cast<size_t>(groups * kTokenGroup / lane_codes(4) + kPlanePadding / 4));
  for_each_group(to.columns, [&](int64_t first, int64_t count) {
    GroupFactors factors{};
    to.scales.push_back(quantize_group(token.data() + first, count, factors.data()));
    to.sums.push_back(static_cast<float>(sum_of(factors.data(), kTokenGroup)) * to.scales.back());
    if (bits == 4)
      spread_nibbles(factors, first, to);
    else
      std::ranges::copy(factors, to.factors.begin() + first);
  });
  return to;
}

// Copies the factors of a group of token `t` to its block, in the order of TokenCodeBlocks.
void spread_steps(const int8_t* factors, int bits, int64_t t, std::array<int8_t, 4>* block) {
  for (int64_t s = 0; s < kGroupSteps; ++s) {
    const int8_t* from = factors + (bits == 4 ? s / 2 * 8 + s % 2 : 4 * s);
    const int64_t step = bits == 4 ? 2 : 1;
    block[s * kTokenBlock + t] = {from[0], from[step], from[2 * step], from[3 * step]};
  }
}

}  // namespace

CodedToken arranged(std::span<const float> token, Arrangement as) {
  if (as.format == ActivationFormat::int8) return quantized(token, as.bits);
  CodedToken to{.columns = std::ssize(token)};
  to.values = in_planes(token, float_planes(as.bits), to.plane);
  for_each_group(to.columns, [&](int64_t first, int64_t count) {
    const auto begin = token.begin() + first;
    to.sums.push_back(std::accumulate(begin, begin + count, 0.0f));
  });
  return to;
}

void CodedTokens::reset(int64_t columns, int64_t count, int bits) {
  columns_ = columns;
  count_ = count;
  groups_ = (columns + kTokenGroup - 1) / kTokenGroup;
  bits_ = bits;
  const auto groups = static_cast<size_t>(blocks() * kTokenBlock * groups_);
  factors_.resize(groups * kGroupSteps);
  factor_sums_.resize(groups);
  scales_.resize(groups);
  sums_.resize(groups);
}

int64_t CodedTokens::blocks() const { return (count_ + kTokenBlock - 1) / kTokenBlock; }

int64_t CodedTokens::tokens_in(int64_t block) const {
  return std::min(kTokenBlock, count_ - block * kTokenBlock);
}

void CodedTokens::set_block(int64_t block, const float* tokens) {
  for (int64_t t = 0; t < tokens_in(block); ++t, tokens += columns_)
    for_each_group(columns_, [&](int64_t first, int64_t count) {
      GroupFactors factors{};
      const int64_t group = block * groups_ + first / kTokenGroup;
      const auto at = static_cast<size_t>(group * kTokenBlock + t);
      scales_[at] = quantize_group(tokens + first, count, factors.data());
      factor_sums_[at] = sum_of(factors.data(), kTokenGroup);
      sums_[at] = static_cast<float>(factor_sums_[at]) * scales_[at];
      spread_steps(factors.data(), bits_, t, factors_.data() + group * kTokenBlock * kGroupSteps);
    });
}

TokenCodeBlocks CodedTokens::from(int64_t column) const {
  const int64_t first = column / kTokenGroup * kTokenBlock;
  return {.count = count_,
          .groups = groups_,
          .factors = factors_.data() + first * kGroupSteps,
          .factor_sums = factor_sums_.data() + first,
          .scales = scales_.data() + first,
          .sums = sums_.data() + first};
}

}  // namespace moec
