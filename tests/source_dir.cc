#include "tests/source_dir.h"

namespace moec {

std::string source_dir() { return MOEC_SOURCE_DIR; }

}  // namespace moec
