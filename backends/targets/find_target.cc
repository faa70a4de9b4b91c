#include "backends/targets/find_target.h"

#include "backends/targets/load_target.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// A target file has a few kilobytes. The limit rejects a large file that was named by mistake, such
// as a checkpoint.
constexpr uint64_t kMaxTargetBytes = 1 << 20;

}  // namespace

bool is_target_file(const std::string& name) { return name.ends_with(".json"); }

Result<Target> find_target(const std::string& name) {
  // Names of built-in targets do not end in ".json", so a target file can never replace a built-in
  // target.
  if (!is_target_file(name)) return builtin_target(name);
  MOEC_ASSIGN(const std::string text, read_text_file(name, kMaxTargetBytes));
  return load_target(text, name);
}

}  // namespace moec
