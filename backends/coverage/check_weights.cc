#include "backends/coverage/check_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/coverage/graph_digest.h"
#include "backends/emit/moe_layers.h"
#include "backends/files/block_digests.h"
#include "backends/weights/views/weight_reader.h"
#include "ir/analysis/find_experts.h"
#include "ir/base/at.h"
#include "ir/experts/expert_runs.h"

namespace moec {
namespace {

constexpr size_t kDigestLength = 32;
// Replaces the digests of experts and router rows if no payload is read. Recorded and found digests
// are then equal, so only the presence of weights is compared.
constexpr const char* kUnread = "?";

Diagnostic finding(std::string code, std::string cause, const std::string& shard,
                   const std::string& file) {
  return {Severity::error,
          std::move(code),
          std::move(cause),
          "export again",
          {.shard = shard, .file = file}};
}

// "experts 0 to 3, 6"
std::string experts_text(const manifest::Shard& shard) {
  std::string text = "experts";
  for (const ExpertRun& run : expert_runs(shard)) {
    text += fmt::format("{} {}", text == "experts" ? "" : ",", run.first);
    if (run.count != 1) text += fmt::format(" to {}", run.first + run.count - 1);
  }
  return text;
}

// Calls visit(expert, digest) for each block of a record. The digests of consecutive experts are
// joined without a separator.
template <class Visit>
void each_block(const WeightRecord& record, Visit visit) {
  for (size_t i = 0; i < record.digests.size() / kDigestLength; ++i)
    visit(static_cast<size_t>(record.first_expert) + i,
          record.digests.substr(i * kDigestLength, kDigestLength));
}

// A layer has one graph per width and top-k variant. Returns the indices of the layer's graphs that
// use this graph of the shard: a shard without a router has one graph per width, shared by all
// variants.
std::vector<size_t> graphs_with(size_t graphs, const manifest::Shard& shard, size_t width) {
  std::vector<size_t> with;
  // Graphs are ordered by variant, then width. So the graphs of one width are `widths` apart.
  for (size_t graph = width; graph < graphs; graph += shard.widths.size()) with.push_back(graph);
  return with;
}

}  // namespace

WeightCheck::WeightCheck(const Manifest& manifest, std::string folder, bool content)
    : manifest_(manifest), folder_(std::move(folder)), content_(content) {
  // record() sizes each layer by the number of experts, so the number is determined first. Shards
  // without routing do not state the number.
  for (const manifest::Shard& shard : manifest.shards)
    if (shard.routing) experts_ = std::max(experts_, shard.routing->experts);
  for (const manifest::Shard& shard : manifest.shards) record(shard);
  for (auto& [number, layer] : layers_) {
    for (LayerExperts& found : layer.found) {
      found = layer.recorded;
      // Keeps `holders`, so that the slices of an expert have the manifest's order even if the
      // graphs are read in another order.
      for (ExpertParts& expert : found) expert.weights = expert.router = {};
    }
    for (size_t e = 0; e < layer.recorded.size(); ++e)
      known_.emplace(join_digests(layer.recorded[e].weights),
                     ExpertId{number, static_cast<int64_t>(e)});
  }
}

void WeightCheck::record(const manifest::Shard& shard) {
  for (const int64_t number : shard.moe_layers) {
    Layer& layer = layers_[number];
    layer.recorded.resize(static_cast<size_t>(experts_));
    const size_t graphs = std::max(layer.found.size(), shard.widths.size());
    layer.found.resize(graphs);
    layer.readable.resize(graphs, true);
    if (shard.routing && shard.routing->router.groups > 0 &&
        experts_ % shard.routing->router.groups == 0)
      layer.groups = shard.routing->router.groups;
  }
  for (const WeightRecord& weight : shard.weights)
    if (weight.role != WeightRole::plain) record(shard, weight);
}

void WeightCheck::record(const manifest::Shard& shard, const WeightRecord& weight) {
  Layer& layer = layers_[at(shard.moe_layers, weight.moe_layer)];
  each_block(weight, [&](size_t e, std::string digest) {
    ExpertParts& expert = layer.recorded[e];
    if (weight.role == WeightRole::routing) {
      expert.router.push_back({weight.name, std::move(digest)});
    } else {
      const std::string file = folder_ + "/" + shard.widths.front().file.path;
      const size_t holder = expert.holder(shard.name, file);
      expert.weights.push_back({weight.name, std::move(digest), 0, 0, holder});
    }
  });
}

// ---- One shard for one width -------------------------------------------------------------------

class WeightCheck::Taking {
 public:
  Taking(WeightCheck& check, const manifest::Shard& shard, size_t width, const LoadedShard& file)
      : check_(check),
        shard_(shard),
        width_(width),
        file_(file),
        body_(file.shard),
        path_(check.folder_ + "/" + shard.widths[width].file.path),
        roles_(find_experts(body_, check.experts_, shard.moe_layers.size())) {}

