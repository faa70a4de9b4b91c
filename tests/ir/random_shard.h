// Generates random valid shards from a seed, with every op and attribute, nested views, and unusual
// or missing names. For tests of properties that hold for all shards.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ir/graph/builder.h"

namespace moec {

class RandomShard {
 public:
  explicit RandomShard(uint64_t seed)
      : random_(seed), builder_("s" + std::to_string(seed), form()) {}

  Shard make() {
    for (int64_t i = below(4); i > 0; --i) builder_.input("in" + std::to_string(i), any_type());
    for (int64_t i = below(3); i > 0; --i) declare_state();
    for (int64_t i = 1 + below(10); i > 0; --i) {
      const auto kind = static_cast<OpKind>(below(kOpKinds));
      if (traits_of(kind).last_form >= builder_.shard().form) add(kind);
    }
    const Shard& shard = builder_.shard();
    for (int64_t i = below(4); i > 0 && shard.values.size() > 0; --i)
      builder_.output("out." + std::to_string(i), any_value());
    return builder_.finish();
  }

  // Returns a view of the given type: a source, or steps on views of other types.
  WeightView view(const Type& type, int depth = 3) {
    switch (depth > 0 ? below(8) : 0) {
      case 1:
        return is_float(type.dtype)
                   ? step(view({any_float(), type.dims}, depth - 1), CastStep{type.dtype})
                   : source(type);
      case 2:
        return is_float(type.dtype) ? step(view(type, depth - 1), ScaleStep{any_finite()})
                                    : source(type);
      case 3:
        return step(view({type.dtype, {type.elements()}}, depth - 1), ReshapeStep{type.dims});
      case 4:
        return permuted(type, depth);
      case 5:
        return sliced(type, depth);
      case 6:
        return joined(type, depth);
      case 7:
        if (type.dtype != DType::f32) return source(type);
        return to_f32(type, depth);
      default:
        return source(type);
    }
  }

 private:
  // ---- Numbers and types -----------------------------------------------------------------------

  int64_t below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }
  bool coin() { return below(2) == 0; }
  int64_t size() { return 1 + below(6); }

  template <class E>
  E any_enum() {
    return static_cast<E>(below(static_cast<int64_t>(enum_names(E{}).size())));
  }

  double any_finite() {
    const double simple[] = {0, 1, -1, 0.5, 1e-6, 0.1, -1e300, 5e-324};
    if (coin()) return simple[below(8)];
    for (;;)
      if (double value = std::bit_cast<double>(random_()); std::isfinite(value)) return value;
  }
  double any_positive() { return std::fabs(any_finite()); }

  Form form() { return static_cast<Form>(below(4)); }
  DType any_float() { return static_cast<DType>(below(3)); }
  DType any_dtype() { return static_cast<DType>(below(8)); }

  Dims any_dims(int64_t least_rank = 0) {
    Dims dims(static_cast<size_t>(least_rank + below(5 - least_rank)));
    for (int64_t& extent : dims) extent = size();
    return dims;
  }

  Type any_type() {
    if (coin()) return token_type(any_float(), any_layout(), size(), size());
    return {any_dtype(), any_dims()};
  }
  Layout any_layout() { return coin() ? Layout::rows : any_channel_layout(); }
  Layout any_channel_layout() { return coin() ? Layout::channels : Layout::bc1s; }

  // ---- Views -----------------------------------------------------------------------------------

  static WeightView step(WeightView view, ViewStep step) {
    view.steps.push_back(std::move(step));
    return view;
  }

  WeightView source(const Type& type) {
    if (is_float(type.dtype) && below(3) == 0) return splat_view(any_finite(), type);
    if (is_float(type.dtype) && coin()) return seeded_view(random_(), type);
    const char* names[] = {"model.layers.0.mlp.gate.weight",
                           "a/b-c",
                           "with space",
                           "quote\"back\\slash",
                           "\x01\xff",
                           ""};
    return tensor_view(names[below(6)], type);
  }

