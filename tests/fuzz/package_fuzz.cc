// Reads arbitrary text as the Manifest.json of two Core ML packages, one with weights and one
// without. The text cannot match both. A matching package must be found both by its folder and by
// its model's path.
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "backends/formats/coreml/package.h"
#include "ir/base/invariant.h"
#include "tests/fuzz/scratch_folder.h"

namespace {

class Package : public moec::ScratchFolder {
 public:
  Package(const std::string& name, const std::string& inner)
      : ScratchFolder(name, inner), model_(path() / "Data/com.apple.CoreML/model.mlmodel") {
    std::ofstream(model_).put('x');
  }

  bool fits(std::string_view manifest) const {
    write("Manifest.json", manifest);
    const auto model = moec::find_model(path().string());
    MOEC_CHECK(!model || *model == model_.string(), "the found model is not the package's model");
    MOEC_CHECK(moec::find_model(model_.string()).has_value() == model.has_value(),
               "the package and its model's path disagree");
    return model.has_value();
  }

 private:
  std::filesystem::path model_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Package with_weights("package_fuzz", "Data/com.apple.CoreML/weights");
  static const Package without_weights("package_fuzz.bare", "Data/com.apple.CoreML");
  const std::string_view manifest(reinterpret_cast<const char*>(data), size);
  const bool fits_with = with_weights.fits(manifest);
  const bool fits_without = without_weights.fits(manifest);
  MOEC_CHECK(!fits_with || !fits_without, "a manifest matches both with and without weights");
  return 0;
}
