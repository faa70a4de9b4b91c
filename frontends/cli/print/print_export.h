// What `moec export` prints for people when it is done.
#pragma once

#include "frontends/export/export_json.h"

namespace moec {

void print_export(const FinishedExport& finished, bool quiet);

}  // namespace moec
