// Streaming of weight views: options of a reader, the sink of the bytes, the report of a read, and
// a series of views that are delivered in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "ir/base/diagnostics.h"

namespace moec {

struct ReaderOptions {
  // Approximate block size of views that reorder their source. A larger block needs more elements
  // of each range of the file, so each read is longer.
  size_t gather_bytes = size_t{32} << 20;
  // Maximum bytes of one read call that covers several nearby ranges of a file.
  size_t band_bytes = size_t{1} << 20;
  // Maximum bytes that one stream may hold. To respect it, the reader uses smaller blocks and reads
  // fewer of them at a time.
  uint64_t memory_bytes = uint64_t{256} << 20;
  // Number of blocks that are read and converted concurrently, each by a separate thread, while the
  // sink processes an earlier block. With 1, the caller's thread does everything.
  uint64_t readers = 1;
  // Uses direct I/O for large reads of bytes that are not in the page cache. For data that is read
  // once, this saves a copy and doubles the read speed.
  bool past_cache = false;
};

struct StreamReport {
  uint64_t elements = 0;    // delivered to the sink
  uint64_t overflows = 0;   // finite values that a cast, scale or dequant made infinite
  uint64_t nonfinite = 0;   // delivered elements that are NaN or infinite, for any reason
  uint64_t bytes_read = 0;  // from files
  // Maximum bytes held in buffers at one time; with several readers, an upper bound.
  uint64_t peak_scratch = 0;
  StreamReport& operator+=(const StreamReport& other);
};

// Receives the next bytes of a view, little-endian. A failure ends the stream, which returns it.
using TileSink = std::function<Status(std::span<const std::byte> tile)>;

// Views that are delivered in sequence. The next views are read while one is delivered, so that
// many small views keep the disk as busy as one large view. Must not outlive its reader.
class ViewSeries {
 public:
  // Reads the views of a series, in order.
  class Source {
   public:
    Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;
    virtual ~Source() = default;
    virtual Status next(const TileSink& sink, StreamReport& report) = 0;
  };
  explicit ViewSeries(std::unique_ptr<Source> source) : source_(std::move(source)) {}

  // Delivers the next view, as WeightReader::stream() does. Must not be called after a failure.
  Status next(const TileSink& sink, StreamReport& report) { return source_->next(sink, report); }

 private:
  std::unique_ptr<Source> source_;
};

}  // namespace moec
