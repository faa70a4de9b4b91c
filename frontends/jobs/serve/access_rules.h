// Who may ask a server, and how: what is refused before a request is read further.
#pragma once

#include <httplib.h>

#include <optional>

#include "frontends/jobs/serve/serve_options.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct Refusal {
  int status = 0;
  Diagnostic error;
};

// Nothing: the request may be answered. Codes: serve.host, serve.origin (403), serve.unauthorized
// (401), serve.content_type and serve.content_encoding (415).
std::optional<Refusal> refusal_of(const httplib::Request& request, const AccessRules& rules);

// What a browser asks for, where a page of an origin that may ask does (CORS).
void allow_origin(const httplib::Request& request, const AccessRules& rules,
                  httplib::Response& response);

}  // namespace moec
