// What `moec serve` is asked to do.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

struct HttpLimits {
  uint64_t most_head = 32 << 10;  // bytes of the request line and the headers
  uint64_t most_body = 4 << 20;   // bytes of a body, decoded
  // A request must be there completely so long after its first byte; of an answer, some bytes must
  // be taken in so long.
  std::chrono::milliseconds deadline{30'000};
  std::chrono::milliseconds idle{5'000};  // how long a connection is kept between requests
  int64_t connections = 64;               // answered at a time, a thread each
  int64_t waiting = 64;                   // further ones; beyond them connections are refused
};

struct AccessRules {
  // Names by which clients may call the server, besides localhost and addresses in numbers: a page
  // whose name was made to lead here (DNS rebinding) calls it by its own.
  std::vector<std::string> hosts;
  // Origins of pages that may ask from a browser, "https://chat.example"; others are refused.
  std::vector<std::string> origins;
  std::string api_key;  // that requests must have, but for /health; empty: none
};

struct SchedulerLimits {
  int64_t sequences = 4;  // texts that are written at a time, and whose caches are kept
  int64_t waiting = 64;   // texts that wait for one of them
};

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 8080;          // 0: one that is free
  int64_t most_tokens = 0;  // of a text; 0: as many as the context has
  HttpLimits http;
  AccessRules access;
  SchedulerLimits limits;
  // Asked a few times a second; true ends the server. May be empty.
  std::function<bool()> stop;
  // Told once the server answers.
  std::function<void(int port)> listening;
};

// Above this many connections there is no use in more threads.
inline constexpr int64_t kMostConnections = 1024;

// Error serve.api_key: the file has no line of printable characters without spaces.
Result<std::string> read_api_key(const std::string& path);

}  // namespace moec
