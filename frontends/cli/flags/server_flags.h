// Flags of the commands that serve over HTTP.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "frontends/http/server_options.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct ServerFlags {
  ServerOptions server;
  std::string most_body = "4MiB", api_key_file;
  double timeout = 30;
};

void add_server_flags(CLI::App& command, ServerFlags& flags);

// Errors: those of read_api_key() and of the size in --max-body.
Result<ServerOptions> server_options(const ServerFlags& flags);

// Returns the address as URLs spell it: http://127.0.0.1:8080.
std::string url_of(const std::string& host, int port);

}  // namespace moec