  Status run() {
    if (digest_graph(body_, roles_) != shard_.widths[width_].graph)
      report("coverage.changed_graph", "the ops differ from the exported computation");
    check_owners();
    // A dead weight is skipped, so an expert that is stored but not used counts as missing.
    for (OpId id : op_ids(body_))
      if (std::holds_alternative<Weight>(body_.ops[id].data) && roles_[id].live) MOEC_TRY(take(id));
    note_nonfinite();
    return {};
  }

 private:
  // Reports NaN and infinite values other than the cast overflows that the manifest counts.
  void note_nonfinite() {
    // The file does not distinguish infinities of the checkpoint from overflows of the cast. So
    // only the count above `cast_overflows` is reported.
    const auto cast = static_cast<uint64_t>(shard_.cast_overflows);
    if (nonfinite_ <= cast) return;
    const uint64_t count = nonfinite_ - cast;
    check_.findings_.push_back(
        {Severity::note,
         "coverage.nonfinite_weight",
         fmt::format("{} of its weights {} NaN or infinite, as in the checkpoint", count,
                     count == 1 ? "is" : "are"),
         "run moec validate to measure the effect on the results",
         {.shard = shard_.name, .file = path_}});
  }

  void report(std::string code, std::string cause) {
    check_.findings_.push_back(finding(std::move(code), std::move(cause), shard_.name, path_));
  }

  void report_owner(std::string cause) { report("coverage.ownership", std::move(cause)); }

  // Compares the weight owners in the file's metadata with the owners that follow from the graph.
  void check_owners() {
    std::set<std::string> weights;
    for (OpId id : op_ids(body_))
      if (const auto* weight = std::get_if<Weight>(&body_.ops[id].data)) {
        const std::string& name = std::get<TensorSource>(weight->view.source).name;
        weights.insert(name);
        if (file_.owners) check_owner(name, owner_of(roles_[id].share, shard_.moe_layers));
      }
    if (!file_.owners && !weights.empty())
      return report_owner("the file does not state which weights belong to which expert");
    if (!file_.owners) return;
    for (const auto& [name, owner] : *file_.owners)
      if (!weights.contains(name))
        report_owner(fmt::format("the file states that {} belongs to {}, but has no such weight",
                                 name, describe(owner)));
  }

  void check_owner(const std::string& name, const WeightOwner& computed) {
    const auto stated = file_.owners->find(name);
    if (stated == file_.owners->end())
      report_owner(fmt::format("the file does not state the owner of {}, which belongs to {}", name,
                               describe(computed)));
    else if (stated->second != computed)
      report_owner(
          fmt::format("the file states that {} belongs to {}, but its graph uses it for {}", name,
                      describe(stated->second), describe(computed)));
  }

  Status take(OpId id) {
    const ValueId value = body_.ops[id].results[0];
    const WeightShare& share = roles_[id].share;
    const Digests* digests = nullptr;
    if (check_.content_) {
      MOEC_ASSIGN(digests, read(id, share));
    }
    const std::string& name = body_.values[value].name;
    if (share.role == WeightRole::plain) {
      take_plain(name, digests ? digests->hex[0] : "");
      return {};
    }
    const auto bytes = static_cast<uint64_t>(body_.type(value).bytes() / share.count);
    for (int64_t i = 0; i < share.count; ++i) {
      const auto block = static_cast<size_t>(i);
      ExpertPart part{name, kUnread, bytes};
      if (digests) {
        part.digest = digests->hex[block];
        part.zero_tail = digests->zero_tail[block];
      }
      take_part(share, share.first + i, std::move(part));
    }
    return {};
  }

  // Returns the digests of a weight. Widths share weights; their bytes are read once.
  Result<const Digests*> read(OpId id, const WeightShare& share) {
    const auto& weight = std::get<Weight>(body_.ops[id].data);
    const TensorRange& range = *file_.weights.find(std::get<TensorSource>(weight.view.source).name);
    const Type& type = body_.type(body_.ops[id].results[0]);
    // The key is the position in the file, not the name: widths can name the same bytes
    // differently. Type, axis and count determine the blocks.
    const std::string place = fmt::format("{}:{}:{}:{}:{}", file_.weights.files[range.file].path,
                                          range.offset, to_string(type), share.axis, share.count);
    if (const auto known = check_.read_.find(place); known != check_.read_.end())
      return &known->second;
    // Opens the reader on demand: if earlier widths have read all weights, no weight file of this
    // width is opened.
    if (!reader_) {
      MOEC_ASSIGN(reader_, WeightReader::open(file_.weights));
    }
    BlockDigests blocks(type, share.axis, share.count);
    StreamReport report;
    auto sink = [&](std::span<const std::byte> tile) -> Status {
      blocks.update(tile);
      return {};
    };
    MOEC_TRY(reader_->stream(weight.view, kDefaultTileBytes, sink, report));
    nonfinite_ += report.nonfinite;
    Digests digests;
    for (size_t i = 0; i < blocks.count(); ++i) {
      digests.hex.push_back(blocks.hex(i));
      digests.zero_tail.push_back(blocks.zero_tail(i));
    }
    return &check_.read_.emplace(place, std::move(digests)).first->second;
  }

