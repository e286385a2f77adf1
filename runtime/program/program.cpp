#include "runtime/program/program.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "runtime/backend/backend.h"
#include "runtime/backend/kernel_cache.h"
#include "runtime/base/call.h"
#include "runtime/base/describe.h"
#include "runtime/program/choose_plan.h"
#include "runtime/program/planner.h"
#include "runtime/program/tune.h"

namespace rnnc {
namespace {

constexpr std::string_view kMovedFrom = "this program was moved from: it has nothing to run";

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

struct Program::Impl {
  /// What calls of one batch size with the same features need. The plan depends on these and the
  /// chunk alone, so that a longer sequence needs another one only if its chunk differs.
  struct Prepared {
    int64_t max_steps = 0;
    int64_t chunk = 0;  // of the plan that was asked for
    ChosenPlan chosen;
    std::unique_ptr<Executable> executable;
    uint64_t loaded_params = 0;  // those of `Params::count` that the Once stages ran on
    // One each.
    std::vector<const void*> initial_states;  // of the call that runs

    size_t workspace_bytes(int64_t steps) const {
      const auto bytes = static_cast<size_t>(rnnc::workspace_bytes(chosen.plan, steps));
      return bytes == 0 ? 0 : bytes + kWorkspaceAlignment - 1;
    }
  };
  /// Whose weights the last call ran on.
  struct Params {
    uint64_t count = 0;                 // of the calls that brought others than the one before
    std::vector<const void*> pointers;  // of the last

    /// Takes note of a call's.
    void bring(std::span<const void* const> given, bool promised) {
      if (count > 0 && promised && std::ranges::equal(given, pointers)) return;
      ++count;
      std::ranges::copy(given, pointers.begin());
    }
  };
  using Batch = std::map<SequenceFeatures, Prepared>;

  Planner planner;
  const Signature& signature;
  KernelCache cache;
  std::unique_ptr<Backend> backend;  // before what it made, so that it goes last
  std::map<int64_t, Batch> batches;
  Params params;
  std::atomic_flag running;

  explicit Impl(Planner made)
      : planner(std::move(made)),
        signature(planner.signature()),
        cache(planner.options().cache_directory, planner.options().cache_limit),
        params{.count = 0, .pointers = std::vector<const void*>(signature.params.size())} {}

