// Reads arbitrary text as a family descriptor, and a config with it: the text after the first zero
// byte, or a plain config if there is no zero byte. An accepted config must be consistent for any
// descriptor.
#include "frontends/sources/hf/config.h"
#include "ir/base/invariant.h"
#include "models/families/family.h"
#include "models/shards/check_model.h"
#include "models/shards/needed_tensors.h"

namespace {

constexpr std::string_view kConfig =
    R"("hidden_size":32,"intermediate_size":48,"moe_intermediate_size":24,"num_attention_heads":4,
    "num_key_value_heads":2,"head_dim":8,"num_hidden_layers":2,"vocab_size":64,"rope_theta":1e4,
    "max_position_embeddings":64,"rms_norm_eps":1e-5,"hidden_act":"silu","num_experts_per_tok":2,
    "tie_word_embeddings":false,)";

// Families use different keys for the number of experts and reject the keys of other families.
std::string plain_config(const moec::Family& family) {
  const bool local = family.model_type == "mixtral";
  return "{\"model_type\":\"" + family.model_type + "\"," + std::string(kConfig) +
         (local ? "\"num_local_experts\":4}" : "\"num_experts\":4}");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  auto family = moec::load_family(input.substr(0, end), "fuzz");
  if (!family) return 0;
  const std::string text =
      end == std::string_view::npos ? plain_config(*family) : std::string(input.substr(end + 1));
  auto config = moec::read_config(text, "fuzz", &*family);
  if (!config) return 0;
  MOEC_CHECK(moec::check_model(config->model).empty(), "an accepted model is inconsistent");
  if (config->model.layers.size() <= 64) moec::needed_tensors(config->model);
  return 0;
}
