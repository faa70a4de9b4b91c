// Findings of a file that may have any number of them: the first few of each code, and how many
// more there are.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

class BoundedDiagnostics {
 public:
  // How many findings of one code are kept.
  static constexpr size_t kKept = 12;

  // Whether enough findings of this code are kept already. If so, counts one more, for which the
  // caller then makes no message.
  bool only_counts(std::string_view code);
  // Keeps the finding, or only counts it. One that is kept already is passed over.
  void add(Diagnostic finding);

  // Kept or counted.
  size_t count() const { return count_; }
  // Those that are kept, and for each code with more of them one that says how many.
  Diagnostics take();

 private:
  Diagnostics kept_;
  std::map<std::string, size_t, std::less<>> seen_;  // by code
  size_t count_ = 0;
};

}  // namespace moec
