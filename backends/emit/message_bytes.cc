#include "backends/emit/message_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message_lite.h>

#include "ir/base/invariant.h"

namespace moec {

std::string message_bytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  // Protobuf otherwise writes the entries of maps in the order of a hash table, which can differ
  // between runs.
  coded.SetSerializationDeterministic(true);
  MOEC_CHECK(message.SerializeToCodedStream(&coded), "a {} cannot be serialized",
             message.GetTypeName());
  // The coded stream reserves more bytes of the string than it writes. Trim() removes the excess,
  // so `bytes` has its final size.
  coded.Trim();
  return bytes;
}

}  // namespace moec
