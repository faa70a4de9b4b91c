#include "backends/formats/genai/symbolic_graph.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "backends/formats/genai/graph_nodes.h"

namespace moec {
namespace {

using Extents = std::vector<Extent>;
using Integers = std::map<std::string, std::vector<int64_t>>;

bool is_integers(const onnx::TensorProto& tensor) {
  return tensor.data_type() == onnx::TensorProto::INT64 &&
         tensor.data_location() != onnx::TensorProto::EXTERNAL;
}

// The i64 initializers of a graph, all of which have raw data (initializers.h).
Integers integers_of(const onnx::GraphProto& graph) {
  Integers integers;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (!is_integers(tensor)) continue;
    std::vector<int64_t> values(tensor.raw_data().size() / sizeof(int64_t));
    std::memcpy(values.data(), tensor.raw_data().data(), values.size() * sizeof(int64_t));
    integers.emplace(tensor.name(), std::move(values));
  }
  return integers;
}

std::vector<int64_t> dims_of(const onnx::ValueInfoProto& value) {
  std::vector<int64_t> dims;
  for (const auto& dim : value.type().tensor_type().shape().dim()) dims.push_back(dim.dim_value());
  return dims;
}

// Equal nodes up to their inputs.
bool same_op(const onnx::NodeProto& a, const onnx::NodeProto& b) {
  return a.op_type() == b.op_type() && a.domain() == b.domain() &&
         std::equal(a.output().begin(), a.output().end(), b.output().begin(), b.output().end()) &&
         std::equal(a.attribute().begin(), a.attribute().end(), b.attribute().begin(),
                    b.attribute().end(), [](const auto& x, const auto& y) {
                      return x.SerializeAsString() == y.SerializeAsString();
                    });
}

class SymbolicGraph {
 public:
  SymbolicGraph(std::span<const GraphPoint> points, std::span<const onnx::GraphProto> samples,
                onnx::GraphProto& graph)
      : points_(points), samples_(samples), first_(samples.front()), graph_(graph), nodes_(graph) {}

  Status write() {
    graph_.set_name(first_.name());
    for (const onnx::GraphProto& sample : samples_) {
      integers_.push_back(integers_of(sample));
      if (sample.node_size() != first_.node_size())
        return differ("numbers of nodes", first_.name());
    }
    MOEC_TRY(read_types());
    MOEC_TRY(write_initializers());
    for (int i = 0; i < first_.node_size(); ++i) MOEC_TRY(write_node(i));
    for (const auto& input : first_.input()) write_port(input, *graph_.add_input());
    for (const auto& output : first_.output()) write_port(output, *graph_.add_output());
    return {};
  }

 private:
  tl::unexpected<Diagnostics> differ(const std::string& what, const std::string& name) const {
    return fail("genai.structure",
                fmt::format("{} of {} do not extend to any number of tokens", what, name),
                "export for target onnx, which has one graph per token width",
                {.shard = first_.name(), .op = name});
  }

  // Fits vectors of equal length, one per sample.
  std::optional<Extents> fit(const std::vector<std::vector<int64_t>>& values) const {
    Extents extents;
    for (size_t i = 0; i < values.front().size(); ++i) {
      std::vector<int64_t> of_points;
      for (const auto& sample : values) {
        if (sample.size() != values.front().size()) return std::nullopt;
        of_points.push_back(sample[i]);
      }
      const auto extent = fit_extent(points_, of_points);
      if (!extent) return std::nullopt;
      extents.push_back(*extent);
    }
    return extents;
  }

  Status read_types() {
    using Values = google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>;
    const auto read = [&](const Values& (onnx::GraphProto::*values)() const) -> Status {
      const Values& own = (first_.*values)();
      for (int i = 0; i < own.size(); ++i) {
        std::vector<std::vector<int64_t>> dims;
        for (const onnx::GraphProto& sample : samples_) {
          const Values& others = (sample.*values)();
          if (others.size() != own.size() || others[i].name() != own[i].name())
            return differ("the values", own[i].name());
          dims.push_back(dims_of(others[i]));
        }
        auto extents = fit(dims);
        if (!extents) return differ("the sizes", own[i].name());
        types_[own[i].name()] = std::move(*extents);
      }
      return {};
    };
    MOEC_TRY(read(&onnx::GraphProto::input));
    MOEC_TRY(read(&onnx::GraphProto::output));
    return read(&onnx::GraphProto::value_info);
  }

  // Integers are written where nodes use them, because their values depend on the point.
  Status write_initializers() {
    const auto others = [](const onnx::GraphProto& graph) {
      std::vector<const onnx::TensorProto*> tensors;
      for (const onnx::TensorProto& tensor : graph.initializer())
        if (!is_integers(tensor)) tensors.push_back(&tensor);
      return tensors;
    };
    const auto own = others(first_);
    for (const onnx::GraphProto& sample : samples_) {
      const auto same = others(sample);
      if (same.size() != own.size()) return differ("numbers of constants", first_.name());
      for (size_t i = 0; i < own.size(); ++i)
        if (own[i]->SerializeAsString() != same[i]->SerializeAsString())
          return differ("the elements", own[i]->name());
    }
    for (const onnx::TensorProto* tensor : own) {
      *graph_.add_initializer() = *tensor;
      Extents& type = types_[tensor->name()];
      for (const int64_t size : tensor->dims()) type.push_back({size});
    }
    return {};
  }

