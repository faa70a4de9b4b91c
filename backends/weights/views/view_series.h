// How weight views are streamed: the options of a reader, the sink that takes the bytes, the report
// of what was read, and a series of views that are delivered one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "ir/base/diagnostics.h"

namespace moec {

struct ReaderOptions {
  // A view that reorders its source is assembled in blocks of about this size. In a larger block,
  // more elements of the same stretch of the file are wanted, so that each read is longer.
  size_t gather_bytes = size_t{32} << 20;
  // Stretches of the file that lie close together are read by one call, up to this size.
  size_t band_bytes = size_t{1} << 20;
  // The most bytes that one stream may hold. To stay within it, blocks are made smaller, and fewer
  // of them are read at a time.
  uint64_t memory_bytes = uint64_t{256} << 20;
  // How many blocks are read and converted at a time, each by its own thread, while the sink takes
  // an earlier block. With 1 the caller's thread does everything.
  uint64_t readers = 1;
  // Whether large reads bypass the page cache where it does not hold the bytes yet. For data that
  // is read once this saves a copy, which makes reading twice as fast.
  bool past_cache = false;
};

struct StreamReport {
  uint64_t elements = 0;    // delivered to the sink
  uint64_t overflows = 0;   // finite values that a cast, scale or dequant made infinite
  uint64_t nonfinite = 0;   // delivered elements that are NaN or infinite, for whatever reason
  uint64_t bytes_read = 0;  // from files
  // The most bytes that were held in buffers at one time; with several readers an upper bound.
  uint64_t peak_scratch = 0;
  StreamReport& operator+=(const StreamReport& other);
};

// Takes the next bytes of a view, little-endian. A failure ends the stream, which returns it.
using TileSink = std::function<Status(std::span<const std::byte> tile)>;

// Views that are delivered one after the other. The next views are read while one is delivered, so
// that many small views keep the disk as busy as one large view. Must not outlive its reader.
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

  // Delivers the next view, as WeightReader::stream() does. Not to be called after a failure.
  Status next(const TileSink& sink, StreamReport& report) { return source_->next(sink, report); }

 private:
  std::unique_ptr<Source> source_;
};

}  // namespace moec
