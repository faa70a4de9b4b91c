#include "passes/pass_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/base/nearest.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

struct Option {
  std::string_view name;
  std::string (*get)(const PassOptions&);
  bool (*set)(PassOptions&, std::string_view);  // false: unknown value
};

template <class E>
bool set_enum(E& field, std::string_view text) {
  auto value = parse_enum<E>(text);
  if (value) field = *value;
  return value.has_value();
}

bool set_limit(int64_t& field, std::string_view text) {
  const auto value = parse_count(text);
  field = value.value_or(field);
  return value.has_value();
}

// Sets a limit of the target; 0 means none.
bool set_target_limit(int64_t& field, std::string_view text) {
  if (text == "0") field = 0;
  return text == "0" || set_limit(field, text);
}

bool set_bool(bool& field, std::string_view text) {
  if (text != "true" && text != "false") return false;
  field = text == "true";
  return true;
}

bool set_forms(WeightForms& forms, std::string_view text) {
  auto parsed = parse_weight_forms(text);
  if (!parsed) return false;
  forms = std::move(*parsed);
  return true;
}

// "0,2|1,3": the slots of two routers.
std::string text_of(const std::vector<std::vector<int64_t>>& kept) {
  std::vector<std::string> routers;
  for (const auto& slots : kept) routers.push_back(fmt::format("{}", fmt::join(slots, ",")));
  return fmt::format("{}", fmt::join(routers, "|"));
}

bool set_slots(std::vector<int64_t>& slots, std::string_view text) {
  while (!text.empty()) {
    const auto slot = take_number<int64_t>(text);
    if (!slot || *slot < 0) return false;
    slots.push_back(*slot);
    if (text.empty()) break;
    if (text.front() != ',' || text.size() == 1) return false;
    text.remove_prefix(1);
  }
  // PassOptions::kept_experts lists the slots of a router in ascending order.
  return std::is_sorted(slots.begin(), slots.end());
}

bool set_kept(std::vector<std::vector<int64_t>>& kept, std::string_view text) {
  kept.clear();
  if (text.empty()) return true;
  for (size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = text.find('|', begin);
    if (!set_slots(kept.emplace_back(), text.substr(begin, end - begin))) return false;
  }
  return true;
}

bool set_factor(double& field, std::string_view text) {
  const auto value = parse_number<double>(text);
  field = value.value_or(field);
  return value && std::isfinite(field) && field >= 0;
}

