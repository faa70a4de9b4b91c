// Translates regular expressions from Oniguruma's Ruby syntax, used by tokenizer.json, to PCRE2.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// Rewrites constructs that differ: \s, \w, \h and \b become Unicode properties; a script name uses
// property Script (PCRE2 defaults to Script_Extensions); {n,m}+ becomes a repeated group, because
// Ruby has no possessive intervals; a class intersection (&&) becomes a lookahead. `is_script`
// returns true for script names that PCRE2 knows.
// Error: tokenizer.pattern for an escape or a class without a translation.
Result<std::string> pcre2_pattern(std::string_view pattern, bool (*is_script)(std::string_view));

}  // namespace moec