  WeightView permuted(const Type& type, int depth) {
    PermuteStep permute;
    for (int64_t i = 0; i < type.rank(); ++i) permute.axes.push_back(i);
    std::shuffle(permute.axes.begin(), permute.axes.end(), random_);
    Type from = type;
    for (int64_t i = 0; i < type.rank(); ++i) from.dims.at(at(permute.axes, i)) = type.dims.at(i);
    return step(view(from, depth - 1), permute);
  }

  WeightView sliced(const Type& type, int depth) {
    if (type.rank() == 0) return source(type);
    const int64_t axis = below(type.rank()), begin = below(4);
    Type from = type;
    int64_t& extent = from.dims[static_cast<size_t>(axis)];
    extent += begin + below(3);
    return step(view(from, depth - 1),
                SliceStep{axis, begin, type.dims[static_cast<size_t>(axis)]});
  }

  WeightView joined(const Type& type, int depth) {
    if (type.rank() == 0) return source(type);
    const int64_t axis = below(type.rank());
    std::vector<WeightView> parts;
    for (int64_t left = type.dims[static_cast<size_t>(axis)]; left > 0;) {
      Type part = type;
      part.dims[static_cast<size_t>(axis)] = 1 + below(left);
      left -= part.dims[static_cast<size_t>(axis)];
      parts.push_back(view(part, depth - 1));
    }
    return concat_view(axis, std::move(parts));
  }

  // Applies one of the steps that produce f32.
  WeightView to_f32(const Type& type, int depth) {
    const int64_t kind = below(9);
    if (kind == 0) return dequantised(type, depth);
    if (kind == 1) return unpacked(type, depth);
    if (kind == 4) return looked_up(type, depth);
    if (kind == 5) return unblocked(type, depth);
    if (kind == 6) return blockwise(type, depth);
    if (kind == 7) return gathered(type, depth);
    WeightView from = view({any_float(), type.dims}, depth - 1);
    if (kind == 2) return step(std::move(from), CenterStep{});
    if (kind == 8) return step(std::move(from), MapStep{coin() ? MapFn::neg_exp : MapFn::plus_one});
    return step(std::move(from), RemainderStep{coin() ? DType::f16 : DType::bf16});
  }

  WeightView dequantised(const Type& type, int depth) {
    DequantStep dequant;
    Type scale{any_float(), {}};
    for (int64_t extent : type.dims) {
      dequant.block.push_back(size());
      scale.dims.push_back((extent - 1) / dequant.block.back() + 1);
    }
    dequant.scale.push_back(view(scale, depth - 1));
    if (coin()) dequant.offset.push_back(view(scale, depth - 1));
    const DType held = coin() ? DType::f8_e4m3 : any_float();
    return step(view({held, type.dims}, depth - 1), dequant);
  }

  WeightView blockwise(const Type& type, int depth) {
    BlockwiseStep blockwise{any_enum<BlockwiseOp>(), {}, {}};
    Type operand{any_float(), {}};
    for (int64_t extent : type.dims) {
      blockwise.block.push_back(size());
      operand.dims.push_back((extent - 1) / blockwise.block.back() + 1);
    }
    blockwise.operand.push_back(view(operand, depth - 1));
    return step(view(type, depth - 1), blockwise);
  }

  WeightView gathered(const Type& type, int depth) {
    if (type.rank() == 0) return source(type);
    const int64_t axis = below(type.rank());
    Type from = type;
    from.dims.at(axis) = size();
    const Type indices{DType::i32, {type.dims.at(axis)}};
    return step(view(from, depth - 1), GatherStep{axis, {view(indices, depth - 1)}});
  }

  WeightView looked_up(const Type& type, int depth) {
    if (type.rank() == kMaxRank) return source(type);
    LutStep lut;
    Type table{any_float(), {}};
    for (int64_t extent : type.dims) {
      lut.block.push_back(size());
      table.dims.push_back((extent - 1) / lut.block.back() + 1);
    }
    table.dims.push_back(size());
    lut.table.push_back(view(table, depth - 1));
    return step(view(type, depth - 1), lut);
  }

