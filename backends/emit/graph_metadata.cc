#include "backends/emit/graph_metadata.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/emit/metadata_keys.h"
#include "backends/emit/shard_facts.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

// Reads entries; errors have the code `code`.
class EntryReader {
 public:
  EntryReader(const std::string& code, GraphMetadata& metadata)
      : code_(code), metadata_(metadata) {}

  Status read_positions(std::string_view text) {
    while (!text.empty()) {
      const auto position = take_number<uint32_t>(text);
      // Readers compare only the next position, so the positions must ascend.
      std::vector<uint32_t>& positions = metadata_.sources;
      const bool ascending = positions.empty() || positions.back() < position;
      if (!position || !ascending || (!text.empty() && text.front() != ' '))
        return wrong("moec.sources is not a list of ascending positions");
      positions.push_back(*position);
      if (!text.empty()) text.remove_prefix(1);
    }
    return {};
  }

  Status read_layouts(std::string_view text) {
    return each_line(text, [&](std::string_view layout, std::string_view tensor) -> Status {
      const auto parsed = parse_layout(layout);
      if (!parsed) return wrong("moec.layouts contains an unknown layout");
      metadata_.layouts[std::string(tensor)] = *parsed;
      return {};
    });
  }

  Status read_labels(std::string_view text) {
    return each_line(text, [&](std::string_view label, std::string_view tensor) -> Status {
      metadata_.labels[std::string(tensor)] = std::string(label);
      return {};
    });
  }

  Status read_owners(std::string_view text) {
    metadata_.owners = parse_weight_owners(text);
    if (!metadata_.owners) return wrong("moec.weights is not a list of weights and owners");
    return {};
  }

 private:
  tl::unexpected<Diagnostics> wrong(std::string cause) const {
    return fail(code_, std::move(cause), "export the model again");
  }

  // Calls take(first word, rest) for each line "first rest".
  Status each_line(std::string_view text,
                   const std::function<Status(std::string_view, std::string_view)>& take) const {
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      // Layouts and IR labels, which are the first words, contain no space, so the first space ends
      // them.
      const size_t space = line.find(' ');
      if (space == std::string_view::npos)
        return wrong("a metadata line does not consist of two words");
      MOEC_TRY(take(line.substr(0, space), line.substr(space + 1)));
    }
    return {};
  }

  const std::string& code_;
  GraphMetadata& metadata_;
};

}  // namespace

Status add_entry(std::string_view key, const std::string& text, const std::string& function,
                 const std::string& code, GraphMetadata& metadata) {
  EntryReader reader(code, metadata);
  if (key == metadata_key(kShardEntry, function)) metadata.shard = text;
  if (key == metadata_key(kSourcesEntry, function)) return reader.read_positions(text);
  if (key == metadata_key(kLayoutsEntry, function)) return reader.read_layouts(text);
  if (key == metadata_key(kNamesEntry, function)) return reader.read_labels(text);
  if (key == metadata_key(kWeightsEntry, function)) return reader.read_owners(text);
  return {};
}

std::string layout_lines(const Shard& shard, const TensorName& name) {
  std::string lines;
  for (uint32_t i = 0; i < shard.values.size(); ++i) {
    const Layout layout = shard.type(ValueId{i}).layout;
    if (layout != Layout::plain && states_layout(shard, ValueId{i}))
      lines += fmt::format("{} {}\n", layout_name(layout), name(ValueId{i}));
  }
  return lines;
}

std::string label_lines(const Shard& shard, const TensorName& name, const TensorName& assumed) {
  std::string lines;
  for (uint32_t i = 0; i < shard.values.size(); ++i) {
    const std::string label = shard.label(ValueId{i});
    if (label != assumed(ValueId{i})) lines += fmt::format("{} {}\n", label, name(ValueId{i}));
  }
  return lines;
}

std::string IrNames::legal(std::string label) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  if (std::all_of(label.begin(), label.end(), is_digit)) return {};
  for (char& c : label)
    if (!is_digit(c) && !is_letter(c) && c != '_' && c != '.') c = '_';
  return label;
}

std::string IrNames::claim(const std::string& label) {
  std::string wanted = legal(label);
  if (wanted.empty()) return wanted;
  std::string name = wanted;
  for (int suffix = 2; !names_.insert(name).second; ++suffix)
    name = fmt::format("{}_{}", wanted, suffix);
  return name;
}

}  // namespace moec
