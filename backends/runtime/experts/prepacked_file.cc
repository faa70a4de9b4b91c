#include "backends/runtime/experts/prepacked_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <span>

#include "backends/files/digest.h"
#include "ir/base/at.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

constexpr std::string_view kPackFormat = "moec.prepacked_experts";
constexpr uint32_t kPackVersion = 1;
constexpr std::string_view kPackHead = "MOECPACK", kPackTail = "MOECPEND";
// Offsets within the tail: marker at 0, offset of the table at 8, its bytes at 16, its digest at
// 24.
constexpr uint64_t kPackTailBytes = 64;
constexpr size_t kDigestAt = 24, kPackDigestDigits = 32;
// Enough for 100 layers of 1,024 experts.
constexpr JsonLimits kPackLimits{.bytes = 64 << 20, .values = size_t{1} << 21};
constexpr const char* kPackAgain = "create it again with moec prepack";

static_assert(std::endian::native == std::endian::little,
              "the file is little-endian, and numbers are copied unconverted");

// Copies bytes, because the buffer has no alignment for numbers.
template <class T>
void put(std::string& text, size_t at, T value) {
  std::memcpy(text.data() + at, &value, sizeof value);
}

template <class T>
T get(const std::string& text, size_t at) {
  T value;
  std::memcpy(&value, text.data() + at, sizeof value);
  return value;
}

auto bad_pack(const char* code, std::string cause, const std::string& path) {
  return fail(std::string("prepacked.") + code, std::move(cause), kPackAgain, {.file = path});
}

// Returns the slot of each of `experts` experts, or -1. The ids in `layer` must be below `experts`.
std::vector<int64_t> slot_table(std::span<const PrepackedExpert> layer, int64_t experts) {
  std::vector<int64_t> slots(static_cast<size_t>(experts), -1);
  for (size_t slot = 0; slot < layer.size(); ++slot)
    at(slots, layer[slot].key.expert) = static_cast<int64_t>(slot);
  return slots;
}

std::string expert_text(const PrepackedExpert& expert) {
  return fmt::format(
      R"(       {{"expert": {}, "pinned": {}, "offset": {}, "bytes": {}, "digest": "{}"}})",
      expert.key.expert, expert.pinned, expert.offset, expert.bytes, expert.digest);
}

std::string layer_text(std::span<const PrepackedExpert> layer, int64_t experts) {
  std::vector<std::string> slots;
  for (const PrepackedExpert& expert : layer) slots.push_back(expert_text(expert));
  return fmt::format("    {{\"layer\": {}, \"slot_of\": [{}],\n     \"slots\": [\n{}]}}",
                     layer.front().key.layer, fmt::join(slot_table(layer, experts), ", "),
                     fmt::join(slots, ",\n"));
}

std::string table_text(const PrepackedTable& table) {
  std::vector<std::string> layers;
  const std::span<const PrepackedExpert> all(table.resident);
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    // The experts of a layer are consecutive, so each pass of the outer loop writes one layer.
    while (end < all.size() && all[end].key.layer == all[begin].key.layer) ++end;
    layers.push_back(layer_text(all.subspan(begin, end - begin), table.experts));
  }
  return fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"model\": {},\n  \"digest\": {},\n"
      "  \"capacity\": {},\n  \"layers\": [\n{}\n  ]\n}}\n",
      kPackFormat, kPackVersion, json_string(table.model), json_string(table.digest),
      table.capacity, fmt::join(layers, ",\n"));
}

// Reads a table that begins at offset `end` of the file; no expert can extend beyond `end`.
class TableReader {
 public:
  explicit TableReader(uint64_t end) : end_(end) {}

  Result<PrepackedTable> read(JsonFields& fields) {
    MOEC_TRY(fields.form(kPackFormat, kPackVersion));
    MOEC_TRY(fields.text("model", table_.model));
    MOEC_TRY(fields.text("digest", table_.digest));
    MOEC_TRY(fields.positive("capacity", table_.capacity));
    MOEC_TRY(fields.each("layers", [&](JsonFields& layer) { return read_layer(layer); }));
    MOEC_TRY(fields.finish());
    return std::move(table_);
  }

 private:
  Status read_layer(JsonFields& fields) {
    const size_t first = table_.resident.size();
    std::vector<int64_t> slots;
    MOEC_TRY(fields.whole("layer", layer_));
    // `slot_of` is read before `slots`, because its length bounds the expert ids in `slots`.
    MOEC_TRY(fields.integers("slot_of", slots));
    table_.experts = std::ssize(slots);
    MOEC_TRY(fields.each("slots", [&](JsonFields& expert) { return read_expert(expert); }));
    // The reader uses only the length of `slot_of`, but the format promises that both lists agree.
    if (slot_table(std::span(table_.resident).subspan(first), table_.experts) != slots)
      return fields.bad(
          "slot_of",
          "must be the slot of each expert in \"slots\", or -1 for an expert without one");
    return fields.finish();
  }

