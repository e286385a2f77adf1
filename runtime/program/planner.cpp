#include "runtime/program/planner.h"

#include <algorithm>

#include "ir/graph/sweeps.h"
#include "ir/graph/verify.h"
#include "passes/build_plan.h"
#include "passes/gradient/differentiate.h"
#include "passes/gradient/zero_gradients.h"
#include "passes/graph/dead_code.h"
#include "passes/graph/delays.h"
#include "passes/graph/pipeline.h"
#include "passes/graph/sequence_features.h"
#include "runtime/base/describe.h"
#include "runtime/base/host_memory.h"
#include "runtime/program/prepared_shape.h"

namespace rnnc {
namespace {

/// Steps x batch x elements of any array: far beyond any memory, far below any overflow.
constexpr int64_t kMostElements = int64_t{1} << 40;
/// Of the CPU; each has memory of its own.
constexpr int kMostThreads = 4096;

Status check_options(const CompileOptions& options) {
  const bool cpu = options.device.kind == Device::Kind::cpu;
  const std::string_view dtype = to_string(options.dtype);
  if (cpu && (options.dtype == DType::bf16 || options.dtype == DType::f16)) {
    return fail("dtype {} runs on a GPU only; the CPU takes f32 and f64", dtype);
  }
  if (!cpu && options.dtype == DType::f64) {
    return fail("dtype f64 runs on the CPU only; {} takes f32, bf16 and f16",
                options.device.to_string());
  }
  if (const DType params = options.param_dtype.value_or(options.dtype);
      params != options.dtype && params != compute_type(options.dtype)) {
    return fail("param_dtype must be {}{}, got {}", dtype,
                compute_type(options.dtype) == options.dtype ? "" : " or f32", to_string(params));
  }
  if (options.allow_tf32 && (cpu || options.dtype != DType::f32)) {
    return fail("TF32 is for f32 on a GPU, not for {} on {}", dtype, options.device.to_string());
  }
  if (options.threads < 0 || options.threads > kMostThreads) {
    return fail("threads must be 0 to {}, got {}", kMostThreads, options.threads);
  }
  if (options.cache_limit < 0) {
    return fail("cache_limit must be 0 or more, got {}", options.cache_limit);
  }
  if (options.chunk < 0) return fail("chunk must be 0 or more, got {}", options.chunk);
  if (options.tile_rank < 0 || options.tile_rank > kMostTileRank) {
    return fail("tile_rank must be 0 to {}, got {}", kMostTileRank, options.tile_rank);
  }
  if (options.tune && cpu) return fail("tune is for a GPU, not for cpu");
  if (options.spare_multiprocessors < 0 || (options.spare_multiprocessors > 0 && cpu)) {
    return fail("spare_multiprocessors is for a GPU, and 0 or more, not {} on {}",
                options.spare_multiprocessors, options.device.to_string());
  }
  if (options.strategy != Strategy::Any && !is_of_loops(options.strategy) && cpu) {
    return fail("strategy `{}` is for a GPU, not for cpu", to_string(options.strategy));
  }
  if ((options.allocator.allocate == nullptr) != (options.allocator.release == nullptr)) {
    return fail("an allocator needs both allocate and release");
  }
  if (options.tune && options.tile_rank > 0) {
    return fail("tune finds the tile itself: it excludes tile_rank");
  }
  return {};
}

/// What runs in reverse, for errors: "layer `GRU.1`", "it" (all of a bare cell). Empty: nothing.
std::string find_reverse(const Graph& graph) {
  const auto state = std::ranges::find_if(graph.states, &StateDecl::reversed);
  if (state != graph.states.end()) {
    const size_t end_of_layer = state->name.rfind('.');
    if (end_of_layer == std::string::npos) return "it";
    return fmt::format("layer {}", quote(state->name.substr(0, end_of_layer)));
  }
  const bool reads_backwards =
      std::ranges::find(graph.nodes, Op::Reverse, &Node::op) != graph.nodes.end();
  return reads_backwards ? "a layer" : "";
}

/// Makes all that a call carries from step to step a state, so that the Signature has it.
Status make_states_explicit(Graph& graph, bool reverse) {
  run_dead_code(graph);  // unused delays are no one's business
  run_delays(graph);
  if (!reverse) return {};
  if (const std::string in_reverse = find_reverse(graph); !in_reverse.empty()) {
    return fail("{} cannot be reversed: {} runs in reverse already", quote(graph.name), in_reverse);
  }
  run_in_reverse(graph);
  return {};
}

/// Of a bound graph, whose shapes are numbers.
int64_t number(const Dim& dim) {
  const std::optional<int64_t> value = dim.constant();
  RNNC_CHECK(value, "`{}` is not bound", dim.to_string());
  return *value;
}

ArrayInfo describe(const std::string& name, const Type& type, DType dtype) {
  ArrayInfo array{.name = name, .shape = {}, .dtype = dtype};
  for (const Dim& dim : type.shape) array.shape.push_back(number(dim));
  return array;
}

/// The smallest table whose rows an input of integers names.
void find_table(const Graph& graph, uint32_t input, ArrayInfo& array) {
  for (const NodeId table : tables_of(graph, input)) {
    const int64_t rows = number(graph[table].type.shape[0]);
    if (array.table_rows > 0 && array.table_rows <= rows) continue;
    array.table_rows = rows;
    const bool is_param = graph[table].op == Op::Param;
    array.table = is_param ? graph.params[graph[table].decl].name : "the table";
  }
}

Signature make_signature(const Graph& graph, DType dtype, DType param_dtype) {
  Signature signature;
  signature.name = graph.name;
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    const InputDecl& input = graph.inputs[i];
    const DType stored = input.integer ? DType::i32 : dtype;
    signature.inputs.push_back(describe(input.name, input.type, stored));
    if (input.integer) find_table(graph, i, signature.inputs.back());
  }
  for (const ParamDecl& param : graph.params) {
    signature.params.push_back(describe(param.name, param.type, param_dtype));
  }
  for (const StateDecl& state : graph.states) {
    signature.states.push_back(describe(state.name, state.type, compute_type(dtype)));
  }
  for (const OutputDecl& output : graph.outputs) {
    signature.outputs.push_back(describe(output.name, graph[output.value].type, dtype));
  }
  signature.in_reverse = find_reverse(graph);
  signature.streams = signature.in_reverse.empty();
  return signature;
}

/// Elements of the largest value that a bound graph has of each step: a table's rows are such, the
/// table is not.
int64_t largest_value(const Graph& graph) {
  const std::vector<Direction> directions = find_directions(graph);
  const std::vector<After> after = find_after(graph);
  int64_t largest = 1;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (directions[id] == Direction::Invariant || after[id] != After::Nothing) continue;
    int64_t elements = 1;
    for (const Dim& dim : graph[id].type.shape) elements *= number(dim);
    largest = std::max(largest, elements);
  }
  return largest;
}

}  // namespace

