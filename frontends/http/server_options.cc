#include "frontends/http/server_options.h"

#include <algorithm>

#include "ir/base/regular_file.h"

namespace moec {

Result<std::string> read_api_key(const std::string& path) {
  MOEC_ASSIGN(std::string key, read_user_text(path, "serve.api_key"));
  // Many editors end a file with a line end, which is not part of the key.
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  // Other characters cannot be sent in a header, or would be trimmed.
  const bool is_word =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
  if (!key.empty() && is_word) return key;
  return fail("serve.api_key", "the file is not one line of printable characters without spaces",
              "write only the key into the file", {.file = path});
}

}  // namespace moec
