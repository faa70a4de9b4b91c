#include "backends/onnx/sha1.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace moec {
namespace {

uint32_t big_endian_word(const std::byte* bytes) {
  return std::to_integer<uint32_t>(bytes[0]) << 24 | std::to_integer<uint32_t>(bytes[1]) << 16 |
         std::to_integer<uint32_t>(bytes[2]) << 8 | std::to_integer<uint32_t>(bytes[3]);
}

struct Working {
  uint32_t a, b, c, d, e;

  void step(uint32_t mixed, uint32_t constant, uint32_t word) {
    const uint32_t next = std::rotl(a, 5) + mixed + e + constant + word;
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  uint32_t choose() const { return d ^ (b & (c ^ d)); }
  uint32_t parity() const { return b ^ c ^ d; }
  uint32_t majority() const { return (b & c) | (d & (b | c)); }
};

}  // namespace

void Sha1::compress(const std::byte* block) {
  std::array<uint32_t, 80> words;
  for (size_t i = 0; i < 16; ++i) words[i] = big_endian_word(block + 4 * i);
  for (size_t i = 16; i < 80; ++i)
    words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  Working w{state_[0], state_[1], state_[2], state_[3], state_[4]};
  for (size_t i = 0; i < 20; ++i) w.step(w.choose(), 0x5a827999, words[i]);
  for (size_t i = 20; i < 40; ++i) w.step(w.parity(), 0x6ed9eba1, words[i]);
  for (size_t i = 40; i < 60; ++i) w.step(w.majority(), 0x8f1bbcdc, words[i]);
  for (size_t i = 60; i < 80; ++i) w.step(w.parity(), 0xca62c1d6, words[i]);
  const uint32_t sums[] = {w.a, w.b, w.c, w.d, w.e};
  for (size_t i = 0; i < state_.size(); ++i) state_[i] += sums[i];
}

void Sha1::update(std::span<const std::byte> bytes) {
  total_bytes_ += bytes.size();
  if (buffered_ > 0) {
    const size_t taken = std::min(kBlock - buffered_, bytes.size());
    std::copy_n(bytes.begin(), taken, buffer_.begin() + static_cast<ptrdiff_t>(buffered_));
    buffered_ += taken;
    bytes = bytes.subspan(taken);
    if (buffered_ < kBlock) return;
    compress(buffer_.data());
    buffered_ = 0;
  }
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) compress(bytes.data());
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
