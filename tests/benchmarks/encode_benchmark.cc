// Throughput of the encoders in bytes of 16-bit weights per second, for the projection of one
// expert: 768 rows of 2,048 values with the spread of trained weights.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "backends/weights/encode/weight_encoder.h"
#include "backends/weights/views/convert.h"

namespace moec {
namespace {

const Type kWeight{DType::bf16, {768, 2048}};

std::vector<std::byte> bell() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(static_cast<size_t>(kWeight.elements()));
  for (float& value : values) value = normal(random);
  std::vector<std::byte> bytes(static_cast<size_t>(kWeight.bytes()));
  encode(kWeight.dtype, values.data(), values.size(), bytes.data());
  return bytes;
}

void encode_weight(benchmark::State& state, const Encoding& encoding) {
  static const std::vector<std::byte> values = bell();
  uint64_t stored = 0;
  for (auto _ : state) {
    WeightEncoder encoder(encoding, kWeight);
    const EncodedSink sink{[&](std::span<const std::byte> codes) -> Status {
                             stored += codes.size();
                             return {};
                           },
                           {}};
    const Status encoded = encoder.add(values, sink);
    if (!encoded) state.SkipWithError("a value has no code");
  }
  state.SetBytesProcessed(kWeight.bytes() * state.iterations());
  state.counters["bits"] = 8.0 * static_cast<double>(stored_bytes(encoding, kWeight)) /
                           static_cast<double>(kWeight.elements());
}

BENCHMARK_CAPTURE(encode_weight, int8_per_row, AffineEncoding{8, {1, 2048}});
BENCHMARK_CAPTURE(encode_weight, int4_blocks_of_32, AffineEncoding{4, {1, 32}});
BENCHMARK_CAPTURE(encode_weight, int4_blocks_of_32_with_zero, AffineEncoding{4, {1, 32}, true});
BENCHMARK_CAPTURE(encode_weight, palette4_groups_of_16, PaletteEncoding{4, {16, 2048}});
BENCHMARK_CAPTURE(encode_weight, palette4_whole, PaletteEncoding{4, {768, 2048}});
BENCHMARK_CAPTURE(encode_weight, palette3_groups_of_16, PaletteEncoding{3, {16, 2048}});
BENCHMARK_CAPTURE(encode_weight, palette2_groups_of_16, PaletteEncoding{2, {16, 2048}});

}  // namespace
}  // namespace moec
