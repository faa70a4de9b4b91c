// A protobuf message as the bytes of a file.
#pragma once

#include <string>

namespace google::protobuf {
class MessageLite;
}

namespace moec {

// The same bytes for equal messages: protobuf sorts maps only when it is asked to. The message must
// be below 2 GiB.
std::string message_bytes(const google::protobuf::MessageLite& message);

}  // namespace moec
