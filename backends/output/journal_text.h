// The text of an export's journal. Each line is a JSON object whose last member is the digest of
// the text before it, so that torn and damaged lines are detected:
//
//   {"export":{"option --tokens":"1,16","file config.json":"…",…},"digest":"…"}
//   {"files":{"names":["attn/L00.data",…]},"digest":"…"}
//   {"part":{"name":"L00.attn","graphs":[…],"data":[…],…},"digest":"…"}
//   {"finished":{"folder":"onnx","manifest":"…","journal":"…"},"digest":"…"}
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backends/emit/emit.h"

namespace moec {

// Everything that the bytes of an export depend on: each option and input file, by name. Short
// values are stored as text, long values as digests.
using ExportInputs = std::map<std::string, std::string>;

// A table or shard whose files are all complete.
struct JournalPart {
  std::string name;
  // Files, graphs and weights. Lists only tensors with overflows or NaNs, with name and counts;
  // bytes_read is 0.
  EmitReport emitted;
};

// A finished target of the same export, in a sibling folder.
struct FinishedTarget {
  std::string folder;    // name without a path
  std::string manifest;  // digest of its manifest.json
  std::string journal;   // text of its journal, which no longer exists as a file
  bool operator==(const FinishedTarget&) const = default;
};

struct JournalText {
  ExportInputs inputs;
  // Names of all files that the export writes or replaces. Recorded before the first of them
  // changes, so that an interrupted export's files can be recognized as moec's own.
  std::set<std::string> names;
  std::vector<JournalPart> parts;  // in the order of their lines
  std::vector<FinishedTarget> finished;
};

// Completes a line: appends digest, closing brace and newline to a JSON object without its closing
// brace.
std::string seal_line(std::string_view object);

// Lines of the journal, each with a newline.
std::string journal_line(const ExportInputs& inputs);
std::string journal_line(const std::set<std::string>& names);
std::string journal_line(const JournalPart& part);
std::string journal_line(const FinishedTarget& target);
std::string journal_text(const JournalText& journal);

// Parses a journal; `file` is its path, for errors. Skips torn or damaged lines after the first
// one: their parts are emitted again. Error export.journal if the first line is damaged.
Result<JournalText> parse_journal(std::string_view text, const std::string& file);

// A longer journal is rejected before it is read.
inline constexpr uint64_t kMaxJournalBytes = uint64_t{1} << 28;

// The journal itself and all files that its undamaged lines name, even if the first line is
// damaged, with the digests of complete files. Omits paths that lead out of the folder. Empty if no
// line is undamaged: the text is not a journal.
std::map<std::string, std::string, std::less<>> files_of_journal(std::string_view text,
                                                                 const std::string& file);

// The files of a part.
std::vector<EmittedFile> files_of(const EmitReport& emitted);

}  // namespace moec
