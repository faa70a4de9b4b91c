// Access control: requests that the server rejects before it reads the body.
#pragma once

#include <httplib.h>

#include <optional>
#include <string_view>

#include "frontends/http/server_options.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct Refusal {
  int status = 0;
  Diagnostic error;
};

// Returns the refusal, or nothing if the request is allowed. `content_type`: that of the body of a
// POST request. Codes: serve.host, serve.origin (403),
// serve.unauthorized (401), serve.content_type and serve.content_encoding (415).
std::optional<Refusal> refusal_of(const httplib::Request& request, const AccessRules& rules,
                                  std::string_view content_type);

// Adds the CORS headers that let a page of an allowed origin read the response.
void allow_origin(const httplib::Request& request, const AccessRules& rules,
                  httplib::Response& response);

}  // namespace moec
