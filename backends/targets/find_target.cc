#include "backends/targets/find_target.h"

#include "backends/targets/load_target.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr uint64_t kMaxTargetBytes = 1 << 20;

}  // namespace

bool is_target_file(const std::string& name) { return name.ends_with(".json"); }

Result<Target> find_target(const std::string& name) {
  if (!is_target_file(name)) return builtin_target(name);
  MOEC_ASSIGN(const std::string text, read_text_file(name, kMaxTargetBytes));
  return load_target(text, name);
}

}  // namespace moec
