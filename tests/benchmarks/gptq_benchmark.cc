// Time to encode one expert of Qwen3-30B-A3B with error feedback: gate and up, which share their
// inputs, and down.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "backends/weights/views/convert.h"
#include "tests/backends/weights/encode/calibration_testing.h"

namespace moec {
namespace {

std::vector<float> normals(size_t count, float deviation) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Inputs with a common component, as in trained models.
Hessian hessian_of(int64_t inputs, int64_t tokens) {
  Hessian hessian = empty_hessian(inputs);
  hessian.tokens = tokens;
  const auto size = static_cast<size_t>(inputs);
  constexpr size_t kRank = 16;
  const std::vector<float> shared = normals(kRank * size, 1);
  for (size_t k = 0; k < kRank; ++k)
    for (size_t i = 0; i < size; ++i)
      for (size_t j = 0; j < size; ++j)
        hessian.sums[i * size + j] += 10 * shared[k * size + i] * shared[k * size + j];
  for (size_t i = 0; i < size; ++i)
    hessian.sums[i * (size + 1)] += static_cast<float>(tokens) / (1 + static_cast<float>(i));
  return hessian;
}

void encode_expert(benchmark::State& state, const Encoding& gate_up, const Encoding& down) {
  const Type types[] = {{DType::bf16, {1536, 2048}}, {DType::bf16, {2048, 768}}};
  const Encoding encodings[] = {gate_up, down};
  const std::vector<float> floats = normals(static_cast<size_t>(types[0].elements()), 0.02f);
  std::vector<std::byte> values(static_cast<size_t>(types[0].bytes()));
  encode(DType::bf16, floats.data(), floats.size(), values.data());
  const Hessian hessians[] = {hessian_of(2048, 512), hessian_of(768, 512)};
  double nearest = 0, error = 0;
  for (auto _ : state)
    for (int i = 0; i < 2; ++i) {
      const auto coded = encode_calibrated(
          encodings[i], types[i], std::span(values).first(static_cast<size_t>(types[i].bytes())),
          {metrics_of({&hessians[i], 1})});
      if (!coded) return state.SkipWithError("a weight was not encoded");
      nearest += coded->nearest_error;
      error += coded->error;
    }
  state.counters["error"] = error / nearest;  // relative to the nearest codes
}

BENCHMARK_CAPTURE(encode_expert, int4_blocks_of_32, AffineEncoding{4, {1, 32}},
                  AffineEncoding{4, {1, 32}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode_expert, int8_per_row, AffineEncoding{8, {1, 2048}},
                  AffineEncoding{8, {1, 768}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode_expert, palette4_groups_of_16, PaletteEncoding{4, {16, 2048}},
                  PaletteEncoding{4, {16, 768}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode_expert, palette2_groups_of_16, PaletteEncoding{2, {16, 2048}},
                  PaletteEncoding{2, {16, 768}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moec
