// Serializes protobuf messages to file contents.
#pragma once

#include <string>

namespace google::protobuf {
class MessageLite;
}

namespace moec {

// Serializes deterministically: map entries are sorted, so equal messages have equal bytes. The
// message must be smaller than 2 GiB.
std::string message_bytes(const google::protobuf::MessageLite& message);

}  // namespace moec
