// Names and versions of TFLite files, shared by emitter and reader.
#pragma once

#include <tflite_generated.h>

#include <array>
#include <optional>
#include <vector>

#include "ir/base/enum_table.h"
#include "ir/graph/op_enums.h"

namespace moec {

inline constexpr uint32_t kTfliteVersion = 3;

// LiteRT checks only the largest registered version of an op. Version 1 also has kernels for f16
// (ai-edge-litert 2.3.0); node_writer.cc states the exceptions.
using tflite::Builtin;

// Ops with one operand. Nothing: a reciprocal is a DIV, and an erf is part of a GELU.
inline constexpr auto kUnaryOps = enum_table<UnaryFn, std::optional<Builtin>>(
    {Builtin::NEG, Builtin::ABS, Builtin::EXP, Builtin::LOG, Builtin::SQRT, std::nullopt,
     Builtin::LOGISTIC, Builtin::TANH, std::nullopt});
inline constexpr auto kBinaryOps = enum_table<BinaryFn, Builtin>(
    {Builtin::ADD, Builtin::SUB, Builtin::MUL, Builtin::DIV, Builtin::MAXIMUM, Builtin::MINIMUM});
inline constexpr auto kCompareOps =
    enum_table<CompareFn, Builtin>({Builtin::GREATER, Builtin::LESS, Builtin::EQUAL});
inline constexpr auto kReduceOps =
    enum_table<ReduceFn, Builtin>({Builtin::SUM, Builtin::MEAN, Builtin::REDUCE_MAX});

// The transpose from [1, C, T, 1] to TFLite's [1, height 1, width T, C] and back; likewise for
// filters, from [N, C, K, 1] to [N, height 1, width K, C].
inline const std::vector<int64_t> kChannelsLast = {0, 3, 2, 1};

}  // namespace moec
