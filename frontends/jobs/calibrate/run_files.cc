#include "frontends/jobs/calibrate/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backends/files/digest.h"
#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "ir/base/regular_file.h"

namespace moec {

std::string RunFiles::file_of(const RunState& state) const {
  // The file name contains the layer, so that the old and the new state can exist at the same time.
  return fmt::format("{}{}.bin", name, state.next_layer);
}

Result<RunState> RunFiles::write(std::span<WindowRun* const> runs, size_t next_step,
                                 int64_t next_layer) const {
  RunState state{next_layer, runs.front()->edges(next_step), {}};
  MOEC_ASSIGN(OutputFile file, OutputFile::create({folder, file_of(state)}, 0));
  // The order, runs outside and edges inside, is the file format: read() relies on it.
  for (WindowRun* run : runs)
    for (const CalibrationEdge& edge : state.edges)
      MOEC_TRY(file.write(std::as_bytes(std::span(run->edge(edge.name).data))));
  MOEC_TRY(file.sync());
  MOEC_TRY(file.publish());
  state.digest = file.digest();
  return state;
}

Status RunFiles::read(const RunState& state, const Text& text,
                      std::span<WindowRun* const> runs) const {
  const std::string path = folder + "/" + file_of(state);
  // Checks the digest before any value is used; a truncated file also fails here.
  MOEC_ASSIGN(const std::string digest, digest_file(path));
  if (digest != state.digest)
    return fail("calibrate.damaged", "the file does not match its digest", mend, {.file = path});
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(path));
  uint64_t offset = 0;
  for (WindowRun* run : runs)
    for (const CalibrationEdge& edge : state.edges) {
      Rows rows{edge.columns,
                std::vector<float>(text.tokens.size() * static_cast<size_t>(edge.columns))};
      const std::span bytes(reinterpret_cast<char*>(rows.data.data()),
                            rows.data.size() * sizeof(float));
      MOEC_TRY(file.read_into(offset, bytes));
      offset += bytes.size();
      run->edge(edge.name) = std::move(rows);
    }
  return {};
}

// True for NAME, a number and ".bin", and for its temporary form.
bool RunFiles::is_of_state(std::string_view file) const {
  if (!file.starts_with(name)) return false;
  // The digits end the name, so "state" does not match a file such as "state_of_x.bin".
  file.remove_prefix(name.size());
  const size_t digits = std::min(file.find_first_not_of("0123456789"), file.size());
  const std::string_view ending = file.substr(digits);
  return digits > 0 && (ending == ".bin" || ending == temporary_of(".bin"));
}

Status RunFiles::keep_only(const RunState& state) const {
  MOEC_ASSIGN(const Folder opened, Folder::open(folder));
  MOEC_ASSIGN(const std::vector<FolderEntry> entries, opened.entries());
  // Layer 0 means no state: then all state files are removed.
  for (const FolderEntry& entry : entries) {
    const bool kept = state.next_layer > 0 && entry.name == file_of(state);
    if (!entry.is_folder && !kept && is_of_state(entry.name))
      MOEC_TRY(opened.remove_file(entry.name));
  }
  return {};
}

}  // namespace moec
