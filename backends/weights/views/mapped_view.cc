#include "backends/weights/views/mapped_view.h"

#include "ir/base/invariant.h"

namespace moec {

MappedView::MappedView(HeldView view, std::shared_ptr<const PayloadFile> file, MappedRange extent,
                       uint64_t bytes)
    : view_(std::move(view)),
      file_(std::move(file)),
      extent_(extent),
      held_({{extent.offset, extent.bytes, file_->mapped() + extent.offset}}),
      bytes_(bytes) {
  MOEC_CHECK(view_.is_coded(), "the view of {} is not rows of codes", file_->path());
}

void MappedView::widen(int64_t begin, int64_t count, float* to) const {
  const Status decoded = view_.widen(held_, begin, count, to);
  // Cannot fail: the view is coded, and `held_` contains all of its bytes.
  MOEC_CHECK(decoded.has_value(), "codes of {} were not decoded", file_->path());
}

}  // namespace moec
