// Passes the events of a stream from the thread that talks to the nodes to the one that talks to
// the client.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "frontends/nodes/node_client.h"

namespace moec {

// Thread-safe, for one writer and one reader.
class EventQueue {
 public:
  // Tells the reader the answer's status, with a body if it is not 200. Only the first call counts.
  void begin(NodeReply reply);
  // Adds an event. Waits while the client has kMost events to read. Returns false if the reader has
  // cancelled.
  bool push(std::string event);
  // Ends the stream.
  void end();
  bool cancelled() const;

  // Waits for begin().
  NodeReply wait_for_begin();
  struct News {
    std::string events;
    bool over = false;  // no further events follow
  };
  // Waits at most `most` for events.
  News take(std::chrono::milliseconds most);
  void cancel();

  // A client that reads slowly makes the node wait.
  static constexpr size_t kMost = 256;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> events_;
  std::optional<NodeReply> begun_;
  bool over_ = false, cancelled_ = false;
};

}  // namespace moec
