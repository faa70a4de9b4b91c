#include "backends/cpu/cpu_engine.h"

#include <algorithm>
#include <thread>

#include "backends/cpu/cpu_products.h"

namespace moec {

int cpu_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

std::shared_ptr<const Products> cpu_products(int threads, ActivationFormat format) {
  return std::make_shared<CpuProducts>(threads == 0 ? cpu_cores() : threads, format);
}

std::shared_ptr<Engine> cpu_engine(ShardReader read_shard, int threads, ActivationFormat format) {
  EngineTraits traits{.name = "cpu"};
  if (format == ActivationFormat::int8) traits.activations = "int8";
  return executor_engine(std::move(traits), std::move(read_shard), cpu_products(threads, format));
}

}  // namespace moec
