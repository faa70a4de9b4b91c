#include "backends/residency/cache_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"
#include "ir/base/report_json.h"

namespace moec {
namespace {

constexpr std::string_view kCacheStateFormat = "moec.expert_cache";
constexpr int64_t kCacheStateVersion = 1;
// Enough for 100 layers of 1,024 experts.
constexpr JsonLimits kCacheStateLimits{.values = size_t{1} << 20};

class StateReader {
 public:
  Result<CacheState> read(JsonFields& fields) {
    // read_head() comes first, because read_expert() compares with `state_.step`.
    MOEC_TRY(read_head(fields));
    MOEC_TRY(fields.each("experts", [&](JsonFields& item) { return read_expert(item); }));
    MOEC_TRY(fields.finish());
    return std::move(state_);
  }

 private:
  Status read_head(JsonFields& fields) {
    MOEC_TRY(fields.form(kCacheStateFormat, kCacheStateVersion));
    MOEC_TRY(fields.text("model", state_.model));
    MOEC_TRY(fields.text("digest", state_.digest));
    MOEC_TRY(fields.choice("policy", state_.policy));
    return fields.whole("step", state_.step);
  }

  Status read_expert(JsonFields& fields) {
    ResidentExpert expert;
    MOEC_TRY(fields.whole("layer", expert.key.layer));
    MOEC_TRY(fields.whole("expert", expert.key.expert));
    // lcp uses log2(count), which would be infinite for a count of 0.
    MOEC_TRY(fields.positive("count", expert.count));
    MOEC_TRY(fields.whole("last_step", expert.last_step));
    MOEC_TRY(fields.positive("last_use", expert.last_use));
    MOEC_TRY(fields.finish());
    if (expert.last_step > state_.step)
      return fields.bad("last_step", fmt::format("must be at most step, {}", state_.step));
    // `last_use` counts the uses of all experts of a policy, so an expert cannot have more uses.
    if (expert.count > expert.last_use)
      return fields.bad("count", fmt::format("must be at most last_use, {}", expert.last_use));
    if (!seen_.insert(expert.key).second)
      return fields.bad("expert", fmt::format("repeats expert {} of layer {}", expert.key.expert,
                                              expert.key.layer));
    state_.experts.push_back(expert);
    return {};
  }

  CacheState state_;
  std::set<ExpertId> seen_;
};

}  // namespace

// Discards the counters of experts that do not fit, as an eviction does.
std::vector<ResidentExpert> latest_used(const CacheState& state, int64_t slots) {
  std::map<int64_t, std::vector<ResidentExpert>> layers;
  for (const ResidentExpert& expert : state.experts) layers[expert.key.layer].push_back(expert);
  std::vector<ResidentExpert> latest;
  for (auto& [layer, experts] : layers) {
    std::sort(experts.begin(), experts.end(),
              [](const auto& a, const auto& b) { return a.last_use > b.last_use; });
    const auto count = std::min(std::ssize(experts), slots);
    latest.insert(latest.end(), experts.begin(), experts.begin() + count);
  }
  return latest;
}

std::string cache_state_text(const CacheState& state) {
  std::vector<std::string> experts;
  for (const auto& [key, count, last_step, last_use] : state.experts)
    experts.push_back(fmt::format(
        R"(    {{"layer": {}, "expert": {}, "count": {}, "last_step": {}, "last_use": {}}})",
        key.layer, key.expert, count, last_step, last_use));
  return fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"model\": {},\n  \"digest\": {},\n"
      "  \"policy\": \"{}\",\n  \"step\": {},\n  \"experts\": [\n{}\n  ]\n}}\n",
      kCacheStateFormat, kCacheStateVersion, json_string(state.model), json_string(state.digest),
      enum_name(state.policy), state.step, fmt::join(experts, ",\n"));
}

Result<CacheState> parse_cache_state(std::string_view text, const std::string& file) {
  const JsonReport report(
      text, file,
      JsonCodes::by_prefix(
          "cache_state",
          "pass another file, or a path without a file to start with an empty cache"));
  MOEC_ASSIGN(const JsonValue value, report.parse(kCacheStateLimits));
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  return StateReader().read(fields);
}

Result<CacheState> read_cache_state(const std::string& path) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "cache_state.file"));
  return parse_cache_state(text, path);
}

}  // namespace moec
