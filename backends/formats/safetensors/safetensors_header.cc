#include "backends/formats/safetensors/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "backends/formats/safetensors/safetensors_dtype.h"
#include "ir/base/json.h"

namespace moec {
namespace {

// Limits for untrusted files. kMaxNumber keeps sums of offsets far below 2^64.
constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxRankOnDisk = 8;
constexpr size_t kMaxTensors = 4'000'000;
constexpr int64_t kMaxNumber = int64_t{1} << 48;
// Depth 3: the header, an entry, and a list in the entry. `values` limits one member, because
// parse_json_members() parses the members one by one.
constexpr JsonLimits kHeaderLimits{.bytes = kSafetensorsMaxHeader, .depth = 3, .values = 1 << 20};
constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kFields[] = {"dtype", "shape", "data_offsets"};

// Parses and checks the entries of a header.
class HeaderReader {
 public:
  HeaderReader(std::string_view json, uint64_t file_bytes, const std::string& file)
      : json_(json), source_{file, kSafetensorsPrefix, false} {
    header_.file_bytes = file_bytes;
    payload_bytes_ = file_bytes - kSafetensorsPrefix - json.size();
  }

  Result<SafetensorsHeader> run() {
    if (json_.empty() || json_.front() != '{')
      return error("header_start", "the header does not start with {", 0);
    MOEC_TRY(parse_json_members(json_, source_, kHeaderLimits,
                                [&](const std::string& name, const JsonValue& value) -> Status {
                                  return name == kMetadata ? metadata(value) : entry(name, value);
                                }));
    // JSON objects have no order, but check_ranges() needs the order in the file. The name makes
    // the order of empty tensors deterministic.
    std::sort(header_.tensors.begin(), header_.tensors.end(),
              [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
              });
    MOEC_TRY(check_ranges());
    return std::move(header_);
  }

 private:
  tl::unexpected<Diagnostics> error(std::string_view code, std::string cause, uint64_t offset,
                                    std::string_view tensor = {}) const {
    Place place = json_place(json_, source_, offset);
    place.tensor = printable(tensor);
    return fail(fmt::format("safetensors.{}", code), std::move(cause), "download the file again",
                std::move(place));
  }

  // The format requires the values of __metadata__ to be strings.
  Status metadata(const JsonValue& value) {
    if (value.object() == nullptr)
      return error("metadata", "__metadata__ is not an object", value.offset);
    for (const JsonMember& member : *value.object()) {
      if (member.value.string() == nullptr)
        return error("metadata",
                     fmt::format("the value of \"{}\" in __metadata__ is {}, expected a string",
                                 printable(member.key), kind_name(member.value)),
                     member.value.offset);
      header_.metadata[member.key] = *member.value.string();
    }
    return {};
  }

  Status entry(const std::string& name, const JsonValue& value) {
    // Duplicate names are duplicate keys, which the JSON parser rejects.
    MOEC_TRY(check_name(name, value.offset));
    if (header_.tensors.size() >= kMaxTensors)
      return error("too_many", fmt::format("there are more than {} tensors", kMaxTensors),
                   value.offset);
    SafetensorsEntry entry{name, {}, {}, 0, 0};
    MOEC_TRY(read_fields(value, entry));
    MOEC_TRY(check_size(entry, value.offset));
    header_.tensors.push_back(std::move(entry));
    return {};
  }

