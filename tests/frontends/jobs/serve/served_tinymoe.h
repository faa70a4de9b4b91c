// Sessions on an export of tinymoe with one width, so the computation of a token does not depend on
// its position in a chunk.
#pragma once

#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {

inline std::string served_export() {
  const std::string out = fresh_folder("served");
  expect_fine(export_case("tinymoe", out, {"--tokens", "1", "--context", "64"}));
  return out;
}

inline Session served_session(const std::string& out) {
  auto session = Session::open(out, read_shard, {});
  EXPECT_TRUE(session.has_value()) << render(session.error());
  return std::move(*session);
}

}  // namespace moec
