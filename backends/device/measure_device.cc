#include "backends/device/measure_device.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "backends/cpu/cpu_engine.h"
#include "backends/cpu/cpu_products.h"
#include "backends/cpu/kernels.h"
#include "backends/device/measure_disk.h"
#include "backends/device/measure_ops.h"
#include "backends/device/measure_products.h"
#include "backends/device/median_seconds.h"
#include "backends/device/scratch_file.h"
#include "backends/runtime/session/session_memory.h"

namespace moec {
namespace {

// Larger than the last cache of usual CPUs.
constexpr uint64_t kScratchBytes = uint64_t{256} << 20;
// Shares of the duration: per product of a form, of which there are 23 · 8; per small graph; and
// per size of reads.
constexpr double kProductShare = 0.003, kGraphShare = 0.005, kReadShare = 0.05;

// Returns the rate at which all threads together read memory.
double measure_memory(int threads, double budget) {
  const std::vector<uint64_t> words(kScratchBytes / sizeof(uint64_t), 1);
  ThreadTeam team(threads);
  // The sum is used, so that the compiler cannot omit the reads.
  std::atomic<uint64_t> sum = 0;
  const double seconds = median_seconds(budget, [&](size_t) {
    team.divide(std::ssize(words), 4096, [&](int64_t begin, int64_t end) {
      sum += std::accumulate(words.begin() + begin, words.begin() + end, uint64_t{0});
    });
  });
  return static_cast<double>(kScratchBytes) / std::max(seconds, kLeastSeconds);
}

}  // namespace

Result<DeviceProfile> measure_device(const MeasureOptions& options) {
  DeviceProfile profile;
  profile.engine = "cpu";
  profile.vectors = vector_target();
  profile.threads = options.threads == 0 ? cpu_cores() : options.threads;
  // A system that does not report its memory has at least the memory of the measurement.
  profile.memory_bytes = static_cast<int64_t>(std::max(machine_memory(), kScratchBytes));
  const auto threads = static_cast<int>(profile.threads);
  const CpuProducts products(threads, ActivationFormat::f32);

  MOEC_ASSIGN(const ScratchFile scratch, ScratchFile::create(options.folder, kScratchBytes));
  MOEC_TRY(check_stop(options.stop));
  MOEC_ASSIGN(profile.reads,
              measure_random_reads(scratch.file(), kReadShare * options.seconds, options.stop));
  MOEC_TRY(check_stop(options.stop));
  // Fills the page cache, from which the products read.
  MOEC_ASSIGN(profile.sequential_rate, measure_sequential_reads(scratch.file()));
  MOEC_TRY(check_stop(options.stop));
  MOEC_ASSIGN(profile.forms,
              measure_forms(products, scratch, {kProductShare * options.seconds, options.stop}));
  MOEC_TRY(check_stop(options.stop));
  profile.activations = measure_activations(products, kGraphShare * options.seconds);
  MOEC_TRY(check_stop(options.stop));
  profile.memory_rate = measure_memory(threads, kReadShare * options.seconds);
  MOEC_TRY(check_stop(options.stop));
  MOEC_TRY(measure_ops(products, kGraphShare * options.seconds, profile));
  // A signal during the last step must not leave a profile either.
  MOEC_TRY(check_stop(options.stop));
  return profile;
}

}  // namespace moec
