#include "frontends/checkpoint/write_checkpoint.h"

#include <fmt/format.h>

#include <map>
#include <span>

#include "backends/files/output_file.h"
#include "backends/formats/safetensors/safetensors_file.h"
#include "frontends/checkpoint/piece_writer.h"

namespace moec {
namespace {

// Limits of the buffers for streaming a view, in addition to the tile.
constexpr uint64_t kReadBytes = uint64_t{32} << 20;
constexpr size_t kGatherBytes = size_t{8} << 20;

class CheckpointWriter {
 public:
  CheckpointWriter(const std::vector<NewTensor>& tensors, const WeightReader& weights,
                   const CheckpointMaker& maker, const WriteHooks& hooks)
      : maker_(maker), hooks_(hooks), pieces_(weights, maker) {
    // Parts list tensors by name; the map finds the recipe of each.
    for (const NewTensor& tensor : tensors) tensors_[tensor.name] = &tensor;
  }

  Result<WrittenFile> write(const SafetensorsPart& part, uint64_t total,
                            const std::string& folder) {
    MOEC_ASSIGN(SafetensorsFile file, SafetensorsFile::create(folder, part));
    const auto sink = [&](std::span<const std::byte> bytes) -> Status {
      MOEC_TRY(file.write(bytes));
      return advance(bytes.size(), total, part.name);
    };
    for (const SafetensorsTensor& tensor : part.tensors)
      // A tensor's pieces are concatenated, so they are written in the order of the plan.
      for (const TensorPiece& piece : tensors_.at(tensor.name)->pieces)
        MOEC_TRY(pieces_.write(piece, tensor.type.dtype, sink));
    OutputFile finished = std::move(file).finish();
    // Closes without flushing: ResultFolder::publish() flushes all files at once.
    MOEC_TRY(finished.close());
    MOEC_TRY(finished.publish());
    return WrittenFile{part.name, finished.bytes(), finished.digest()};
  }

  uint64_t nonfinite() const { return pieces_.nonfinite(); }

 private:
  Status advance(uint64_t bytes, uint64_t total, const std::string& file) const {
    if (hooks_.progress) hooks_.progress(bytes, total, file);
    if (!hooks_.stop || !hooks_.stop()) return {};
    return fail(maker_.interrupted(), fmt::format("moec {} was stopped", maker_.command),
                "run the same command again: it starts over");
  }

  const CheckpointMaker& maker_;
  const WriteHooks& hooks_;
  PieceWriter pieces_;
  std::map<std::string_view, const NewTensor*> tensors_;
};

Result<WrittenFile> write_text(const std::string& folder, const std::string& name,
                               const std::string& text) {
  MOEC_ASSIGN(OutputFile file, write_synced({folder, name, {}}, text));
  MOEC_TRY(file.publish());
  return WrittenFile{name, file.bytes(), file.digest()};
}

Status carry(const CarriedSource& files, const std::string& folder,
             std::vector<WrittenFile>& written) {
  MOEC_ASSIGN(const std::vector<manifest::FileRef> carried, carry_files(files, folder, false));
  for (const manifest::FileRef& file : carried)
    written.push_back({file.path, static_cast<uint64_t>(file.bytes), file.digest});
  return {};
}

}  // namespace

Result<std::vector<SafetensorsPart>> plan_files(const std::vector<NewTensor>& tensors,
                                                uint64_t max_bytes) {
  std::vector<SafetensorsTensor> names;
  for (const NewTensor& tensor : tensors) names.push_back({tensor.name, tensor.type});
  return plan_safetensors(names, max_bytes);
}

static Result<WrittenCheckpoint> write_files(const NewCheckpoint& checkpoint,
                                             const std::vector<SafetensorsPart>& parts,
                                             const CheckpointTarget& target,
                                             const std::string& folder) {
  MOEC_ASSIGN(const WeightReader weights,
              WeightReader::open(checkpoint.weights,
                                 {.gather_bytes = kGatherBytes, .memory_bytes = kReadBytes}));
  uint64_t total = 0;
  for (const SafetensorsPart& part : parts) total += part.payload_bytes;
  std::vector<WrittenFile> written;
  MOEC_ASSIGN(written.emplace_back(), write_text(folder, "config.json", checkpoint.config_text));
  CheckpointWriter writer(checkpoint.tensors, weights, target.maker, target.hooks);
  for (const SafetensorsPart& part : parts) {
    MOEC_ASSIGN(written.emplace_back(), writer.write(part, total, folder));
  }
  // A source that changed during the run would give a mixture of two models.
  MOEC_TRY(weights.check_unchanged());
  // transformers expects an index only for several files.
  if (parts.size() > 1) {
    MOEC_ASSIGN(written.emplace_back(),
                write_text(folder, "model.safetensors.index.json", safetensors_index_text(parts)));
  }
  MOEC_TRY(carry(checkpoint.carried, folder, written));
  return WrittenCheckpoint{std::move(written), writer.nonfinite()};
}

Result<WrittenCheckpoint> publish_checkpoint(
    const NewCheckpoint& checkpoint, const std::vector<SafetensorsPart>& parts,
    const CheckpointTarget& target, const std::function<Status(const std::string& folder)>& check) {
  uint64_t bytes = checkpoint.config_text.size();
  for (const SafetensorsPart& part : parts) bytes += part.file_bytes();
  const CheckpointOutput& output = target.output;
  MOEC_ASSIGN(ResultFolder folder,
              ResultFolder::begin(target.maker, output.folder, bytes, output.force));
  MOEC_ASSIGN(WrittenCheckpoint written, write_files(checkpoint, parts, target, folder.path()));
  // Must precede publish(), so that the published folder contains its list.
  MOEC_TRY(folder.list(written.files));
  // A result that moec cannot open is never published.
  MOEC_TRY(check(folder.path()));
  MOEC_TRY(std::move(folder).publish());
  return written;
}

}  // namespace moec
