// Throughput of encoding and decoding text, in bytes per second on one core. Two environment
// variables name the tokenizer.json and the text; without them, nothing is measured:
//
//   MOEC_TOKENIZER=tokenizer.json MOEC_TEXT=text.txt moec_benchmarks --benchmark_filter=tokenizer
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <optional>

#include "backends/tokenizer/tokenizer.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

struct Given {
  Tokenizer tokenizer;
  std::string text;
};

std::optional<Given> given(benchmark::State& state) {
  const char* path = std::getenv("MOEC_TOKENIZER");
  const char* text_path = std::getenv("MOEC_TEXT");
  if (path == nullptr || text_path == nullptr) {
    state.SkipWithError("MOEC_TOKENIZER and MOEC_TEXT name the files");
    return std::nullopt;
  }
  auto tokenizer = Tokenizer::open(path);
  auto text = read_user_text(text_path, "benchmark.text");
  if (tokenizer && text) return Given{std::move(*tokenizer), std::move(*text)};
  state.SkipWithError(render(tokenizer ? text.error() : tokenizer.error()).c_str());
  return std::nullopt;
}

void tokenizer_encode(benchmark::State& state) {
  const auto files = given(state);
  if (!files) return;
  for (auto _ : state)
    benchmark::DoNotOptimize(files->tokenizer.encode(files->text, SpecialTokens::leave_out));
  state.SetBytesProcessed(state.iterations() * std::ssize(files->text));
}
BENCHMARK(tokenizer_encode)->Unit(benchmark::kMillisecond);

void tokenizer_decode(benchmark::State& state) {
  const auto files = given(state);
  if (!files) return;
  const auto tokens = files->tokenizer.encode(files->text, SpecialTokens::leave_out);
  if (!tokens) return state.SkipWithError(render(tokens.error()).c_str());
  for (auto _ : state) benchmark::DoNotOptimize(files->tokenizer.decode(*tokens));
  state.SetBytesProcessed(state.iterations() * std::ssize(files->text));
}
BENCHMARK(tokenizer_decode)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moec
