#include "backends/device/measure_disk.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <future>
#include <memory>

#include "backends/runtime/experts/expert_loader.h"
#include "ir/base/splitmix64.h"

namespace moec {
namespace {

constexpr uint64_t kBlock = PayloadFile::kBlockBytes;
// Sizes of experts, from those of small models to those of large ones.
constexpr std::array<uint64_t, 3> kReadBytes = {64u << 10, 1u << 20, 8u << 20};
// Experts per load: those that a token misses in one layer.
constexpr uint64_t kReadsPerLoad = 4;

struct FreeBlocks {
  void operator()(std::byte* blocks) const { std::free(blocks); }
};
using Blocks = std::unique_ptr<std::byte, FreeBlocks>;

Blocks allocate_blocks(uint64_t bytes) {
  return Blocks(static_cast<std::byte*>(std::aligned_alloc(kBlock, bytes)));
}

// Loads experts from random positions and waits for all of them.
Status load_once(ExpertLoader& loader, const PayloadFile& file, uint64_t bytes, uint64_t seed,
                 std::byte* to) {
  const uint64_t positions = (file.size() - bytes) / kBlock + 1;
  std::vector<ExtentRead> reads;
  for (uint64_t i = 0; i < kReadsPerLoad; ++i) {
    const uint64_t begin = splitmix64(seed * kReadsPerLoad + i) % positions * kBlock;
    reads.push_back({&file, begin, begin + bytes, to + i * bytes});
  }
  std::promise<Status> done;
  std::vector<SlotLoad> loads;
  loads.push_back({std::move(reads), [&](Status status) { done.set_value(std::move(status)); }});
  loader.load(std::move(loads), 0);
  return done.get_future().get();
}

}  // namespace

Result<std::vector<RandomReads>> measure_random_reads(const PayloadFile& file,
                                                      const Repetition& repetition) {
  ExpertLoader loader(kExpertReaders);
  if (loader.threads() == 0)
    return fail("doctor.threads", "the system refuses to start threads",
                "end other programs, and try again");
  std::vector<RandomReads> rates;
  for (const uint64_t bytes : kReadBytes) {
    if (bytes > file.size()) break;
    const Blocks memory = allocate_blocks(kReadsPerLoad * bytes);
    if (!memory)
      return fail("doctor.memory", "the system refuses memory for the reads",
                  "end other programs, and try again");
    // Another seed per size, because a position that was read before may be in a cache of the disk.
    MOEC_ASSIGN(const double seconds, median_seconds(repetition, [&](size_t call) {
                  return load_once(loader, file, bytes, (bytes << 16) + call, memory.get());
                }));
    rates.push_back(
        {static_cast<int64_t>(bytes), static_cast<double>(kReadsPerLoad * bytes) / seconds});
  }
  return rates;
}

Result<double> measure_sequential_reads(const PayloadFile& file) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  std::vector<std::byte> piece(kPiece);
  const Clock::time_point start = Clock::now();
  for (uint64_t at = 0; at < file.size(); at += kPiece)
    MOEC_TRY(file.read(at, piece.data(),
                       static_cast<size_t>(std::min<uint64_t>(kPiece, file.size() - at))));
  return static_cast<double>(file.size()) / std::max(seconds_since(start), kLeastSeconds);
}

}  // namespace moec
