// cpp-httplib's server behind limits that it does not have itself: on the bytes of a request's head
// and body however they are sent, on the time in which a request must arrive and an answer must be
// taken, and on connections. The library sees the connections through a stream of ours.
#pragma once

#include <httplib.h>

#include <atomic>
#include <string>

#include "frontends/jobs/serve/serve_options.h"
#include "ir/base/diagnostics.h"

namespace moec {

class LimitedServer : public httplib::Server {
 public:
  explicit LimitedServer(const HttpLimits& limits);

  const HttpLimits& limits() const { return limits_; }

  // Answers at the address that the server was bound to, until finish(). Error system.resource: the
  // system refuses every thread.
  Status serve();
  // Ends connections that wait for a request, and takes no more. May be called by any thread.
  void finish();

  // The answer to the request that this thread answers is the connection's last.
  static void end_connection();
  // Whether the client of the request that this thread answers has closed its connection.
  static bool client_left();

  // The body of the request that this thread answers. Error serve.too_large: more than most_body
  // bytes; serve.body: it did not arrive.
  Result<std::string> read_body(const httplib::Request& request,
                                const httplib::ContentReader& reader) const;

 private:
  bool process_and_close_socket(socket_t socket) override;

  HttpLimits limits_;
  std::atomic<bool> finishing_ = false;
  std::atomic<bool> no_threads_ = false;
};

}  // namespace moec