Result<Planner> Planner::make(const Graph& graph, const CompileOptions& options) {
  if (Status status = check_options(options); !status) return tl::unexpected(status.error());
  const Result<DimBindings> dims = complete_bindings(graph, options.dims);
  if (!dims) return tl::unexpected(dims.error());
  Planner planner;
  planner.graph_ = graph;
  Graph& bound = planner.graph_;
  bound.bind(*dims);
  if (Status status = verify(bound); !status) {
    return fail_as(ErrorKind::Internal, "this is a bug in rnnc: the graph of {}: {}",
                   quote(graph.name), status.error().message);
  }
  if (Status status = make_states_explicit(bound, options.reverse); !status) {
    return tl::unexpected(status.error());
  }
  planner.signature_ =
      make_signature(bound, options.dtype, options.param_dtype.value_or(options.dtype));
  planner.bound_ = bound;
  if (Status status = run_pipeline(bound, {.passes = options.passes}); !status) {
    return tl::unexpected(status.error());
  }
  planner.options_ = options;
  planner.options_.dims = *dims;
  planner.largest_value_ = largest_value(bound);
  return planner;
}

Status Planner::check_size(int64_t batch, int64_t steps) const {
  if (steps < 1) return fail("steps must be at least 1, got {}", steps);
  if (batch < 1) return fail("batch must be at least 1, got {}", batch);
  int64_t elements = 0;
  if (__builtin_mul_overflow(steps, batch, &elements) ||
      __builtin_mul_overflow(elements, largest_value_, &elements) || elements > kMostElements) {
    return fail("{} steps x batch {} x {} elements are too large", steps, batch, largest_value_);
  }
  return {};
}

Result<ShapePlanner> Planner::at(const PlanShape& shape, const Machine& machine) const {
  ShapePlanner planner(*this, shape, machine);
  const SequenceFeatures& features = shape.features;
  if (!features.lengths && !features.resets) return planner;
  planner.own_ = graph_;
  const Status lowered = run_pipeline(
      *planner.own_,
      {.passes = options_.passes, .lengths = features.lengths, .resets = features.resets});
  if (!lowered) return tl::unexpected(lowered.error());
  return planner;
}

ShapePlanner Planner::at(Graph half, ResidualChoice residuals, const PlanShape& shape,
                         const Machine& machine) const {
  ShapePlanner planner(*this, shape, machine);
  planner.own_ = std::move(half);
  planner.slack_ = slack_in_training(residuals, options_.dtype);
  return planner;
}

Result<Plan> Planner::plan(const PlanShape& shape, const Machine& machine,
                           const PlanChoice& choice) const {
  return at(shape, machine).and_then([&](const ShapePlanner& planner) {
    return planner.plan(choice);
  });
}

PlanOptions ShapePlanner::options(const PlanChoice& choice) const {
  const CompileOptions& options = planner_->options();
  // A chunk that was asked for is not cut to shorter sequences, so that they give the same bits.
  return {.dtype = options.dtype,
          .param_dtype = options.param_dtype,
          .batch = shape_.batch,
          .max_steps = std::max(shape_.max_steps, options.chunk),
          .chunk = options.chunk,
          .slack = slack_,
          .lengths = shape_.features.lengths,
          .resets = shape_.features.resets,
          .tf32 = options.allow_tf32,
          .passes = choice.passes,
          .machine = machine_,
          .strategy = choice.strategy,
          .tile_rank = choice.tile_rank,
          .spare_registers = choice.spare_registers};
}

