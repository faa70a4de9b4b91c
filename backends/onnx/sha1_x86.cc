// SHA-1 by the SHA instructions of x86 processors. Each step does four rounds; the instructions'
// semantics are in the Intel 64 and IA-32 manual, volume 2, SHA1RNDS4, SHA1NEXTE, SHA1MSG1 and
// SHA1MSG2.
#include "backends/onnx/sha1.h"
#include "ir/invariant.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define MOEC_SHA_TARGET __attribute__((target("sha,sse4.1")))

namespace moec {
namespace {

struct Vectors {
  __m128i abcd, e;
};

// Twenty rounds with the function of that number, on five vectors of words.
template <int function>
MOEC_SHA_TARGET void twenty_rounds(Vectors& v, const __m128i* words) {
  for (int i = 0; i < 5; ++i) {
    const __m128i before = v.abcd;
    v.abcd = _mm_sha1rnds4_epu32(v.abcd, _mm_sha1nexte_epu32(v.e, words[i]), function);
    v.e = before;
  }
}

MOEC_SHA_TARGET void expand(const std::byte* block, __m128i* words) {
  const __m128i reverse = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
  for (int i = 0; i < 4; ++i)
    words[i] =
        _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block) + i), reverse);
  for (int i = 4; i < 20; ++i)
    words[i] = _mm_sha1msg2_epu32(
        _mm_xor_si128(_mm_sha1msg1_epu32(words[i - 4], words[i - 3]), words[i - 2]), words[i - 1]);
}

}  // namespace

bool Sha1::has_x86_instructions() {
  constexpr unsigned kSha = 1u << 29, kSse41 = 1u << 19;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kSse41)) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & kSha);
}

MOEC_SHA_TARGET void Sha1::compress_x86(State& state, const std::byte* blocks, size_t count) {
  constexpr int kTurnAround = 0x1b;  // the instructions want word a highest
  auto* abcd = reinterpret_cast<__m128i*>(state.data());
  Vectors sum{_mm_shuffle_epi32(_mm_loadu_si128(abcd), kTurnAround),
              _mm_set_epi32(static_cast<int>(state[4]), 0, 0, 0)};
  for (; count > 0; --count, blocks += kBlock) {
    __m128i words[20];
    expand(blocks, words);
    // SHA1NEXTE rotates the e that it is given by 30; the first one must come out as it is.
    Vectors v{sum.abcd, _mm_or_si128(_mm_slli_epi32(sum.e, 2), _mm_srli_epi32(sum.e, 30))};
    twenty_rounds<0>(v, words);
    twenty_rounds<1>(v, words + 5);
    twenty_rounds<2>(v, words + 10);
    twenty_rounds<3>(v, words + 15);
    sum.abcd = _mm_add_epi32(sum.abcd, v.abcd);
    sum.e = _mm_sha1nexte_epu32(v.e, sum.e);
  }
  _mm_storeu_si128(abcd, _mm_shuffle_epi32(sum.abcd, kTurnAround));
  state[4] = static_cast<uint32_t>(_mm_extract_epi32(sum.e, 3));
}

}  // namespace moec

#else

namespace moec {

bool Sha1::has_x86_instructions() { return false; }

void Sha1::compress_x86(State&, const std::byte*, size_t) {
  MOEC_CHECK(false, "this processor has no SHA instructions");
}

}  // namespace moec

#endif
