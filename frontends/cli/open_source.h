// Opening what --family-file and a checkpoint folder name.
#pragma once

#include <optional>
#include <string>

#include "frontends/hf/checkpoint.h"

namespace moec {

// The checkpoint in `folder`, read with the user's family descriptor where one is given.
Result<Checkpoint> open_source(const std::string& folder,
                               const std::optional<std::string>& family_file);

// The text of a file that the user named; `code` is the error's.
Result<std::string> read_user_text(const std::string& path, const std::string& code);

}  // namespace moec
