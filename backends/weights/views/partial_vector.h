// Loads and stores the first lanes of a Highway vector, for arrays that end within it. MaskedLoad()
// of Highway 1.0.3 reads all lanes, from an aligned address, on SSE4; on NEON, BlendedStore() reads
// and writes all lanes, too.
//
// Highway compiles the files that include this one once per vector target, hence the guard.
#if defined(MOEC_BACKENDS_WEIGHTS_VIEWS_PARTIAL_VECTOR_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MOEC_BACKENDS_WEIGHTS_VIEWS_PARTIAL_VECTOR_H
#undef MOEC_BACKENDS_WEIGHTS_VIEWS_PARTIAL_VECTOR_H
#else
#define MOEC_BACKENDS_WEIGHTS_VIEWS_PARTIAL_VECTOR_H
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace moec::HWY_NAMESPACE {

class PartialVector {
  using Tag = hwy::HWY_NAMESPACE::ScalableTag<float>;
  using Vector = hwy::HWY_NAMESPACE::Vec<Tag>;

 public:
  // `count` lanes, at least 1 and at most all.
  explicit PartialVector(int64_t count)
      : count_(count), mask_(hwy::HWY_NAMESPACE::FirstN(Tag(), static_cast<size_t>(count))) {}

  // Lanes beyond the count are 0.
  Vector load(const float* from) const {
#if HWY_TARGET <= HWY_AVX2
    return hwy::HWY_NAMESPACE::MaskedLoad(mask_, Tag(), from);
#else
    HWY_ALIGN float lanes[HWY_LANES(float)] = {};
    for (int64_t i = 0; i < count_; ++i) lanes[i] = from[i];
    return hwy::HWY_NAMESPACE::Load(Tag(), lanes);
#endif
  }

  void store(Vector values, float* to) const {
#if HWY_TARGET <= HWY_AVX2
    hwy::HWY_NAMESPACE::BlendedStore(values, mask_, Tag(), to);
#else
    HWY_ALIGN float lanes[HWY_LANES(float)];
    hwy::HWY_NAMESPACE::Store(values, Tag(), lanes);
    for (int64_t i = 0; i < count_; ++i) to[i] = lanes[i];
#endif
  }

 private:
  int64_t count_;
  hwy::HWY_NAMESPACE::Mask<Tag> mask_;
};

}  // namespace moec::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
