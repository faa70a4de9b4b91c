// The experts that tokens chose, as CSV. The form is that of traces of experts: `layer,expert` rows
// with the token and its weight between and behind them.
//
//   layer,token,expert,weight
//   0,0,3,0.625
//   0,0,7,0.375
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/runtime/session.h"

namespace moec {

// Writes a row for each expert that a token chose, in the order in which the session runs: chunk,
// layer, token, then experts ascending. `token` is the token's position, `weight` its routing
// weight in as many digits as tell it apart.
class GateLog {
 public:
  // `layers`: those that are logged, ascending. Error gates.write.
  static Result<GateLog> open(const std::string& path, std::vector<int64_t> layers);

  GateLog(GateLog&&) noexcept;
  ~GateLog();

  void add(int64_t layer, int64_t position, const Rows& weights);
  // Ends the file. Error gates.write: not all rows could be written.
  Status close();

 private:
  struct File;
  explicit GateLog(std::unique_ptr<File> file);
  std::unique_ptr<File> file_;
};

}  // namespace moec