  WeightView unpacked(const Type& type, int depth) {
    const auto packing = any_enum<Packing>();
    const PackedRun run = packed_run(packing);
    if (type.rank() == 0 || type.dims.back() % run.numbers != 0) return source(type);
    Type from{run.dtype, type.dims};
    from.dims.back() = from.dims.back() / run.numbers * run.elements;
    return step(view(from, depth - 1), UnpackStep{packing});
  }

  WeightView unblocked(const Type& type, int depth) {
    const auto block = any_enum<BlockType>();
    const BlockFormat& format = block_format(block);
    if (format.values != BlockValues::decoded || type.rank() == 0) return source(type);
    UnblockStep part{block};
    if (const auto codes = block_format(block).codes)
      part.part = static_cast<UnblockPart>(below(codes->zeros ? 4 : 3));
    Type from{DType::u8, type.dims};
    const int64_t numbers = unblocked_count(part);
    const int64_t blocks = (type.dims.back() - 1) / numbers + 1;
    from.dims.back() = blocks * format.bytes;
    const SliceStep wanted{type.rank() - 1, below(blocks * numbers - type.dims.back() + 1),
                           type.dims.back()};
    return step(step(view(from, depth - 1), part), wanted);
  }

  // ---- Values ----------------------------------------------------------------------------------

  std::string any_name() {
    const char* names[] = {"", "", "experts.3.gate", "x", "1e5", "_", "0.w", "k"};
    return names[below(8)];
  }

  ValueId any_value() {
    const auto count = static_cast<int64_t>(builder_.shard().values.size());
    return ValueId{static_cast<uint32_t>(below(count))};
  }

  // Returns an existing or new value of the given type.
  ValueId value(const Type& type) {
    std::vector<ValueId> there;
    for (uint32_t i = 0; i < builder_.shard().values.size(); ++i)
      if (builder_.type(ValueId{i}) == type) there.push_back(ValueId{i});
    if (!there.empty() && coin()) return there[static_cast<size_t>(below(std::ssize(there)))];
    if (type.layout != Layout::plain) {
      const ValueId flat = value({type.dtype, {type.elements()}});
      return builder_.reshape(flat, type.dims, type.layout, any_name());
    }
    return coin() ? builder_.weight(view(type), any_name()) : constant(type);
  }
  ValueId value(DType dtype, Dims dims) { return value(Type{dtype, std::move(dims)}); }
  ValueId token(DType dtype, Layout layout, int64_t channels, int64_t tokens) {
    return value(token_type(dtype, layout, channels, tokens));
  }

  void add_weight(const Type& type) {
    builder_.weight(view(type), any_name(), is_float(type.dtype) ? encoding(type) : Encoding());
  }

  Encoding encoding(const Type& type) {
    if (type.rank() == 0 || coin()) return PlainEncoding{};
    Dims block;
    for (int64_t extent : type.dims) block.push_back(extent % 2 == 0 && coin() ? 2 : extent);
    if (type.rank() == kMaxRank || coin()) return AffineEncoding{coin() ? 4 : 8, block, coin()};
    return PaletteEncoding{1 + below(4), block};
  }

  ValueId constant(const Type& type) {
    std::vector<double> values(coin() ? 1 : static_cast<size_t>(type.elements()));
    for (double& element : values) {
      element = is_float(type.dtype) ? any_finite() : static_cast<double>(below(2));
      if (is_float(type.dtype) && below(9) == 0) element = coin() ? INFINITY : -INFINITY;
    }
    return builder_.constant(type, std::move(values), any_name());
  }

  ValueId any_float_value(int64_t least_rank) {
    if (least_rank < 3 && coin()) return token(any_float(), any_layout(), size(), size());
    return value(any_float(), any_dims(least_rank));
  }

  int64_t axis_of(ValueId id) { return below(static_cast<int64_t>(builder_.type(id).rank())); }

