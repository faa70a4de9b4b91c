// Core ML specification versions and what needs them: 6 (iOS 15, CoreML5) ML Programs,
// 7 (iOS 16, CoreML6) ports of f16, 8 (iOS 17, CoreML7) nothing that moec writes, 9 (iOS 18,
// CoreML8) states and several functions. Source: coremltools, release notes and Model.proto.
#pragma once

#include <span>
#include <string>

#include "backends/emit/emit.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr int kLeastSpecVersion = 6, kLatestSpecVersion = 9;

// "CoreML8" for 9.
std::string opset_name(int spec_version);

// `wanted`, or the lowest version that suffices when it is 0. Errors: coreml.spec_too_low names the
// feature, coreml.spec_unknown.
Result<int> choose_spec_version(std::span<const ShardWidth> widths, bool several_functions,
                                int wanted);

}  // namespace moec
