#include "frontends/jobs/upcycle/upcycle_model.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "backends/files/folder.h"
#include "backends/files/sync_tree.h"
#include "backends/files/write_error.h"
#include "backends/output/carried_files.h"
#include "backends/output/folder_lock.h"
#include "backends/output/out_folder.h"
#include "backends/weights/views/equal_tensors.h"
#include "backends/weights/views/weight_reader.h"
#include "frontends/jobs/upcycle/dense_models.h"
#include "frontends/jobs/upcycle/upcycle_options.h"
#include "frontends/jobs/upcycle/upcycle_plan.h"
#include "frontends/sources/hf/checkpoint.h"
#include "frontends/sources/open_source.h"
#include "ir/base/byte_text.h"
#include "ir/base/diagnostics.h"
#include "ir/base/json.h"
#include "ir/base/output_apart.h"
#include "ir/base/regular_file.h"
#include "models/shards/needed_tensors.h"

namespace moec {

namespace {

constexpr int64_t kPiece = int64_t{1} << 20;  // elements

struct Difference {
  double apart = 0, base = 0;  // sums of squares
  double relative() const { return base > 0 ? std::sqrt(apart / base) : std::sqrt(apart); }
};

class OtherWeights {
 public:
  OtherWeights(const UpcycleOptions& options, const UpcyclePlan& plan, const WeightReader& weights)
      : options_(options), plan_(plan), weights_(weights) {}

  // Compares a model whose tensors have the prefix.
  Result<Difference> with(const std::string& prefix) {
    Difference difference;
    for (const NeededTensor& tensor : needed_tensors(plan_.source)) {
      if (is_ffn_role(tensor.role)) continue;
      const TensorRange* base = plan_.weights.find(tensor.name);
      const TensorRange* other = plan_.weights.find(prefix + tensor.name);
      if (base == nullptr || other == nullptr || base->type.dims != other->type.dims) {
        difference.apart = HUGE_VAL;
        continue;
      }
      MOEC_TRY(add(flat(tensor.name, *base), flat(prefix + tensor.name, *other), difference));
    }
    return difference;
  }

 private:
  static WeightView flat(const std::string& name, const TensorRange& range) {
    return then(tensor_view(name, range.type), ReshapeStep{{range.type.elements()}});
  }

  Result<std::vector<float>> read(const WeightView& view, int64_t begin, int64_t size) const {
    return weights_.read_f32(then(view, SliceStep{0, begin, size}),
                             static_cast<uint64_t>(kPiece) * sizeof(float));
  }

  Status add(const WeightView& base, const WeightView& other, Difference& difference) const {
    const int64_t elements = base.source_type.elements();
    for (int64_t begin = 0; begin < elements; begin += kPiece) {
      if (options_.stop && options_.stop())
        return fail(kUpcycleInterrupted, "the upcycling was stopped", {}, {});
      const int64_t size = std::min(kPiece, elements - begin);
      MOEC_ASSIGN(const std::vector<float> a, read(base, begin, size));
      MOEC_ASSIGN(const std::vector<float> b, read(other, begin, size));
      for (size_t i = 0; i < a.size(); ++i) {
        const double value = static_cast<double>(a[i]), apart = value - static_cast<double>(b[i]);
        difference.apart += apart * apart;
        difference.base += value * value;
      }
    }
    return {};
  }

