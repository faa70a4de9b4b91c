#include "backends/residency/expert_trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "ir/base/invariant.h"
#include "ir/base/json.h"
#include "ir/base/output_apart.h"
#include "ir/base/parse_number.h"
#include "ir/base/regular_file.h"
#include "ir/experts/expert_id.h"

namespace moec {
namespace {

constexpr std::string_view kTraceHeader = "layer,token,expert,weight";
constexpr std::string_view kTraceMagic = "MOECTRC\n";
constexpr uint32_t kTraceVersion = 1;
// Offsets in the header of expert_trace.h: magic, version, a zero word, number of rows.
constexpr size_t kTraceRowsAt = 16, kTraceHeaderBytes = 24;
// Stored as the number of rows until close(), so that readers recognise an interrupted trace.
constexpr uint64_t kUnfinishedTrace = ~uint64_t{0};
// The binary format stores layers and experts in 16 bits.
constexpr int32_t kMaxTraceIds = 65536;
constexpr const char* kTraceNext = "pass a file written by moec trace or moec run --log-gates";

// put() and take() copy numbers without conversion, and the format is little-endian.
static_assert(std::endian::native == std::endian::little);

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

// Copies the bytes, because numbers in the file are not aligned: an expert has 6 bytes.
template <class T>
T take(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string trace_header(uint64_t rows) {
  std::string header(kTraceMagic);
  put(header, kTraceVersion);
  put(header, uint32_t{0});
  put(header, rows);
  return header;
}

tl::unexpected<Diagnostics> trace_not_written(const std::string& path) {
  return fail("trace.write", fmt::format("cannot write the trace: {}", std::strerror(errno)),
              "check that the folder exists, is writable and has free space", {.file = path});
}

// Reads a cell of a CSV row, followed by a comma unless `comma` is false (the last cell).
template <class T>
bool read_cell(std::string_view& line, T& value, bool comma) {
  const auto number = take_number<T>(line);
  if (!number || (comma ? !line.starts_with(',') : !line.empty())) return false;
  value = *number;
  if (comma) line.remove_prefix(1);
  return true;
}

bool in_range(const TraceRow& row) {
  const auto is_id = [](int32_t id) { return id >= 0 && id < kMaxTraceIds; };
  return is_id(row.layer) && is_id(row.expert) && row.expert < kMaxExperts && row.token >= 0 &&
         std::isfinite(row.weight);
}

bool read_line(std::string_view line, TraceRow& row) {
  return read_cell(line, row.layer, true) && read_cell(line, row.token, true) &&
         read_cell(line, row.expert, true) && read_cell(line, row.weight, false) && in_range(row);
}

Result<std::vector<TraceRow>> read_csv(std::string_view text, const std::string& file) {
  std::vector<TraceRow> rows;
  // An empty file has no line 1; sorted() then reports trace.empty. Blank lines after the header
  // are skipped.
  for (uint32_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view words = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // Accepts lines that end in CRLF.
    if (words.ends_with('\r')) words.remove_suffix(1);
    if (line == 1 && words == kTraceHeader) continue;
    TraceRow row;
    if (line > 1 && !words.empty() && read_line(words, row))
      rows.push_back(row);
    else if (line == 1 || !words.empty())
      return fail("trace.row",
                  line == 1 ? fmt::format("the first line is '{}', expected '{}'",
                                          printable(words, 60), kTraceHeader)
                            : fmt::format("'{}' is not a row of layer, token, expert and weight",
                                          printable(words, 60)),
                  kTraceNext, {.file = file, .line = line});
  }
  return rows;
}

Status check_header(std::string_view bytes, const std::string& file) {
  if (bytes.size() < kTraceHeaderBytes)
    return fail("trace.truncated", "the file ends in its header", kTraceNext, {.file = file});
  const auto version = take<uint32_t>(bytes, kTraceMagic.size());
  if (version != kTraceVersion)
    return fail("trace.version",
                fmt::format("the trace has version {}, expected {}", version, kTraceVersion),
                "record the trace again with this moec", {.file = file});
  if (take<uint64_t>(bytes, kTraceRowsAt) != kUnfinishedTrace) return {};
  return fail("trace.unfinished", "the trace is incomplete: its writer was stopped",
              "record the trace again", {.file = file});
}

Result<std::vector<TraceRow>> read_binary(std::string_view bytes, const std::string& file) {
  constexpr size_t kGroup = 8, kExpert = 6;
  MOEC_TRY(check_header(bytes, file));
  const auto wanted = take<uint64_t>(bytes, kTraceRowsAt);
  std::vector<TraceRow> rows;
  for (size_t at = kTraceHeaderBytes; at < bytes.size();) {
    const size_t count = bytes.size() - at < kGroup ? 0 : take<uint16_t>(bytes, at + 6);
    // The writer emits no empty group, so a count of 0 is damage or a truncated file.
    if (count == 0 || bytes.size() - at - kGroup < count * kExpert) break;
    TraceRow row{take<uint16_t>(bytes, at + 4), take<int32_t>(bytes, at), 0, 0};
    at += kGroup;
    for (size_t i = 0; i < count; ++i, at += kExpert) {
      row.expert = take<uint16_t>(bytes, at);
      row.weight = take<float>(bytes, at + 2);
      if (!in_range(row))
        return fail("trace.row", "a token or a weight is out of range", kTraceNext,
                    {.file = file, .offset = at});
      rows.push_back(row);
    }
    // Bytes after the last row are an error, so the number of rows alone does not suffice.
    if (rows.size() == wanted && at == bytes.size()) return rows;
  }
  if (wanted == 0 && bytes.size() == kTraceHeaderBytes) return rows;
  return fail(
      "trace.truncated",
      fmt::format("the trace has {} complete rows, its header expects {}", rows.size(), wanted),
      "record the trace again", {.file = file});
}

Result<std::vector<TraceRow>> sorted(std::vector<TraceRow> rows, const std::string& file) {
  const auto key = [](const TraceRow& row) { return std::tuple(row.token, row.layer, row.expert); };
  std::sort(rows.begin(), rows.end(),
            [&](const TraceRow& a, const TraceRow& b) { return key(a) < key(b); });
  // A token chooses an expert at most once. Documents that restart the numbers cause repetitions.
  const auto twice =
      std::adjacent_find(rows.begin(), rows.end(),
                         [&](const TraceRow& a, const TraceRow& b) { return key(a) == key(b); });
  if (twice != rows.end())
    return fail("trace.twice",
                fmt::format("token {} lists expert {} of layer {} twice", twice->token,
                            twice->expert, twice->layer),
                "number the tokens consecutively across documents", {.file = file});
  if (rows.empty()) return fail("trace.empty", "the trace has no rows", kTraceNext, {.file = file});
  return rows;
}

}  // namespace

struct TraceWriter::File {
  std::string path;
  std::string written;  // written until close(): a temporary file next to the path, or the pipe or
                        // device itself
  TraceForm form = TraceForm::csv;
  std::ofstream stream;
  uint64_t rows = 0;
  std::vector<TraceRow> group;  // rows of one layer and token that are not yet written
};

TraceForm trace_form_of(const std::string& path) {
  return path.ends_with(".moetrace") || path.ends_with(".bin") ? TraceForm::binary : TraceForm::csv;
}

TraceWriter::TraceWriter(std::unique_ptr<File> file) : file_(std::move(file)) {}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;
TraceWriter::~TraceWriter() {
  // The paths are equal after a successful close(), and for pipes and devices, which must stay.
  if (file_ && file_->written != file_->path) std::remove(file_->written.c_str());
}

// Pipes and devices are written directly. The process id avoids a collision with a user's file.
static std::string unfinished_path(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)
             ? path
             : fmt::format("{}.{}.unfinished", path, ::getpid());
}

Result<TraceWriter> TraceWriter::open(const std::string& path, TraceForm form) {
  const std::string written = unfinished_path(path);
  if (written != path) remove_abandoned(path, ".unfinished");
  auto file = std::make_unique<File>(
      File{path, written, form, std::ofstream(written, std::ios::binary), 0, {}});
  if (form == TraceForm::csv)
    file->stream << kTraceHeader << '\n';
  else
    file->stream << trace_header(kUnfinishedTrace);
  if (!file->stream) return trace_not_written(path);
  return TraceWriter(std::move(file));
}

void TraceWriter::add(const TraceRow& row) {
  MOEC_CHECK(row.layer < kMaxTraceIds && row.expert < kMaxTraceIds, "ids of a trace have 16 bits");
  ++file_->rows;
  if (file_->form == TraceForm::csv) {
    file_->stream << fmt::format("{},{},{},{}\n", row.layer, row.token, row.expert, row.weight);
    return;
  }
  const auto& group = file_->group;
  // A group stores its layer and token once, so another layer or token ends it.
  if (!group.empty() && (group[0].layer != row.layer || group[0].token != row.token)) write_group();
  file_->group.push_back(row);
}

void TraceWriter::write_group() {
  const auto& group = file_->group;
  if (group.empty()) return;
  std::string bytes;
  put(bytes, group[0].token);
  put(bytes, static_cast<uint16_t>(group[0].layer));
  put(bytes, static_cast<uint16_t>(group.size()));
  for (const TraceRow& row : group) {
    put(bytes, static_cast<uint16_t>(row.expert));
    put(bytes, row.weight);
  }
  file_->stream << bytes;
  file_->group.clear();
}

Status TraceWriter::close() {
  if (file_->form == TraceForm::binary) {
    write_group();
    // Writes the number of rows last: until then, the header marks the file as unfinished.
    file_->stream.seekp(0);
    file_->stream << trace_header(file_->rows);
  }
  file_->stream.close();
  if (!file_->stream) return trace_not_written(file_->path);
  if (file_->written == file_->path) return {};
  if (std::rename(file_->written.c_str(), file_->path.c_str()) != 0)
    return trace_not_written(file_->path);
  // The temporary file no longer exists, so the destructor must not remove that path.
  file_->written = file_->path;
  return {};
}

Result<std::vector<TraceRow>> parse_trace(std::string_view bytes, const std::string& file) {
  MOEC_ASSIGN(std::vector<TraceRow> rows,
              bytes.starts_with(kTraceMagic) ? read_binary(bytes, file) : read_csv(bytes, file));
  return sorted(std::move(rows), file);
}

Result<std::vector<TraceRow>> read_trace(const std::string& path) {
  MOEC_ASSIGN(const std::string bytes, read_user_text(path, "trace.file"));
  return parse_trace(bytes, path);
}

}  // namespace moec
