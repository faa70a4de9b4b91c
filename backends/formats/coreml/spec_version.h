// Core ML specification versions and the features that need them: 6 (iOS 15, CoreML5) ML Programs,
// 7 (iOS 16, CoreML6) f16 ports, 8 (iOS 17, CoreML7) nothing that moec writes, 9 (iOS 18, CoreML8)
// states and several functions. Source: coremltools, release notes and Model.proto.
#pragma once

#include <span>
#include <string>

#include "backends/emit/emit.h"
#include "ir/base/diagnostics.h"

namespace moec {

inline constexpr int kLeastSpecVersion = 6, kLatestSpecVersion = 9;
inline constexpr int kFunctionsSpecVersion = 9;  // several functions in a package, and states

// Returns the name of the version's opset: "CoreML8" for 9.
std::string opset_name(int spec_version);

// Returns the lowest version that supports the graphs in separate packages.
int least_spec_version(std::span<const ShardWidth> widths);

// Returns `wanted`, or the lowest sufficient version if it is 0. Errors: coreml.spec_too_low with
// the feature, coreml.spec_unknown.
Result<int> choose_spec_version(std::span<const ShardWidth> widths, bool several_functions,
                                int wanted);

}  // namespace moec
