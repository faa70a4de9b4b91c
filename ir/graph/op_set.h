// Sets of ops, named as in the text form.
#pragma once

#include <bitset>
#include <optional>
#include <string_view>

#include "ir/graph/ops.h"

namespace moec {

class OpSet {
 public:
  // The op of a mnemonic ("add"), or all ops of a kind ("binary"); nothing for other names.
  static std::optional<OpSet> named(std::string_view name);

  OpSet& operator|=(const OpSet& other) { return bits_ |= other.bits_, *this; }
  bool contains(const OpData& data) const { return bits_[position(data)]; }
  bool empty() const { return bits_.none(); }
  bool operator==(const OpSet&) const = default;

  // The number of an op's mnemonic, below kPositions.
  static size_t position(const OpData& data);
  static constexpr size_t kFunctions = 16;  // enough for the functions of each kind
  static constexpr size_t kPositions = kOpKinds * kFunctions;

 private:
  std::bitset<kPositions> bits_;
};

}  // namespace moec