  Status check_name(const std::string& name, uint64_t offset) const {
    bool control = std::any_of(name.begin(), name.end(), [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
    if (name.empty() || name.size() > kMaxNameBytes || control)
      return error("name",
                   fmt::format("a tensor's name is {}: \"{}\"",
                               name.empty() ? "empty"
                               : control    ? "not printable"
                                            : "longer than 1,024 bytes",
                               printable(name, 60)),
                   offset);
    return {};
  }

  // An unknown field is an error, because it could change the meaning of the bytes.
  Status read_fields(const JsonValue& value, SafetensorsEntry& entry) const {
    if (value.object() == nullptr)
      return error("field", fmt::format("the entry is {}, expected an object", kind_name(value)),
                   value.offset, entry.name);
    for (const JsonMember& member : *value.object())
      if (std::find(std::begin(kFields), std::end(kFields), member.key) == std::end(kFields))
        return error("field", fmt::format("unknown field \"{}\"", printable(member.key)),
                     member.value.offset, entry.name);
    const JsonValue* dtype = value.find("dtype");
    if (dtype == nullptr || dtype->string() == nullptr)
      return error("field", "\"dtype\" must be a string", value.offset, entry.name);
    entry.dtype = *dtype->string();
    return read_numbers(value, entry);
  }

  Status read_numbers(const JsonValue& value, SafetensorsEntry& entry) const {
    const JsonValue* shape = value.find("shape");
    const JsonValue* offsets = value.find("data_offsets");
    if (shape == nullptr || shape->array() == nullptr)
      return error("field", "\"shape\" must be a list of sizes", value.offset, entry.name);
    if (offsets == nullptr || offsets->array() == nullptr || offsets->array()->size() != 2)
      return error("field", "\"data_offsets\" must be a list of two numbers", value.offset,
                   entry.name);
    if (shape->array()->size() > kMaxRankOnDisk)
      return error("rank",
                   fmt::format("the shape has {} sizes, the limit is {}", shape->array()->size(),
                               kMaxRankOnDisk),
                   shape->offset, entry.name);
    for (const JsonValue& size : *shape->array()) {
      MOEC_ASSIGN(int64_t number, read_number(size, entry.name));
      entry.shape.push_back(number);
    }
    MOEC_ASSIGN(int64_t begin, read_number((*offsets->array())[0], entry.name));
    MOEC_ASSIGN(int64_t end, read_number((*offsets->array())[1], entry.name));
    return read_range(begin, end, offsets->offset, entry);
  }

  Status read_range(int64_t begin, int64_t end, uint64_t offset, SafetensorsEntry& entry) const {
    if (end < begin)
      return error("offsets",
                   fmt::format("data_offsets [{}, {}] end before they begin", begin, end), offset,
                   entry.name);
    // The sums below cannot overflow: both numbers are at most 2^48.
    if (static_cast<uint64_t>(end) > payload_bytes_)
      return error(
          "truncated",
          fmt::format("data_offsets [{}, {}] exceed the file, which has {} bytes after its header",
                      begin, end, payload_bytes_),
          offset, entry.name);
    entry.begin = kSafetensorsPrefix + json_.size() + static_cast<uint64_t>(begin);
    entry.end = kSafetensorsPrefix + json_.size() + static_cast<uint64_t>(end);
    return {};
  }

  Result<int64_t> read_number(const JsonValue& value, const std::string& tensor) const {
    const int64_t* number = value.integer();
    if (number == nullptr || *number < 0 || *number > kMaxNumber)
      return error("number",
                   fmt::format("{} is not an integer from 0 to 2^48", to_string(value, 40)),
                   value.offset, tensor);
    return *number;
  }

  Status check_size(const SafetensorsEntry& entry, uint64_t offset) const {
    const DiskDType* dtype = find_disk_dtype(entry.dtype);
    if (dtype == nullptr)
      return error("dtype", fmt::format("unknown element type \"{}\"", printable(entry.dtype, 40)),
                   offset, entry.name);
    // Multiplies in bits, because some element types have fewer than 8. A size of 0 makes the
    // product 0, so it needs no overflow check.
    uint64_t bits = dtype->bits;
    // Rows of 4-bit elements may not end inside a byte.
    bool whole = dtype->bits != 4 || entry.shape.empty() || entry.shape.back() % 2 == 0;
    for (int64_t size : entry.shape) {
      auto factor = static_cast<uint64_t>(size);
      if (factor != 0 && bits > (uint64_t{1} << 63) / factor)
        return error("shape", "the product of the sizes is too large: " + to_string(entry.shape),
                     offset, entry.name);
      bits *= factor;
    }
    if (!whole || bits % 8 != 0)
      return error("shape",
                   fmt::format("{} of {} is not a whole number of bytes", to_string(entry.shape),
                               entry.dtype),
                   offset, entry.name);
    if (bits / 8 != entry.end - entry.begin)
      return error("size",
                   fmt::format("{}{} has {} bytes, its data_offsets span {}", entry.dtype,
                               to_string(entry.shape), bits / 8, entry.end - entry.begin),
                   offset, entry.name);
    return {};
  }

  // The format requires contiguous ranges from the end of the header to the end of the file: bytes
  // outside of tensors could hide another file.
  Status check_ranges() const {
    uint64_t at = kSafetensorsPrefix + json_.size();
    const SafetensorsEntry* before = nullptr;
    for (const SafetensorsEntry& entry : header_.tensors) {
      if (entry.begin != at) return range_error(entry, before, at);
      at = entry.end;
      before = &entry;
    }
    if (at == header_.file_bytes) return {};
    return fail(
        "safetensors.trailing",
        fmt::format("{} bytes after the last tensor belong to no tensor", header_.file_bytes - at),
        "download the file again", {.file = source_.file, .offset = at});
  }

  // Distinguishes an overlap from a gap. `before` is the preceding tensor, or null for the first
  // tensor.
  Status range_error(const SafetensorsEntry& entry, const SafetensorsEntry* before,
                     uint64_t at) const {
    Place place{.tensor = printable(entry.name), .file = source_.file, .offset = entry.begin};
    if (entry.begin < at)
      return fail("safetensors.overlap",
                  fmt::format("the tensor's bytes overlap those of \"{}\"",
                              before == nullptr ? "" : printable(before->name)),
                  "download the file again", std::move(place));
    return fail("safetensors.hole",
                fmt::format("{} bytes before the tensor belong to no tensor", entry.begin - at),
                "download the file again", std::move(place));
  }

  std::string_view json_;
  JsonSource source_;
  uint64_t payload_bytes_ = 0;
  SafetensorsHeader header_;
};

}  // namespace

Result<SafetensorsHeader> read_header(std::string_view json, uint64_t file_bytes,
                                      const std::string& file) {
  return HeaderReader(json, file_bytes, file).run();
}

}  // namespace moec
