// Reads JSON texts as files that moec writes and reads: indexes of splits and calibrations,
// profiles, policies, and groups. The first byte selects the kind of file. Mutations preserve the
// syntax and change one value of a valid text: to an extreme number, or by removing, duplicating or
// retyping members.
#include <nlohmann/json.hpp>
#include <random>

#include "backends/files/digest.h"
#include "backends/weights/calibration/calibration_stats.h"
#include "backends/weights/calibration/sensitivity.h"
#include "frontends/jobs/check/check_gguf.h"
#include "frontends/jobs/check/check_split.h"
#include "frontends/jobs/residency/simulate_trace.h"
#include "frontends/jobs/split/split_folder.h"
#include "ir/base/invariant.h"
#include "ir/experts/expert_groups.h"
#include "ir/experts/expert_profile.h"
#include "ir/experts/top_k_policy.h"
#include "tests/fuzz/scratch_folder.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace moec {
namespace {

using Json = nlohmann::ordered_json;

const ScratchFolder& scratch() {
  static const ScratchFolder folder("fields_fuzz");
  return folder;
}

std::string folder() { return scratch().path().string(); }

const ExpertGrid kGrid{.layers = {0, 2}, .experts = 4, .top_k = 2};

// ---- Readers -----------------------------------------------------------------------------------

void read_split(const std::string& text) {
  scratch().write("split.json", text);
  (void)read_split_index(folder());
  (void)check_gguf_split(folder(), {});
}

void read_calibration(const std::string& text) {
  scratch().write("calibration.json", sealed_text(text));
  const auto stats = CalibrationStats::open(folder());
  if (!stats) return;
  (void)stats->fallbacks();
  for (const CalibratedLayer& layer : stats->index().layers)
    for (const CalibratedInput& input : layer.inputs)
      if (!input.matrices.empty() && input.inputs < 64)
        (void)stats->find({layer.layer, input.matrices[0].expert, input.matrices[0].role});
}

void read_measured(const std::string& text) {
  scratch().write("sensitivity.json", sealed_text(text));
  (void)read_any_sensitivity(folder());
}

// Accepted input must be written unchanged.
void read_profile(const std::string& text) {
  const auto profile = parse_expert_profile(text, "fuzz");
  if (!profile) return;
  const auto again = parse_expert_profile(expert_profile_text(*profile), "fuzz");
  MOEC_CHECK(again && *again == *profile, "a profile does not round-trip");
  scratch().write("profile.json", text);
  const std::vector<TraceRow> rows = {{0, 0, 1, 1}, {0, 2, 3, 1}, {1, 0, 2, 1}, {1, 2, 0, 1}};
  SimulatedCache cache;
  cache.profile = folder() + "/profile.json";
  (void)simulate_rows(rows, cache, 1000);
}

void read_policy(const std::string& text) {
  scratch().write("policy.json", text);
  const auto forms = parse_top_k_variants("1,2", kGrid, "fuzz");
  MOEC_CHECK(forms.has_value(), "the forms are valid");
  (void)read_top_k_policy(folder() + "/policy.json", *forms, kGrid);
}

void read_groups(const std::string& text) {
  const auto groups = parse_expert_groups(text, "fuzz", kGrid);
  if (!groups) return;
  (void)parts_of_groups(*groups, kGrid);
  (void)check_covered(*groups, kGrid, "fuzz");
}

struct Kind {
  void (*read)(const std::string& text);
  const char* valid;
};

constexpr Kind kKinds[] = {
    {read_split,
     R"({"format": "moec.split", "version": 1, "finished": true, "experts": 8, "nodes": [
         {"name": "a", "experts": "*:0-3", "experts_per_layer": 4,
          "files": [{"path": "a/m-00001-of-00003.gguf", "bytes": 9, "xxh3": "00"}]},
         {"name": "b", "experts": "*:4-7", "experts_per_layer": 4,
          "files": [{"path": "b/m-00001-of-00003.gguf", "bytes": 9}]}]})"},
    {read_calibration,
     R"({"version": 4, "checkpoint": "c", "text": "t", "window": 8, "tokens": 16, "finished": true,
         "state": {"next_layer": 0, "edges": [{"name": "x", "columns": 4}], "digest": ""},
         "layers": [{"layer": 0, "file": "L00.hessians", "inputs": [
             {"name": "experts.3", "inputs": 8, "tokens": 5, "pool": "experts", "together": 4,
              "digest": "00", "matrices": [{"role": "expert_gate", "expert": 3}]},
             {"name": "experts", "inputs": 8, "tokens": 0, "matrices": []}]}]})"},
    {read_measured,
     R"({"version": 2, "calibration": "c", "tokens": 16,
         "state": {"next_layer": 1, "edges": [], "digest": ""},
         "layers": [{"layer": 0, "roles": [{"role": "expert_gate", "kl": 0.5}],
                     "tensors": [{"role": "expert_gate", "elements": 8, "expert": 1, "bits2": 4,
                                  "bits3": 2, "bits4": 1, "bits6": 0.5}]}]})"},
    {read_profile,
     R"({"format": "moec.expert_profile", "version": 1, "model": "m", "checkpoint": "",
         "source": "export", "text": "", "experts": 4, "top_k": 2, "categories": [],
         "layers": [{"layer": 0, "tokens": 5, "selections": [1, 2, 3, 4]},
                    {"layer": 2, "tokens": 5, "selections": [4, 3, 2, 1]}]})"},
    {read_policy,
     R"({"battery": [{"below": 0.2, "form": "1"}, {"below": 0.5, "form": "2"}],
         "categories": [{"category": "chat", "form": "1"}], "confidence": 0.9})"},
    {read_groups,
     R"({"groups": [{"name": "a", "experts": "*:0-1"}, {"name": "b", "experts": "L0:2;L2:2-3"}]})"},
};

