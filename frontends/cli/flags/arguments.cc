#include "frontends/cli/flags/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string_view>

#include "backends/targets/load_target.h"
#include "ir/base/nearest.h"
#include "passes/pipeline.h"

namespace moec {
namespace {

// ---- lists -------------------------------------------------------------------------------------

// Commas are part of an element: `--tokens 1, 16` has the words `1,` and `16`.
bool is_whole(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(),
                                      [](char c) { return (c >= '0' && c <= '9') || c == ','; });
}

bool is_budget(std::string_view word) {
  // Without `=`, find() returns npos, and npos + 1 is 0: the whole word is the number.
  const std::string_view number = word.substr(word.find('=') + 1);
  return !number.empty() && number.find_first_not_of("0123456789.,") == std::string_view::npos;
}

bool is_pass(std::string_view word) { return word == "all" || find_pass(word) != nullptr; }

bool is_target(std::string_view word) {
  const auto names = builtin_target_names();
  return std::find(names.begin(), names.end(), word) != names.end();
}

// Accepts only existing files, because a folder after the list is the positional argument.
bool is_file(std::string_view word) {
  std::error_code error;
  return std::filesystem::is_regular_file(word, error);
}

struct ListFlag {
  std::string_view name;
  bool (*is_element)(std::string_view word);
};

// Flags with a list value whose elements may be separate words. CLI11 would also append a
// positional argument that follows the list, so `is_element` states which words belong to it.
constexpr ListFlag kLists[] = {
    {"--tokens", is_whole},  {"--prompt-tokens", is_whole}, {"--max-shard-mb", is_budget},
    {"--passes", is_pass},   {"--skip-pass", is_pass},      {"--dump-after", is_pass},
    {"--target", is_target}, {"--text", is_file},
};

const ListFlag* list_of(std::string_view word) {
  // Accepts `--tokens=1` as well.
  const std::string_view name = word.substr(0, word.find('='));
  const auto* found = std::find_if(std::begin(kLists), std::end(kLists),
                                   [&](const ListFlag& list) { return list.name == name; });
  return found == std::end(kLists) ? nullptr : found;
}

// Appends `word` without empty elements: "1," and "16" become "1,16".
void append_element(std::string& list, std::string_view word) {
  while (!list.empty() && list.back() == ',') list.pop_back();
  while (!word.empty() && word.front() == ',') word.remove_prefix(1);
  if (!word.empty()) list.append(",").append(word);
}

// Converts a quoted list: "1 2 3" becomes "1,2,3". Returns all other values unchanged, because
// --tokens also accepts files, whose names may contain spaces.
std::string with_commas(std::string_view words) {
  if (words.find_first_not_of("0123456789, ") != std::string_view::npos) return std::string(words);
  std::string list;
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    append_element(list, words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  // append_element() puts a comma before each element, also before the first one.
  return list.substr(list.starts_with(',') ? 1 : 0);
}

// ---- flags -------------------------------------------------------------------------------------

constexpr std::string_view kNoMoreFlags = "--";

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::vector<std::string_view> long_flags(const CLI::App& command) {
  std::vector<std::string_view> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.emplace_back(name);
  return names;
}

// Returns the path of a command, e.g. "family check"; empty for the program itself.
std::string path_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr) return {};
  const std::string above = path_of(*parent);
  return above.empty() ? command.get_name() : above + " " + command.get_name();
}

std::string next_of(const CLI::App& command) {
  const std::string path = path_of(command);
  return path.empty() ? "run moec --help to list the commands"
                      : fmt::format("run moec {} --help to list the flags", path);
}

// Returns the commands that have the flag as text, e.g. "; it is a flag of moec export"; empty if
// no command has the flag.
std::string owner_of(const CLI::App& command, const std::string& flag) {
  const CLI::App* program = &command;
  while (program->get_parent() != nullptr) program = program->get_parent();
  std::vector<std::string> owners;
  for (const CLI::App* other : program->get_subcommands([](const CLI::App*) { return true; }))
    if (other->get_option_no_throw(flag) != nullptr) owners.push_back("moec " + other->get_name());
  return owners.empty() ? "" : fmt::format("; it is a flag of {}", fmt::join(owners, ", "));
}

// Finds the flags and words that a command does not accept.
class ArgumentCheck {
 public:
  explicit ArgumentCheck(const CLI::App& command) : command_(command) {
    for (const CLI::Option* option : command.get_options())
      places_ += option->get_positional() ? 1 : 0;
  }

