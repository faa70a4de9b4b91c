// The buffers of one stream. Counts how many bytes are held.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "backends/weights/views/payload_file.h"

namespace moec {

class Scratch {
 public:
  // Uninitialised bytes, freed when it goes out of scope.
  class Buffer {
   public:
    Buffer(Scratch& owner, size_t bytes)
        : owner_(owner), bytes_(bytes), data_(new std::byte[std::max<size_t>(bytes, 1)]) {
      owner_.held_ += bytes;
      owner_.peak_ = std::max(owner_.peak_, owner_.held_);
    }
    ~Buffer() { owner_.held_ -= bytes_; }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    std::byte* data() { return data_.get(); }
    float* floats() { return reinterpret_cast<float*>(data_.get()); }

   private:
    Scratch& owner_;
    size_t bytes_;
    std::unique_ptr<std::byte[]> data_;
  };

  Buffer take(size_t bytes) { return Buffer(*this, bytes); }

  // The aligned buffer for reads that bypass the page cache. It is kept after the first use, since
  // such reads come in series.
  std::byte* bounce() {
    if (!bounce_) bounce_.emplace(*this, kBounceBytes);
    void* data = bounce_->data();
    size_t room = kBounceBytes;
    return static_cast<std::byte*>(
        std::align(PayloadFile::kBlockBytes, PayloadFile::kBounceBytes, data, room));
  }
  static constexpr uint64_t kBounceBytes = PayloadFile::kBounceBytes + PayloadFile::kBlockBytes;
  uint64_t peak() const { return peak_; }

 private:
  uint64_t held_ = 0, peak_ = 0;
  std::optional<Buffer> bounce_;
};

}  // namespace moec
