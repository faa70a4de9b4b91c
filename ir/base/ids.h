// Typed u32 ids and the tables that they index. An id is valid only for the table that issued it.
// Derived facts about an entity are kept in an IdMap next to the table, not inside the entity.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace moec {

template <class Tag>
struct Id {
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  uint32_t index = kNone;

  bool valid() const { return index != kNone; }
  // clang-tidy 14 mistakes the 0 that <=> is compared with for a null pointer.
  auto operator<=>(const Id&) const = default;  // NOLINT(modernize-use-nullptr)
};

using ValueId = Id<struct ValueTag>;
using OpId = Id<struct OpTag>;

// A growable table; push() issues the ids, from 0 upwards.
template <class IdT, class T>
class IdVector {
 public:
  IdT push(T item) {
    items_.push_back(std::move(item));
    return IdT{static_cast<uint32_t>(items_.size() - 1)};
  }
  T& operator[](IdT id) { return items_[id.index]; }
  const T& operator[](IdT id) const { return items_[id.index]; }
  size_t size() const { return items_.size(); }
  bool contains(IdT id) const { return id.index < items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  bool operator==(const IdVector&) const = default;

 private:
  std::vector<T> items_;
};

// A dense side table: one T per id, default_value for ids that were not set.
template <class IdT, class T>
class IdMap {
 public:
  explicit IdMap(size_t size = 0, T default_value = T())
      : items_(size, default_value), default_(std::move(default_value)) {}

  T& operator[](IdT id) {
    if (id.index >= items_.size()) items_.resize(id.index + 1, default_);
    return items_[id.index];
  }
  const T& operator[](IdT id) const {
    return id.index < items_.size() ? items_[id.index] : default_;
  }

 private:
  std::vector<T> items_;
  T default_;
};

}  // namespace moec
