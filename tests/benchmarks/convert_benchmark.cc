// Throughput of the conversion kernels in source bytes per second, on pieces that fit into the
// cache.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <vector>

#include "backends/weights/views/convert.h"
#include "backends/weights/views/unblock.h"

namespace moec {
namespace {

constexpr size_t kElements = 16384;

std::vector<std::byte> small_values(DType dtype) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(kElements);
  for (float& value : values) value = uniform(random);
  std::vector<std::byte> bytes(kElements * static_cast<size_t>(dtype_bytes(dtype)));
  if (dtype == DType::f8_e4m3)
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 0x7F);  // no NaN
  else
    encode(dtype, values.data(), kElements, bytes.data());
  return bytes;
}

void convert(benchmark::State& state, DType from, DType to) {
  const std::vector<std::byte> source = small_values(from);
  std::vector<float> between(kElements);
  std::vector<std::byte> result(kElements * static_cast<size_t>(dtype_bytes(to)));
  for (auto _ : state) {
    decode(from, source.data(), kElements, between.data());
    benchmark::DoNotOptimize(encode(to, between.data(), kElements, result.data()));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(source.size()) * state.iterations());
}

BENCHMARK_CAPTURE(convert, bf16_to_f16, DType::bf16, DType::f16);
BENCHMARK_CAPTURE(convert, bf16_to_f32, DType::bf16, DType::f32);
BENCHMARK_CAPTURE(convert, f16_to_f32, DType::f16, DType::f32);
BENCHMARK_CAPTURE(convert, f32_to_f16, DType::f32, DType::f16);
BENCHMARK_CAPTURE(convert, f8_e4m3_to_f16, DType::f8_e4m3, DType::f16);

// Two numbers per byte, with one scale per block of 32 numbers.
void microscaled_to_f16(benchmark::State& state) {
  const std::vector<std::byte> codes = small_values(DType::f8_e4m3);
  std::vector<float> between(2 * codes.size());
  std::vector<std::byte> result(2 * between.size());
  for (auto _ : state) {
    unpack(Packing::f4_e2m1, codes.data(), codes.size(), between.data());
    for (size_t i = 0; i < between.size(); i += 32) scale(0.125F, between.data() + i, 32);
    benchmark::DoNotOptimize(encode(DType::f16, between.data(), between.size(), result.data()));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(codes.size()) * state.iterations());
}
BENCHMARK(microscaled_to_f16);

void unblock_to_f32(benchmark::State& state, BlockType type) {
  const BlockFormat& format = block_format(type);
  const size_t blocks = kElements / static_cast<size_t>(format.elements);
  std::mt19937 random(1);
  std::vector<std::byte> bytes(blocks * static_cast<size_t>(format.bytes));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 0x70);  // finite scales
  std::vector<float> values(kElements);
  for (auto _ : state) {
    unblock({type}, bytes.data(), blocks, values.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes.size()) * state.iterations());
}
BENCHMARK_CAPTURE(unblock_to_f32, q4_0, BlockType::q4_0);
BENCHMARK_CAPTURE(unblock_to_f32, q8_0, BlockType::q8_0);
BENCHMARK_CAPTURE(unblock_to_f32, q3_k, BlockType::q3_k);
BENCHMARK_CAPTURE(unblock_to_f32, q4_k, BlockType::q4_k);
BENCHMARK_CAPTURE(unblock_to_f32, q6_k, BlockType::q6_k);
BENCHMARK_CAPTURE(unblock_to_f32, iq4_xs, BlockType::iq4_xs);
BENCHMARK_CAPTURE(unblock_to_f32, mxfp4, BlockType::mxfp4);

void find_nans(benchmark::State& state) {
  const std::vector<std::byte> source = small_values(DType::f16);
  for (auto _ : state)
    benchmark::DoNotOptimize(count_nonfinite(DType::f16, source.data(), kElements));
  state.SetBytesProcessed(static_cast<int64_t>(source.size()) * state.iterations());
}
BENCHMARK(find_nans);

}  // namespace
}  // namespace moec
