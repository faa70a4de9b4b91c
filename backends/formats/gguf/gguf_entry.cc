#include "backends/formats/gguf/gguf_entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/formats/gguf/gguf_bytes.h"
#include "ir/base/json.h"

namespace moec {
namespace {

// Collects the value of an entry as it is in the file: type, for an array also element type and
// count, then the elements.
class EntryText {
 public:
  explicit EntryText(const std::string& key) : key_(key) {}

  // The bytes of the elements were copied from another file, so they need no conversion.
  Status put(const GgufBytesValue& value) {
    put_type(value.type, value.is_array, value.count);
    bytes_ += value.bytes;
    return check_count(value.count);
  }
  template <class T>
  Status put(const std::vector<T>& values) {
    MOEC_TRY(check_count(values.size()));
    put_type(gguf_type_of<T>(), true, values.size());
    for (const T& value : values) MOEC_TRY(put_element(value));
    return {};
  }
  template <class T>
  Status put(const T& value) {
    put_type(gguf_type_of<T>(), false, 1);
    return put_element(value);
  }

  std::string take() && { return std::move(bytes_); }

 private:
  // In an array, the type `array` precedes the element type.
  void put_type(GgufType type, bool is_array, uint64_t count) {
    if (is_array) append_number(bytes_, static_cast<uint32_t>(GgufType::array));
    append_number(bytes_, static_cast<uint32_t>(type));
    if (is_array) append_number(bytes_, count);
  }

  template <class T>
  Status put_element(const T& value) {
    append_number(bytes_, value);
    return {};
  }
  Status put_element(const std::string& value) {
    if (value.size() > kGgufMaxString)
      return fail("gguf.string_too_long",
                  fmt::format("a string of \"{}\" has {} bytes, the limit is {}", printable(key_),
                              value.size(), kGgufMaxString),
                  "remove the key");
    append_string(bytes_, value);
    return {};
  }

  Status check_count(uint64_t count) const {
    if (count <= kGgufMaxEntries) return {};
    return fail("gguf.array_too_long",
                fmt::format("the array \"{}\" has {} entries, the limit is {}", printable(key_),
                            count, kGgufMaxEntries),
                "remove the key");
  }

  const std::string& key_;
  std::string bytes_;
};

}  // namespace

// Searches linearly, because a file has few keys and the entries must keep their order.
const GgufEntry* find_entry(const std::vector<GgufEntry>& entries, std::string_view key) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const GgufEntry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

Result<std::string> entry_bytes(const GgufEntry& entry) {
  if (entry.key.empty() || entry.key.size() > kGgufMaxKeyBytes)
    return fail(
        "gguf.key",
        fmt::format("a key has {} bytes, expected 1 to {}", entry.key.size(), kGgufMaxKeyBytes),
        "choose another name for the key");
  EntryText value(entry.key);
  MOEC_TRY(std::visit([&](const auto& item) { return value.put(item); }, entry.value));
  std::string bytes;
  append_string(bytes, entry.key);
  return bytes + std::move(value).take();
}

}  // namespace moec