  Status run(std::span<const std::string> words) {
    // Each iteration consumes at least one word. Flags with a value consume their value as well.
    for (words_ = words; !words_.empty();) take(next());
    // The value of an unknown flag looks like a surplus word, so surplus words count only without
    // unknown flags.
    Diagnostics& found = unknown_.empty() ? surplus_ : unknown_;
    if (found.empty()) return {};
    return fail(std::move(found));
  }

 private:
  const std::string& next() {
    const std::string& word = words_.front();
    words_ = words_.subspan(1);
    return word;
  }

  void take(const std::string& word) {
    // A single `-` is a word: it stands for standard input.
    if (only_words_ || word.size() < 2 || word[0] != '-') return take_word(word);
    if (word == kNoMoreFlags)
      only_words_ = true;
    else if (word[1] == '-')
      take_long(word);
    else
      take_short(word);
  }

  void take_long(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const CLI::Option* option = command_.get_option_no_throw(name);
    if (option == nullptr) return add_unknown(name);
    // CLI11 gives a flag with an optional value no value if another flag follows.
    const bool optional = option->get_expected_min() == 0;
    const bool flag_next = !words_.empty() && words_.front().starts_with('-');
    if (takes_value(*option) && equals == std::string::npos && !(optional && flag_next))
      skip_value();
  }

  // Short flags may be joined: "-qn5" means "-q -n 5".
  void take_short(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const CLI::Option* option = command_.get_option_no_throw(std::string("-") + word[i]);
      // Names the whole word, because it may be a long flag with a missing dash, such as -json.
      if (option == nullptr) return add_unknown(word);
      // The rest of the word is the value of the first flag that has a value.
      if (!takes_value(*option)) continue;
      if (i + 1 == word.size()) skip_value();
      return;
    }
  }

  void skip_value() {
    if (!words_.empty()) next();
  }

  void take_word(const std::string& word) {
    if (places_ > 0) {
      --places_;
      return;
    }
    surplus_.push_back({Severity::error,
                        "cli.surplus_word",
                        fmt::format("unexpected argument \"{}\"", word),
                        next_of(command_),
                        {}});
  }

  void add_unknown(const std::string& flag) {
    const std::vector<std::string_view> known = long_flags(command_);
    const std::string_view bare = std::string_view(flag).substr(flag.find_first_not_of('-'));
    const std::string_view near = nearest(bare, known);
    unknown_.push_back(
        {Severity::error,
         "cli.unknown_flag",
         fmt::format("unknown flag {}{}{}", flag,
                     near.empty() ? "" : fmt::format(" (did you mean '--{}'?)", near),
                     owner_of(command_, flag)),
         next_of(command_),
         {}});
  }

  const CLI::App& command_;
  std::span<const std::string> words_;
  size_t places_ = 0;  // positional arguments that have no word yet
  bool only_words_ = false;
  Diagnostics unknown_, surplus_;
};

std::string code_of(const CLI::ParseError& error) {
  const std::string kind = error.get_name();
  // CLI11 identifies its errors by these names.
  if (kind == "RequiredError") return "cli.missing";
  if (kind == "ExcludesError" || kind == "RequiresError") return "cli.conflict";
  if (kind == "ValidationError" || kind == "ConversionError" || kind == "ArgumentMismatch")
    return "cli.value";
  return "cli.usage";
}

}  // namespace

std::vector<std::string> join_lists(std::span<const char* const> words) {
  std::vector<std::string> joined;
  while (!words.empty()) {
    joined.emplace_back(words.front());
    words = words.subspan(1);
    const ListFlag* list = list_of(joined.back());
    if (list == nullptr) continue;
    // The first word after the flag is its value, whatever its form. Only further words must look
    // like elements.
    if (joined.back().find('=') == std::string::npos && !words.empty()) {
      const std::string_view value = words.front();
      joined.emplace_back(list->is_element == is_whole ? with_commas(value) : std::string(value));
      words = words.subspan(1);
    }
    for (; !words.empty() && list->is_element(words.front()); words = words.subspan(1))
      append_element(joined.back(), words.front());
  }
  return joined;
}

Status check_arguments(const CLI::App& command, std::span<const std::string> words) {
  return ArgumentCheck(command).run(words);
}

Diagnostics describe_usage(const CLI::ParseError& error, const CLI::App& command) {
  return {{Severity::error, code_of(error), error.what(), next_of(command), {}}};
}

}  // namespace moec
