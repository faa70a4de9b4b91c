// Options of moec's HTTP servers.
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
  // Maximum time from the first to the last byte of a request, and between two successful writes of
  // a response.
  std::chrono::milliseconds deadline{30'000};
  std::chrono::milliseconds idle{5'000};  // maximum time between requests of a connection
  int64_t connections = 64;               // served concurrently, one thread each
  int64_t waiting = 64;                   // queued connections; further connections get status 503
};

struct AccessRules {
  // Accepted host names, in addition to localhost and numeric addresses. Rejecting other names
  // prevents DNS rebinding, where the host name of a page resolves to this server.
  std::vector<std::string> hosts;
  // Origins of pages that may send requests from a browser, such as "https://chat.example".
  // Requests from other pages are rejected.
  std::vector<std::string> origins;
  std::string api_key;  // required by all paths except /health; empty: none
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;  // 0: any free port
  HttpLimits http;
  AccessRules access;
  // Polled a few times per second; true ends the server. May be empty.
  std::function<bool()> stop;
  // Called once when the server is ready.
  std::function<void(int port)> listening;
};

// Maximum of HttpLimits::connections; each needs a thread.
inline constexpr int64_t kMaxConnections = 1024;

// Error serve.api_key: the file has no line of printable characters without spaces.
Result<std::string> read_api_key(const std::string& path);

}  // namespace moec
