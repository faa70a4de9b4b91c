#include "frontends/hf/own_head.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "ir/base/at.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{1} << 20;

// One tensor of a checkpoint, read block by block.
class TensorBytes {
 public:
  static Result<TensorBytes> open(const WeightTable& weights, const TensorRange& range) {
    MOEC_ASSIGN(RegularFile file, RegularFile::open(at(weights.files, range.file).path));
    return TensorBytes(std::move(file), range.offset);
  }

  // Fills the block with the bytes from `begin` of the tensor on.
  Status read(uint64_t begin, std::span<char> block) const {
    return file_.read_into(offset_ + begin, block);
  }

 private:
  TensorBytes(RegularFile file, uint64_t offset) : file_(std::move(file)), offset_(offset) {}

  RegularFile file_;
  uint64_t offset_;
};

Result<bool> equal_bytes(const WeightTable& weights, const TensorRange& a, const TensorRange& b) {
  MOEC_ASSIGN(const TensorBytes first, TensorBytes::open(weights, a));
  MOEC_ASSIGN(const TensorBytes second, TensorBytes::open(weights, b));
  const auto size = static_cast<uint64_t>(a.type.bytes());
  std::vector<char> ours(kBlockBytes), theirs(kBlockBytes);
  for (uint64_t begin = 0; begin < size; begin += kBlockBytes) {
    const auto count = static_cast<size_t>(std::min(kBlockBytes, size - begin));
    MOEC_TRY(first.read(begin, std::span(ours).first(count)));
    MOEC_TRY(second.read(begin, std::span(theirs).first(count)));
    if (std::memcmp(ours.data(), theirs.data(), count) != 0) return false;
  }
  return true;
}

void untie(ModelConfig& model, const std::string& head, Diagnostics& notes) {
  model.head.tied = false;
  std::erase(model.names.ignored, head);
  notes.push_back({Severity::note,
                   "hf.head.own",
                   "the config ties the head to the embedding, but this tensor differs from it and "
                   "is used, as transformers does",
                   {},
                   {.tensor = head}});
}

}  // namespace

Status untie_own_head(ModelConfig& model, const WeightTable& weights, Diagnostics& notes) {
  if (!model.head.tied || !model.names.has("lm_head")) return {};
  const std::string head = model.names("lm_head");
  const TensorRange* own = weights.find(head);
  const TensorRange* embedding = weights.find(model.names("embed"));
  if (!own || !embedding) return {};
  bool equal = own->type == embedding->type;
  if (equal) {
    MOEC_ASSIGN(equal, equal_bytes(weights, *own, *embedding));
  }
  if (!equal) untie(model, head, notes);
  return {};
}

}  // namespace moec
