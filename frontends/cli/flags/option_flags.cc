#include "frontends/cli/flags/option_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <string>

#include "backends/targets/load_target.h"

namespace moec {
namespace {

// Accepted values for --help.
// Only for display: the row itself checks the words.
std::string range_text(const OptionValue& value) {
  if (const Words names = value.accepted(); !names.empty())
    return fmt::format("{{{}}}", fmt::join(names, ","));
  if (value.kind == OptionKind::positive) return ">0";
  if (value.kind != OptionKind::whole && value.kind != OptionKind::wholes) return "";
  return value.most == INT64_MAX ? fmt::format(">={}", value.least)
                                 : fmt::format("{}-{}", value.least, value.most);
}

// Wholes and positives are parsed as text by the row, so CLI11 does not know their type.
std::string_view type_text(OptionKind kind) {
  switch (kind) {
    case OptionKind::flag:
    case OptionKind::text:
    case OptionKind::list:
    case OptionKind::repeated:
      return "TEXT";
    case OptionKind::whole:
    case OptionKind::wholes:
      return "INT";
    case OptionKind::positive:
      return "FLOAT";
  }
  return "";
}

std::string help_text(const OptionRow& row) {
  std::string help(row.help);
  // The targets are embedded files, so a constant text cannot list them.
  if (const size_t names = help.find("{}"); names != std::string::npos)
    help.replace(names, 2, fmt::format("{}", fmt::join(builtin_target_names(), ", ")));
  return help;
}

// Uses callbacks, which run only if the flag is present. A bound variable could not distinguish a
// default from a given value.
CLI::Option* add_flag(CLI::App& command, const OptionRow& row, GivenOptions& given) {
  const std::string name(row.name);
  const std::string_view key = row.long_name();
  if (row.value.kind == OptionKind::flag)
    return command.add_flag_callback(
        name, [key, &given] { given[key] = {}; }, help_text(row));
  const bool is_list = row.value.kind == OptionKind::list || row.value.kind == OptionKind::wholes;
  if (!is_list && row.value.kind != OptionKind::repeated)
    return command.add_option_function<std::string>(
        name, [key, &given](const std::string& word) { given[key] = {word}; }, help_text(row));
  CLI::Option* option = command.add_option_function<Words>(
      name, [key, &given](const Words& words) { given[key] = words; }, help_text(row));
  option->allow_extra_args(false);
  // A repeated option has one word per occurrence. The word may contain commas, as in --device
  // gpu0=24GB,936GB.
  return is_list ? option->delimiter(',') : option;
}

void add_row(CLI::App& command, const OptionRow& row, GivenOptions& given) {
  CLI::Option* option = add_flag(command, row, given);
  option->group(std::string(row.scope.group));
  // CLI11 looks the other option up here, so the row of that option must come first.
  if (!row.needs.empty()) option->needs(std::string(row.needs));
  if (!row.excludes.empty()) option->excludes(std::string(row.excludes));
  if (row.value.kind == OptionKind::flag) return;
  option->type_name(std::string(type_text(row.value.kind)));
  if (!row.value.initial.empty()) option->default_str(std::string(row.value.initial));
  option->check(CLI::Validator([&row](const std::string& word) { return row.wrong_word(word); },
                               range_text(row.value)));
}

}  // namespace

void add_option_flags(CLI::App& command, OptionUsers users, GivenOptions& given) {
  for (const OptionRow* row : option_rows())
    // The users are ordered: each enumerator includes the commands of those before it.
    if (row->scope.users >= users) add_row(command, *row, given);
}

}  // namespace moec
