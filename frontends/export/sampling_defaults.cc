#include "frontends/export/sampling_defaults.h"

#include <limits>

#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/hf/infinities.h"
#include "frontends/sources/open_source.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr uint64_t kMaxGenerationConfig = 16u << 20;

// The number if it is from `least` to `most`.
std::optional<double> number_in(const JsonValue& config, const char* key, double least,
                                double most) {
  const JsonValue* value = config.find(key);
  const std::optional<double> number = value ? value->number() : std::nullopt;
  return number && *number >= least && *number <= most ? number : std::nullopt;
}

}  // namespace

Result<SamplingDefaults> sampling_defaults(const std::string& source) {
  SamplingDefaults defaults;
  const std::string path = source_folder(source) + "/generation_config.json";
  if (names_gguf(source) || !file_exists(path)) return defaults;
  MOEC_ASSIGN(const std::string text, read_text_file(path, kMaxGenerationConfig));
  MOEC_ASSIGN(const JsonValue config, parse_json(with_infinities(text), {.file = path}));
  const JsonValue* sample = config.find("do_sample");
  if (sample && sample->boolean()) defaults.do_sample = *sample->boolean();
  defaults.temperature = number_in(config, "temperature", 0, 1e4);
  defaults.top_p = number_in(config, "top_p", std::numeric_limits<float>::min(), 1);
  const JsonValue* count = config.find("top_k");
  const int64_t* whole = count ? count->integer() : nullptr;
  if (whole && *whole >= 0 && *whole <= INT32_MAX) defaults.top_k = *whole;
  return defaults;
}

}  // namespace moec
