// Throughput of products of one token with rows of codes that fit into the L2 cache, per kind of
// vectors that this CPU has: 512 rows of 576 codes in blocks of 32.
#include <benchmark/benchmark.h>
#include <hwy/highway.h>

#include <random>
#include <vector>

#include "backends/weights/views/coded_rows.h"
#include "backends/weights/views/pack_bits.h"

namespace moec {
namespace {

constexpr int64_t kRows = 512, kColumns = 576, kBlock = 32;

// Rows of random codes, with small numbers as scales, offsets and entries.
class Rows {
 public:
  explicit Rows(Packing packing) {
    rows_ = {.codes = {{}, packing}, .columns = kColumns, .block_columns = kBlock};
    std::mt19937 random(1);
    bytes_.resize(kRows * kColumns);  // at most 8 bits per code
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random() & 0xFF);
    numbers_.resize(kRows * kColumns / kBlock);
    for (float& number : numbers_) number = static_cast<float>(random() % 1000) / 1000.0f;
  }

  void add_scales() { rows_.scales = numbers(); }
  void add_offsets() { rows_.offsets = numbers(); }
  // One table for all rows.
  void add_table(int64_t entries) {
    rows_.table = numbers();
    rows_.entries = entries;
    rows_.block_rows = kRows;
    rows_.block_columns = kColumns;
  }

  const CodedRows& rows() const { return rows_; }
  HeldBytes held() const {
    return HeldBytes({{0, bytes_.size(), bytes_.data()},
                      {bytes_.size(), numbers_.size() * sizeof(float),
                       reinterpret_cast<const std::byte*>(numbers_.data())}});
  }

 private:
  StoredNumbers numbers() const { return {{0, bytes_.size()}, DType::f32}; }

  CodedRows rows_;
  std::vector<std::byte> bytes_;
  std::vector<float> numbers_;
};

void multiply(benchmark::State& state, const Rows& of, ActivationFormat format, int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().DeInit();
  const HeldBytes held = of.held();
  const std::vector<float> values(kColumns, 0.5f);
  std::vector<float> out(kRows);
  const CodedToken token = arranged(values, arrangement_of(of.rows(), format).value());
  for (auto _ : state) {
    benchmark::DoNotOptimize(dot_coded_rows(of.rows(), held, {0, kRows}, token, out.data()));
    benchmark::ClobberMemory();
  }
  constexpr int64_t kGroups = kRows * kColumns / 32;
  state.counters["ns_per_32"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kGroups) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

void add(const std::string& form, const Rows& rows, ActivationFormat format) {
  const std::string activations = format == ActivationFormat::f32 ? "f32" : "int8";
  for (const int64_t target : hwy::SupportedAndGeneratedTargets())
    benchmark::RegisterBenchmark(
        ("multiply/" + form + '/' + activations + '/' + hwy::TargetName(target)).c_str(),
        [rows, format, target](benchmark::State& state) { multiply(state, rows, format, target); });
}

const bool kRegistered = [] {
  for (const auto& [name, packing] : {std::pair{"u4", Packing::u4},
                                      {"i4", Packing::i4},
                                      {"mxfp4", Packing::f4_e2m1},
                                      {"u8", Packing::u8},
                                      {"i8", Packing::i8}}) {
    Rows rows(packing);
    rows.add_scales();
    if (packing == Packing::u4 || packing == Packing::u8) rows.add_offsets();
    for (const auto format : {ActivationFormat::f32, ActivationFormat::int8})
      add(name, rows, format);
  }
  for (const auto& [name, packing, entries] : {std::tuple{"lut1", Packing::u1, 2},
                                               {"lut2", Packing::u2, 4},
                                               {"lut3", Packing::u3, 8},
                                               {"lut4", Packing::u4, 16},
                                               {"lut6", Packing::u6, 64},
                                               {"lut8", Packing::u8, 256}}) {
    Rows rows(packing);
    rows.add_table(entries);
    add(name, rows, ActivationFormat::f32);
  }
  return true;
}();

}  // namespace
}  // namespace moec
