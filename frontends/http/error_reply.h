// Errors as replies of the OpenAI API.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ir/base/diagnostics.h"

namespace moec {

// {"error": {"message", "type", "param", "code"}} with the code of the first diagnostic.
nlohmann::ordered_json error_reply(const Diagnostics& errors);

// The HTTP status: 400 for errors of the client, 413 for serve.too_large, 429 for serve.busy, 503
// for serve.stopping, and 500 otherwise.
int http_status(const Diagnostics& errors);

}  // namespace moec