  const UpcycleOptions& options_;
  const UpcyclePlan& plan_;
  const WeightReader& weights_;
};

// Compares all tensors of each model of options.sources.experts that are no feed-forward matrices
// with the dense model's. Where they differ, adds the warning upcycle.other_weights with the
// relative difference |a − b| / |b| over all of them, b those of the dense model. Errors: those of
// WeightReader, kUpcycleInterrupted.
Status note_other_weights(const UpcycleOptions& options, UpcyclePlan& plan) {
  if (options.sources.experts.empty()) return {};
  MOEC_ASSIGN(const WeightReader weights, WeightReader::open(plan.weights));
  OtherWeights other(options, plan, weights);
  for (size_t i = 0; i < options.sources.experts.size(); ++i) {
    MOEC_ASSIGN(const Difference difference, other.with(fmt::format("{}{}/", kOtherModel, i)));
    if (difference.apart == 0) continue;
    plan.notes.push_back(
        {Severity::warning,
         "upcycle.other_weights",
         std::isfinite(difference.apart)
             ? fmt::format(
                   "attention, norms and embeddings differ from the dense model's by {:.3g} "
                   "of their norm, and are not taken",
                   difference.relative())
             : "the model lacks tensors beside its experts that the dense model has",
         "train the result further, or give experts that were trained from one dense model",
         {.file = options.sources.experts[i]}});
  }
  return {};
}

class ResultFolder {
 public:
  // Checks that `folder` is free or may be replaced, and begins an empty one for `bytes` of files
  // beside it. What an interrupted run left there is removed. Errors: those of Folder and
  // FolderLock, and
  //   upcycle.out_exists   there is a checkpoint already, and `force` is not set
  //   upcycle.out_foreign  `force` is set, but moec upcycle did not write what is there
  //   upcycle.no_space     the file system has less room than `bytes`
  static Result<ResultFolder> begin(const std::string& folder, uint64_t bytes, bool force);

  ResultFolder(ResultFolder&&) noexcept = default;
  ResultFolder& operator=(ResultFolder&&) = delete;
  // Removes the unfinished folder unless it was published.
  ~ResultFolder();

  // Where the files go.
  const std::string& path() const { return path_; }

  // Flushes the files and gives the folder its name. An earlier result is exchanged for it in one
  // step where the system can, and removed. Errors: those of write_error.h.
  Status publish() &&;

 private:
  ResultFolder(std::string folder, std::string path, FolderLock lock)
      : folder_(std::move(folder)),
        path_(std::move(path)),
        lock_(std::make_unique<FolderLock>(std::move(lock))) {}

  std::string folder_, path_;
  std::unique_ptr<FolderLock> lock_;  // null once it is published
};

namespace fs = std::filesystem;

// The path without a trailing slash, so that it has a last component. Where a link leads to a
// folder, that folder is meant.
std::string plain_path(const std::string& folder) {
  const fs::path normal = fs::path(folder).lexically_normal();
  const fs::path path = normal.has_filename() ? normal : normal.parent_path();
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(path, error))) return path.string();
  const fs::path meant = fs::canonical(path, error);
  return error ? path.string() : meant.string();
}

std::string unfinished_path(const std::string& folder) {
  const SplitPath parts = split_path(folder);
  const std::string name = "." + parts.leaf + ".upcycling";
  return parts.parent.empty() ? name : parts.parent + "/" + name;
}

// Whether moec upcycle wrote the checkpoint in a folder.
bool is_own(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const auto text = read_text_file(path, kMaxConfigBytes);
  if (!text) return false;
  const auto json = parse_json(*text, {.file = path});
  return json && json->find(kProvenanceKey) != nullptr;
}

Status check_free(const std::string& folder, bool force) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return {};
  if (!fs::is_directory(folder, error))
    return fail("upcycle.out_foreign", "the path of the output is no folder",
                "give --out another folder", {.file = folder});
  if (fs::is_empty(folder, error)) return {};
  if (!force)
    return fail("upcycle.out_exists", "the output folder holds files",
                "give --out another folder, or --force to replace an earlier result",
                {.file = folder});
  if (is_own(folder)) return {};
  return fail("upcycle.out_foreign", "the folder holds what moec upcycle did not write",
              "give --out another folder", {.file = folder});
}

Status check_space(const std::string& folder, uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || space.available >= bytes) return {};
  return fail("upcycle.no_space",
              fmt::format("the checkpoint takes {}, and {} are free",
                          binary_bytes(static_cast<double>(bytes)),
                          binary_bytes(static_cast<double>(space.available))),
              "free space there, choose another folder, or fewer --experts", {.file = folder});
}

// Removes a folder and all that it holds.
Status remove_folder(const std::string& path) {
  const SplitPath parts = split_path(path);
  MOEC_ASSIGN(const Folder parent, Folder::open(parts.parent.empty() ? "." : parts.parent));
  return parent.has(parts.leaf) ? parent.remove_all(parts.leaf) : Status();
}

