#include "backends/openvino/compiled_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "backends/emit/emit.h"
#include "backends/files/digest.h"
#include "backends/manifest/file_names.h"
#include "backends/openvino/openvino_api.h"
#include "backends/openvino/port_values.h"
#include "ir/graph/weight_view.h"

namespace moec {

namespace {

// A test run compares the outputs of a restored model for fixed inputs with those of the compiled
// model.
//
// OpenVINO 2026.4.1 restores some graphs incorrectly: on a CPU, graphs in which it fused a rotary
// embedding compute wrong keys after restoring, also with its own CACHE_DIR. So every restored
// model is tested before use.

// Returns all outputs, concatenated, for pseudorandom inputs that depend only on the model's ports:
// uniform in [-1, 1). Error: engine.run.
Result<std::vector<float>> test_results(OpenVinoModel& model) {
  std::vector<PortBytes> inputs;
  std::vector<const void*> elements;
  uint64_t stream = 1;
  for (const OpenVinoPort& port : model.inputs()) {
    std::vector<float> values(static_cast<size_t>(port.type.elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = seeded_element(stream << 40, i);
    ++stream;
    inputs.push_back(to_port(port.type, values));
    elements.push_back(inputs.back().data());
  }
  MOEC_TRY(model.run(elements));
  std::vector<float> results;
  const std::vector<OpenVinoPort> outputs = model.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<float> values = from_port(outputs[i].type, model.output(i));
    results.insert(results.end(), values.begin(), values.end());
  }
  return results;
}

// Returns true if the results agree within the variation of a device's runs in this precision: ‖a −
// b‖ ≤ 1e-5 · ‖b‖ in f32, 1e-3 in f16, all finite.
bool same_results(const std::vector<float>& a, const std::vector<float>& b,
                  const std::string& precision) {
  if (a.size() != b.size()) return false;
  double difference = 0, whole = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return false;
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    whole += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference) <= (precision == "f16" ? 1e-3 : 1e-5) * std::sqrt(whole);
}

namespace fs = std::filesystem;

constexpr size_t kDigestBytes = 32;

tl::unexpected<Diagnostics> fail_cache(const std::string& path, const std::string& why) {
  return fail("engine.cache", "a compiled model cannot be stored: " + why,
              "make the folder writable, or run without --engine-cache", {.file = path});
}

// Identifies a file by its manifest entry, size and modification time, so that edited files do not
// match.
Result<std::string> identity(const std::string& folder, const manifest::FileRef& file) {
  const std::string path = folder + "/" + file.path;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return fail("engine.compile", "the file cannot be read", "export the model again",
                {.file = path});
  return fmt::format("{} {} {} {}.{}\n", file.path, file.digest, status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

Result<std::string> key_of(const ShardGraph& graph, const OpenVinoLibrary& library,
                           const OpenVinoCompile& options) {
  std::string facts = fmt::format("1\n{}\n{}\n{}\n{}\n{}\n", library.version(), options.device,
                                  library.full_name(options.device), options.precision,
                                  fmt::join(options.watched, " "));
  MOEC_ASSIGN(const std::string file, identity(graph.folder, graph.file().file));
  facts += file;
  for (const manifest::FileRef& data : graph.shard.data) {
    MOEC_ASSIGN(const std::string of_data, identity(graph.folder, data));
    facts += of_data;
  }
  return digest_text(facts);
}

// A file consists of the model, the results of the test run as f32, the model's size as 16
// hexadecimal digits, and the digest of everything before it.
constexpr size_t kSizeDigits = 16;
constexpr size_t kEndBytes = kSizeDigits + kDigestBytes;

struct Kept {
  size_t model_bytes = 0;
  std::vector<float> results;
};

// Returns nullopt if the file is missing, truncated or changed.
std::optional<Kept> read_kept(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() < static_cast<std::streamoff>(kEndBytes)) return std::nullopt;
  const auto bytes = static_cast<size_t>(file.tellg()) - kDigestBytes;
  file.seekg(0);
  Digest digest;
  std::vector<char> piece(size_t{1} << 20);
  for (size_t left = bytes; left > 0 && file; left -= std::min(left, piece.size())) {
    file.read(piece.data(), static_cast<std::streamsize>(std::min(left, piece.size())));
    digest.update(std::as_bytes(std::span(piece.data(), static_cast<size_t>(file.gcount()))));
  }
  std::string written(kDigestBytes, ' '), size(kSizeDigits, ' ');
  if (!file.read(written.data(), kDigestBytes) || written != digest.hex()) return std::nullopt;
  file.seekg(static_cast<std::streamoff>(bytes - kSizeDigits));
  file.read(size.data(), kSizeDigits);
  Kept kept{std::strtoull(size.c_str(), nullptr, 16), {}};
  if (kept.model_bytes > bytes - kSizeDigits) return std::nullopt;
  kept.results.resize((bytes - kSizeDigits - kept.model_bytes) / sizeof(float));
  file.seekg(static_cast<std::streamoff>(kept.model_bytes));
  file.read(reinterpret_cast<char*>(kept.results.data()),
            static_cast<std::streamsize>(kept.results.size() * sizeof(float)));
  return file ? std::optional(std::move(kept)) : std::nullopt;
}

Status append(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? Status() : fail_cache(path, "the disk may be full");
}

// Appends the results, the size and the digest to a saved model.
Status finish_file(const std::string& path, const std::vector<float>& results) {
  std::error_code error;
  const auto model_bytes = fs::file_size(path, error);
  if (error) return fail_cache(path, error.message());
  MOEC_TRY(append(path,
                  {reinterpret_cast<const char*>(results.data()), results.size() * sizeof(float)}));
  MOEC_TRY(append(path, fmt::format("{:016x}", model_bytes)));
  MOEC_ASSIGN(const std::string digest, digest_file(path));
  return append(path, digest);
}

// Removes a file, if it still exists, at the end of the scope.
struct Removed {
  const std::string& path;
  explicit Removed(const std::string& of) : path(of) {}
  ~Removed() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
  Removed(const Removed&) = delete;
  Removed& operator=(const Removed&) = delete;
};

// Removes entries of the same shard, width and device with other keys, such as those of an earlier
// export or OpenVINO version.
void remove_older(const fs::path& folder, const std::string& stem, const std::string& kept) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_blob = name.size() == stem.size() + kDigestBytes + kCompiledSuffix.size();
    std::error_code ignored;
    if (name.starts_with(stem) && is_blob && name != kept) fs::remove(entry->path(), ignored);
  }
}

}  // namespace

