#include "backends/weights/views/weight_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/weights/views/convert.h"
#include "backends/weights/views/stream_cut.h"

namespace moec {
StreamReport& StreamReport::operator+=(const StreamReport& other) {
  elements += other.elements;
  overflows += other.overflows;
  nonfinite += other.nonfinite;
  bytes_read += other.bytes_read;
  // Streams run one after another, so their buffers do not exist at the same time.
  peak_scratch = std::max(peak_scratch, other.peak_scratch);
  return *this;
}

namespace {

// Allowance for the program itself, its graphs, and the plan of a typical model.
constexpr uint64_t kProgramBytes = uint64_t{48} << 20;
constexpr uint64_t kMebibyte = uint64_t{1} << 20;
constexpr uint64_t kLeastBytes = uint64_t{4} << 20;
// The disk stays busy during writes only if several reads are in progress while other readers
// convert or wait for the writer. Using fewer readers for fewer jobs would only be slower.
constexpr uint64_t kReaders = 8;

// Adds the first tensor of the view to findings that name no tensor.
Diagnostics naming_tensor(const WeightView& view, Diagnostics findings) {
  std::string tensor;
  for_each_tensor(view, [&](const TensorSource& source, const Type&) {
    if (tensor.empty()) tensor = source.name;
  });
  for (Diagnostic& finding : findings)
    if (finding.place.tensor.empty()) finding.place.tensor = tensor;
  return findings;
}

}  // namespace

Status check_plan_bytes(uint64_t memory_bytes, uint64_t plan_bytes) {
  if (kProgramBytes + plan_bytes <= memory_bytes) return {};
  return fail("weights.over_budget",
              fmt::format("the index of the checkpoint, the plan and the manifest need {} MiB, the "
                          "budget is {} MiB",
                          (kProgramBytes + plan_bytes) >> 20, memory_bytes >> 20),
              "raise the memory budget");
}

Result<ReaderOptions> export_reader(uint64_t memory_bytes, int jobs, uint64_t plan_bytes,
                                    uint64_t job_bytes) {
  const uint64_t fixed = kProgramBytes + plan_bytes;
  const uint64_t least =
      fixed + static_cast<uint64_t>(jobs) * (kWriterBytes + kLeastBytes + job_bytes);
  if (memory_bytes < least)
    return fail(
        "weights.over_budget",
        fmt::format("an export of {} at a time needs at least {} MiB{}, the budget is {} MiB",
                    jobs == 1 ? "1 shard" : fmt::format("{} shards", jobs),
                    (least + kMebibyte - 1) / kMebibyte,
                    plan_bytes >> 20 == 0
                        ? ""
                        : fmt::format(" ({} of them for its plan)", plan_bytes >> 20),
                    memory_bytes >> 20),
        jobs == 1 ? "raise the memory budget"
                  : "raise the memory budget, or use fewer jobs or targets");
  ReaderOptions options;
  options.memory_bytes =
      (memory_bytes - fixed) / static_cast<uint64_t>(jobs) - kWriterBytes - job_bytes;
  options.readers = kReaders;
  options.past_cache = true;
  return options;
}

struct WeightReader::Impl {
  WeightTable table;
  ReaderOptions options;
  std::vector<PayloadFile> files;  // parallel to table.files
};

WeightReader::WeightReader(std::shared_ptr<Impl> impl, SeriesMaker maker)
    : impl_(std::move(impl)), maker_(std::move(maker)) {}
WeightReader::WeightReader(WeightReader&&) noexcept = default;
WeightReader& WeightReader::operator=(WeightReader&&) noexcept = default;
WeightReader::~WeightReader() = default;

Result<WeightReader> WeightReader::open(WeightTable table, ReaderOptions options) {
  auto impl = std::make_shared<Impl>();
  for (const WeightFile& file : table.files) {
    MOEC_ASSIGN(PayloadFile opened, PayloadFile::open(file));
    impl->files.push_back(std::move(opened));
  }
  impl->table = std::move(table);
  impl->options = options;
  return WeightReader(std::move(impl), {});
}

WeightReader WeightReader::with_series(SeriesMaker maker) const {
  return WeightReader(impl_, std::move(maker));
}

WeightReader WeightReader::with_options(ReaderOptions options) && {
  impl_->options = options;
  return std::move(*this);
}

const WeightTable& WeightReader::table() const { return impl_->table; }

Status WeightReader::check_unchanged() const {
  for (const PayloadFile& file : impl_->files) MOEC_TRY(file.check_unchanged());
  return {};
}

static Result<Cut> cut_of(const WeightView& view, const WeightTable& table, size_t tile_bytes,
                          const ReaderOptions& options) {
  auto node = compile_view(view, table);
  if (!node) return fail(naming_tensor(view, std::move(node.error())));
  auto cut = cut_view(std::move(*node), tile_bytes, options);
  if (!cut) return fail(naming_tensor(view, std::move(cut.error())));
  return cut;
}

Result<ViewCost> WeightReader::cost(const WeightView& view, size_t tile_bytes) const {
  const ReaderOptions& options = impl_->options;
  MOEC_ASSIGN(const Cut cut, cut_of(view, impl_->table, tile_bytes, options));
  return ViewCost{cut.elements * cut.node->width(), choose_slots({&cut, 1}, options).held_bytes()};
}

namespace {

// Delivers views by reading their files.
class CutViews : public ViewSeries::Source {
 public:
  CutViews(std::vector<WeightView> views, std::vector<Cut> cuts,
           const std::vector<PayloadFile>& files, const ReaderOptions& options)
      : views_(std::move(views)), cuts_(std::move(cuts), files, options) {}

