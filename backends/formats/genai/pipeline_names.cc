#include "backends/formats/genai/pipeline_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace moec {

PipelineNames::PipelineNames(const Manifest& manifest) {
  add_uses(manifest);
  for (const auto& [name, use] : edges_) {
    // An edge with ports of several names has its own name, and a stage copies it to each port.
    if (use.ports.size() > 1) shared_.insert(use.ports.begin(), use.ports.end());
    for (const std::string& port : use.ports)
      if (inputs_.contains(port) || !has_one_edge_at_a_time(port)) shared_.insert(port);
  }
}

void PipelineNames::add_uses(const Manifest& manifest) {
  for (int64_t i = 0; i < std::ssize(manifest.schedule); ++i) {
    const manifest::Step& step = at(manifest.schedule, i);
    for (const InputBinding& input : step.inputs) {
      if (input.source == SourceKind::edge) {
        Use& use = edges_[input.edge];
        use.last = i;
        use.ports.insert(input.port);
      } else if (!is_cache(input.source)) {
        const auto [known, added] = inputs_.emplace(input.port, input);
        if (!added && known->second != input) shared_.insert(input.port);
      }
    }
    for (const OutputBinding& output : step.outputs)
      if (output.sink == SinkKind::edge) edges_[output.edge].defined = i;
  }
}

// A stage may replace the value that it reads, so an edge may end where the next one begins.
bool PipelineNames::has_one_edge_at_a_time(const std::string& port) const {
  std::vector<const Use*> uses;
  for (const auto& [name, use] : edges_)
    if (use.ports.contains(port)) uses.push_back(&use);
  std::sort(uses.begin(), uses.end(),
            [](const Use* a, const Use* b) { return a->defined < b->defined; });
  for (size_t i = 1; i < uses.size(); ++i)
    if (uses[i]->defined < uses[i - 1]->last) return false;
  return true;
}

std::string PipelineNames::edge(const std::string& edge) const {
  const auto found = edges_.find(edge);
  if (found == edges_.end() || found->second.ports.size() != 1) return "edge." + edge;
  const std::string& port = *found->second.ports.begin();
  return shared_.contains(port) ? "edge." + edge : port;
}

std::string PipelineNames::value(const InputBinding& binding) const {
  if (binding.source == SourceKind::edge) return edge(binding.edge);
  if (!shared_.contains(binding.port)) return binding.port;
  return fmt::format("{}.r{}.w{}.c{}", enum_name(binding.source), binding.rotation, binding.window,
                     binding.chunk);
}

bool PipelineNames::is_renamed(const InputBinding& binding) const {
  return is_cache(binding.source) || value(binding) != binding.port;
}

}  // namespace moec
