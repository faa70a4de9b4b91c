#include "frontends/compile/cuts_json.h"

#include <nlohmann/json.hpp>

namespace moec {

using nlohmann::ordered_json;

ordered_json cuts_json(std::span<const ShardCut> cuts) {
  auto list = ordered_json::array();
  for (const ShardCut& cut : cuts)
    list.push_back({{"kind", enum_name(cut.kind)},
                    {"parts", cut.parts},
                    {"slices", cut.slices},
                    {"reason", cut.reason}});
  return list;
}

}  // namespace moec
