// The text of an export's journal. Each line is one JSON object that ends with the digest of the
// text before the digest's key, so that torn and damaged lines are detected:
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

// Everything that the bytes of an export depend on: each option and each input file, by name. The
// values are readable where they are short, and digests otherwise.
using ExportInputs = std::map<std::string, std::string>;

// A table or a shard all files of which are complete.
struct JournalPart {
  std::string name;
  // Files, graphs and weights. Of the tensors only those with overflows or NaNs, by name and count;
  // bytes_read is 0.
  EmitReport emitted;
};

// Another target of the same export that is finished, in a folder beside this one's.
struct FinishedTarget {
  std::string folder;    // its name, without a path
  std::string manifest;  // digest of its manifest.json
  std::string journal;   // text of its journal, which no longer exists as a file
  bool operator==(const FinishedTarget&) const = default;
};

struct JournalText {
  ExportInputs inputs;
  // Names of all files that the export writes, and of those that it replaces: entered before the
  // first of them changes, so that they are known for moec's own whenever the export ends.
  std::set<std::string> names;
  std::vector<JournalPart> parts;  // in the order of their lines
  std::vector<FinishedTarget> finished;
};

// Completes a line: appends digest, closing brace and newline to a JSON object that lacks its last
// brace.
std::string seal_line(std::string_view object);

// Lines of the journal, each with its newline.
std::string journal_line(const ExportInputs& inputs);
std::string journal_line(const std::set<std::string>& names);
std::string journal_line(const JournalPart& part);
std::string journal_line(const FinishedTarget& target);
std::string journal_text(const JournalText& journal);

// Reads a journal; `file` is its path, for errors. Skips lines after the first that are torn or
// damaged: their parts are made again. Error export.journal where the first line is.
Result<JournalText> parse_journal(std::string_view text, const std::string& file);

// A longer journal is refused before it is read.
inline constexpr uint64_t kMaxJournalBytes = uint64_t{1} << 28;

// The files that the undamaged lines name, whatever the first line is, and the journal itself, with
// the digests of those that are complete. Paths that would lead out of the folder are left out.
// None if no line is undamaged: the text is no journal.
std::map<std::string, std::string, std::less<>> files_of_journal(std::string_view text,
                                                                 const std::string& file);

// The files of a part.
std::vector<EmittedFile> files_of(const EmitReport& emitted);

}  // namespace moec