  Status read_expert(JsonFields& fields) {
    PrepackedExpert expert{.key = {.layer = layer_}};
    MOEC_TRY(fields.whole("expert", expert.key.expert));
    MOEC_TRY(fields.boolean("pinned", expert.pinned));
    MOEC_TRY(fields.whole("offset", expert.offset));
    MOEC_TRY(fields.whole("bytes", expert.bytes));
    MOEC_TRY(fields.text("digest", expert.digest));
    if (expert.key.expert >= table_.experts)
      return fields.bad("expert", fmt::format("must be below {}", table_.experts));
    // The last comparison uses a difference, because the sum could overflow.
    if (expert.offset % kPrepackedPage != 0 || expert.offset > end_ ||
        expert.bytes > end_ - expert.offset)
      return fields.bad("offset",
                        "must be a multiple of the page size, with all bytes inside the file");
    if (!seen_.insert(expert.key).second)
      return fields.bad("expert", fmt::format("repeats expert {}", expert.key.expert));
    table_.resident.push_back(std::move(expert));
    return fields.finish();
  }

  uint64_t end_;
  int64_t layer_ = 0;
  std::set<ExpertId> seen_;
  PrepackedTable table_;
};

Status check_head(const RegularFile& file) {
  if (file.size() < kPrepackedPage)
    return bad_pack("file", "is not a file of prepacked experts", file.path());
  MOEC_ASSIGN(const std::string head, file.read(0, 16));
  if (!head.starts_with(kPackHead))
    return bad_pack("file", "is not a file of prepacked experts", file.path());
  const auto version = get<uint32_t>(head, 8);
  if (version != kPackVersion || get<uint32_t>(head, 12) != kPrepackedPage)
    return bad_pack("version", fmt::format("has version {}, expected {}", version, kPackVersion),
                    file.path());
  return {};
}

Result<PrepackedTable> read_table(const RegularFile& file) {
  MOEC_TRY(check_head(file));
  // The difference cannot wrap around: check_head() requires a page, which is larger than the tail.
  const uint64_t end = file.size() - kPackTailBytes;
  MOEC_ASSIGN(const std::string tail, file.read(end, kPackTailBytes));
  const auto offset = get<uint64_t>(tail, 8), bytes = get<uint64_t>(tail, 16);
  // The table must end exactly at the tail, which excludes truncated and extended files.
  if (!tail.starts_with(kPackTail) || offset > end || bytes != end - offset)
    return bad_pack("truncated", "the end of the file is missing", file.path());
  MOEC_ASSIGN(const std::string text, file.read(offset, bytes));
  if (digest_text(text) != tail.substr(kDigestAt, kPackDigestDigits))
    return bad_pack("damaged", "the table does not match its digest", file.path());
  const JsonReport report(text, file.path(), JsonCodes::by_prefix("prepacked", kPackAgain));
  MOEC_ASSIGN(const JsonValue value, report.parse(kPackLimits));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  return TableReader(offset).read(fields);
}

}  // namespace

std::string prepacked_head() {
  std::string head(kPrepackedPage, '\0');
  head.replace(0, kPackHead.size(), kPackHead);
  put(head, 8, kPackVersion);
  put(head, 12, static_cast<uint32_t>(kPrepackedPage));
  return head;
}

std::string prepacked_tail(const PrepackedTable& table, uint64_t offset) {
  // The digest covers the table alone, which contains the digests of the experts.
  const std::string text = table_text(table);
  std::string tail(kPackTailBytes, '\0');
  tail.replace(0, kPackTail.size(), kPackTail);
  put(tail, 8, offset);
  put(tail, 16, uint64_t{text.size()});
  tail.replace(kDigestAt, kPackDigestDigits, digest_text(text));
  return text + tail;
}

Result<PrepackedFile> PrepackedFile::open(const std::string& path) {
  const auto file = RegularFile::open(path);
  if (!file) return bad_pack("file", file.error().front().cause, path);
  MOEC_ASSIGN(PrepackedTable table, read_table(*file));
  // A second descriptor, because experts are read with direct I/O and the table is not.
  MOEC_ASSIGN(PayloadFile payload, PayloadFile::open({path, file->size()}));
  return PrepackedFile(std::move(payload), std::move(table));
}

PrepackedFile::PrepackedFile(PayloadFile file, PrepackedTable table)
    : file_(std::move(file)), table_(std::move(table)) {
  for (size_t i = 0; i < table_.resident.size(); ++i) index_[table_.resident[i].key] = i;
}

const PrepackedExpert* PrepackedFile::find(ExpertId key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &table_.resident[found->second];
}

Status PrepackedFile::check(const PrepackedExpert& expert, const std::byte* bytes) const {
  Digest digest;
  digest.update(std::span(bytes, expert.bytes));
  if (digest.hex() == expert.digest) return {};
  return bad_pack("damaged",
                  fmt::format("the bytes of expert {} of layer {} do not match their digest",
                              expert.key.expert, expert.key.layer),
                  file_.path());
}

}  // namespace moec
