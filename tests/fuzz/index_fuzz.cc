// Reads arbitrary text as a model.safetensors.index.json. Accepted file names must not leave the
// folder.
#include "frontends/sources/hf/index.h"
#include "ir/base/invariant.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto index = moec::parse_index({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!index) return 0;
  for (const auto& [tensor, file] : index->file_of)
    MOEC_CHECK(file.find_first_of("/\\:") == std::string::npos && file.front() != '.',
               "a file name is a path");
  return 0;
}
