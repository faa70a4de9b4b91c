// The engine `cpu`: the reference executor with fast, multithreaded kernels that read weights in
// their stored form. Its results differ from the reference only in the order of summation; where
// those of the reference are infinite, they may be NaN.
#pragma once

#include <memory>

#include "backends/runtime/session/reference_engine.h"

namespace moec {

// Number of logical cores of this machine, at least 1.
int cpu_cores();

// Returns the kernels of an engine with `threads` threads, for executors of checkpoints.
std::shared_ptr<const Products> cpu_products(int threads,
                                             ActivationFormat format = ActivationFormat::f32);

// Returns an engine that uses `threads` threads, including the calling thread; 0 means one per
// core. `format` is that of the activations in products of codes with a single token. compile()
// fails with the errors of reference_engine().
std::shared_ptr<Engine> cpu_engine(ShardReader read_shard, int threads,
                                   ActivationFormat format = ActivationFormat::f32);

}  // namespace moec
