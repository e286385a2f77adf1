#include "runtime/program.h"

#include <algorithm>
#include <map>

#include "ir/verify.h"
#include "passes/build_plan.h"
#include "passes/dead_code.h"
#include "passes/delays.h"
#include "passes/pipeline.h"
#include "passes/sequence_features.h"
#include "runtime/backend.h"
#include "runtime/describe.h"
#include "runtime/host_memory.h"
#include "runtime/kernel_cache.h"

namespace rnnc {
namespace {

constexpr size_t kWorkspaceAlignment = 256;
/// Steps x batch x elements of any array: far beyond any memory, far below any overflow.
constexpr int64_t kMostElements = int64_t{1} << 40;

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
  if (options.allow_tf32 && (cpu || options.dtype != DType::f32)) {
    return fail("allow_tf32 is for f32 on a GPU, not for {} on {}", dtype,
                options.device.to_string());
  }
  if (options.threads < 0) return fail("threads must be 0 or more, got {}", options.threads);
  if (options.chunk < 0) return fail("chunk must be 0 or more, got {}", options.chunk);
  if (options.tile_rank < 0 || options.tile_rank > kMostTileRank) {
    return fail("tile_rank must be 0 to {}, got {}", kMostTileRank, options.tile_rank);
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

Signature make_signature(const Graph& graph, DType dtype) {
  Signature signature;
  signature.name = graph.name;
  for (const InputDecl& input : graph.inputs) {
    signature.inputs.push_back(describe(input.name, input.type, dtype));
  }
  for (const ParamDecl& param : graph.params) {
    signature.params.push_back(describe(param.name, param.type, dtype));
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

/// Elements of the largest value of a bound graph.
int64_t largest_value(const Graph& graph) {
  int64_t largest = 1;
  for (const Node& node : graph.nodes) {
    int64_t elements = 1;
    for (const Dim& dim : node.type.shape) elements *= number(dim);
    largest = std::max(largest, elements);
  }
  return largest;
}

/// One pointer per array, none null.
template <typename Pointer>
Status check_pointers(std::string_view kind, std::span<Pointer const> pointers,
                      const std::vector<ArrayInfo>& arrays) {
  if (pointers.size() != arrays.size()) {
    return fail("{} {} pointers expected, got {}", arrays.size(), kind, pointers.size());
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (pointers[i] == nullptr) return fail("{} {} is null", kind, quote(arrays[i].name));
  }
  return {};
}

/// Pointers to whole elements, as every device needs them.
template <typename Pointer>
Status check_alignment(std::string_view kind, std::span<Pointer const> pointers,
                       const std::vector<ArrayInfo>& arrays) {
  for (size_t i = 0; i < pointers.size(); ++i) {
    const size_t element = size_of(arrays[i].dtype);
    if (reinterpret_cast<uintptr_t>(pointers[i]) % element != 0) {
      return fail("{} {} is not aligned to its {}-byte elements", kind, quote(arrays[i].name),
                  element);
    }
  }
  return {};
}

/// None at all, or one pointer per state.
Status check_states(std::string_view kind, size_t pointers, size_t states) {
  if (pointers == 0 || pointers == states) return {};
  return fail("{} states: none or {} pointers expected, got {}", kind, states, pointers);
}

Status check_lengths_and_reserve(const ForwardArgs& args) {
  if (reinterpret_cast<uintptr_t>(args.lengths) % sizeof(int32_t) != 0) {
    return fail("lengths are not aligned to their 4-byte elements");
  }
  if (args.reserve != nullptr || args.reserve_bytes != 0) {
    return fail("`reserve` is reserved and must not be set: this version of rnnc cannot honour it");
  }
  return {};
}

SequenceFeatures features_of(const ForwardArgs& args) {
  return {.lengths = args.lengths != nullptr, .resets = args.reset != nullptr};
}

/// "", " with lengths", " with lengths and resets".
std::string_view to_text(SequenceFeatures features) {
  if (features.lengths && features.resets) return " with lengths and resets";
  if (features.lengths) return " with lengths";
  return features.resets ? " with resets" : "";
}

/// ", {.lengths = true}": the last argument of `prepare`.
std::string_view to_argument(SequenceFeatures features) {
  if (features.lengths && features.resets) return ", {.lengths = true, .resets = true}";
  if (features.lengths) return ", {.lengths = true}";
  return features.resets ? ", {.resets = true}" : "";
}

}  // namespace

int64_t ArrayInfo::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

struct Program::Impl {
  /// What calls of one batch size with the same features need. The plan depends on these and the
  /// chunk alone, so that a longer sequence needs another one only if its chunk differs.
  struct Prepared {
    int64_t max_steps = 0;
    Plan plan;
    std::unique_ptr<Executable> executable;
    uint64_t loaded_params = 0;  // the Batch's `params` that the Once stages ran on
    // One each.
    std::vector<const void*> initial_states;  // of the call that runs
    std::vector<void*> no_final_states;

    size_t workspace_bytes(int64_t steps) const {
      const auto bytes = static_cast<size_t>(rnnc::workspace_bytes(plan, steps));
      return bytes == 0 ? 0 : bytes + kWorkspaceAlignment - 1;
    }
  };
  struct Batch {
    uint64_t params = 0;  // counts the calls that brought params of their own
    std::map<SequenceFeatures, Prepared> prepared;
  };

  Graph graph;  // bound, after the passes
  CompileOptions options;
  Signature signature;
  int64_t largest_value = 1;
  KernelCache cache;
  std::unique_ptr<Backend> backend;  // before what it made, so that it goes last
  std::map<int64_t, Batch> batches;

  Impl(Graph bound, CompileOptions compile_options, Signature made)
      : graph(std::move(bound)),
        options(std::move(compile_options)),
        signature(std::move(made)),
        largest_value(rnnc::largest_value(graph)),
        cache(options.cache_directory) {}

  Status check_size(int64_t batch, int64_t steps) const;
  Result<const Prepared*> find(int64_t batch, int64_t steps, SequenceFeatures features) const;
  Status check_args(const ForwardArgs& args, size_t workspace_bytes) const;
  Result<Plan> make_plan(int64_t batch, int64_t max_steps, SequenceFeatures features) const;
  void choose_initial_states(std::span<const void* const> given,
                             std::vector<const void*>& chosen) const;
};

Status Program::Impl::check_size(int64_t batch, int64_t steps) const {
  if (steps < 1) return fail("steps must be at least 1, got {}", steps);
  if (batch < 1) return fail("batch must be at least 1, got {}", batch);
  int64_t elements = 0;
  if (__builtin_mul_overflow(steps, batch, &elements) ||
      __builtin_mul_overflow(elements, largest_value, &elements) || elements > kMostElements) {
    return fail("{} steps x batch {} x {} elements are too large", steps, batch, largest_value);
  }
  return {};
}

Result<const Program::Impl::Prepared*> Program::Impl::find(int64_t batch, int64_t steps,
                                                           SequenceFeatures features) const {
  if (Status status = check_size(batch, steps); !status) return tl::unexpected(status.error());
  const auto missing = [&](std::string_view reason) {
    return fail("batch {}{} is {}: call prepare({}, {}{}) first", batch, to_text(features), reason,
                batch, steps, to_argument(features));
  };
  const auto found = batches.find(batch);
  if (found == batches.end()) return missing("not prepared");
  const auto prepared = found->second.prepared.find(features);
  if (prepared == found->second.prepared.end()) return missing("not prepared");
  if (steps > prepared->second.max_steps) {
    return missing(
        fmt::format("prepared for up to {} steps, not {}", prepared->second.max_steps, steps));
  }
  return &prepared->second;
}

Status Program::Impl::check_args(const ForwardArgs& args, size_t workspace_bytes) const {
  const Status checks[] = {
      check_lengths_and_reserve(args),
      check_pointers("input", args.inputs, signature.inputs),
      check_pointers("param", args.params, signature.params),
      check_pointers("output", args.outputs, signature.outputs),
      check_states("initial", args.initial_states.size(), signature.states.size()),
      check_states("final", args.final_states.size(), signature.states.size()),
  };
  for (const Status& status : checks) {
    if (!status) return status;
  }
  const Status aligned[] = {
      check_alignment("input", args.inputs, signature.inputs),
      check_alignment("param", args.params, signature.params),
      check_alignment("output", args.outputs, signature.outputs),
      check_alignment("initial state", args.initial_states, signature.states),
      check_alignment("final state", args.final_states, signature.states),
  };
  for (const Status& status : aligned) {
    if (!status) return status;
  }
  if (workspace_bytes > 0 && args.workspace == nullptr) {
    return fail("workspace is null; {} bytes are needed", workspace_bytes);
  }
  if (args.workspace_bytes < workspace_bytes) {
    return fail("workspace has {} bytes; {} are needed", args.workspace_bytes, workspace_bytes);
  }
  return {};
}

Result<Plan> Program::Impl::make_plan(int64_t batch, int64_t max_steps,
                                      SequenceFeatures features) const {
  // A chunk that was asked for is not cut to shorter sequences, so that they give the same bits.
  Result<Plan> plan = build_plan(graph, {.dtype = options.dtype,
                                         .batch = batch,
                                         .max_steps = std::max(max_steps, options.chunk),
                                         .chunk = options.chunk,
                                         .lengths = features.lengths,
                                         .resets = features.resets,
                                         .tf32 = options.allow_tf32,
                                         .passes = options.passes,
                                         .machine = backend->machine(),
                                         .tile_rank = options.tile_rank});
  if (!plan || options.device.kind != Device::Kind::cpu) return plan;
  const Status fits =
      check_host_memory(fmt::format("{} at batch {} needs", quote(signature.name), batch),
                        rnnc::workspace_bytes(*plan, max_steps) + plan->resident_bytes);
  if (!fits) return tl::unexpected(fits.error());
  return plan;
}

/// A delay of a state that is given starts as that state does, unless it is given too.
void Program::Impl::choose_initial_states(std::span<const void* const> given,
                                          std::vector<const void*>& chosen) const {
  std::ranges::fill(chosen, nullptr);
  std::ranges::copy(given, chosen.begin());
  for (size_t i = 0; i < graph.states.size() && !given.empty(); ++i) {
    const std::optional<uint32_t>& base = graph.states[i].delay_of;
    if (chosen[i] == nullptr && base) chosen[i] = given[*base];
  }
}

Program::Program(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

Result<Program> Program::compile(const Graph& graph, const CompileOptions& options) {
  if (Status status = check_options(options); !status) return tl::unexpected(status.error());
  const Result<DimBindings> dims = complete_bindings(graph, options.dims);
  if (!dims) return tl::unexpected(dims.error());
  Graph bound = graph;
  bound.bind(*dims);
  if (Status status = verify(bound); !status) {
    return fail("this is a bug in rnnc: the graph of {}: {}", quote(graph.name),
                status.error().message);
  }
  if (Status status = make_states_explicit(bound, options.reverse); !status) {
    return tl::unexpected(status.error());
  }
  Signature signature = make_signature(bound, options.dtype);
  if (Status status = run_pipeline(bound, {.passes = options.passes}); !status) {
    return tl::unexpected(status.error());
  }

  CompileOptions completed = options;
  completed.dims = *dims;
  auto impl = std::make_unique<Impl>(std::move(bound), std::move(completed), std::move(signature));
  Result<std::unique_ptr<Backend>> backend = make_backend(impl->options, impl->cache);
  if (!backend) return tl::unexpected(backend.error());
  impl->backend = std::move(*backend);
  return Program(std::move(impl));
}

const Signature& Program::signature() const {
  return impl_->signature;
}
const CompileOptions& Program::options() const {
  return impl_->options;
}
Backend& Program::backend() {
  return *impl_->backend;
}

Status Program::prepare(int64_t batch, int64_t max_steps, SequenceFeatures features) {
  if (Status status = impl_->check_size(batch, max_steps); !status) return status;
  if (impl_->find(batch, max_steps, features)) return {};

  Result<Plan> plan = impl_->make_plan(batch, max_steps, features);
  if (!plan) return tl::unexpected(plan.error());
  auto& variants = impl_->batches[batch].prepared;
  const auto known = variants.find(features);
  if (known != variants.end() && known->second.plan.chunk == plan->chunk) {
    known->second.max_steps = max_steps;
    return {};
  }
  Result<std::unique_ptr<Executable>> executable = impl_->backend->prepare(*plan);
  if (!executable) return tl::unexpected(executable.error());
  Impl::Prepared prepared;
  prepared.max_steps = max_steps;
  prepared.initial_states.resize(plan->states.size());
  prepared.no_final_states.resize(plan->states.size());
  prepared.plan = std::move(*plan);
  prepared.executable = std::move(*executable);
  variants.insert_or_assign(features, std::move(prepared));
  return {};
}

Result<size_t> Program::workspace_size(int64_t batch, int64_t steps,
                                       SequenceFeatures features) const {
  const Result<const Impl::Prepared*> prepared = impl_->find(batch, steps, features);
  if (!prepared) return tl::unexpected(prepared.error());
  return (*prepared)->workspace_bytes(steps);
}

Status Program::forward(const ForwardArgs& args) {
  const SequenceFeatures features = features_of(args);
  const Result<const Impl::Prepared*> found = impl_->find(args.batch, args.steps, features);
  if (!found) return tl::unexpected(found.error());
  const size_t workspace_bytes = (*found)->workspace_bytes(args.steps);
  if (Status status = impl_->check_args(args, workspace_bytes); !status) return status;
  Impl::Batch& batch = impl_->batches.find(args.batch)->second;
  Impl::Prepared& prepared = batch.prepared.find(features)->second;

  impl_->choose_initial_states(args.initial_states, prepared.initial_states);
  ForwardArgs complete = args;
  complete.initial_states = prepared.initial_states;
  if (args.final_states.empty()) complete.final_states = prepared.no_final_states;
  const auto address = reinterpret_cast<uintptr_t>(args.workspace);
  const uintptr_t padding =
      (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment;
  if (args.workspace != nullptr) {
    complete.workspace = static_cast<char*>(args.workspace) + padding;
    complete.workspace_bytes -= std::min<size_t>(padding, args.workspace_bytes);
  }

  if (!args.reuse_params || batch.params == 0) ++batch.params;
  const bool run_once = prepared.loaded_params != batch.params;
  const Status status = prepared.executable->forward(complete, run_once);
  prepared.loaded_params = status ? batch.params : 0;
  return status;
}

}  // namespace rnnc
