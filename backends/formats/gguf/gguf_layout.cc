#include "backends/formats/gguf/gguf_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <unordered_set>
#include <variant>

#include "backends/formats/gguf/gguf_bytes.h"
#include "ir/base/invariant.h"
#include "ir/base/json.h"

namespace moec {
namespace {

// split.no and split.count are u16.
constexpr size_t kMaxParts = UINT16_MAX;

tl::unexpected<Diagnostics> tensor_error(std::string code, std::string cause,
                                         const GgufTensorInfo& tensor) {
  return fail(std::move(code), std::move(cause), "rename, reshape or omit the tensor",
              {.tensor = printable(tensor.name)});
}

// The reader has the same limits. ggml stores a name in 64 bytes, including the terminating zero.
Status check_tensor_name(const GgufTensorInfo& tensor) {
  const bool has_control = std::any_of(tensor.name.begin(), tensor.name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (!tensor.name.empty() && tensor.name.size() < kGgufNameEnd && !has_control) return {};
  return tensor_error("gguf.name",
                      fmt::format("a tensor's name has {} bytes, expected 1 to {} printable bytes",
                                  tensor.name.size(), kGgufNameEnd - 1),
                      tensor);
}

// Smaller powers of two pass llama.cpp's check of the header, but llama.cpp can abort when it maps
// such a file.
Result<uint32_t> alignment_of(const std::vector<GgufEntry>& entries) {
  const GgufEntry* entry = find_entry(entries, kGgufAlignmentKey);
  if (entry == nullptr) return kGgufAlignment;
  const uint32_t* alignment = std::get_if<uint32_t>(&entry->value);
  if (alignment && std::has_single_bit(*alignment) && *alignment % kGgufAlignment == 0)
    return *alignment;
  return fail("gguf.alignment",
              fmt::format("\"{}\" must be a u32 power of two that is a multiple of {}",
                          kGgufAlignmentKey, kGgufAlignment),
              "remove the key");
}

Status check_counts(size_t entries, size_t tensors) {
  if (entries > kGgufMaxKeys)
    return fail("gguf.too_many_keys",
                fmt::format("the file would have {} keys, the limit is {}", entries, kGgufMaxKeys),
                "remove some keys");
  if (tensors > kGgufMaxTensors)
    return fail(
        "gguf.too_many_tensors",
        fmt::format("the file would have {} tensors, the limit is {}", tensors, kGgufMaxTensors),
        "split the model over several files");
  return {};
}

// Returns the serialized entries of a header, without their count.
Result<std::string> keys_text(const std::vector<GgufEntry>& entries) {
  std::string text;
  std::set<std::string_view> keys;
  for (const GgufEntry& entry : entries) {
    if (!keys.insert(entry.key).second)
      return fail("gguf.duplicate_key",
                  fmt::format("the key \"{}\" appears twice", printable(entry.key)),
                  "remove one of the two");
    MOEC_ASSIGN(const std::string bytes, entry_bytes(entry));
    text += bytes;
  }
  return text;
}

// Header entry of a tensor; `data` is its offset from the end of the header.
std::string info_text(const GgufTensorInfo& tensor, uint64_t data) {
  std::string text;
  append_string(text, tensor.name);
  append_number(text, static_cast<uint32_t>(tensor.dims.rank()));
  for (int64_t axis = tensor.dims.rank(); axis-- > 0;) append_number(text, tensor.dims.at(axis));
  append_number(text, block_format(tensor.type).gguf_id);
  append_number(text, data);
  return text;
}

// ---- Parts -------------------------------------------------------------------------------------

// llama.cpp accepts these keys only with exactly these types.
std::vector<GgufEntry> split_entries(size_t part, size_t parts, size_t tensors) {
  return {{"split.no", static_cast<uint16_t>(part)},
          {"split.count", static_cast<uint16_t>(parts)},
          {"split.tensors.count", static_cast<int32_t>(tensors)}};
}

// Cuts the tensors into runs that fit into a file. The size of the split keys does not depend on
// their values, so the header can be planned with arbitrary values.
class PartCutter {
 public:
  PartCutter(const std::vector<GgufEntry>& entries, const std::vector<GgufTensorInfo>& tensors,
             uint64_t max_bytes)
      : entries_(entries), tensors_(tensors), max_bytes_(max_bytes) {}

  // Returns, for each part, the index after its last tensor.
  Result<std::vector<size_t>> run() {
    MOEC_ASSIGN(const std::string keys, keys_text(entries_));
    MOEC_ASSIGN(const std::string split, keys_text(split_entries(0, 1, 1)));
    MOEC_ASSIGN(alignment_, alignment_of(entries_));
    uint64_t header = kPrefixBytes + keys.size() + split.size();
    std::vector<size_t> ends;
    // A model without tensors still gets one file. Only the first part has the keys of the model,
    // and with them the alignment; the other parts use the default.
    for (size_t begin = 0; begin < tensors_.size() || ends.empty();) {
      MOEC_ASSIGN(begin, end_of(begin, header));
      ends.push_back(begin);
      header = kPrefixBytes + split.size();
      alignment_ = kGgufAlignment;
    }
    return ends;
  }

 private:
  static constexpr uint64_t kPrefixBytes = 24;

  // Returns the index after the last tensor that fits into a file. `header` is the size of the
  // header without tensors. Fails if the first tensor does not fit.
  Result<size_t> end_of(size_t begin, uint64_t header) {
    uint64_t payload = 0;
    size_t end = begin;
    for (; end < tensors_.size() && end - begin < kGgufMaxTensors; ++end) {
      MOEC_ASSIGN(const uint64_t bytes, gguf_tensor_bytes(tensors_[end]));
      // The size of a header entry does not depend on the offset in it.
      const uint64_t more = header + info_text(tensors_[end], 0).size();
      const uint64_t filled = payload + gguf_aligned(bytes, alignment_);
      if (gguf_aligned(more, alignment_) + filled > max_bytes_) break;
      header = more;
      payload = filled;
    }
    if (end > begin || begin == tensors_.size()) return end;
    return fail("gguf.part_size",
                fmt::format("a file with this tensor alone would exceed {} bytes", max_bytes_),
                "raise --max-file-size", {.tensor = tensors_[begin].name});
  }

  const std::vector<GgufEntry>& entries_;
  const std::vector<GgufTensorInfo>& tensors_;
  uint64_t max_bytes_;
  uint32_t alignment_ = kGgufAlignment;
};

}  // namespace

Result<uint64_t> gguf_tensor_bytes(const GgufTensorInfo& tensor) {
  const BlockFormat& format = block_format(tensor.type);
  if (tensor.dims.size() > kGgufMaxSizes)
    return tensor_error(
        "gguf.rank",
        fmt::format("the tensor has {} sizes, the limit is {}", tensor.dims.size(), kGgufMaxSizes),
        tensor);
  // As in the reader: sizes of 0 count as 1, so that they cannot hide an overflow.
  int64_t elements = 1;
  bool is_empty = false;
  for (const int64_t size : tensor.dims) {
    if (size < 0 || elements > INT64_MAX / format.bytes / std::max<int64_t>(size, 1))
      return tensor_error("gguf.dims",
                          fmt::format("sizes {} are negative or too large", to_string(tensor.dims)),
                          tensor);
    elements *= std::max<int64_t>(size, 1);
    is_empty = is_empty || size == 0;
  }
  const int64_t row = tensor.dims.empty() ? 1 : tensor.dims.back();
  if (row % format.elements != 0)
    return tensor_error(
        "gguf.block",
        fmt::format("rows of {} elements are not a multiple of the {} block size, {}", row,
                    format.name, format.elements),
        tensor);
  return is_empty ? 0 : static_cast<uint64_t>(block_row_bytes(tensor.type, elements));
}

Result<GgufLayout> plan_gguf(const std::vector<GgufEntry>& entries,
                             std::vector<GgufTensorInfo> tensors) {
  MOEC_TRY(check_counts(entries.size(), tensors.size()));
  MOEC_ASSIGN(const uint32_t alignment, alignment_of(entries));
  MOEC_ASSIGN(const std::string keys, keys_text(entries));
  GgufLayout layout;
  layout.header = kGgufMagic;
  append_number(layout.header, kGgufVersion);
  append_number(layout.header, static_cast<uint64_t>(tensors.size()));
  append_number(layout.header, static_cast<uint64_t>(entries.size()));
  layout.header += keys;
  uint64_t data = 0;
  std::unordered_set<std::string_view> names;
  for (const GgufTensorInfo& tensor : tensors) {
    MOEC_TRY(check_tensor_name(tensor));
    if (!names.insert(tensor.name).second)
      return tensor_error("gguf.duplicate_tensor", "two tensors have this name", tensor);
    MOEC_ASSIGN(const uint64_t bytes, gguf_tensor_bytes(tensor));
    // Subtracts the alignment, because gguf_aligned() can add up to alignment - 1 bytes.
    if (bytes > INT64_MAX - data - alignment)
      return tensor_error("gguf.dims", "the file would have 2^63 bytes or more", tensor);
    layout.header += info_text(tensor, data);
    layout.offsets.push_back(data);
    layout.bytes.push_back(bytes);
    data = gguf_aligned(data + bytes, alignment);
  }
  layout.header.resize(gguf_aligned(layout.header.size(), alignment));
  if (layout.header.size() > kGgufMaxHeader)
    return fail("gguf.header_too_long",
                fmt::format("the header has {} bytes, the limit is {}", layout.header.size(),
                            kGgufMaxHeader),
                "remove some keys");
  // The header states offsets from its end; GgufLayout states them from the start of the file.
  for (uint64_t& offset : layout.offsets) offset += layout.header.size();
  layout.file_bytes = layout.header.size() + data;
  layout.tensors = std::move(tensors);
  return layout;
}

// Recognizes block types by their form, so that it also removes types that moec does not know, such
// as Q9_X. A suffix of another form stays in the name.
std::string without_gguf_type(std::string name) {
  const size_t end = name.find_last_of(".-");
  if (end == std::string::npos || end == 0) return name;
  std::string type = name.substr(end + 1);
  std::transform(type.begin(), type.end(), type.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  constexpr std::array<std::string_view, 5> kWhole = {"F32", "F16", "BF16", "MXFP4", "NVFP4"};
  const bool is_whole = std::find(kWhole.begin(), kWhole.end(), type) != kWhole.end();
  constexpr std::array<std::string_view, 3> kStarts = {"Q", "IQ", "TQ"};  // Q4_K_M, IQ4_XS, TQ1_0
  const bool is_blocks = std::any_of(kStarts.begin(), kStarts.end(), [&](std::string_view start) {
    return type.starts_with(start) && type.size() >= start.size() + 3 &&
           type[start.size()] >= '1' && type[start.size()] <= '9' && type[start.size() + 1] == '_';
  });
  if (is_whole || is_blocks) name.resize(end);
  return name;
}

// Removes only the number of the first part, because a model is opened by its first file.
std::string gguf_model_name(std::string file_name) {
  constexpr std::string_view kEnding = ".gguf", kFirst = "-00001-of-";
  constexpr size_t kDigits = 5;
  if (file_name.ends_with(kEnding)) file_name.resize(file_name.size() - kEnding.size());
  const std::string_view name = file_name;
  const size_t number = kFirst.size() + kDigits;
  if (name.size() <= number) return file_name;
  const std::string_view last = name.substr(name.size() - number);
  const std::string_view digits = last.substr(kFirst.size());
  if (last.starts_with(kFirst) &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    file_name.resize(file_name.size() - number);
  return file_name;
}

std::string gguf_part_name(const std::string& name, size_t part, size_t parts) {
  if (parts == 1) return name + ".gguf";
  return fmt::format("{}-{:05}-of-{:05}.gguf", name, part + 1, parts);
}

Result<std::vector<GgufPart>> plan_gguf_parts(const std::string& name,
                                              const std::vector<GgufEntry>& entries,
                                              const std::vector<GgufTensorInfo>& tensors,
                                              uint64_t max_bytes) {
  for (const GgufEntry& entry : split_entries(0, 1, 1))
    MOEC_CHECK(find_entry(entries, entry.key) == nullptr, "{} is a reserved key", entry.key);
  MOEC_ASSIGN(const std::vector<size_t> ends, PartCutter(entries, tensors, max_bytes).run());
  if (ends.size() > kMaxParts)
    return fail(
        "gguf.too_many_parts",
        fmt::format("the model would have {} files, the limit is {}", ends.size(), kMaxParts),
        "raise --max-file-size");
  std::vector<GgufPart> parts;
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); begin = ends[i++]) {
    std::vector<GgufEntry> keys = i == 0 ? entries : std::vector<GgufEntry>();
    if (ends.size() > 1)
      for (GgufEntry& entry : split_entries(i, ends.size(), tensors.size()))
        keys.push_back(std::move(entry));
    const auto first = tensors.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = tensors.begin() + static_cast<std::ptrdiff_t>(ends[i]);
    MOEC_ASSIGN(GgufLayout layout, plan_gguf(keys, {first, last}));
    parts.push_back({gguf_part_name(name, i, ends.size()), std::move(layout)});
  }
  return parts;
}

}  // namespace moec
