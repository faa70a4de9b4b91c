// Reads arbitrary text as a config.json. An accepted config must result in a plan, because the
// reader checks everything that the planner requires. Text that is not an object becomes the
// members of an object, and its first byte selects the family, so that the fuzzer need not guess a
// model_type.
#include "frontends/sources/hf/config.h"
#include "ir/base/invariant.h"
#include "models/shards/check_model.h"
#include "models/tensors/rope.h"

namespace {

std::string with_family(std::string_view text, uint8_t choice) {
  auto families = moec::known_families();
  std::string type = families[choice % families.size()].model_type;
  return "{\"model_type\":\"" + type + "\"," + std::string(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string text = data[0] == '{' ? std::string(all) : with_family(all.substr(1), data[0]);
  auto config = moec::read_config(text, "fuzz");
  if (!config) return 0;
  MOEC_CHECK(moec::check_model(config->model).empty(), "an accepted model is inconsistent");
  MOEC_CHECK(config->model.layers.size() <= 4096, "too many layers");
  moec::rope_table(config->model.attention.rope, 2);
  return 0;
}
