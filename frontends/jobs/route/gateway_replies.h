// Replies of the gateway itself, in the format of the OpenAI API.
#pragma once

#include <string>

#include "frontends/nodes/node_client.h"

namespace moec {

// A reply with this status that contains an error.
NodeReply refusal_reply(int status, const std::string& code, const std::string& cause);
// Status 429: the nodes have as many requests as they accept.
NodeReply busy_reply();
// Status 503: no node accepts requests.
NodeReply no_node_reply();

}  // namespace moec
