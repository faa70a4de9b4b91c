#include "backends/device/measure_device.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "backends/cpu/cpu_engine.h"
#include "backends/cpu/cpu_products.h"
#include "backends/cpu/kernels.h"
#include "backends/device/measure_disk.h"
#include "backends/device/measure_ops.h"
#include "backends/device/scratch_file.h"
#include "backends/runtime/session/session_memory.h"

namespace moec {
namespace {

// Shares of the duration: per product of a form, of which there are 23 · 8; per small graph; and
// per size of reads.
constexpr double kProductShare = 0.003, kGraphShare = 0.005, kReadShare = 0.05;

// Returns the rate at which all threads together read memory.
Result<double> measure_memory(int threads, uint64_t bytes, const Repetition& repetition) {
  const std::vector<uint64_t> words(bytes / sizeof(uint64_t), 1);
  ThreadTeam team(threads);
  // The sum is used, so that the compiler cannot omit the reads.
  std::atomic<uint64_t> sum = 0;
  const auto read = [&](size_t) -> Status {
    team.divide(std::ssize(words), 4096, [&](int64_t begin, int64_t end) {
      sum += std::accumulate(words.begin() + begin, words.begin() + end, uint64_t{0});
    });
    return {};
  };
  MOEC_ASSIGN(const double seconds, median_seconds(repetition, read));
  return static_cast<double>(bytes) / seconds;
}

}  // namespace

Result<DeviceProfile> measure_device(const MeasureOptions& options) {
  DeviceProfile profile;
  profile.engine = "cpu";
  profile.vectors = vector_target();
  profile.threads = options.threads == 0 ? cpu_cores() : options.threads;
  // A system that does not report its memory has at least the memory of the measurement.
  profile.memory_bytes = static_cast<int64_t>(std::max(machine_memory(), options.bytes));
  const auto threads = static_cast<int>(profile.threads);
  const CpuProducts products(threads, ActivationFormat::f32);
  const auto share = [&](double part) { return Repetition{part * options.seconds, options.stop}; };
  const Repetition reads = share(kReadShare), graphs = share(kGraphShare);

  MOEC_ASSIGN(const ScratchFile scratch, ScratchFile::create(options.folder, options.bytes));
  MOEC_ASSIGN(profile.reads, measure_random_reads(scratch.file(), reads));
  // Fills the page cache, from which the products read.
  MOEC_ASSIGN(profile.sequential_rate, measure_sequential_reads(scratch.file()));
  MOEC_ASSIGN(profile.forms,
              measure_forms(products, scratch, options.products, share(kProductShare)));
  MOEC_ASSIGN(profile.activations, measure_activations(products, options.products.tokens, graphs));
  MOEC_ASSIGN(profile.memory_rate, measure_memory(threads, options.bytes, reads));
  MOEC_TRY(measure_ops(products, graphs, profile));
  // A signal during the last step must not leave a profile either.
  MOEC_TRY(check_stop(options.stop));
  return profile;
}

}  // namespace moec
