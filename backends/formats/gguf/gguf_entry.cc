#include "backends/formats/gguf/gguf_entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/formats/gguf/gguf_bytes.h"
#include "ir/base/json.h"

namespace moec {
namespace {

class EntryText {
 public:
  explicit EntryText(const std::string& key) : key_(key) {}

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
                  "Leave the key out.");
    append_string(bytes_, value);
    return {};
  }

  Status check_count(uint64_t count) const {
    if (count <= kGgufMaxEntries) return {};
    return fail("gguf.array_too_long",
                fmt::format("the array \"{}\" has {} entries, the limit is {}", printable(key_),
                            count, kGgufMaxEntries),
                "Leave the key out.");
  }

  const std::string& key_;
  std::string bytes_;
};

}  // namespace

const GgufEntry* find_entry(const std::vector<GgufEntry>& entries, std::string_view key) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const GgufEntry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

Result<std::string> entry_bytes(const GgufEntry& entry) {
  if (entry.key.empty() || entry.key.size() > kGgufMaxKeyBytes)
    return fail(
        "gguf.key",
        fmt::format("a key has {} bytes; it must have 1 to {}", entry.key.size(), kGgufMaxKeyBytes),
        "Give the key another name.");
  EntryText value(entry.key);
  MOEC_TRY(std::visit([&](const auto& item) { return value.put(item); }, entry.value));
  std::string bytes;
  append_string(bytes, entry.key);
  return bytes + std::move(value).take();
}

}  // namespace moec
