// A server of JSON endpoints: LimitedServer with access rules, and with errors as JSON replies.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>

#include "frontends/http/limited_server.h"
#include "frontends/http/server_options.h"

namespace moec {

inline constexpr const char* kJson = "application/json";
inline constexpr const char* kBytes = "application/octet-stream";

class ApiServer : public LimitedServer {
 public:
  explicit ApiServer(ServerOptions options);

  // Answers GET requests of a path, with Status errors as JSON replies.
  using Answer = std::function<Status(const httplib::Request&, httplib::Response&)>;
  void get(const std::string& path, const Answer& answer);
  // Answers POST requests of a path with bodies of this content type. Errors of reading the body
  // also become replies.
  using BodyAnswer =
      std::function<Status(const httplib::Request&, const std::string& body, httplib::Response&)>;
  void post(const std::string& path, const BodyAnswer& answer, const char* content_type = kJson);

  // Serves until options.stop returns true. Then calls `before_close`, which ends the answers in
  // progress, and closes the connections. Errors: serve.address (the port is in use, or the address
  // does not belong to this machine), system.resource.
  Status run(const std::function<void()>& before_close);

 private:
  HandlerResponse admit(const httplib::Request& request, httplib::Response& response) const;
  void watch_for_stop(const std::atomic<bool>& over, const std::function<void()>& before_close);

  ServerOptions options_;
  std::map<std::string, std::string> posts_;  // content types by path of POST requests
};

}  // namespace moec
