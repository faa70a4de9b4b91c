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

CodedToken quantized(std::span<const float> token) {
  CodedToken to{.columns = std::ssize(token), .format = ActivationFormat::int8};
  to.factors.resize(token.size() + kPlanePadding);
  for_each_group(to.columns, [&](int64_t first, int64_t count) {
    int8_t* factors = to.factors.data() + first;
    to.scales.push_back(quantize_group(token.data() + first, count, factors));
    to.sums.push_back(static_cast<float>(std::accumulate(factors, factors + count, 0)) *
                      to.scales.back());
  });
  return to;
}

// Moves the factors to planes for codes of 4 bits.
void arrange_nibbles(CodedToken& token) {
  const std::span<const int8_t> factors(token.factors.data(), static_cast<size_t>(token.columns));
  constexpr int64_t kLane = lane_codes(4);
  token.lane_sums.resize(
      static_cast<size_t>((token.columns + kLane - 1) / kLane + kPlanePadding / 4));
  for (size_t i = 0; i < factors.size(); ++i) token.lane_sums[i / kLane] += factors[i];
  token.factors = in_planes(factors, 2, token.plane);
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
  if (as.format == ActivationFormat::int8) {
    CodedToken to = quantized(token);
    if (as.bits == 4) arrange_nibbles(to);
    return to;
  }
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
      std::array<int8_t, kTokenGroup> factors{};
      const int64_t group = block * groups_ + first / kTokenGroup;
      const auto at = static_cast<size_t>(group * kTokenBlock + t);
      scales_[at] = quantize_group(tokens + first, count, factors.data());
      factor_sums_[at] = std::accumulate(factors.begin(), factors.end(), 0);
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
