// Translates a pattern as tokenizer files have it, in the syntax of Oniguruma's Ruby, to PCRE2.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// What the two read otherwise is spelled out: \s, \w, \h and \b by Unicode's properties, scripts by
// property Script, an interval in front of + as one that repeats (Ruby has no possessive interval),
// and a class minus or and another one as a look ahead. `is_script` says whether PCRE2 knows a
// script of that name.
// Error tokenizer.pattern for an escape or a class that has no counterpart here.
Result<std::string> pcre2_pattern(std::string_view pattern, bool (*is_script)(std::string_view));

}  // namespace moec
