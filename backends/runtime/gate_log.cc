#include "backends/runtime/gate_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace moec {

struct GateLog::File {
  std::string path;
  std::vector<int64_t> layers;
  std::ofstream stream;
};

static tl::unexpected<Diagnostics> not_written(const std::string& path) {
  return fail("gates.write", fmt::format("cannot write the log of gates: {}", std::strerror(errno)),
              "check the folder, its permissions and the space on its disk", {.file = path});
}

GateLog::GateLog(std::unique_ptr<File> file) : file_(std::move(file)) {}
GateLog::GateLog(GateLog&&) noexcept = default;
GateLog::~GateLog() = default;

Result<GateLog> GateLog::open(const std::string& path, std::vector<int64_t> layers) {
  auto file = std::make_unique<File>(File{path, std::move(layers), std::ofstream(path)});
  file->stream << "layer,token,expert,weight\n";
  if (!file->stream) return not_written(path);
  return GateLog(std::move(file));
}

void GateLog::add(int64_t layer, int64_t position, const Rows& weights) {
  if (!std::binary_search(file_->layers.begin(), file_->layers.end(), layer)) return;
  for (int64_t t = 0; t < weights.count(); ++t)
    for (int64_t e = 0; e < weights.columns; ++e)
      if (const float weight = weights.row(t)[static_cast<size_t>(e)]; weight != 0)
        file_->stream << fmt::format("{},{},{},{}\n", layer, position + t, e, weight);
}

Status GateLog::close() {
  file_->stream.close();
  return file_->stream ? Status() : not_written(file_->path);
}

}  // namespace moec