  Status next(const TileSink& sink, StreamReport& report) override {
    bool sink_failed = false;
    const TileSink watched = [&](std::span<const std::byte> tile) {
      Status taken = sink(tile);
      sink_failed = !taken;
      return taken;
    };
    StreamReport own;
    Status status = cuts_.next(watched, own);
    report += own;
    const WeightView& view = views_[next_++];
    // Errors of the sink come from the caller. Only errors of the read get the name of a tensor.
    if (status || sink_failed) return status;
    return fail(naming_tensor(view, std::move(status.error())));
  }

 private:
  std::vector<WeightView> views_;
  CutSeries cuts_;
  size_t next_ = 0;
};

}  // namespace

Result<ViewSeries> WeightReader::series(std::vector<WeightView> views, size_t tile_bytes) const {
  if (maker_) return maker_(std::move(views), tile_bytes);
  std::vector<Cut> cuts;
  for (const WeightView& view : views) {
    MOEC_ASSIGN(Cut cut, cut_of(view, impl_->table, tile_bytes, impl_->options));
    cuts.push_back(std::move(cut));
  }
  return ViewSeries(
      std::make_unique<CutViews>(std::move(views), std::move(cuts), impl_->files, impl_->options));
}

Status WeightReader::stream(const WeightView& view, size_t tile_bytes, const TileSink& sink,
                            StreamReport& report) const {
  MOEC_ASSIGN(ViewSeries only, series({view}, tile_bytes));
  return only.next(sink, report);
}

Result<std::vector<float>> WeightReader::read_f32(const WeightView& view,
                                                  uint64_t limit_bytes) const {
  MOEC_ASSIGN(Type type, view_type(view));
  const auto elements = static_cast<uint64_t>(type.elements());
  if (elements > limit_bytes / sizeof(float))
    return fail("weights.too_large",
                fmt::format("{} needs {} bytes as f32, but the limit is {}", to_string(type),
                            elements * sizeof(float), limit_bytes),
                "raise the limit, or stream the weight in tiles");
  std::vector<float> values(elements);
  size_t done = 0;
  const auto sink = [&](std::span<const std::byte> tile) -> Status {
    const size_t count = tile.size() / static_cast<size_t>(dtype_bytes(type.dtype));
    decode(type.dtype, tile.data(), count, values.data() + done);
    done += count;
    return {};
  };
  StreamReport report;
  MOEC_TRY(stream(view, kDefaultTileBytes, sink, report));
  return values;
}

Result<std::optional<MappedValues>> WeightReader::map(const WeightView& view) const {
  auto node = compile_view(view, impl_->table);
  if (!node) return fail(naming_tensor(view, std::move(node.error())));
  const Type& type = (*node)->type();
  const auto extent = (*node)->extent();
  const bool is_float =
      type.dtype == DType::f32 || type.dtype == DType::f16 || type.dtype == DType::bf16;
  // A reader with a maker shares its reads among sides; a mapping would bypass that.
  if (maker_ || !is_float || !extent) return std::nullopt;
  const PayloadFile& file = impl_->files[extent->file];
  if (file.mapped() == nullptr) return std::nullopt;
  // The aliasing pointer keeps all files open as long as the values exist.
  return MappedValues({impl_, &file}, extent->offset, type.dtype, type.elements());
}

Result<std::optional<MappedView>> WeightReader::map_codes(const WeightView& view) const {
  auto compiled = HeldView::compile(view, impl_->table);
  if (!compiled) return fail(naming_tensor(view, std::move(compiled.error())));
  if (maker_ || !compiled->is_coded()) return std::nullopt;
  std::optional<size_t> file;
  bool is_one = true;
  uint64_t begin = UINT64_MAX, end = 0, bytes = 0;
  for_each_tensor(view, [&](const TensorSource& source, const Type&) {
    const TensorRange& range = *impl_->table.find(source.name);
    is_one &= file.value_or(range.file) == range.file;
    file = range.file;
    begin = std::min(begin, range.offset);
    end = std::max(end, range.offset + static_cast<uint64_t>(range.type.bytes()));
    bytes += static_cast<uint64_t>(range.type.bytes());
  });
  if (!is_one || !file || impl_->files[*file].mapped() == nullptr) return std::nullopt;
  const PayloadFile& opened = impl_->files[*file];
  return MappedView(std::move(*compiled), {impl_, &opened}, {&opened, begin, end - begin}, bytes);
}

Result<StreamReport> WeightReader::scan(const WeightView& view) const {
  StreamReport report;
  const auto pass_over = [](std::span<const std::byte>) { return Status(); };
  MOEC_TRY(stream(view, kDefaultTileBytes, pass_over, report));
  return report;
}

}  // namespace moec
