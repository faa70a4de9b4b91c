// Decoding speed of the reference executor: single-token steps per second of CPU time, with an
// export of the bundled model (items_per_second).
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "frontends/cli/cli.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

// Exports models/tinymoe once per process. Returns the folder, or an empty string after an error.
std::string exported(const char* dtype) {
  const std::string model = source_dir() + "/models/tinymoe";
  const std::string out = std::filesystem::temp_directory_path() /
                          ("moec_decode_" + std::to_string(::getpid()) + "_" + dtype);
  const std::array<const char*, 9> words = {"moec",  "export",    model.c_str(),
                                            "--out", out.c_str(), "--dtype",
                                            dtype,   "--quiet",   "--force"};
  return run_cli(static_cast<int>(words.size()), words.data()) == 0 ? out : "";
}

void decode(benchmark::State& state, const char* dtype) {
  const std::string folder = exported(dtype);
  auto session = Session::open(folder, read_shard);
  if (!session) return state.SkipWithError(render(session.error()).c_str());
  const int64_t context = session->manifest().build.context;
  constexpr std::array<int64_t, 1> kToken = {'e'};
  for (auto _ : state) {
    if (session->position() == context) session->reset();
    const auto logits = session->feed(kToken);
    if (!logits) return state.SkipWithError(render(logits.error()).c_str());
    benchmark::DoNotOptimize(logits->data.data());
  }
  state.SetItemsProcessed(state.iterations());
  std::filesystem::remove_all(folder);
}
BENCHMARK_CAPTURE(decode, f32, "f32")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, f16, "f16")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moec
