// Collects findings about a file in bounded memory: keeps the first few per code and counts the
// rest.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

class BoundedDiagnostics {
 public:
  // Maximum number of kept findings per code.
  static constexpr size_t kKept = 12;

  // If kKept findings with this code are already kept, counts one more and returns true. The caller
  // then need not format a message.
  bool only_counts(std::string_view code);
  // Keeps the finding, or only counts it if kKept findings with its code are already kept. Ignores
  // duplicates of kept findings.
  void add(Diagnostic finding);

  // Number of findings, kept or only counted.
  size_t count() const { return count_; }
  // Returns the kept findings, plus one per code that states the number of findings that were only
  // counted. Clears the collection.
  Diagnostics take();

 private:
  Diagnostics kept_;
  std::map<std::string, size_t, std::less<>> seen_;  // by code
  size_t count_ = 0;
};

}  // namespace moec