  // Returns a value that broadcasts with x: a scalar, or a value with x's sizes, of which some are
  // set to 1.
  ValueId companion(ValueId x, DType dtype) {
    const Type type = builder_.type(x);
    if (coin()) return value(dtype, {});
    if (coin()) return value({dtype, type.dims, type.layout});
    Dims dims = type.dims;
    for (int64_t& extent : dims)
      if (coin()) extent = 1;
    return value(dtype, dims);
  }

  void declare_state() {
    builder_.state("state_" + std::to_string(builder_.shard().states.size()), any_type());
  }

  // ---- Ops -------------------------------------------------------------------------------------

  void emit(OpData data, std::vector<ValueId> operands) {
    builder_.emit_all(std::move(data), std::move(operands), any_name());
  }

  void add(OpKind kind) {
    switch (kind) {
      case OpKind::Attention:
        return add_attention();
      case OpKind::GatedMlp:
        return add_gated_mlp();
      case OpKind::RmsNorm:
        return add_rms_norm();
      case OpKind::Router:
        return add_router();
      case OpKind::SoftMoe:
        return add_soft_moe();
      case OpKind::Linear:
        return add_linear();
      case OpKind::Weight:
        add_weight({any_dtype(), any_dims()});
        return;
      case OpKind::Constant:
        constant({any_dtype(), any_dims()});
        return;
      case OpKind::Conv:
        return add_conv();
      case OpKind::MatMul:
        return add_matmul();
      case OpKind::Moe:
        return add_moe();
      case OpKind::Unary:
        return emit(Unary{any_enum<UnaryFn>()}, {any_float_value(0)});
      case OpKind::Binary:
        return add_binary();
      case OpKind::Compare:
        return add_compare();
      case OpKind::Select:
        return add_select();
      case OpKind::Cast:
        return emit(Cast{any_dtype()}, {value(any_dtype(), any_dims())});
      case OpKind::Reduce:
        return add_reduce();
      case OpKind::Softmax:
        return add_softmax();
      case OpKind::TopK:
        return add_topk();
      case OpKind::Slice:
        return add_slice();
      case OpKind::Concat:
        return add_concat();
      case OpKind::Reshape:
        return add_reshape();
      case OpKind::Transpose:
        return add_transpose();
      case OpKind::StateRead:
        return add_state_read();
      case OpKind::StateWrite:
        return add_state_write();
    }
  }

  void add_attention() {
    Attention op;
    op.kv_heads = size();
    op.heads = op.kv_heads * size();
    op.head_dim = 2 * size();
    op.scale = any_finite();
    op.qk_norm = any_enum<QkNorm>();
    op.eps = any_positive();
    op.rope = any_enum<RopeStyle>();
    op.rope_dims = op.rope == RopeStyle::none ? 0 : op.head_dim;
    op.cache = any_enum<CacheForm>();
    const DType dtype = any_float();
    const Layout layout = any_layout();
    const int64_t tokens = size(), cached = op.cache == CacheForm::none ? 0 : size();
    const int64_t keys = op.cache == CacheForm::blend ? cached : cached + tokens;
    std::vector<ValueId> operands = {token(dtype, layout, op.heads * op.head_dim, tokens),
                                     token(dtype, layout, op.kv_heads * op.head_dim, tokens),
                                     token(dtype, layout, op.kv_heads * op.head_dim, tokens)};
    auto pair = [&](const Dims& dims) {
      for (int i = 0; i < 2; ++i) operands.push_back(value(dtype, dims));
    };
    if (op.rope != RopeStyle::none) pair({tokens, op.rope_dims / 2});
    operands.push_back(value(dtype, {1, 1, tokens, keys}));
    if (op.qk_norm != QkNorm::none)
      for (const int64_t heads : {op.heads, op.kv_heads})
        operands.push_back(value(dtype, coin() ? Dims{op.head_dim} : Dims{heads, 1}));
    if (op.cache != CacheForm::none) pair({1, op.kv_heads, cached, op.head_dim});
    if (op.cache == CacheForm::blend) operands.push_back(value(dtype, {1, 1, cached, tokens}));
    emit(op, std::move(operands));
  }

