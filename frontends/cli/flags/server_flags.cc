#include "frontends/cli/flags/server_flags.h"

#include <fmt/format.h>

#include "frontends/cli/flags/number_check.h"
#include "frontends/export/options/option_bytes.h"

namespace moec {
namespace {

void add_limit_flags(CLI::App& command, ServerFlags& flags) {
  command
      .add_option("--connections", flags.server.http.connections,
                  "Connections served concurrently, one thread each. The same number may wait; "
                  "further ones are refused")
      ->check(CLI::Range(int64_t{1}, kMaxConnections))
      ->capture_default_str();
  command
      .add_option("--max-body", flags.most_body,
                  "Maximum size of a request body, in MiB or with a unit")
      ->capture_default_str();
  command
      .add_option("--timeout", flags.timeout,
                  "Maximum seconds for a request to arrive completely, and for the client to "
                  "accept the next bytes of an answer")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
}

void add_access_flags(CLI::App& command, ServerFlags& flags) {
  AccessRules& access = flags.server.access;
  command.add_option("--api-key-file", flags.api_key_file,
                     "A file with the key that requests must send (Authorization: Bearer KEY)");
  command.add_option(
      "--allow-host", access.hosts,
      "A host name that requests may use, in addition to localhost and IP addresses; repeatable");
  command.add_option("--allow-origin", access.origins,
                     "An origin whose web pages may send requests, e.g. http://localhost:3000, or "
                     "* for all; repeatable");
}

}  // namespace

void add_server_flags(CLI::App& command, ServerFlags& flags) {
  command
      .add_option("--host", flags.server.host,
                  "The address to listen on; without --api-key-file, anyone who can reach it can "
                  "use the model")
      ->capture_default_str();
  command.add_option("--port", flags.server.port, "The port; 0: any free port")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  add_limit_flags(command, flags);
  add_access_flags(command, flags);
}

Result<ServerOptions> server_options(const ServerFlags& flags) {
  ServerOptions server = flags.server;
  // As many connections may wait as are served. Without a limit, connections could wait
  // indefinitely.
  server.http.waiting = server.http.connections;
  MOEC_ASSIGN(const int64_t body, bytes_of_mebibyte_flag("--max-body", flags.most_body));
  server.http.most_body = static_cast<uint64_t>(body);
  // In milliseconds, because the flag accepts fractions of a second.
  server.http.deadline = std::chrono::milliseconds(static_cast<int64_t>(flags.timeout * 1000));
  if (!flags.api_key_file.empty()) {
    MOEC_ASSIGN(server.access.api_key, read_api_key(flags.api_key_file));
  }
  return server;
}

// A colon occurs only in IPv6 addresses, which need brackets, because the port is a separate flag.
std::string url_of(const std::string& host, int port) {
  const bool is_plain = host.find(':') == std::string::npos;
  return fmt::format("http://{}:{}", is_plain ? host : "[" + host + "]", port);
}

}  // namespace moec
