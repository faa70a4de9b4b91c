#include "backends/formats/gguf/gguf_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "ir/base/json.h"

namespace moec {
namespace {

constexpr uint64_t kPrefixBytes = 24;  // magic, version, tensor count, key count
// The magic consists of bytes, so it does not reveal the byte order. In a big-endian file, the
// version reads as a multiple of 2^24.
constexpr uint32_t byte_swapped(uint32_t x) {
  return x << 24 | (x & 0xff00) << 8 | (x >> 8 & 0xff00) | x >> 24;
}

bool has_control(std::string_view name) {
  return std::any_of(name.begin(), name.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

class GgufHeaderReader {
 public:
  explicit GgufHeaderReader(GgufCursor cursor) : in_(std::move(cursor)) {
    header_.file_bytes = in_.file_bytes();
  }

  // The alignment is a key, so data_start is known only after all keys and tensors. The keys are
  // kept as bytes and decoded on request.
  Result<GgufHeader> run() {
    MOEC_TRY(read_prefix());
    for (uint64_t i = 0; i < key_count_; ++i) MOEC_TRY(read_key());
    const uint64_t keys_end = in_.at();
    for (uint64_t i = 0; i < tensor_count_; ++i) MOEC_TRY(read_tensor());
    header_.values = GgufValues(in_.path(), in_.release(keys_end), std::move(keys_));
    MOEC_TRY(read_alignment());
    header_.data_start = gguf_aligned(in_.at(), header_.alignment);
    MOEC_TRY(place_tensors());
    return std::move(header_);
  }

 private:
  Status read_prefix() {
    if (in_.file_bytes() < kPrefixBytes)
      return in_.error("too_short",
                       fmt::format("the file has {} bytes, expected at least {}", in_.file_bytes(),
                                   kPrefixBytes),
                       0, {}, "download the file again, or pass a GGUF file");
    MOEC_ASSIGN(const std::string_view magic, in_.take(kGgufMagic.size()));
    if (magic != kGgufMagic)
      return in_.error("magic", "the file does not begin with \"GGUF\"", 0, {},
                       "pass a .gguf file");
    MOEC_ASSIGN(header_.version, in_.number<uint32_t>());
    MOEC_TRY(check_version());
    MOEC_ASSIGN(tensor_count_, in_.number<uint64_t>());
    MOEC_ASSIGN(key_count_, in_.number<uint64_t>());
    // The limits bound the loops in run().
    if (tensor_count_ > kGgufMaxTensors)
      return in_.error("too_many_tensors",
                       fmt::format("the file states {} tensors, the limit is {}", tensor_count_,
                                   kGgufMaxTensors),
                       8);
    if (key_count_ > kGgufMaxKeys)
      return in_.error(
          "too_many_keys",
          fmt::format("the file states {} keys, the limit is {}", key_count_, kGgufMaxKeys), 16);
    return {};
  }

  // Versions 2 and 3 have the same layout. Version 1 has 32-bit counts.
  Status check_version() const {
    const uint32_t version = header_.version;
    if (version == 2 || version == 3) return {};
    if (version != 0 && byte_swapped(version) <= 3)
      return in_.error("byte_order", "the file is big-endian", 4, {},
                       "convert the file to little-endian");
    return in_.error("version", fmt::format("the format version is {}, expected 2 or 3", version),
                     4, {}, "convert the model again with a current converter");
  }

  // ---- Keys ------------------------------------------------------------------------------------

  // A view of the cursor is valid until its next call, so the key is copied.
  Status read_key() {
    const uint64_t begin = in_.at();
    MOEC_ASSIGN(const std::string_view text, in_.string("a key"));
    if (text.empty() || text.size() > kGgufMaxKeyBytes)
      return in_.error("key",
                       text.empty() ? "a key is empty"
                                    : fmt::format("a key has {} bytes, the limit is {}",
                                                  text.size(), kGgufMaxKeyBytes),
                       begin);
    std::string key(text);
    MOEC_ASSIGN(const GgufValue value, read_value(key));
    if (!keys_.emplace(key, value).second)
      return in_.error("duplicate_key", fmt::format("the key \"{}\" appears twice", printable(key)),
                       begin);
    return {};
  }

  Result<GgufType> read_type(const std::string& key) {
    const uint64_t begin = in_.at();
    MOEC_ASSIGN(const auto type, in_.number<uint32_t>());
    if (type < enum_count<GgufType>) return static_cast<GgufType>(type);
    return in_.error(
        "value_type",
        fmt::format("the value of \"{}\" has the unknown type {}", printable(key), type), begin);
  }

  Result<GgufValue> read_value(const std::string& key) {
    GgufValue value;
    MOEC_ASSIGN(value.type, read_type(key));
    if (value.type == GgufType::array) MOEC_TRY(read_array_start(key, value));
    value.offset = in_.at();
    MOEC_TRY(pass_elements(key, value));
    return value;
  }

  Status read_array_start(const std::string& key, GgufValue& value) {
    const uint64_t begin = in_.at();
    value.is_array = true;
    MOEC_ASSIGN(value.type, read_type(key));
    if (value.type == GgufType::array)
      return in_.error("nested_array",
                       fmt::format("the value of \"{}\" is an array of arrays", printable(key)),
                       begin);
    MOEC_ASSIGN(value.count, in_.number<uint64_t>());
    if (value.count > kGgufMaxEntries)
      return in_.error("array_too_long",
                       fmt::format("the array \"{}\" has {} entries, the limit is {}",
                                   printable(key), value.count, kGgufMaxEntries),
                       begin);
    return {};
  }

  // Skips the elements. The product cannot overflow, because an array has at most 2^24 elements of
  // 8 bytes.
  Status pass_elements(const std::string& key, const GgufValue& value) {
    if (value.type != GgufType::string) {
      MOEC_TRY(in_.take(value.count * at(kGgufTypeBytes, value.type)));
      return {};
    }
    const std::string what = fmt::format("a string of \"{}\"", printable(key));
    for (uint64_t i = 0; i < value.count; ++i) MOEC_TRY(in_.string(what));
    return {};
  }

  // llama.cpp accepts smaller powers of two in the header but can abort when it maps such a file.
  Status read_alignment() {
    header_.alignment = kGgufAlignment;
    const auto found = header_.values.keys().find(kGgufAlignmentKey);
    if (found == header_.values.keys().end()) return {};
    const auto alignment = header_.values.get<uint32_t>(kGgufAlignmentKey);
    if (!alignment || !std::has_single_bit(*alignment) || *alignment % kGgufAlignment != 0)
      return in_.error("alignment",
                       fmt::format("\"{}\" is {}, expected a u32 power of two that is a multiple "
                                   "of {}",
                                   kGgufAlignmentKey,
                                   alignment ? std::to_string(*alignment)
                                             : "of type " + to_string(found->second),
                                   kGgufAlignment),
                       found->second.offset);
    header_.alignment = *alignment;
    return {};
  }

  // ---- Tensors ---------------------------------------------------------------------------------

  Status read_tensor() {
    const uint64_t begin = in_.at();
    GgufTensor tensor;
    MOEC_ASSIGN(const std::string_view name, in_.string("a tensor's name"));
    MOEC_TRY(check_name(name, begin));
    tensor.name = name;
    MOEC_TRY(read_sizes(tensor));
    MOEC_TRY(read_block_type(tensor));
    MOEC_TRY(set_bytes(tensor, begin));
    MOEC_ASSIGN(tensor.offset, in_.number<uint64_t>());
    header_.tensors.push_back(std::move(tensor));
    return {};
  }

  // ggml stores names in 64 bytes including the terminating zero. A set finds duplicates, because
  // comparing all pairs would be quadratic.
  Status check_name(std::string_view name, uint64_t begin) {
    if (name.empty() || name.size() >= kGgufNameEnd || has_control(name))
      return in_.error("name",
                       fmt::format("a tensor's name is {}: \"{}\"",
                                   name.empty()                  ? "empty"
                                   : name.size() >= kGgufNameEnd ? "longer than 63 bytes"
                                                                 : "not printable",
                                   printable(name, 60)),
                       begin);
    if (!names_.emplace(name).second)
      return in_.error("duplicate_tensor", "the file has two tensors of this name", begin, name);
    return {};
  }

  // The file lists the innermost size first.
  Status read_sizes(GgufTensor& tensor) {
    const uint64_t begin = in_.at();
    MOEC_ASSIGN(const auto rank, in_.number<uint32_t>());
    // The rank bounds the loop below.
    if (rank > kGgufMaxSizes)
      return in_.error("rank",
                       fmt::format("the tensor has {} sizes, the limit is {}", rank, kGgufMaxSizes),
                       begin, tensor.name);
    for (uint32_t i = 0; i < rank; ++i) {
      MOEC_ASSIGN(const auto size, in_.number<int64_t>());
      tensor.dims.insert(tensor.dims.begin(), size);
    }
    return {};
  }

  Status read_block_type(GgufTensor& tensor) {
    const uint64_t begin = in_.at();
    MOEC_ASSIGN(const auto id, in_.number<uint32_t>());
    if (const auto removed = removed_block_type(id))
      return in_.error("removed_type",
                       fmt::format("the type {} ({}) was removed from the format", *removed, id),
                       begin, tensor.name, "convert the model again with a current converter");
    const std::optional<BlockType> type = find_block_type(id);
    if (!type)
      return in_.error("type", fmt::format("the type number {} is unknown", id), begin, tensor.name,
                       "download the file again, or update moec");
    tensor.type = *type;
    return {};
  }

  // The numbers of elements and of bytes must stay below 2^63.
  Status set_bytes(GgufTensor& tensor, uint64_t begin) const {
    const BlockFormat& format = block_format(tensor.type);
    // Elements times bytes per block stay below 2^63. The product counts a size of 0 as 1, so that
    // a zero cannot hide an overflow.
    const int64_t limit = INT64_MAX / format.bytes;
    int64_t elements = 1;
    bool fits = true, empty = false;
    for (int64_t size : tensor.dims) {
      fits = fits && size >= 0 && elements <= limit / std::max<int64_t>(size, 1);
      if (!fits) break;
      elements *= std::max<int64_t>(size, 1);
      empty = empty || size == 0;
    }
    if (!fits)
      return in_.error("dims",
                       fmt::format("sizes {} are negative or too large", to_string(tensor.dims)),
                       begin, tensor.name);
    const int64_t row = tensor.dims.empty() ? 1 : tensor.dims.back();
    if (row % format.elements != 0)
      return in_.error(
          "block",
          fmt::format("rows of {} elements are not a multiple of the {} block size, {}", row,
                      format.name, format.elements),
          begin, tensor.name);
    tensor.bytes = empty ? 0 : static_cast<uint64_t>(block_row_bytes(tensor.type, elements));
    return {};
  }

  // The tensors must be contiguous, each padded to the alignment; only the padding after the last
  // one may be missing. Converts offsets from data_start to offsets from the start of the file.
  Status place_tensors() {
    const uint64_t file_bytes = header_.file_bytes, start = header_.data_start;
    const uint64_t held = file_bytes > start ? file_bytes - start : 0;
    uint64_t next = 0;
    for (GgufTensor& tensor : header_.tensors) {
      if (tensor.offset != next)
        return in_.error("offset",
                         fmt::format("the tensor begins at byte {} of the data, expected {}",
                                     tensor.offset, next),
                         start, tensor.name);
      // An empty tensor needs no bytes, so it may lie after the end of the data.
      if (tensor.bytes > 0 && (next > held || tensor.bytes > held - next))
        return in_.error(
            "truncated",
            fmt::format("the tensor's {} bytes at {} exceed the data, which has {} bytes",
                        tensor.bytes, next, held),
            file_bytes, tensor.name, "download the file again");
      tensor.offset = start + next;
      next = gguf_aligned(next + tensor.bytes, header_.alignment);
    }
    return {};
  }

  GgufCursor in_;
  uint64_t tensor_count_ = 0, key_count_ = 0;
  GgufKeys keys_;
  std::unordered_set<std::string> names_;
  GgufHeader header_;
};

}  // namespace

Result<GgufHeader> read_gguf_header(GgufCursor cursor) {
  return GgufHeaderReader(std::move(cursor)).run();
}

}  // namespace moec