  void add_gated_mlp() {
    const DType dtype = any_float();
    const int64_t d = size(), f = size();
    const GatedMlp op{any_gating()};
    std::vector<ValueId> operands = {token(dtype, any_layout(), d, size())};
    add_matrices(op.gating, dtype, f, d, operands);
    if (coin()) {
      for (size_t i = 1; i < op.gating.matrices(); ++i) operands.push_back(value(dtype, {f}));
      operands.push_back(value(dtype, {d}));
    }
    if (coin()) operands.push_back(value(dtype, {1, d}));
    emit(op, std::move(operands));
  }

  // Appends the operands of an MLP, with or without a gate.
  void add_matrices(const Gating& gating, DType dtype, int64_t f, int64_t d,
                    std::vector<ValueId>& operands) {
    for (size_t i = 1; i < gating.matrices(); ++i) operands.push_back(value(dtype, {f, d}));
    operands.push_back(value(dtype, {d, f}));
  }

  Gating any_gating() {
    if (coin()) return {coin() ? Activation::silu : Activation::relu2};
    return {Activation::clamped_swiglu, 1 + any_positive(), any_finite()};
  }

  void add_rms_norm() {
    const DType dtype = any_float();
    const int64_t channels = size();
    emit(RmsNorm{any_positive()},
         {token(dtype, any_layout(), channels, size()), value(dtype, {channels})});
  }

  void add_router() {
    Router op;
    op.score = any_enum<Score>();
    const bool mixed = op.score == Score::sparsemixer;
    const bool plain = op.score == Score::softmax_selected || mixed;
    op.renorm = plain ? Renorm::none : any_enum<Renorm>();
    op.eps = any_positive();
    op.scale = any_finite();
    op.groups = plain ? 1 : size();
    op.groups_kept = 1 + below(op.groups);
    op.group_score = any_enum<GroupScore>();
    const int64_t group = 2 + below(3), experts = op.groups * group;
    op.top_k = mixed ? 2 : 1 + below(op.groups_kept * group);
    const DType dtype = any_float();
    std::vector<ValueId> operands = {token(dtype, any_layout(), experts, size())};
    if (!mixed && coin()) operands.push_back(value(dtype, {experts}));
    emit(op, std::move(operands));
  }

  void add_soft_moe() {
    SoftMoe op{1 + below(3), below(3), any_gating(), any_enum<RoutedWeight>()};
    const DType dtype = any_float();
    const Layout layout = any_layout();
    const int64_t d = size(), f = size(), tokens = size();
    std::vector<ValueId> operands = {
        token(dtype, layout, d, tokens),
        token(dtype, layout, op.first_expert + op.experts + below(2), tokens)};
    for (int64_t e = 0; e < op.experts; ++e) add_matrices(op.gating, dtype, f, d, operands);
    emit(op, std::move(operands));
  }

  void add_linear() {
    const DType dtype = any_float();
    const int64_t in = size(), out = size();
    std::vector<ValueId> operands = {token(dtype, any_layout(), in, size()),
                                     value(dtype, {out, in})};
    if (coin()) operands.push_back(value(dtype, {out}));
    emit(Linear{}, std::move(operands));
  }

  void add_conv() {
    const DType dtype = any_float();
    const int64_t groups = size(), in = groups * size(), out = groups * size(), tokens = size();
    const Layout layout = any_channel_layout();
    Dims kernel{out, in / groups, 1, 1};
    kernel.at(token_axis(layout)) = 1 + below(tokens);
    std::vector<ValueId> operands = {token(dtype, layout, in, tokens), value(dtype, kernel)};
    if (coin()) operands.push_back(value(dtype, {out}));
    emit(Conv{groups}, std::move(operands));
  }

  void add_matmul() {
    const DType dtype = any_float();
    const int64_t m = size(), k = size(), n = size(), batch = size();
    if (coin())
      emit(MatMul{}, {token(dtype, Layout::rows, k, m), value(dtype, {k, n})});
    else
      emit(MatMul{}, {value(dtype, {batch, 1, m, k}), value(dtype, {1, size(), k, n})});
  }

