#include "frontends/coreml/read_coreml.h"

namespace moec {

Result<LoadedShard> read_coreml(const std::string& path, const CoremlReadOptions&) {
  return fail("coreml.open", "the Core ML reader is being built", "", {.file = path});
}

}  // namespace moec