std::unique_ptr<OpenVinoModel> CompiledCache::restored(const std::string& path) const {
  const std::optional<Kept> kept = read_kept(path);
  if (!kept) return nullptr;
  auto model = library_.load(path, kept->model_bytes, options_);
  if (!model) return nullptr;
  const auto results = test_results(**model);
  if (!results || !same_results(*results, kept->results, options_.precision)) return nullptr;
  return std::move(*model);
}

Result<bool> CompiledCache::keep(OpenVinoModel& model, const std::string& path) const {
  MOEC_ASSIGN(const std::vector<float> results, test_results(model));
  const std::string part = fmt::format("{}.{}.part", path, ::getpid());
  const Removed removed(part);
  MOEC_TRY(model.save(part));
  MOEC_TRY(finish_file(part, results));
  if (!restored(part)) return false;
  std::error_code error;
  fs::rename(part, path, error);
  if (error) return fail_cache(path, error.message());
  return true;
}

Result<std::unique_ptr<OpenVinoModel>> CompiledCache::get(const ShardGraph& graph) {
  const fs::path folder = fs::path(graph.folder) / kCompiledFolder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fail_cache(folder.string(), error.message());
  MOEC_ASSIGN(const std::string key, key_of(graph, library_, options_));
  const GraphKey graph_key{graph.file().tokens,
                           graph.file().top_k ? top_k_label(*graph.file().top_k) : std::string()};
  const std::string stem = fmt::format("{}.{}.{}{}.", graph.shard.name, to_string(graph_key, '.'),
                                       options_.device, options_.watched.empty() ? "" : ".watched");
  const std::string name = fmt::format("{}{}{}", stem, key, kCompiledSuffix),
                    path = (folder / name).string();
  if (auto model = restored(path)) return model;
  MOEC_ASSIGN(std::unique_ptr<OpenVinoModel> model,
              library_.compile(graph.folder + "/" + graph.file().file.path, options_));
  MOEC_ASSIGN(const bool is_kept, keep(*model, path));
  remove_older(folder, stem, is_kept ? name : std::string());
  return model;
}

}  // namespace moec
