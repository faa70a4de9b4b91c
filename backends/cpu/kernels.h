// Matrix product kernels in f32. Google Highway selects the widest vector instructions of this CPU
// at run time (SSE4, AVX2, AVX-512 or NEON).
//
// On a given instruction set, the kernel and `inner` alone determine the summation order of an
// output. Other rows and columns and the number of threads do not affect it.
#pragma once

#include <cstdint>

namespace moec {

// A matrix in memory: element (r, c) at data[r * stride + c].
struct ConstMatrix {
  const float* data = nullptr;
  int64_t stride = 0;
};
struct MutableMatrix {
  float* data = nullptr;
  int64_t stride = 0;
};

struct KernelSizes {
  int64_t rows = 0, inner = 0, columns = 0;
};

// out [rows, columns] = a [rows, inner] · b [inner, columns].
void multiply_rows(ConstMatrix a, ConstMatrix b, const KernelSizes& sizes, MutableMatrix out);

// out [rows, columns] = a [rows, inner] · transpose of b [columns, inner]. Intended for few rows or
// columns.
void dot_rows(ConstMatrix a, ConstMatrix b, const KernelSizes& sizes, MutableMatrix out);

// to[i] = e^(x[i] - max x) / Σ e^(x[j] - max x), and NaN if an element is NaN or the maximum is
// infinite. The arrays may be the same. Exponentials have errors of at most 2 ulp.
void softmax_values(const float* x, int64_t count, float* to);
// to[i] = 1 / (1 + e^-x[i]), in the same way.
void sigmoid_values(const float* x, int64_t count, float* to);

// Returns the name of the vector instruction set in use, such as "AVX2".
const char* vector_target();

}  // namespace moec
