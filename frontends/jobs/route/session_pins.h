// The nodes of known sessions, so that later requests of a session go to the node that has its
// caches and the experts that fit it.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace moec {

// Nodes by index, the most suitable first.
using NodeRanking = std::vector<size_t>;

// A session is identified by its key if the request has one, and otherwise by its text: a request
// belongs to the session whose last text is its longest prefix. With neither, it is a new session.
struct SessionId {
  std::string key;
  std::string text;
};

// Thread-safe.
class SessionPins {
 public:
  // Keeps the `most` most recently used sessions.
  explicit SessionPins(size_t most) : most_(most) {}

  // Returns the ranking of the session; absent for a new one.
  std::optional<NodeRanking> find(const SessionId& id);
  // Sets the ranking of the session, and its text.
  void set(const SessionId& id, NodeRanking ranking);
  // Number of sessions whose first node is `node`.
  size_t count(size_t node) const;

 private:
  struct Pin {
    uint64_t id = 0;
    size_t length = 0;  // of the text; 0: identified by a key
    NodeRanking ranking;
  };
  using Pins = std::list<Pin>;

  Pins::iterator longest_prefix(const std::string& text);
  void add(uint64_t id, size_t length, NodeRanking ranking);
  void erase(Pins::iterator pin);

  const size_t most_;
  mutable std::mutex mutex_;
  Pins pins_;  // the most recently used first
  std::unordered_map<uint64_t, Pins::iterator> by_id_;
  std::map<size_t, size_t> lengths_;  // number of sessions by length of the text
  std::map<size_t, size_t> counts_;   // number of sessions by first node
};

}  // namespace moec
