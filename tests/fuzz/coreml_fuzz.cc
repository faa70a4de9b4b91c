// Exercises the Core ML reader. An accepted shard must be valid, and its text must parse to the
// same shard. The folder's sparse weight.bin contains the blobs that the model's consts refer to.
#include <fcntl.h>
#include <mlmodel.pb.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "backends/formats/coreml/read_coreml.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/fuzz/scratch_folder.h"

namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    const std::string weights = (scratch_.path() / "weights/weight.bin").string();
    file_ = open(weights.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    constexpr uint32_t kHeader[16] = {1, 2};
    if (file_ < 0 || pwrite(file_, kHeader, sizeof kHeader, 0) != sizeof kHeader) std::abort();
    fs::resize_file(weights, kBytes);
  }
  ~Folder() { close(file_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string model() const { return (scratch_.path() / "model.mlmodel").string(); }

  void fit(const moec::mlmodel::Value& value) const {
    const auto& type = value.type().tensortype();
    moec::Dims dims;
    for (const auto& dimension : type.dimensions())
      dims.push_back(static_cast<int64_t>(dimension.constant().size()));
    const auto elements = moec::checked_elements(dims);
    const uint64_t at = value.blobfilevalue().offset();
    if (!elements || at < 64 || at % 64 != 0 || at > kBytes - 64) return;
    const bool half = type.datatype() == moec::mlmodel::FLOAT16;
    const uint64_t bytes = static_cast<uint64_t>(*elements) * (half ? 2 : 4);
    const uint64_t lead[8] = {uint64_t{half ? 1u : 2u} << 32 | 0xDEADBEEF, bytes, at + 64};
    if (pwrite(file_, lead, sizeof lead, static_cast<off_t>(at)) != sizeof lead) std::abort();
  }

 private:
  static constexpr uint64_t kBytes = 16 << 20;
  moec::ScratchFolder scratch_{"coreml_fuzz", "weights"};
  int file_ = -1;
};

void fit_weights(const Folder& folder, const uint8_t* data, size_t size) {
  moec::mlmodel::Model model;
  if (!model.ParseFromArray(data, static_cast<int>(size))) return;
  for (const auto& [name, function] : model.mlprogram().functions())
    for (const auto& [opset, block] : function.block_specializations())
      for (const auto& operation : block.operations())
        for (const auto& [key, value] : operation.attributes())
          if (value.has_blobfilevalue()) folder.fit(value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  fit_weights(folder, data, size);
  for (const int64_t tokens : {0, 3}) {
    auto read = moec::parse_coreml(std::as_bytes(std::span(data, size)), folder.model(),
                                   {.function = {}, .tokens = tokens});
    if (!read) continue;
    if (moec::has_error(moec::verify(read->shard))) std::abort();
    auto parsed = moec::parse_shard(moec::print(read->shard));
    if (!parsed || *parsed != read->shard) std::abort();
  }
  return 0;
}
