// The text of an export's journal. Each line is one JSON object that ends with the digest of what
// stands before it, so that a torn or damaged line is known:
//
//   {"export":{"option --tokens":"1,16","file config.json":"…",…},"digest":"…"}
//   {"part":{"name":"L00.attn","files":[…],…},"digest":"…"}
//   {"finished":{"folder":"onnx","manifest":"…","journal":"…"},"digest":"…"}
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/files/emit.h"

namespace moec {

// What an export is made from: each option that its bytes depend on and each file that it reads, by
// name, as text that says enough to tell two of them apart.
using ExportFacts = std::map<std::string, std::string>;

// A table or a shard whose files are complete.
struct JournalPart {
  std::string name;
  // All files and graphs. Of the tensors those with overflows or NaNs, by name and count; nothing
  // was read.
  EmitReport emitted;
};

// Another target of the same export, finished in a folder beside this one's.
struct FinishedTarget {
  std::string folder;    // its name, without a path
  std::string manifest;  // digest of its manifest.json
  std::string journal;   // the text of its journal, which is there no more
  bool operator==(const FinishedTarget&) const = default;
};

struct JournalText {
  ExportFacts facts;
  std::vector<JournalPart> parts;  // in the order of their lines
  std::vector<FinishedTarget> finished;
};

// The line of a JSON object whose last brace is left out: the digest and the brace follow.
std::string seal_line(std::string_view object);

std::string journal_line(const ExportFacts& facts);
std::string journal_line(const JournalPart& part);
std::string journal_line(const FinishedTarget& target);
std::string journal_text(const JournalText& journal);

// Lines after the first that are torn or damaged are passed over: their parts are made again.
// Error "export.journal" when the first line is.
Result<JournalText> parse_journal(std::string_view text, const std::string& file);

}  // namespace moec
