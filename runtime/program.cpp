#include "runtime/program.h"

#include <algorithm>
#include <map>

#include "ir/verify.h"
#include "passes/build_plan.h"
#include "passes/pipeline.h"
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
  Signature signature{.name = graph.name, .inputs = {}, .params = {}, .states = {}, .outputs = {}};
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

Status check_reserved(const ForwardArgs& args) {
  const auto unsupported = [](std::string_view field) {
    return fail("`{}` is reserved and must not be set: this version of rnnc cannot honour it",
                field);
  };
  if (args.lengths != nullptr) return unsupported("lengths");
  if (args.reset != nullptr) return unsupported("reset");
  if (!args.carried_states.empty()) return unsupported("carried_states");
  if (!args.carry_states.empty()) return unsupported("carry_states");
  if (args.reserve != nullptr || args.reserve_bytes != 0) return unsupported("reserve");
  return {};
}

}  // namespace

int64_t ArrayInfo::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

struct Program::Impl {
  /// What one batch size needs. The plan depends on the batch size and the chunk alone, so that a
  /// longer sequence needs another one only if its chunk differs.
  struct Prepared {
    int64_t max_steps = 0;
    int64_t chunk = 0;
    size_t workspace_bytes = 0;
    std::unique_ptr<Executable> executable;
    bool params_loaded = false;  // the Once stages ran
    // One per state of the plan, which has more than the Signature where inputs are delayed.
    std::vector<const void*> initial_states;
    std::vector<void*> final_states;
  };

  Graph graph;  // bound, after the passes
  CompileOptions options;
  Signature signature;
  int64_t largest_value = 1;
  KernelCache cache;
  std::unique_ptr<Backend> backend;  // before what it made, so that it goes last
  std::map<int64_t, Prepared> prepared;

  Impl(Graph bound, CompileOptions compile_options, Signature made)
      : graph(std::move(bound)),
        options(std::move(compile_options)),
        signature(std::move(made)),
        largest_value(rnnc::largest_value(graph)),
        cache(options.cache_directory) {}

  Status check_size(int64_t batch, int64_t steps) const {
    if (steps < 1) return fail("steps must be at least 1, got {}", steps);
    if (batch < 1) return fail("batch must be at least 1, got {}", batch);
    int64_t elements = 0;
    if (__builtin_mul_overflow(steps, batch, &elements) ||
        __builtin_mul_overflow(elements, largest_value, &elements) || elements > kMostElements) {
      return fail("{} steps x batch {} x {} elements are too large", steps, batch, largest_value);
    }
    return {};
  }

  Result<const Prepared*> find(int64_t batch, int64_t steps) const {
    if (Status status = check_size(batch, steps); !status) return tl::unexpected(status.error());
    const auto found = prepared.find(batch);
    if (found == prepared.end()) {
      return fail("batch {} is not prepared: call prepare({}, {}) first", batch, batch, steps);
    }
    if (steps > found->second.max_steps) {
      return fail("batch {} is prepared for up to {} steps, not {}: call prepare({}, {}) first",
                  batch, found->second.max_steps, steps, batch, steps);
    }
    return &found->second;
  }

  Status check_args(const ForwardArgs& args, const Prepared& shape) const;
};

