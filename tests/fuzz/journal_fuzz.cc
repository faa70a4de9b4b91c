// Reads arbitrary text as an export journal. Adds the digest of each line, which the fuzzer could
// not guess. Accepted entries must round-trip.
#include <algorithm>

#include "backends/output/journal_text.h"
#include "ir/base/invariant.h"

namespace {

std::string seal_lines(std::string_view input) {
  std::string text;
  while (!input.empty()) {
    const size_t end = std::min(input.find('\n'), input.size());
    text += moec::seal_line(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  return text;
}

bool same(const moec::JournalPart& one, const moec::JournalPart& other) {
  return one.name == other.name && one.emitted.graphs == other.emitted.graphs &&
         one.emitted.data == other.emitted.data &&
         one.emitted.weight_bytes == other.emitted.weight_bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  (void)moec::parse_journal(input, "fuzz");
  auto journal = moec::parse_journal(seal_lines(input), "fuzz");
  if (!journal) return 0;
  std::string text = moec::journal_line(journal->inputs);
  if (!journal->names.empty()) text += moec::journal_line(journal->names);
  for (const moec::JournalPart& part : journal->parts) text += moec::journal_line(part);
  auto again = moec::parse_journal(text, "fuzz");
  MOEC_CHECK(again && again->inputs == journal->inputs, "inputs do not round-trip");
  MOEC_CHECK(again->names == journal->names, "names do not round-trip");
  MOEC_CHECK(std::equal(again->parts.begin(), again->parts.end(), journal->parts.begin(),
                        journal->parts.end(), same),
             "parts do not round-trip");
  return 0;
}
