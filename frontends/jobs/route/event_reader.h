// Splits a stream of server-sent events (WHATWG HTML, section 9.2) into events.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace moec {

class EventReader {
 public:
  // Adds bytes and calls `take` for the data of each event that is complete. Comments and events
  // without data are skipped. Returns false if `take` does, or if an event exceeds kMaxEvent bytes.
  bool add(std::string_view bytes, const std::function<bool(std::string_view data)>& take);

  static constexpr size_t kMaxEvent = size_t{1} << 20;

 private:
  std::string pending_;
};

}  // namespace moec