  Status write_node(int index) {
    const onnx::NodeProto& own = first_.node(index);
    for (const onnx::GraphProto& sample : samples_)
      if (!same_op(own, sample.node(index)) || own.input_size() != sample.node(index).input_size())
        return differ("the nodes", own.name());
    onnx::NodeProto node = own;
    for (int k = 0; k < own.input_size(); ++k) {
      if (integers_.front().contains(own.input(k))) {
        MOEC_ASSIGN(*node.mutable_input(k), integer_input(index, k));
        continue;
      }
      for (const onnx::GraphProto& sample : samples_)
        if (sample.node(index).input(k) != own.input(k)) return differ("the inputs", own.name());
    }
    // After the nodes of its shape tensors, which integer_input() adds.
    *graph_.add_node() = std::move(node);
    return {};
  }

  // The value of input `k`, which is an i64 initializer in each sample.
  Result<std::string> integer_input(int index, int k) {
    const onnx::NodeProto& node = first_.node(index);
    std::vector<std::vector<int64_t>> values;
    for (size_t i = 0; i < samples_.size(); ++i) {
      const auto found = integers_[i].find(samples_[i].node(index).input(k));
      if (found == integers_[i].end()) return differ("the inputs", node.name());
      values.push_back(found->second);
    }
    const auto extents = fit(values);
    if (!extents) return differ("the sizes", node.name());
    if (std::all_of(extents->begin(), extents->end(),
                    [](const Extent& extent) { return extent.is_constant(); }))
      return nodes_.integers(values.front());
    const std::string& type = node.op_type();
    if (type == "Reshape") return reshape_target(types_.at(node.input(0)), *extents);
    if (type == "Expand") return shape(*extents);
    if (type == "Slice" && (k == 1 || k == 2)) return position(node, extents->front());
    return differ("the inputs", node.name());
  }

  // A 0 copies the size of the same axis of the input, and one -1 follows from the other sizes.
  std::string reshape_target(const Extents& from, const Extents& to) {
    std::vector<int64_t> target;
    bool inferred = false;
    for (size_t axis = 0; axis < to.size(); ++axis) {
      const bool copied = axis < from.size() && from[axis] == to[axis];
      if (to[axis].is_constant()) {
        target.push_back(to[axis].constant);
      } else if (copied || !inferred) {
        target.push_back(copied ? 0 : -1);
        inferred |= !copied;
      } else {
        return shape(to);
      }
    }
    return nodes_.integers(target);
  }

  // A position on the axis of a Slice; negative positions count from the end.
  std::string position(const onnx::NodeProto& slice, const Extent& extent) {
    const int64_t axis = integers_.front().at(slice.input(3)).front();
    const Extent from_end = extent - types_.at(slice.input(0)).at(static_cast<size_t>(axis));
    if (!from_end.is_constant()) return shape({extent});
    return nodes_.integers({from_end.constant == 0 ? kToEnd : from_end.constant});
  }

  // An i64 vector of the sizes.
  std::string shape(const Extents& extents) {
    std::string name = std::string(kSizePrefix) + "[";
    std::vector<std::string> sizes;
    for (const Extent& extent : extents) {
      sizes.push_back(size(extent));
      name += (name.back() == '[' ? "" : ",") + to_string(extent);
    }
    if (sizes.size() == 1) return sizes.front();
    name += ']';
    if (known_.emplace(name, true).second) nodes_.concat(sizes, 0, name);
    return name;
  }

  std::string size(const Extent& extent) {
    if (extent.is_constant()) return nodes_.integers({extent.constant});
    std::string name = std::string(kSizePrefix) + to_string(extent);
    if (name == kTokensSize || name == kPastSize || !known_.emplace(name, true).second) return name;
    std::string sum;
    const auto add = [&](const std::string& term) {
      sum = sum.empty() ? term : nodes_.add("Add", {sum, term}, name + "/" + term);
    };
    const auto add_multiple = [&](int64_t factor, const char* of) {
      if (factor == 1) return add(of);
      if (factor != 0)
        add(nodes_.add("Mul", {of, nodes_.integers({factor})},
                       fmt::format("{}/{}*{}", name, factor, of)));
    };
    add_multiple(extent.tokens, kTokensSize);
    add_multiple(extent.past, kPastSize);
    if (extent.constant != 0) add(nodes_.integers({extent.constant}));
    return nodes_.add("Identity", {sum}, name);
  }

  void write_port(const onnx::ValueInfoProto& own, onnx::ValueInfoProto& port) const {
    port = own;
    auto& shape = *port.mutable_type()->mutable_tensor_type()->mutable_shape();
    const Extents& extents = types_.at(own.name());
    for (int axis = 0; axis < shape.dim_size(); ++axis)
      if (const Extent& extent = extents[static_cast<size_t>(axis)]; !extent.is_constant())
        shape.mutable_dim(axis)->set_dim_param(to_string(extent));
  }

  std::span<const GraphPoint> points_;
  std::span<const onnx::GraphProto> samples_;
  const onnx::GraphProto& first_;
  onnx::GraphProto& graph_;
  GraphNodes nodes_;
  std::vector<Integers> integers_;        // by sample
  std::map<std::string, Extents> types_;  // by value
  std::map<std::string, bool> known_;     // shape tensors
};

}  // namespace

Status symbolic_graph(std::span<const GraphPoint> points, std::span<const onnx::GraphProto> samples,
                      onnx::GraphProto& graph) {
  return SymbolicGraph(points, samples, graph).write();
}

}  // namespace moec
