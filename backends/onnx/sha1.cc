#include "backends/onnx/sha1.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace moec {
namespace {

uint32_t big_endian_word(const std::byte* bytes) {
  return std::to_integer<uint32_t>(bytes[0]) << 24 | std::to_integer<uint32_t>(bytes[1]) << 16 |
         std::to_integer<uint32_t>(bytes[2]) << 8 | std::to_integer<uint32_t>(bytes[3]);
}

uint32_t choose(uint32_t b, uint32_t c, uint32_t d) { return d ^ (b & (c ^ d)); }
uint32_t parity(uint32_t b, uint32_t c, uint32_t d) { return b ^ c ^ d; }
uint32_t majority(uint32_t b, uint32_t c, uint32_t d) { return (b & c) | (d & (b | c)); }

// Twenty rounds with one function. Five rounds bring the five words back to their places, so that
// none has to move.
template <uint32_t (*mix)(uint32_t, uint32_t, uint32_t)>
void twenty_rounds(std::array<uint32_t, 5>& v, uint32_t constant, const uint32_t* words) {
  auto round = [&](uint32_t a, uint32_t& b, uint32_t c, uint32_t d, uint32_t& e, uint32_t word) {
    e += std::rotl(a, 5) + mix(b, c, d) + constant + word;
    b = std::rotl(b, 30);
  };
  auto [a, b, c, d, e] = v;
  for (size_t i = 0; i < 20; i += 5) {
    round(a, b, c, d, e, words[i]);
    round(e, a, b, c, d, words[i + 1]);
    round(d, e, a, b, c, words[i + 2]);
    round(c, d, e, a, b, words[i + 3]);
    round(b, c, d, e, a, words[i + 4]);
  }
  v = {a, b, c, d, e};
}

}  // namespace

void Sha1::compress_portable(State& state, const std::byte* blocks, size_t count) {
  for (; count > 0; --count, blocks += kBlock) {
    std::array<uint32_t, 80> words;
    for (size_t i = 0; i < 16; ++i) words[i] = big_endian_word(blocks + 4 * i);
    for (size_t i = 16; i < 80; ++i)
      words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    State v = state;
    twenty_rounds<choose>(v, 0x5a827999, words.data());
    twenty_rounds<parity>(v, 0x6ed9eba1, words.data() + 20);
    twenty_rounds<majority>(v, 0x8f1bbcdc, words.data() + 40);
    twenty_rounds<parity>(v, 0xca62c1d6, words.data() + 60);
    for (size_t i = 0; i < state.size(); ++i) state[i] += v[i];
  }
}

void Sha1::update(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  if (buffered_ > 0) {
    const size_t taken = std::min(kBlock - buffered_, bytes.size());
    std::copy_n(bytes.begin(), taken, buffer_.begin() + static_cast<ptrdiff_t>(buffered_));
    buffered_ += taken;
    bytes = bytes.subspan(taken);
    if (buffered_ < kBlock) return;
    compress_(state_, buffer_.data(), 1);
    buffered_ = 0;
  }
  const size_t blocks = bytes.size() / kBlock;
  compress_(state_, bytes.data(), blocks);
  bytes = bytes.subspan(blocks * kBlock);
  std::copy(bytes.begin(), bytes.end(), buffer_.begin());
  buffered_ = bytes.size();
}

std::string Sha1::finish_hex() {
  const uint64_t bits = total_bytes_ * 8;
  const size_t zeros = (2 * kBlock - 9 - buffered_) % kBlock;
  std::array<std::byte, 2 * kBlock> tail{std::byte{0x80}};
  for (size_t i = 0; i < 8; ++i)
    tail[1 + zeros + i] = static_cast<std::byte>(bits >> (8 * (7 - i)) & 0xff);
  update(std::span(tail).first(1 + zeros + 8));
  std::string hex;
  for (uint32_t word : state_) hex += fmt::format("{:08x}", word);
  return hex;
}

}  // namespace moec
