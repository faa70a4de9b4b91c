#include "models/cluster/read_loads.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "ir/base/at.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

constexpr std::string_view kHeader = "layer,expert,load";

class LoadReader {
 public:
  LoadReader(std::string_view text, const std::string& file, const ModelConfig& model)
      : rest_(text), model_(model), place_{.file = file, .line = 0} {}

  Result<ExpertLoads> read() {
    declare_layers();
    if (next_line() != kHeader)
      return error("loads.header", "the first line is not the expected header",
                   fmt::format("write {} as the first line", kHeader));
    while (!rest_.empty()) MOEC_TRY(read_line(next_line()));
    MOEC_TRY(check_complete());
    return std::move(loads_);
  }

 private:
  // Loads are not negative, so -1 marks an expert without a line.
  static constexpr double kNoLoad = -1;

  // Declares all experts of the MoE layers, so that check_complete() finds experts without a line.
  void declare_layers() {
    for (size_t layer = 0; layer < model_.layers.size(); ++layer)
      if (model_.layers[layer].moe)
        loads_[static_cast<int64_t>(layer)].assign(static_cast<size_t>(model_.moe.experts),
                                                   kNoLoad);
  }

  std::string_view next_line() {
    // `line` is 0 before the first call, so the first line has number 1.
    ++*place_.line;
    const size_t end = rest_.find('\n');
    std::string_view line = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  tl::unexpected<Diagnostics> error(std::string code, std::string cause, std::string next) const {
    return fail(std::move(code), std::move(cause), std::move(next), place_);
  }

  Status read_line(std::string_view line) {
    // In a line with more than three cells, the text of the load contains a comma and is refused.
    const size_t first = line.find(','), second = line.find(',', first + 1);
    std::optional<int64_t> layer, expert;
    std::optional<double> load;
    if (first != std::string_view::npos && second != std::string_view::npos) {
      layer = parse_number<int64_t>(line.substr(0, first));
      expert = parse_number<int64_t>(line.substr(first + 1, second - first - 1));
      load = parse_number<double>(line.substr(second + 1));
    }
    if (!layer || !expert || !load)
      return error("loads.line", "the line must be two integers and a number, separated by commas",
                   "write lines such as 0,17,132.5");
    return add(*layer, *expert, *load);
  }

  Status add(int64_t layer, int64_t expert, double load) {
    const auto found = loads_.find(layer);
    if (found == loads_.end())
      return error("loads.layer", fmt::format("the model has no MoE layer {}", layer),
                   fmt::format("use one of its {} layers, counted from 0, of which {} have experts",
                               model_.layers.size(), loads_.size()));
    if (expert < 0 || expert >= model_.moe.experts)
      return error("loads.expert", fmt::format("layer {} has no expert {}", layer, expert),
                   fmt::format("use an expert from 0 to {}", model_.moe.experts - 1));
    if (!std::isfinite(load) || load < 0)
      return error("loads.value", fmt::format("the load is {}", load),
                   "use a finite, non-negative load");
    double& known = at(found->second, expert);
    if (known != kNoLoad)
      return error("loads.duplicate",
                   fmt::format("expert {} of layer {} already has a load", expert, layer),
                   "write one line per expert");
    known = load;
    return {};
  }

  Status check_complete() {
    // A missing expert has no line that the error could name.
    place_.line.reset();
    for (const auto& [layer, loads] : loads_)
      for (size_t expert = 0; expert < loads.size(); ++expert)
        if (loads[expert] == kNoLoad)
          return error("loads.missing",
                       fmt::format("expert {} of layer {} has no load", expert, layer),
                       "write one line per expert of each MoE layer");
    return {};
  }

  std::string_view rest_;
  const ModelConfig& model_;
  Place place_;
  ExpertLoads loads_;
};

}  // namespace

Result<ExpertLoads> parse_expert_loads(std::string_view text, const std::string& file,
                                       const ModelConfig& model) {
  return LoadReader(text, file, model).read();
}

}  // namespace moec
