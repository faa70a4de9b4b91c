// Adds limits to cpp-httplib's server: bytes of a request's head and body in any transfer encoding,
// time to receive a request and to send a response, and number of connections. Enforces the limits
// in its own implementation of the library's stream.
#pragma once

#include <httplib.h>

#include <atomic>
#include <string>

#include "frontends/http/server_options.h"
#include "ir/base/diagnostics.h"

namespace moec {

class LimitedServer : public httplib::Server {
 public:
  explicit LimitedServer(const HttpLimits& limits);

  const HttpLimits& limits() const { return limits_; }

  // Serves the bound address until finish() is called. Error system.resource: no thread can be
  // created.
  Status serve();
  // Ends idle connections and accepts no new ones. Thread-safe.
  void finish();

  // Closes the connection after the response to this thread's current request.
  static void end_connection();
  // True if the client of this thread's current request has closed its connection.
  static bool client_left();

  // Reads the body of this thread's current request. Errors: serve.too_large (more than most_body
  // bytes), serve.body (the body did not arrive completely).
  Result<std::string> read_body(const httplib::Request& request,
                                const httplib::ContentReader& reader) const;

 private:
  bool process_and_close_socket(socket_t socket) override;

  HttpLimits limits_;
  std::atomic<bool> finishing_ = false;
  std::atomic<bool> no_threads_ = false;
};

}  // namespace moec
