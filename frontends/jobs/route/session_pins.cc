#include "frontends/jobs/route/session_pins.h"

#include <string_view>
#include <utility>

namespace moec {
namespace {

// FNV-1a with 64 bits (RFC draft eastlake-fnv), which hashes all prefixes of a text in one pass.
constexpr uint64_t kBegin = 14695981039346656037u, kPrime = 1099511628211u;

constexpr uint64_t extended(uint64_t hash, char byte) {
  return (hash ^ static_cast<unsigned char>(byte)) * kPrime;
}

uint64_t hash_of(std::string_view text, uint64_t hash = kBegin) {
  for (const char byte : text) hash = extended(hash, byte);
  return hash;
}

// Keys and texts have different hashes even if they are equal.
uint64_t hash_of_key(const std::string& key) { return hash_of(key, hash_of("key")); }

}  // namespace

std::optional<NodeRanking> SessionPins::find(const SessionId& id) {
  const std::lock_guard lock(mutex_);
  Pins::iterator pin = pins_.end();
  if (id.key.empty())
    pin = longest_prefix(id.text);
  else if (const auto found = by_id_.find(hash_of_key(id.key)); found != by_id_.end())
    pin = found->second;
  if (pin == pins_.end()) return std::nullopt;
  pins_.splice(pins_.begin(), pins_, pin);
  return pin->ranking;
}

SessionPins::Pins::iterator SessionPins::longest_prefix(const std::string& text) {
  Pins::iterator best = pins_.end();
  uint64_t hash = kBegin;
  size_t hashed = 0;
  for (const auto& [length, count] : lengths_) {
    if (length > text.size()) break;
    for (; hashed < length; ++hashed) hash = extended(hash, text[hashed]);
    if (const auto found = by_id_.find(hash); found != by_id_.end() && length > 0)
      best = found->second;
  }
  return best;
}

void SessionPins::set(const SessionId& id, NodeRanking ranking) {
  const std::lock_guard lock(mutex_);
  if (!id.key.empty()) return add(hash_of_key(id.key), 0, std::move(ranking));
  if (id.text.empty()) return;
  // The longer text replaces that of the session's previous request.
  if (const auto earlier = longest_prefix(id.text); earlier != pins_.end()) erase(earlier);
  add(hash_of(id.text), id.text.size(), std::move(ranking));
}

void SessionPins::add(uint64_t id, size_t length, NodeRanking ranking) {
  if (const auto found = by_id_.find(id); found != by_id_.end()) erase(found->second);
  if (!ranking.empty()) ++counts_[ranking.front()];
  ++lengths_[length];
  pins_.push_front({id, length, std::move(ranking)});
  by_id_[id] = pins_.begin();
  if (pins_.size() > most_) erase(std::prev(pins_.end()));
}

void SessionPins::erase(Pins::iterator pin) {
  if (!pin->ranking.empty()) --counts_[pin->ranking.front()];
  if (--lengths_[pin->length] == 0) lengths_.erase(pin->length);
  by_id_.erase(pin->id);
  pins_.erase(pin);
}

size_t SessionPins::count(size_t node) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(node);
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace moec
