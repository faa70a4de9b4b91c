// The command line: moec inspect | export | check | validate | run | opt | family.
#pragma once

namespace moec {

// Exit codes of every command.
inline constexpr int kExitFine = 0;
inline constexpr int kExitFellShort = 1;  // a check or a threshold was not met
inline constexpr int kExitBadInput = 2;   // bad input or usage
                                          // 3: internal error (ir/base/invariant.h)

int run_cli(int argc, const char* const* argv);

}  // namespace moec