constexpr Option kOptions[] = {
    {"routing", [](const PassOptions& o) { return std::string(enum_name(o.routing)); },
     [](PassOptions& o, std::string_view v) { return set_enum(o.routing, v); }},
    {"experts", [](const PassOptions& o) { return std::string(enum_name(o.experts)); },
     [](PassOptions& o, std::string_view v) { return set_enum(o.experts, v); }},
    {"attention", [](const PassOptions& o) { return std::string(enum_name(o.attention)); },
     [](PassOptions& o, std::string_view v) { return set_enum(o.attention, v); }},
    {"bank_channel_limit",
     [](const PassOptions& o) { return std::to_string(o.bank_channel_limit); },
     [](PassOptions& o, std::string_view v) { return set_limit(o.bank_channel_limit, v); }},
    {"kept_experts", [](const PassOptions& o) { return text_of(o.kept_experts); },
     [](PassOptions& o, std::string_view v) { return set_kept(o.kept_experts, v); }},
    {"capacity", [](const PassOptions& o) { return fmt::format("{}", o.capacity); },
     [](PassOptions& o, std::string_view v) { return set_factor(o.capacity, v); }},
    {"weights", [](const PassOptions& o) { return to_string(o.weights); },
     [](PassOptions& o, std::string_view v) { return set_forms(o.weights, v); }},
    {"projection", [](const PassOptions& o) { return std::string(enum_name(o.target.projection)); },
     [](PassOptions& o, std::string_view v) { return set_enum(o.target.projection, v); }},
    {"sum", [](const PassOptions& o) { return std::string(enum_name(o.target.sum)); },
     [](PassOptions& o, std::string_view v) { return set_enum(o.target.sum, v); }},
    {"has_state",
     [](const PassOptions& o) { return std::string(o.target.has_state ? "true" : "false"); },
     [](PassOptions& o, std::string_view v) { return set_bool(o.target.has_state, v); }},
    {"expand_sigmoid",
     [](const PassOptions& o) {
       return std::string(o.target.engine.expand_sigmoid ? "true" : "false");
     },
     [](PassOptions& o, std::string_view v) {
       return set_bool(o.target.engine.expand_sigmoid, v);
     }},
    {"coded_matmul_rank",
     [](const PassOptions& o) { return std::to_string(o.target.engine.coded_matmul_rank); },
     [](PassOptions& o, std::string_view v) {
       return set_limit(o.target.engine.coded_matmul_rank, v);
     }},
    {"matrix_rows",
     [](const PassOptions& o) {
       return std::string(o.target.engine.matrix_rows ? "true" : "false");
     },
     [](PassOptions& o, std::string_view v) { return set_bool(o.target.engine.matrix_rows, v); }},
    {"splits_zeros",
     [](const PassOptions& o) {
       return std::string(o.target.engine.splits_zeros ? "true" : "false");
     },
     [](PassOptions& o, std::string_view v) { return set_bool(o.target.engine.splits_zeros, v); }},
    {"limits.channels",
     [](const PassOptions& o) { return std::to_string(o.target.limits.channels); },
     [](PassOptions& o, std::string_view v) {
       return set_target_limit(o.target.limits.channels, v);
     }},
    {"limits.extent", [](const PassOptions& o) { return std::to_string(o.target.limits.extent); },
     [](PassOptions& o, std::string_view v) {
       return set_target_limit(o.target.limits.extent, v);
     }},
    {"limits.fan_in", [](const PassOptions& o) { return std::to_string(o.target.limits.fan_in); },
     [](PassOptions& o, std::string_view v) {
       return set_target_limit(o.target.limits.fan_in, v);
     }},
    {"limits.guarded",
     [](const PassOptions& o) { return std::string(o.target.limits.guarded ? "true" : "false"); },
     [](PassOptions& o, std::string_view v) { return set_bool(o.target.limits.guarded, v); }},
    {"limits.exp_below",
     [](const PassOptions& o) { return std::to_string(o.target.limits.exp_below); },
     [](PassOptions& o, std::string_view v) {
       return set_target_limit(o.target.limits.exp_below, v);
     }},
    {"limits.no_reciprocals",
     [](const PassOptions& o) {
       return std::string(o.target.limits.no_reciprocals ? "true" : "false");
     },
     [](PassOptions& o, std::string_view v) {
       return set_bool(o.target.limits.no_reciprocals, v);
     }},
    {"limits.narrow_slice",
     [](const PassOptions& o) { return std::to_string(o.target.limits.narrow_slice); },
     [](PassOptions& o, std::string_view v) {
       return set_target_limit(o.target.limits.narrow_slice, v);
     }},
};

tl::unexpected<Diagnostics> unknown_option(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Option& option : kOptions) known.push_back(option.name);
  return fail("passes.option",
              fmt::format("unknown pass option '{}'{}", name, did_you_mean(name, known)),
              fmt::format("use one of {}", fmt::join(known, ", ")));
}

}  // namespace

Status set_pass_option(PassOptions& options, std::string_view name_and_value) {
  const size_t equals = name_and_value.find('=');
  const std::string_view name = name_and_value.substr(0, equals);
  for (const Option& option : kOptions) {
    if (option.name != name) continue;
    if (equals != std::string_view::npos && option.set(options, name_and_value.substr(equals + 1)))
      return {};
    return fail("passes.option",
                fmt::format("'{}' is not a value of option {}", name_and_value, name),
                fmt::format("write the value in the form of its default, {}={}", name,
                            option.get(PassOptions{})));
  }
  return unknown_option(name);
}

std::string to_string(const PassOptions& options) {
  std::vector<std::string> words;
  for (const Option& option : kOptions)
    words.push_back(fmt::format("{}={}", option.name, option.get(options)));
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace moec
