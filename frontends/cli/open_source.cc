#include "frontends/cli/open_source.h"

#include <fstream>
#include <sstream>

#include "models/needed_tensors.h"

namespace moec {

Result<std::string> read_user_text(const std::string& path, const std::string& code) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    return fail(code, "the file cannot be read or is empty", "name an existing file",
                {.file = path});
  return text.str();
}

Result<Checkpoint> open_source(const std::string& folder,
                               const std::optional<std::string>& family_file) {
  if (!family_file) return open_checkpoint(folder);
  MOEC_ASSIGN(const Family family, read_family_file(*family_file));
  return open_checkpoint(folder, &family);
}

Result<Checkpoint> open_config_only(const std::string& source,
                                    const std::optional<std::string>& family_file) {
  Checkpoint checkpoint;
  if (family_file) {
    MOEC_ASSIGN(const Family family, read_family_file(*family_file));
    MOEC_ASSIGN(checkpoint.config, open_config(source, &family));
  } else {
    MOEC_ASSIGN(checkpoint.config, open_config(source));
  }
  checkpoint.weights = declared_weights(checkpoint.config, DType::bf16);
  return checkpoint;
}

}  // namespace moec