// Gives the folder its name. What has the name gets the other one, in one step where the file
// system can.
Status take_name(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return {};
  if (errno != ENOENT) MOEC_TRY(remove_folder(to));
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return write_error(errno, "rename the finished folder to", to);
}

Result<ResultFolder> ResultFolder::begin(const std::string& folder, uint64_t bytes, bool force) {
  const std::string target = plain_path(folder);
  MOEC_TRY(check_free(target, force));
  std::string path = unfinished_path(target);
  MOEC_TRY(create_folder(path));
  MOEC_ASSIGN(FolderLock lock, FolderLock::take(path));
  MOEC_ASSIGN(const Folder opened, Folder::open(path));
  MOEC_ASSIGN(const std::vector<FolderEntry> left, opened.entries());
  for (const FolderEntry& entry : left)
    if (entry.name != kLockFile) MOEC_TRY(opened.remove_all(entry.name));
  ResultFolder result(target, std::move(path), std::move(lock));
  MOEC_TRY(check_space(result.path_, bytes));
  return result;
}

ResultFolder::~ResultFolder() {
  if (!lock_) return;
  lock_.reset();
  (void)remove_folder(path_);
}

Status ResultFolder::publish() && {
  MOEC_TRY(sync_tree(path_));
  lock_.reset();
  Status done = take_name(path_, folder_);
  if (const Status removed = remove_folder(path_); done && !removed) done = removed;
  if (!done) return done;
  const std::string parent = split_path(folder_).parent;
  return sync_folder(parent.empty() ? "." : parent);
}

Status check_apart(const UpcycleOptions& options) {
  MOEC_TRY(check_apart_from(options.source, options.output.folder, "--out"));
  for (const std::string& folder : options.sources.experts)
    MOEC_TRY(check_apart_from(folder, options.output.folder, "--out"));
  for (const std::string& folder : options.sources.adapters)
    MOEC_TRY(check_apart_from(folder, options.output.folder, "--out"));
  return check_carried_files(source_folder(options.source));
}

// What was written is a checkpoint of the architecture, with each tensor in its shape.
Status check_reads_back(const UpcycleOptions& options, const std::string& folder) {
  const auto made = open_source(folder, result_family(options), equal_tensors);
  return made ? Status() : fail(made.error());
}

void warn_of_nonfinite(uint64_t values, UpcycleReport& report) {
  if (values == 0) return;
  report.plan.notes.push_back(
      {Severity::warning,
       "upcycle.nonfinite_weights",
       fmt::format("{} weights are NaN or infinite, as in the source", values),
       "download the source again",
       {.file = report.out}});
}

Status write(const UpcycleOptions& options, const std::vector<SafetensorsPart>& parts,
             UpcycleReport& report) {
  uint64_t bytes = report.plan.config_text.size();
  for (const SafetensorsPart& part : parts) bytes += part.file_bytes();
  MOEC_TRY(check_apart(options));
  MOEC_ASSIGN(ResultFolder folder,
              ResultFolder::begin(options.output.folder, bytes, options.output.force));
  MOEC_ASSIGN(WrittenCheckpoint written,
              write_checkpoint(options, report.plan, parts, folder.path()));
  report.files = std::move(written.files);
  warn_of_nonfinite(written.nonfinite, report);
  MOEC_TRY(check_reads_back(options, folder.path()));
  return std::move(folder).publish();
}

}  // namespace

Result<UpcycleReport> upcycle_model(const UpcycleOptions& options) {
  UpcycleReport report{options.source, options.output.folder};
  report.max_error = options.verify.max_error;
  report.dry_run = options.dry_run;
  MOEC_ASSIGN(report.plan,
              options.sources.multiply > 0 ? plan_multiplied(options) : plan_upcycle(options));
  MOEC_ASSIGN(const std::vector<SafetensorsPart> parts,
              plan_files(report.plan, options.output.max_shard_bytes));
  for (const SafetensorsPart& part : parts) report.tensor_bytes += part.payload_bytes;
  if (options.dry_run) return report;
  MOEC_TRY(note_other_weights(options, report.plan));
  MOEC_TRY(write(options, parts, report));
  if (options.verify.run) {
    MOEC_ASSIGN(report.comparison, verify_upcycle(options, report.plan, options.output.folder));
  }
  return report;
}

}  // namespace moec
