// The golden checkpoints: two per family under tests/golden, additional ones with quantized
// matrices, and the trained models/tinymoe and models/tinytagger.
#pragma once

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

namespace moec {

inline constexpr std::array kFamilyCases = {"mixtral_a",
                                            "mixtral_b",
                                            "mixtral_c",
                                            "qwen2_moe_a",
                                            "qwen2_moe_b",
                                            "qwen3_moe_a",
                                            "qwen3_moe_b",
                                            "olmoe_a",
                                            "olmoe_b",
                                            "granitemoe_a",
                                            "granitemoe_b",
                                            "granitemoeshared_a",
                                            "granitemoeshared_b",
                                            "glm4_moe_a",
                                            "glm4_moe_b",
                                            "glm4_moe_lite_a",
                                            "glm4_moe_lite_b",
                                            "kimi_k25_a",
                                            "kimi_k25_b",
                                            "qwen3_vl_moe_a",
                                            "qwen3_vl_moe_b",
                                            "llama4_a",
                                            "glm4v_moe_a",
                                            "glm4v_moe_b",
                                            "hy_v3_a",
                                            "hy_v3_b",
                                            "dots1_a",
                                            "dots1_b",
                                            "solar_open_a",
                                            "solar_open_b",
                                            "deepseek_v32_a",
                                            "deepseek_v32_b",
                                            "glm_moe_dsa_a",
                                            "glm_moe_dsa_b",
                                            "minimax_m2_a",
                                            "minimax_m2_b",
                                            "minimax_m3_a",
                                            "minimax_m3_b",
                                            "ernie4_5_moe_a",
                                            "ernie4_5_moe_b",
                                            "ernie4_5_vl_moe_a",
                                            "ernie4_5_vl_moe_b",
                                            "deepseek_v2_a",
                                            "deepseek_v2_b",
                                            "deepseek_v3_a",
                                            "deepseek_v3_b",
                                            "deepseek_v3_c",
                                            "deepseek_v3_d",
                                            "deepseek_v3_e",
                                            "gpt_oss_a",
                                            "gpt_oss_b",
                                            "gpt_oss_c",
                                            "gpt_oss_d",
                                            "hunyuan_v1_moe_a",
                                            "hunyuan_v1_moe_b",
                                            "phimoe_a",
                                            "phimoe_b",
                                            "llama4_text_a",
                                            "llama4_text_b",
                                            "openai_privacy_filter_a",
                                            "openai_privacy_filter_b",
                                            "openai_privacy_filter_c",
                                            "zaya_a",
                                            "zaya_b",
                                            "zaya_c",
                                            "lfm2_moe_a",
                                            "lfm2_moe_b",
                                            "qwen3_next_a",
                                            "qwen3_next_b",
                                            "qwen3_5_moe_a",
                                            "qwen3_5_moe_b",
                                            "granitemoehybrid_a",
                                            "granitemoehybrid_b",
                                            "granitemoehybrid_c",
                                            "gemma4_a",
                                            "gemma4_b",
                                            "nemotron_h_a",
                                            "nemotron_h_b",
                                            "nemotron_h_c",
                                            "llama_a",
                                            "llama_b",
                                            "llama_c",
                                            "mistral_a",
                                            "mistral_b",
                                            "qwen2_a",
                                            "qwen2_b",
                                            "qwen2_c",
                                            "qwen3_a",
                                            "qwen3_b",
                                            "kimi_linear_a",
                                            "kimi_linear_b",
                                            "exaone_moe_a",
                                            "exaone_moe_b",
                                            "mellum_a",
                                            "mellum_b",
                                            "sarvam_mla_a",
                                            "sarvam_mla_b",
                                            "flex_olmo_a",
                                            "flex_olmo_b",
                                            "afmoe_a",
                                            "afmoe_b",
                                            "flint_a",
                                            "flint_b",
                                            "kolibri1_a",
                                            "kolibri1_b",
                                            "cohere2_moe_a",
                                            "cohere2_moe_b",
                                            "sarvam_moe_a",
                                            "sarvam_moe_b",
                                            "axk1_a",
                                            "axk1_b",
                                            "granitemoe_swa_a",
                                            "granitemoe_swa_b",
                                            "mistral4_a",
                                            "mistral4_b",
                                            "laguna_a",
                                            "laguna_b",
                                            "bailing_hybrid_a",
                                            "bailing_hybrid_b",
                                            "lara_mini_a",
                                            "lara_mini_b",
                                            "mimo_v2_flash_a",
                                            "mimo_v2_flash_b"};

inline constexpr auto kGoldenCases = [] {
  std::array<const char*, kFamilyCases.size() + 2> all{};
  auto* trained = std::copy(kFamilyCases.begin(), kFamilyCases.end(), all.begin());
  *trained++ = "tinymoe";
  *trained = "tinytagger";
  return all;
}();

// The first case of each family under tests/golden.
inline std::vector<const char*> first_cases() {
  std::vector<const char*> cases;
  std::set<std::string_view> families;
  for (const std::string_view name : kFamilyCases)
    if (families.insert(name.substr(0, name.rfind('_'))).second) cases.push_back(name.data());
  return cases;
}

}  // namespace moec
