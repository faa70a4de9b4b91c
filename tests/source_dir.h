// The source folder of this build, for tests that read files of the repository.
#pragma once

#include <string>

namespace moec {

std::string source_dir();

}  // namespace moec
