#include "backends/runtime/experts/expert_places.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/files/digest.h"
#include "backends/weights/views/payload_file.h"
#include "ir/base/at.h"

namespace moec {
namespace {

// Maximum number of bytes that any format writes before the bytes of a weight
// (DataFormat::entry_lead).
constexpr uint64_t kLeadBytes = 64;

constexpr size_t kDigestDigits = 32;

// A record has one digest per expert, so a bank of experts has more digits.
bool is_of_one_expert(const WeightRecord& weight) {
  return weight.role == WeightRole::expert && weight.digests.size() == kDigestDigits;
}

bool by_place(const ByteExtent& a, const ByteExtent& b) {
  return std::pair(a.file, a.begin) < std::pair(b.file, b.begin);
}

// Joins extents of a file that are separated by at most alignment padding plus an entry's lead-in.
// A gap of that size cannot contain another weight.
std::vector<ByteExtent> joined(std::vector<ByteExtent> extents) {
  std::sort(extents.begin(), extents.end(), by_place);
  std::vector<ByteExtent> joined;
  for (const ByteExtent& next : extents)
    if (!joined.empty() && joined.back().file == next.file &&
        next.begin < joined.back().end + next.alignment + kLeadBytes)
      joined.back().end = std::max(joined.back().end, next.end);
    else
      joined.push_back(next);
  return joined;
}

// Order in which a step uses the experts of a layer: shards run in file order, and the experts of a
// shard in byte order.
bool is_asked_first(const PlacedExpert& a, const PlacedExpert& b) {
  return a.id.layer != b.id.layer ? a.id.layer < b.id.layer
                                  : by_place(a.extents.front(), b.extents.front());
}

// Succeeds if the extents of different experts do not overlap.
Status check_apart(const std::vector<PlacedExpert>& experts, const std::vector<WeightFile>& files) {
  std::vector<ByteExtent> all;
  for (const PlacedExpert& expert : experts)
    all.insert(all.end(), expert.extents.begin(), expert.extents.end());
  std::sort(all.begin(), all.end(), by_place);
  // In sorted order, an overlap of any two extents implies one of two neighbours.
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i].file == all[i - 1].file && all[i].begin < all[i - 1].end)
      return fail("session.bank",
                  fmt::format("byte {} of the file belongs to two experts", all[i].begin),
                  "export with --experts unrolled", {.file = files[all[i].file].path});
  return {};
}

Status check_routers(const Manifest& manifest) {
  bool any = false;
  for (const manifest::Shard& shard : manifest.shards) {
    any = any || shard.routing.has_value();
    if (is_whole_moe(shard.kind) || (holds_whole_layers(shard.kind) && shard.routing))
      return fail("session.routers",
                  "the router and its experts are in one shard, so missing experts cannot be "
                  "read before they run",
                  "export with --experts-per-shard", {.shard = shard.name});
  }
  if (any) return {};
  return fail("session.no_experts", "the model has no experts to load",
              "omit --capacity and --expert-memory");
}

}  // namespace

uint64_t slot_bytes(const ByteExtent& extent) {
  constexpr uint64_t kBlock = PayloadFile::kBlockBytes;
  return (extent.end + kBlock - 1) / kBlock * kBlock - extent.begin / kBlock * kBlock;
}

uint64_t slot_bytes(const PlacedExpert& expert) {
  uint64_t bytes = 0;
  for (const ByteExtent& extent : expert.extents) bytes += slot_bytes(extent);
  return bytes;
}

size_t ExpertPlaces::add_file(const std::string& shard, const manifest::FileRef& file,
                              const std::string& folder) {
  const std::string path = folder + "/" + file.path;
  // The experts of a package are separate shards with the same file.
  if (const std::optional<size_t> known = find_file(path)) return *known;
  const auto [found, is_new] = by_digest_.emplace(std::pair(shard, file.digest), files_.size());
  if (is_new) {
    files_.push_back({path, static_cast<uint64_t>(file.bytes)});
    file_digests_.push_back(file.digest);
  }
  // Copies of a file in one shard map to the same index, so their experts share units.
  by_path_[path] = found->second;
  return found->second;
}

void ExpertPlaces::add_ranges(const manifest::Shard& shard, const WeightRecord& weight,
                              const std::vector<size_t>& files) {
  const int64_t layer = at(shard.moe_layers, weight.moe_layer);
  PlacedExpert& expert = found_[{layer, weight.first_expert}];
  expert.id = {layer, weight.first_expert};
  for (const WeightRange& range : weight.ranges) {
    const auto begin = static_cast<uint64_t>(range.offset);
    expert.extents.push_back({at(files, range.data), begin,
                              begin + static_cast<uint64_t>(range.bytes),
                              static_cast<uint64_t>(range.alignment)});
  }
}

Result<ExpertPlaces> ExpertPlaces::find(const Manifest& manifest, const std::string& folder) {
  MOEC_TRY(check_routers(manifest));
  ExpertPlaces places;
  for (const manifest::Shard& shard : manifest.shards) {
    if (!is_expert_group(shard.kind)) continue;
    std::vector<size_t> files;
    for (const manifest::FileRef& file : shard.data)
      files.push_back(places.add_file(shard.name, file, folder));
    const bool has_own = std::any_of(shard.weights.begin(), shard.weights.end(), is_of_one_expert);
    if (!has_own)
      return fail("session.bank", "the experts of the shard share their weights",
                  "export with --experts unrolled and a --routing other than op",
                  {.shard = shard.name});
    for (const WeightRecord& weight : shard.weights)
      if (is_of_one_expert(weight)) places.add_ranges(shard, weight, files);
  }
  for (auto& [key, expert] : places.found_) {
    expert.extents = joined(std::move(expert.extents));
    places.experts_.push_back(std::move(expert));
  }
  std::stable_sort(places.experts_.begin(), places.experts_.end(), is_asked_first);
  places.found_.clear();
  MOEC_TRY(check_apart(places.experts_, places.files_));
  return places;
}

std::string ExpertPlaces::digest() const {
  // Includes all extents: a prepacked file copies blocks at these offsets, so another layout needs
  // another digest.
  std::string text;
  for (const std::string& file : file_digests_) text += file + "\n";
  for (const PlacedExpert& expert : experts_) {
    text += fmt::format("{} {}", expert.id.layer, expert.id.expert);
    for (const ByteExtent& extent : expert.extents)
      text += fmt::format(" {} {} {}", extent.file, extent.begin, extent.end);
    text += '\n';
  }
  return digest_text(text);
}

std::optional<size_t> ExpertPlaces::find_file(const std::string& path) const {
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace moec