const Kind& text_kind(uint8_t first) { return kKinds[first % std::size(kKinds)]; }

// ---- Mutations ---------------------------------------------------------------------------------

template <class Random>
Json odd_value(Random& random) {
  static const Json kOdd[] = {0,
                              -1,
                              1,
                              1 << 16,
                              INT32_MAX,
                              int64_t{1} << 53,
                              INT64_MAX,
                              INT64_MIN,
                              UINT64_MAX,
                              1e308,
                              -0.0,
                              5e-324,
                              nullptr,
                              true,
                              "",
                              "../x",
                              "L0:0-99999999999",
                              Json::array(),
                              Json::object(),
                              Json::array({Json::object()})};
  return kOdd[random() % std::size(kOdd)];
}

// Collects the value and all values nested in it.
void collect(Json& value, std::vector<Json*>& found) {
  found.push_back(&value);
  if (!value.is_structured()) return;
  for (Json& inner : value) collect(inner, found);
}

template <class Random>
void change(Json& whole, Random& random) {
  std::vector<Json*> all;
  collect(whole, all);
  Json& chosen = *all[random() % all.size()];
  const auto what = random() % 4;
  if (what == 0 && chosen.is_array() && !chosen.empty())
    chosen.push_back(Json(chosen[random() % chosen.size()]));
  else if (what == 1 && chosen.is_object() && !chosen.empty())
    chosen.erase(std::next(chosen.begin(), static_cast<int64_t>(random() % chosen.size())));
  else if (what == 2 && chosen.is_array() && !chosen.empty())
    chosen.erase(random() % chosen.size());
  else
    chosen = odd_value(random);
}

}  // namespace
}  // namespace moec

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  std::minstd_rand random(seed);
  if (size == 0 || random() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    data[0] = static_cast<uint8_t>(random());
    json = nlohmann::ordered_json::parse(moec::text_kind(data[0]).valid);
  }
  for (auto changes = 1 + random() % 3; changes > 0; --changes) moec::change(json, random);
  const std::string changed =
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (changed.size() + 1 > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(changed.begin(), changed.end(), data + 1);
  return changed.size() + 1;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  moec::text_kind(data[0]).read(std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