  void add_moe() {
    const DType dtype = any_float();
    const int64_t experts = size(), d = size(), f = size(), tokens = size();
    Moe op{1 + below(experts), any_gating()};
    if (!op.gating.has_gate()) op.gating = {};
    std::vector<ValueId> operands = {
        token(dtype, Layout::rows, d, tokens), token(dtype, Layout::rows, experts, tokens),
        value(dtype, {experts, 2 * f, d}), value(dtype, {experts, d, f})};
    if (coin()) {
      operands.push_back(value(dtype, {experts, 2 * f}));
      operands.push_back(value(dtype, {experts, d}));
    }
    emit(op, std::move(operands));
  }

  void add_binary() {
    const ValueId x = any_float_value(0);
    const ValueId y = companion(x, builder_.type(x).dtype);
    if (coin())
      emit(Binary{any_enum<BinaryFn>()}, {x, y});
    else
      emit(Binary{any_enum<BinaryFn>()}, {y, x});
  }

  void add_compare() {
    const ValueId x = any_float_value(0);
    emit(Compare{any_enum<CompareFn>()}, {x, companion(x, builder_.type(x).dtype)});
  }

  void add_select() {
    const ValueId x = any_float_value(0);
    const ValueId condition = companion(x, DType::boolean);
    emit(Select{}, {condition, x, companion(x, builder_.type(x).dtype)});
  }

  void add_reduce() {
    const ValueId x = any_float_value(1);
    emit(Reduce{any_enum<ReduceFn>(), axis_of(x)}, {x});
  }

  void add_softmax() {
    const ValueId x = any_float_value(1);
    emit(Softmax{axis_of(x)}, {x});
  }

  void add_topk() {
    const ValueId x = any_float_value(1);
    const int64_t axis = axis_of(x);
    emit(TopK{1 + below(builder_.type(x).dims[static_cast<size_t>(axis)]), axis}, {x});
  }

  void add_slice() {
    const ValueId x = value(any_dtype(), any_dims(1));
    const int64_t axis = axis_of(x);
    const int64_t extent = builder_.type(x).dims[static_cast<size_t>(axis)];
    const int64_t begin = below(extent);
    emit(Slice{axis, begin, 1 + below(extent - begin)}, {x});
  }

  void add_concat() {
    Type type{any_dtype(), any_dims(1)};
    const auto axis = below(type.rank());
    std::vector<ValueId> parts;
    for (int64_t i = 1 + below(4); i > 0; --i) {
      type.dims[static_cast<size_t>(axis)] = size();
      parts.push_back(value(type));
    }
    emit(Concat{axis}, std::move(parts));
  }

  void add_reshape() {
    const Type type = any_type();
    const ValueId x = value(type.dtype, {type.elements()});
    emit(Reshape{type.dims, type.layout}, {x});
  }

  void add_transpose() {
    const int64_t channels = size(), tokens = size();
    const ValueId rows = token(any_float(), Layout::rows, channels, tokens);
    if (coin()) return emit(Transpose{{1, 0}, Layout::plain}, {rows});
    const ValueId plain = value(any_dtype(), {1, 1, channels, tokens});
    emit(Transpose{{0, 2, 3, 1}, Layout::channels}, {plain});
  }

  // Returns the name of the next unwritten state: a state is written once, after its reads.
  bool any_state(std::string& name) {
    const std::vector<State>& states = builder_.shard().states;
    if (states.size() <= written_) return false;
    name = states[written_].name;
    return true;
  }

  void add_state_read() {
    std::string name;
    if (any_state(name)) emit(StateRead{name}, {});
  }

  void add_state_write() {
    std::string name;
    if (!any_state(name)) return;
    const Type type = builder_.shard().find_state(name)->type;
    const ValueId held = value(type);
    emit(StateWrite{name}, {held});
    ++written_;
  }

  std::mt19937_64 random_;
  Builder builder_;
  size_t written_ = 0;
};

}  // namespace moec