  void take_plain(const std::string& name, const std::string& digest) {
    check_.plain_seen_[shard_.name].insert(name);
    bool named = false, same = false;
    for (const WeightRecord& record : shard_.weights)
      if (record.role == WeightRole::plain && record.name == name) {
        named = true;
        // Widths may have different weights of one name, each with a separate record.
        same |= record.digests == digest;
      }
    if (!named)
      report("coverage.unknown_weight", fmt::format("the weight {} was not exported", name));
    else if (check_.content_ && !same)
      report("coverage.changed_weight",
             fmt::format("the weight {} differs from the exported one", name));
  }

  void take_part(const WeightShare& share, int64_t number, ExpertPart part) {
    const int64_t layer_number = shard_.moe_layers[share.moe_layer];
    Layer& layer = check_.layers_[layer_number];
    const auto index = static_cast<size_t>(number);
    const std::string what = fmt::format("expert {} of layer {}", number, layer_number);
    // Router rows are exempt: a router has a row for each expert of the layer.
    if (share.role != WeightRole::routing && !holds_expert(shard_, number))
      report("coverage.misplaced_expert",
             fmt::format("{}: {} is in a shard of {}", what, part.name, experts_text(shard_)));
    for (const size_t graph : graphs_with(layer.found.size(), shard_, width_)) {
      ExpertParts& expert = layer.found[graph].at(index);
      if (share.role == WeightRole::routing)
        expert.router.push_back(part);
      else
        take_expert(layer.recorded[index], what, part, expert);
    }
  }

  // Adds a part to an expert of its layer; reports a second holder.
  void take_expert(const ExpertParts& known, const std::string& what, ExpertPart part,
                   ExpertParts& expert) {
    part.holder = expert.holder(shard_.name, path_);
    // The first `recorded` holders are slices of the expert; any other holder is a duplicate.
    const size_t recorded = known.holders.size();
    for (const ExpertPart& other : expert.weights)
      if (other.holder != part.holder && std::max(other.holder, part.holder) >= recorded) {
        report("coverage.duplicate_expert",
               fmt::format("{} is also in shard {}", what, expert.holders[other.holder].shard));
        break;
      }
    expert.weights.push_back(std::move(part));
  }

  WeightCheck& check_;
  const manifest::Shard& shard_;
  const size_t width_;
  const LoadedShard& file_;
  const Shard& body_;
  const std::string path_;
  const IdMap<OpId, OpRole> roles_;
  std::optional<WeightReader> reader_;
  uint64_t nonfinite_ = 0;  // count over all values read
};

void WeightCheck::take(const manifest::Shard& shard, size_t width, const LoadedShard& file) {
  Status taken = Taking(*this, shard, width, file).run();
  if (taken) return;
  findings_.insert(findings_.end(), taken.error().begin(), taken.error().end());
  cannot_read(shard, width);
}

void WeightCheck::cannot_read(const manifest::Shard& shard, size_t width) {
  for (const int64_t layer : shard.moe_layers) {
    std::vector<bool>& readable = layers_.at(layer).readable;
    // compare() skips unreadable graphs, because all experts of this shard would count as missing
    // in them.
    for (const size_t graph : graphs_with(readable.size(), shard, width)) readable[graph] = false;
    if (shard.experts > 0)
      findings_.push_back(
          finding("coverage.unreadable_experts",
                  fmt::format("layer {}: {} cannot be read", layer, experts_text(shard)),
                  shard.name, folder_ + "/" + shard.widths[width].file.path));
  }
}

// ---- All shards --------------------------------------------------------------------------------

Diagnostics WeightCheck::finish() {
  for (const auto& [number, layer] : layers_) compare(number, layer);
  for (const manifest::Shard& shard : manifest_.shards) {
    const auto seen = plain_seen_.find(shard.name);
    if (seen == plain_seen_.end()) continue;  // none of its graphs was readable
    for (const WeightRecord& record : shard.weights)
      if (record.role == WeightRole::plain && !seen->second.contains(record.name))
        findings_.push_back(finding("coverage.missing_weight",
                                    fmt::format("no graph uses the weight {}", record.name),
                                    shard.name, folder_ + "/" + shard.widths.front().file.path));
  }
  return std::move(findings_);
}

// Compares a layer for every width. Widths share weights, so a fault appears in every width; only
// the first faulty width is reported.
void WeightCheck::compare(int64_t number, const Layer& layer) {
  LayerExperts recorded = layer.recorded;
  if (!content_)  // only the presence of weights can be compared
    for (ExpertParts& expert : recorded)
      for (auto* parts : {&expert.weights, &expert.router})
        for (ExpertPart& part : *parts) part.digest = kUnread;
  for (size_t width = 0; width < layer.found.size(); ++width) {
    if (!layer.readable[width]) continue;
    Diagnostics found = compare_experts(number, recorded, layer.found[width], layer.groups, known_);
    if (found.empty()) continue;
    findings_.insert(findings_.end(), found.begin(), found.end());
    return;
  }
}

}  // namespace moec