  Result<const Prepared*> find(int64_t batch, int64_t steps, SequenceFeatures features) const;
  Status check_args(const ForwardArgs& args, size_t workspace_bytes) const;
  Status prepare(const PlanShape& shape);
  Result<Prepared> prepare(const ShapePlanner& of_shape, Plan plan);
  Status forward(const ForwardArgs& args);
  std::vector<std::string> notes() const;
  void choose_initial_states(std::span<const void* const> given,
                             std::vector<const void*>& chosen) const;
};

Result<const Program::Impl::Prepared*> Program::Impl::find(int64_t batch, int64_t steps,
                                                           SequenceFeatures features) const {
  if (Status status = planner.check_size(batch, steps); !status) {
    return tl::unexpected(status.error());
  }
  const auto missing = [&](std::string_view reason) {
    return fail("batch {}{} is {}: call prepare({}, {}{}) first", batch, to_text(features), reason,
                batch, steps, to_argument(features));
  };
  const auto found = batches.find(batch);
  if (found == batches.end()) return missing("not prepared");
  const auto prepared = found->second.find(features);
  if (prepared == found->second.end()) return missing("not prepared");
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

Result<Program::Impl::Prepared> Program::Impl::prepare(const ShapePlanner& of_shape, Plan plan) {
  Prepared prepared;
  prepared.max_steps = of_shape.shape().max_steps;
  prepared.chunk = plan.chunk;
  prepared.initial_states.resize(plan.states.size());
  Tuned tuned = {planner.choice()};
  if (planner.options().tune) tuned = tune(of_shape, plan, *backend, cache);
  if (tuned.choice != planner.choice()) {
    Result<Plan> fastest = of_shape.plan(tuned.choice);
    if (!fastest) return tl::unexpected(fastest.error());
    plan = *std::move(fastest);
  }
  Result<ChosenPlan> chosen = choose_plan(
      of_shape, std::move(plan), tuned.choice, [&](const Plan& given) -> Result<std::string> {
        Result<std::unique_ptr<Executable>> executable = backend->prepare(given);
        if (!executable) return tl::unexpected(executable.error());
        prepared.executable = *std::move(executable);
        return prepared.executable->refusal();
      });
  if (!chosen) return tl::unexpected(chosen.error());
  prepared.chosen = *std::move(chosen);
  if (prepared.chosen.note.empty()) prepared.chosen.note = tuned.note;
  return prepared;
}

/// A delay of a state that is given starts as that state does, unless it is given too.
void Program::Impl::choose_initial_states(std::span<const void* const> given,
                                          std::vector<const void*>& chosen) const {
  std::ranges::fill(chosen, nullptr);
  std::ranges::copy(given, chosen.begin());
  for (size_t i = 0; i < planner.graph().states.size() && !given.empty(); ++i) {
    const std::optional<uint32_t>& base = planner.graph().states[i].delay_of;
    if (chosen[i] == nullptr && base) chosen[i] = given[*base];
  }
}

Status Program::Impl::prepare(const PlanShape& shape) {
  const auto& [batch, max_steps, features] = shape;
  if (Status status = planner.check_size(batch, max_steps); !status) return status;
  if (find(batch, max_steps, features)) return {};
  const Result<ShapePlanner> of_shape = planner.at(shape, backend->machine());
  if (!of_shape) return tl::unexpected(of_shape.error());
  Result<Plan> plan = of_shape->plan(planner.choice());
  if (!plan) return tl::unexpected(plan.error());
  Batch& variants = batches[batch];
  const auto known = variants.find(features);
  if (known != variants.end() && known->second.chunk == plan->chunk) {
    known->second.max_steps = max_steps;
    return {};
  }
  Result<Prepared> prepared = prepare(*of_shape, *std::move(plan));
  if (!prepared) return tl::unexpected(prepared.error());
  variants.insert_or_assign(features, *std::move(prepared));
  return {};
}

Status Program::Impl::forward(const ForwardArgs& args) {
  const SequenceFeatures features = features_of(args);
  const Result<const Prepared*> found = find(args.batch, args.steps, features);
  if (!found) return tl::unexpected(found.error());
  const size_t workspace_bytes = (*found)->workspace_bytes(args.steps);
  if (Status status = check_args(args, workspace_bytes); !status) return status;
  Prepared& prepared = batches.find(args.batch)->second.find(features)->second;

  choose_initial_states(args.initial_states, prepared.initial_states);
  const Call call = make_call(args, prepared.initial_states);

  params.bring(args.params, args.reuse_params);
  const bool run_once = std::exchange(prepared.loaded_params, 0) != params.count;
  Status status = prepared.executable->run(call, run_once);
  if (status) prepared.loaded_params = params.count;
  return status;
}

std::vector<std::string> Program::Impl::notes() const {
  std::vector<std::string> notes;
  if (const Status usable = cache.check(); !usable) notes.push_back(usable.error().message);
  for (const auto& [batch, variants] : batches) {
    for (const auto& [features, prepared] : variants) {
      const std::string& note = prepared.chosen.note;
      if (!note.empty() && std::ranges::count(notes, note) == 0) notes.push_back(note);
    }
  }
  return notes;
}

Program::Program(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

Result<Program> Program::compile(const Graph& graph, const CompileOptions& options) {
  return without_exceptions("compile", graph.name, [&]() -> Result<Program> {
    Result<Planner> planner = Planner::make(graph, options);
    if (!planner) return tl::unexpected(planner.error());
    auto impl = std::make_shared<Impl>(*std::move(planner));
    Result<std::unique_ptr<Backend>> backend = make_backend(impl->planner.options(), impl->cache);
    if (!backend) return tl::unexpected(backend.error());
    impl->backend = std::move(*backend);
    return Program(std::move(impl));
  });
}

const Signature& Program::signature() const {
  static const Signature none;
  return impl_ == nullptr ? none : impl_->signature;
}
const CompileOptions& Program::options() const {
  static const CompileOptions none;
  return impl_ == nullptr ? none : impl_->planner.options();
}
Backend& Program::backend() {
  return impl_ == nullptr ? no_backend() : *impl_->backend;
}

Status Program::prepare(int64_t batch, int64_t max_steps, SequenceFeatures features) {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->running, "prepare", impl_->signature.name,
                    [&] { return impl_->prepare({batch, max_steps, features}); });
}

std::vector<std::string> Program::notes() const {
  if (impl_ == nullptr) return {std::string(kMovedFrom)};
  const auto notes =
      call_alone(impl_->running, "describe", impl_->signature.name,
                 [this]() -> Result<std::vector<std::string>> { return impl_->notes(); });
  return notes ? *notes : std::vector{notes.error().message};
}

Result<PreparedPlan> Program::prepared(int64_t batch, int64_t steps,
                                       SequenceFeatures features) const {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(
      impl_->running, "describe", impl_->signature.name, [&]() -> Result<PreparedPlan> {
        const Result<const Impl::Prepared*> prepared = impl_->find(batch, steps, features);
        if (!prepared) return tl::unexpected(prepared.error());
        const ChosenPlan& chosen = (*prepared)->chosen;
        const PlanChoice& choice = chosen.choice;
        return PreparedPlan{&chosen.plan, choice.passes, choice.tile_rank, choice.spare_registers,
                            choice.strategy};
      });
}

Result<size_t> Program::workspace_size(int64_t batch, int64_t steps,
                                       SequenceFeatures features) const {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->running, "describe", impl_->signature.name, [&]() -> Result<size_t> {
    const Result<const Impl::Prepared*> prepared = impl_->find(batch, steps, features);
    if (!prepared) return tl::unexpected(prepared.error());
    return (*prepared)->workspace_bytes(steps);
  });
}

Status Program::forward(const ForwardArgs& args) {
  if (impl_ == nullptr) return fail("{}", kMovedFrom);
  return call_alone(impl_->running, "run", impl_->signature.name,
                    [&] { return impl_->forward(args); });
}

}  // namespace rnnc
