#include "frontends/cli/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/invariant.h"

namespace moec {
namespace {

constexpr size_t kColumns = 80;  // width of a line of help
constexpr size_t kNames = 30;    // width of the column with option names
constexpr const char* kOther = "Other";
constexpr const char* kUngrouped = "Options";  // CLI11's name of its default group

struct CommandRow {
  std::string_view name, task;
  std::string_view common;  // the most used options, at most ten
};

// Grouped by task, in the order of --help.
constexpr auto kCommands = std::to_array<CommandRow>({
    {"inspect", "Look", "--tensors --json"},
    {"plan", "Look",
     "--list --target --tokens --context --weights --max-shard-mb --routing "
     "--resident-budget --device-profile --json"},
    {"doctor", "Look", "--folder --out --threads --force --json"},
    {"analyze", "Look", "--out --prompts --text --tokens --window --table --baseline --json"},
    {"tokenize", "Look", "--prompt --prompt-file --prompt-tokens --prompts --json"},
    {"export", "Compile",
     "--out --target --tokens --context --weights --routing --experts-per-shard --memory "
     "--force"},
    {"calibrate", "Compile", "--text --tokens --out --window --sensitivity"},
    {"upcycle", "Compile",
     "--out --experts --top-k --granularity --init --router --dry-run --verify --force"},
    {"prune", "Compile", "--keep --by --profile --expert-mask --out --dry-run --force --json"},
    {"opt", "Compile", "--passes --list-passes --target --timing"},
    {"family", "Compile", ""},
    {"check", "Prove", "--chip --explain --ops --sarif --json"},
    {"validate", "Prove", "--golden --engine --precision --thresholds --record --json"},
    {"compare", "Prove", "--text --tokens --window --max-kl --min-top1 --json"},
    {"confirm", "Prove", "--engine --chip --golden --python"},
    {"report", "Prove", "--html --against --profile --json"},
    {"run", "Run",
     "--prompt --prompt-file --prompt-tokens --chat --max-tokens --temperature --seed --memory "
     "--engine --capacity"},
    {"serve", "Run", "--host --port --sequences --max-tokens --memory --engine"},
    {"route", "Run", "--nodes --host --port --connections --node-timeout --explain"},
    {"prepack", "Run", "--profile --capacity --out"},
    {"place", "Place",
     "--profile --from-nodes --nodes --node-memory --cluster --replicas --stages --out --json"},
    {"split", "Place", "--out --place --groups --expert-list --profile --update --dry-run --force"},
    {"probe", "Place", "--groups --prompt --prompts --text --write --json"},
    {"trace", "Learn", "--out --prompts --text --tokens --window --format"},
    {"simulate", "Learn", "--capacity --policy --profile --export --plot --json"},
    {"discover", "Learn", "--out --prompt --prompts --text --recall"},
});

struct GroupRow {
  std::string_view name;
  std::string_view options;
};

// An entry COMMAND:--option overrides the entry --option, for names with another meaning in that
// command. Every entry must name an existing option. The options of export get their groups from
// their rows (option_row.h).
constexpr auto kGroups = std::to_array<GroupRow>({
    {"Input",
     "--family-file --ignore-key --text --prompt --prompts --prompt-file --prompt-tokens --window "
     "--golden --from-imatrix --trace --folder --profile --kl --config --checkpoint "
     "--function --list --thresholds --baseline --from-nodes --update --place --groups "
     "--expert-list --against --export "
     "--prefill calibrate:--part calibrate:--join compare:--part compare:--join "
     "--adapter --from-moe analyze:--tokens calibrate:--tokens compare:--tokens "
     "discover:--tokens probe:--tokens simulate:--tokens trace:--tokens upcycle:--tokens"},
    {"Output",
     "--out --force --dry-run --name --format --plot --sarif --record --write --tensors "
     "--node-data --imatrix --coactivation --print-prompts --expected --context-binaries "
     "--measured --log-gates "
     "--html --all --log-layers --memory-report --json --quiet --redact --table --timing --ops "
     "--digests --state"},
    {"Target", "--target --chip"},
    {"Form", "--dtype --passes --list-passes"},
    {"Weights", "--sensitivity"},
    {"Shards", "--max-shard-mb --allow-over-budget"},
    {"Experts",
     "--expert-mask --top-k --battery --category --confidence --pin-top-k --expert-memory "
     "--capacity --policy --on-miss --peers --expert-reads --prepacked --cache-bias --keep-top "
     "--keep --by --pool --step-tokens --expert-bytes --allow-uncovered --recall --score"},
    {"Devices",
     "--replicas --nodes --node-memory --cluster --stages --resident-budget --working-set "
     "--device-profile "
     "--filled"},
    {"Model",
     "--granularity --shared-width --arch --init --router --scale --unnormalised --noise "
     "--expert --multiply upcycle:--experts upcycle:--layers upcycle:--top-k"},
    {"Run",
     "--chat --max-tokens --stop-token --ignore-eos --temperature --sample-top-k --top-p --seed "
     "--precision --engine --engine-cache --threads --activations --cache-dtype --seconds "
     "--repeats "
     "--energy-per-byte "
     "--energy-per-mac "
     "run:--device serve:--device validate:--device --no-run --python --script --host "
     "--port --sequences --waiting --connections --max-body --timeout --api-key-file "
     "--allow-host --allow-origin route:--nodes --check-every --node-timeout route:--explain"},
    {"Limits",
     "--memory --group-memory --max-kl --min-top1 --min-coverage --max-error --verify "
     "--explain"},
    {"Help", "--help --help-all"},
});

// Splits a row at its spaces.
// The tables are constexpr, so they contain several words as one string.
std::vector<std::string> words_of(std::string_view row) {
  std::vector<std::string> words;
  for (size_t end = 0; !row.empty(); row.remove_prefix(std::min(end + 1, row.size()))) {
    end = std::min(row.find(' '), row.size());
    words.emplace_back(row.substr(0, end));
  }
  return words;
}

template <class Rows>
const auto* find_row(const Rows& rows, std::string_view name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

// Maps the entries of kGroups to their groups and records the entries that were looked up.
class GroupIndex {
 public:
  GroupIndex() {
    for (const GroupRow& group : kGroups)
      for (const std::string& entry : words_of(group.options)) groups_[entry] = group.name;
  }

  std::string group_of(const CLI::App& command, const CLI::Option& option) {
    if (option.get_group() != kUngrouped) return option.get_group();  // set by its option row
    const std::string name = "--" + option.get_single_name();
    // The entry with a command comes first, because it overrides the general one.
    for (const std::string& entry : {command.get_name() + ":" + name, name})
      if (const auto found = groups_.find(entry); found != groups_.end()) {
        used_.insert(entry);
        return std::string(found->second);
      }
    return kOther;
  }

  // Fails if no command has the option of an entry, e.g. because the option was removed or renamed.
  void check_used() const {
    // Fails at the start of every command, so that an outdated table cannot remain unnoticed.
    for (const auto& [entry, group] : groups_)
      MOEC_CHECK(used_.contains(entry), "help.cc lists the option {}, which no command has", entry);
  }

 private:
  std::map<std::string, std::string_view> groups_;
  std::set<std::string> used_;
};

// Breaks a text at spaces into lines of at most `width` bytes; longer words are not broken.
std::string wrapped(std::string_view text, size_t width) {
  std::string lines;
  while (text.size() > width) {
    size_t end = text.rfind(' ', width);
    // The first word is longer than the line, so it gets a line alone.
    if (end == std::string_view::npos) end = text.find(' ');
    if (end == std::string_view::npos) break;
    lines += std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(end + 1);
  }
  return lines + std::string(text);
}

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kNames); }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    const CommandRow* row = find_row(kCommands, app->get_name());
    // --help-all and commands without a row use CLI11's form, which lists every group.
    if (!row || mode != CLI::AppFormatMode::Normal)
      return CLI::Formatter::make_help(app, std::move(name), mode);
    return make_description(app) + make_usage(app, std::move(name)) + make_positionals(app) +
           common_options(*app, *row) + make_subcommands(app, mode) + "\n" + make_footer(app);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    std::stringstream out;
    CLI::detail::format_help(out, command->get_name(),
                             wrapped(command->get_description(), kColumns - kNames), kNames);
    return out.str();
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(CLI::Formatter::make_option_desc(option), kColumns - kNames);
  }

 private:
  std::string common_options(const CLI::App& app, const CommandRow& row) const {
    std::vector<const CLI::Option*> shown;
    // get_option() throws for unknown names, but check_common() has already refused these.
    for (const std::string& name : words_of(row.common)) shown.push_back(app.get_option(name));
    const auto all = app.get_options([&](const CLI::Option* option) {
      return option->nonpositional() && option != app.get_help_ptr() &&
             option != app.get_help_all_ptr();
    });
    std::string text = shown.empty() ? "" : make_group("Options", false, shown);
    // Nothing is hidden, so a pointer to --help-all would mislead.
    if (all.size() == shown.size()) return text;
    return text + fmt::format("\n{} more: moec {} --help-all\n", all.size() - shown.size(),
                              app.get_name());
  }
};

void arrange_command(CLI::App& command, GroupIndex& index) {
  command.set_help_all_flag("--help-all", "Print all options by group and exit");
  // CLI11 prints positional arguments in a separate section, which has no groups.
  for (CLI::Option* option : command.get_options())
    if (option->nonpositional()) option->group(index.group_of(command, *option));
}

void check_common(const CLI::App& command, const CommandRow& row) {
  for (const std::string& name : words_of(row.common))
    MOEC_CHECK(command.get_option_no_throw(name),
               "moec {} does not have the option {}, which help.cc lists for it", row.name, name);
}

}  // namespace

void arrange_help(CLI::App& app) {
  GroupIndex index;
  app.formatter(std::make_shared<HelpFormatter>());
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const CommandRow* row = find_row(kCommands, command->get_name());
    MOEC_CHECK(row, "command {} has no row in help.cc", command->get_name());
    command->group(std::string(row->task));
    command->formatter(app.get_formatter());
    check_common(*command, *row);
    arrange_command(*command, index);
    for (CLI::App* inner : command->get_subcommands([](const CLI::App*) { return true; }))
      arrange_command(*inner, index);
  }
  index.check_used();
}

}  // namespace moec