Result<Plan> ShapePlanner::plan(const PlanChoice& choice) const {
  Result<Plan> plan = plan_graph(own_ ? *own_ : planner_->graph(), options(choice));
  if (!plan || planner_->options().device.kind != Device::Kind::cpu) return plan;
  const Status fits = check_host_memory(
      fmt::format("{} at batch {} needs", quote(planner_->signature().name), shape_.batch),
      static_cast<double>(workspace_bytes(*plan, shape_.max_steps) + plan->program_bytes));
  if (!fits) return tl::unexpected(fits.error());
  return plan;
}

namespace {

/// `list` for so many arrays; of all of them the same if it is empty.
Status complete_list(std::string_view kind, size_t arrays, bool otherwise,
                     std::vector<bool>& list) {
  if (list.empty()) list.assign(arrays, otherwise);
  if (list.size() == arrays) return {};
  return fail("training: {} {} there are, not {}", arrays, kind, list.size());
}

/// Adds what the arrays of param gradients hold to them: further params, in their order.
void accumulate_params(Graph& backward, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    ResultDecl& result = backward.results[i];
    const auto decl = static_cast<uint32_t>(backward.params.size());
    const Type type = backward[result.value].type;
    backward.params.push_back({result.name + "@before", type, result.location});
    const NodeId before = backward.param(decl, result.location);
    result.value = backward.apply(Op::Add, {before, result.value}, result.location);
  }
}

}  // namespace

Result<TrainingOptions> Planner::complete(TrainingOptions options) const {
  const Status lists[] = {
      complete_list("params", signature_.params.size(), true, options.params),
      complete_list("inputs", signature_.inputs.size(), false, options.inputs),
      complete_list("states", signature_.states.size(), false, options.initial_states),
      complete_list("states", signature_.states.size(), false, options.given_states)};
  for (const Status& list : lists) {
    if (!list) return tl::unexpected(list.error());
  }
  for (size_t i = 0; i < signature_.inputs.size(); ++i) {
    if (!options.inputs[i] || signature_.inputs[i].dtype != DType::i32) continue;
    return fail("training: the gradient of input {} is wanted, which is of integers and has none",
                quote(signature_.inputs[i].name));
  }
  if (options.checkpoint < 0) {
    return fail("training: checkpoint must be 0 or more steps, got {}", options.checkpoint);
  }
  if (options.checkpoint > 0 && !signature_.streams) {
    return fail("training: checkpoints each {} steps are asked for, but {}", options.checkpoint,
                why_not_in_pieces(signature_));
  }
  for (size_t i = 0; i < signature_.states.size(); ++i) {
    if (!options.initial_states[i] || options.given_states[i]) continue;
    return fail("training: the gradient of initial state {} is wanted, which is not given",
                quote(signature_.states[i].name));
  }
  const auto given = [&options](size_t state) { return options.given_states[state]; };
  if (Status status = check_given_histories(graph_, given); !status) {
    return fail("training: {}", status.error().message);
  }
  return options;
}

Result<TrainingGraphs> Planner::differentiate(SequenceFeatures features,
                                              const TrainingOptions& options,
                                              const Machine& machine, bool decisions) const {
  const DType dtype = options_.dtype;
  const double rate = product_flops(machine, dtype, options_.allow_tf32);
  Graph lowered = bound_;
  const Status done = run_pipeline(lowered, {.passes = options_.passes,
                                             .lengths = features.lengths,
                                             .resets = features.resets,
                                             .training = true});
  if (!done) return tl::unexpected(done.error());
  Derivative derivative = rnnc::differentiate(
      lowered, {.params = options.params,
                .inputs = options.inputs,
                .initial_states = options.initial_states,
                .given = options.given_states,
                .residuals = options.residuals,
                .costs = {static_cast<double>(size_of(dtype)), rate / machine.memory_bandwidth,
                          static_cast<double>(size_of(compute_type(dtype)))},
                .outputs = options.outputs && options.checkpoint == 0,
                .in_pieces = options.checkpoint > 0,
                .decisions = decisions});
  std::vector<std::string> notes = describe_zero_gradients(lowered, derivative.zero_gradients);
  if (options.accumulate) {
    accumulate_params(derivative.backward,
                      static_cast<size_t>(std::ranges::count(options.params, true)));
  }
  for (Graph* half : {&derivative.forward, &derivative.backward}) {
    if (Status status = run_simplifications(*half, {.passes = options_.passes}); !status) {
      return tl::unexpected(status.error());
    }
  }
  return TrainingGraphs{.step = std::move(lowered),
                        .forward = std::move(derivative.forward),
                        .backward = std::move(derivative.backward),
                        .adjoint_of = std::move(derivative.adjoint_of),
                        .residuals = derivative.residuals,
                        .decisions = std::move(derivative.decisions),
                        .notes = std::move(notes)};
}

}  // namespace rnnc
