// Exercises the ONNX reader. An accepted shard must be valid, and its text must parse to the same
// shard. The folder contains the data files that the seeds name, so that external initializers are
// valid.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "backends/formats/onnx/read_onnx.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/fuzz/scratch_folder.h"

namespace {

namespace fs = std::filesystem;

class DataFolder : public moec::ScratchFolder {
 public:
  DataFolder() : ScratchFolder("onnx_fuzz") {
    constexpr uintmax_t kDataBytes = 1 << 24;
    for (const char* name :
         {"shard.data", "00.data", "L00.data", "L01.data", "L02.data", "L03.data"}) {
      std::ofstream(path() / name).put('x');
      fs::resize_file(path() / name, kDataBytes);
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const DataFolder folder;
  const std::string path = (folder.path() / "shard.onnx").string();
  auto read = moec::parse_onnx(std::as_bytes(std::span(data, size)), path);
  if (!read) return 0;
  if (moec::has_error(moec::verify(read->shard))) std::abort();
  auto parsed = moec::parse_shard(moec::print(read->shard));
  if (!parsed || *parsed != read->shard) std::abort();
  return 0;
}