Status Program::Impl::check_args(const ForwardArgs& args, const Prepared& shape) const {
  if (Status status = check_reserved(args); !status) return status;
  if (Status status = check_pointers("input", args.inputs, signature.inputs); !status)
    return status;
  if (Status status = check_pointers("param", args.params, signature.params); !status)
    return status;
  if (Status status = check_pointers("output", args.outputs, signature.outputs); !status) {
    return status;
  }
  const size_t states = signature.states.size();
  if (!args.initial_states.empty() && args.initial_states.size() != states) {
    return fail("initial states: none or {} pointers expected, got {}", states,
                args.initial_states.size());
  }
  if (!args.final_states.empty() && args.final_states.size() != states) {
    return fail("final states: none or {} pointers expected, got {}", states,
                args.final_states.size());
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
  if (shape.workspace_bytes > 0 && args.workspace == nullptr) {
    return fail("workspace is null; {} bytes are needed", shape.workspace_bytes);
  }
  if (args.workspace_bytes < shape.workspace_bytes) {
    return fail("workspace has {} bytes; {} are needed", args.workspace_bytes,
                shape.workspace_bytes);
  }
  return {};
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
  // Before the passes: they add states for delayed inputs, which are no one's business.
  Signature signature = make_signature(bound, options.dtype);
  if (Status status = run_pipeline(bound); !status) return tl::unexpected(status.error());

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

Status Program::prepare(int64_t batch, int64_t max_steps) {
  if (Status status = impl_->check_size(batch, max_steps); !status) return status;
  const auto found = impl_->prepared.find(batch);
  if (found != impl_->prepared.end() && max_steps <= found->second.max_steps) return {};

  Result<Plan> plan = build_plan(impl_->graph, {.dtype = impl_->options.dtype,
                                                .batch = batch,
                                                .max_steps = max_steps,
                                                .chunk = impl_->options.chunk});
  if (!plan) return tl::unexpected(plan.error());
  if (found != impl_->prepared.end() && plan->chunk == found->second.chunk) {
    found->second.max_steps = max_steps;
    return {};
  }
  if (impl_->options.device.kind == Device::Kind::cpu) {
    const Status fits =
        check_host_memory(fmt::format("{} at batch {} needs", quote(impl_->signature.name), batch),
                          plan->workspace_bytes + plan->resident_bytes);
    if (!fits) return fits;
  }
  Impl::Prepared prepared;
  prepared.max_steps = max_steps;
  prepared.chunk = plan->chunk;
  if (plan->workspace_bytes > 0) {
    prepared.workspace_bytes = static_cast<size_t>(plan->workspace_bytes) + kWorkspaceAlignment - 1;
  }
  prepared.initial_states.resize(plan->states.size());
  prepared.final_states.resize(plan->states.size());
  Result<std::unique_ptr<Executable>> executable = impl_->backend->prepare(std::move(*plan));
  if (!executable) return tl::unexpected(executable.error());
  prepared.executable = std::move(*executable);
  impl_->prepared.insert_or_assign(batch, std::move(prepared));
  return {};
}

Result<size_t> Program::workspace_size(int64_t batch, int64_t steps) const {
  const Result<const Impl::Prepared*> prepared = impl_->find(batch, steps);
  if (!prepared) return tl::unexpected(prepared.error());
  return (*prepared)->workspace_bytes;
}

Status Program::forward(const ForwardArgs& args) {
  const Result<const Impl::Prepared*> found = impl_->find(args.batch, args.steps);
  if (!found) return tl::unexpected(found.error());
  Impl::Prepared& prepared = impl_->prepared.find(args.batch)->second;
  if (Status status = impl_->check_args(args, prepared); !status) return status;

  std::ranges::fill(prepared.initial_states, nullptr);
  std::ranges::fill(prepared.final_states, nullptr);
  std::ranges::copy(args.initial_states, prepared.initial_states.begin());
  std::ranges::copy(args.final_states, prepared.final_states.begin());
  ForwardArgs complete = args;
  complete.initial_states = prepared.initial_states;
  complete.final_states = prepared.final_states;
  const auto address = reinterpret_cast<uintptr_t>(args.workspace);
  const uintptr_t padding =
      (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment;
  if (args.workspace != nullptr) {
    complete.workspace = static_cast<char*>(args.workspace) + padding;
    complete.workspace_bytes -= std::min<size_t>(padding, args.workspace_bytes);
  }

  const bool run_once = !args.reuse_params || !prepared.params_loaded;
  const Status status = prepared.executable->forward(complete, run_once);
  prepared.params_loaded = status.has_value();
  return status;
}

}  // namespace rnnc
