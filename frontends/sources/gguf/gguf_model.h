// Identifies the architecture and the family of a GGUF file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/sources/gguf/architecture.h"
#include "frontends/sources/gguf/gguf.h"
#include "ir/base/diagnostics.h"
#include "models/families/family.h"

namespace moec {

// A GGUF file with its architecture and family. Keeps references to all three.
struct GgufModel {
  const Gguf& file;
  const GgufArchitecture& architecture;
  const Family& family;

  // Returns "ARCH.name".
  std::string key(std::string_view name) const {
    return architecture.name + "." + std::string(name);
  }
  const GgufTensor* find(std::string_view tensor) const;
  // Returns the value of the key "ARCH.name"; absent if the file lacks the key. Errors:
  // gguf.key_type, gguf.value (the value is not finite).
  Result<std::optional<float>> number(std::string_view name) const;
  // Returns the list of 32-bit integers of the key "ARCH.name", which converters write as signed or
  // unsigned. Errors: gguf.missing_key, gguf.key_type.
  Result<std::vector<int64_t>> integers(std::string_view name) const;
};

// Determines the architecture and the family from the file's keys. Errors: gguf.missing_key,
// gguf.key_type, gguf.architecture, gguf.family (the keys match no family of the architecture, or a
// key has a value that the family cannot express).
Result<GgufModel> identify(const Gguf& file);

// Reads all elements of an f32 tensor.
using ReadFloats = std::function<Result<std::vector<float>>(const GgufTensor&)>;

}  // namespace moec
