// A GGUF file whose architecture and family are known.
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

// A GGUF file, as its architecture names things.
struct GgufModel {
  const Gguf& file;
  const GgufArchitecture& architecture;
  const Family& family;

  // "ARCH.name".
  std::string key(std::string_view name) const {
    return architecture.name + "." + std::string(name);
  }
  const GgufTensor* find(std::string_view tensor) const;
  // A number of the architecture; nothing where there is none. Errors: gguf.key_type, gguf.value
  // where it is not finite.
  Result<std::optional<float>> number(std::string_view name) const;
};

// Chooses architecture and family by the file's keys. Errors: gguf.missing_key, gguf.key_type,
// gguf.architecture, and gguf.family where the keys fit no family of the architecture, or have a
// value that the family cannot express.
Result<GgufModel> identify(const Gguf& file);

// Reads so many floats of a tensor of f32.
using ReadFloats = std::function<Result<std::vector<float>>(const GgufTensor&)>;

}  // namespace moec
