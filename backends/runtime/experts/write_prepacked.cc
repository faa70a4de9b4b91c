#include "backends/runtime/experts/write_prepacked.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>

#include "backends/files/digest.h"
#include "backends/files/output_file.h"
#include "backends/manifest/expert_grid.h"
#include "backends/runtime/experts/expert_places.h"

namespace moec {
namespace {

// Bounds the memory of the copy and the time between two calls of `stop`.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

uint64_t next_page(uint64_t bytes) {
  return (bytes + kPrepackedPage - 1) / kPrepackedPage * kPrepackedPage;
}

// Appends experts to the output file.
class Packer {
 public:
  // `total` is the number of bytes of all experts to write.
  Packer(const ExpertPlaces& places, OutputFile& out, const PrepackChoice& choice, uint64_t total)
      : places_(places), out_(out), choice_(choice), total_(total), buffer_(kPieceBytes) {}

  Status open_files() {
    for (const WeightFile& file : places_.files()) {
      MOEC_ASSIGN(PayloadFile opened, PayloadFile::open(file));
      files_.push_back(std::move(opened));
    }
    return {};
  }

  Status write(const PlacedExpert& placed, PrepackedExpert& expert) {
    MOEC_TRY(out_.pad_to(next_page(out_.bytes())));
    expert.offset = out_.bytes();
    expert.bytes = slot_bytes(placed);
    // The digest includes the zeros outside the extents, because a reader checks whole blocks.
    digest_ = Digest();
    for (const ByteExtent& extent : placed.extents) MOEC_TRY(write(extent));
    expert.digest = digest_.hex();
    return {};
  }

  Status check_unchanged() const {
    for (const PayloadFile& file : files_) MOEC_TRY(file.check_unchanged());
    return {};
  }

 private:
  Status write(const ByteExtent& extent) {
    constexpr uint64_t kBlock = PayloadFile::kBlockBytes;
    const uint64_t begin = extent.begin / kBlock * kBlock;
    const uint64_t end = begin + slot_bytes(extent);
    for (uint64_t from = begin; from < end; from += kPieceBytes) {
      const uint64_t bytes = std::min(kPieceBytes, end - from);
      MOEC_TRY(write_piece(extent, from, bytes));
    }
    return {};
  }

  // Writes bytes [from, from + bytes) of the source file, with zeros in place of bytes outside the
  // extent.
  Status write_piece(const ByteExtent& extent, uint64_t from, uint64_t bytes) {
    if (choice_.stop && choice_.stop())
      return fail(kPrepackInterrupted, "the prepack was stopped",
                  "run the same command again; it starts over", {.file = out_.path()});
    std::fill_n(buffer_.begin(), bytes, std::byte{0});
    // Every piece overlaps the extent, so `end` exceeds `begin`: the last block contains the
    // extent's last byte.
    const uint64_t begin = std::max(from, extent.begin), end = std::min(from + bytes, extent.end);
    MOEC_TRY(files_[extent.file].read(begin, buffer_.data() + (begin - from), end - begin));
    const std::span piece = std::span(buffer_).first(bytes);
    digest_.update(piece);
    if (choice_.progress) choice_.progress(bytes, total_, out_.path());
    return out_.write(piece);
  }

  const ExpertPlaces& places_;
  OutputFile& out_;
  const PrepackChoice& choice_;
  uint64_t total_;
  std::vector<PayloadFile> files_;
  std::vector<std::byte> buffer_;
  Digest digest_;
};

using PlacesByKey = std::map<ExpertId, const PlacedExpert*>;

PlacesByKey by_key(const ExpertPlaces& places) {
  PlacesByKey placed;
  for (const PlacedExpert& expert : places.experts()) placed[expert.id] = &expert;
  return placed;
}

// Returns the most wanted experts per layer. Skips experts that this export lacks, because a
// cluster node has only some of them.
std::vector<PrepackedExpert> choose_resident(const PrepackChoice& choice,
                                             const PlacesByKey& placed) {
  std::map<int64_t, std::vector<PrepackedExpert>> layers;
  for (const ExpertId& key : choice.wanted) {
    auto& layer = layers[key.layer];
    if (std::ssize(layer) >= choice.capacity || !placed.contains(key)) continue;
    layer.push_back({.key = key, .pinned = std::ssize(layer) < choice.pin_top_k});
  }
  std::vector<PrepackedExpert> resident;
  for (const auto& [number, layer] : layers)
    resident.insert(resident.end(), layer.begin(), layer.end());
  return resident;
}

Result<OutputFile> create_pack(const std::string& file, const PrepackedTable& table,
                               const PlacesByKey& placed) {
  // An estimate that reserves disk space: a page for the head, and one for the table with the tail.
  uint64_t bytes = 2 * kPrepackedPage;
  for (const PrepackedExpert& expert : table.resident)
    bytes += next_page(slot_bytes(*placed.at(expert.key)));
  return OutputFile::create(OutputPath::of_file(file), bytes);
}

Status write_text_to(OutputFile& out, const std::string& text) {
  return out.write(std::as_bytes(std::span(text)));
}

Status check_choice(const PrepackChoice& choice, const ExpertGrid& grid, const std::string& file) {
  if (choice.pin_top_k > std::max<int64_t>(choice.capacity - grid.top_k, 0))
    return fail("prepack.pin_top_k",
                fmt::format("cannot pin {} of {} slots: a token needs {} slots for its experts",
                            choice.pin_top_k, choice.capacity, grid.top_k),
                "pass a larger --capacity or a smaller --pin-top-k");
  std::error_code error;
  const auto status = std::filesystem::symlink_status(file, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    return fail("prepack.out", "the path exists and is not a regular file", "pass another --out",
                {.file = file});
  return {};
}

}  // namespace

Result<PrepackedTable> write_prepacked(const Manifest& manifest, const std::string& folder,
                                       const PrepackChoice& choice, const std::string& file) {
  const ExpertGrid grid = expert_grid(manifest);
  MOEC_ASSIGN(const ExpertPlaces places, ExpertPlaces::find(manifest, folder));
  MOEC_TRY(check_choice(choice, grid, file));
  const PlacesByKey placed = by_key(places);
  PrepackedTable table{manifest.model.family, places.digest(),
                       std::min(choice.capacity, grid.experts), grid.experts,
                       choose_resident(choice, placed)};
  if (table.resident.empty())
    return fail("prepack.empty", "the profile counts no expert of this export",
                "pass another --profile");
  MOEC_ASSIGN(OutputFile out, create_pack(file, table, placed));
  MOEC_TRY(write_text_to(out, prepacked_head()));
  uint64_t total = 0;
  for (const PrepackedExpert& expert : table.resident) total += slot_bytes(*placed.at(expert.key));
  Packer packer(places, out, choice, total);
  MOEC_TRY(packer.open_files());
  for (PrepackedExpert& expert : table.resident)
    MOEC_TRY(packer.write(*placed.at(expert.key), expert));
  MOEC_TRY(out.pad_to(next_page(out.bytes())));
  MOEC_TRY(write_text_to(out, prepacked_tail(table, out.bytes())));
  // Checked after the last read: a source file that changed meanwhile would mix old and new
  // experts.
  MOEC_TRY(packer.check_unchanged());
  MOEC_TRY(out.sync());
  MOEC_TRY(out.publish());
  return table;
}

}  // namespace moec
