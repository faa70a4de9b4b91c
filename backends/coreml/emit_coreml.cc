#include "backends/coreml/emit_coreml.h"

#include <fmt/format.h>

namespace moec {

std::vector<std::string> coreml_package_names(const std::string& stem,
                                              std::span<const int64_t> tokens,
                                              WidthPackaging packaging) {
  if (tokens.size() == 1 || packaging != WidthPackaging::separate) return {stem + ".mlpackage"};
  std::vector<std::string> names;
  for (int64_t width : tokens) names.push_back(fmt::format("{}.t{}.mlpackage", stem, width));
  return names;
}

Result<EmitReport> emit_coreml(std::span<const ShardWidth>, const WeightReader&, const EmitOptions&,
                               const CoremlOptions&) {
  return fail("emit.op", "the Core ML writer is being built");
}

}  // namespace moec
