#include "runtime/program/training.h"

#include <algorithm>
#include <atomic>

#include "ir/plan/alignment.h"
#include "runtime/program/check_args.h"

namespace rnnc {
namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

/// Those of `arrays`, the gradients of `plural`, that are wanted must be there, and no others.
Status check_wanted(std::string_view kind, std::string_view plural, std::span<void* const> arrays,
                    const std::vector<bool>& wanted, const std::vector<ArrayInfo>& infos) {
  if (Status status = check_count(plural, arrays.size(), infos.size()); !status) return status;
  for (size_t i = 0; i < infos.size(); ++i) {
    const bool given = !arrays.empty() && arrays[i] != nullptr;
    if (given == wanted[i]) continue;
    const std::string name = fmt::format("{} {}", kind, quote(infos[i].name));
    if (given) return fail("{} is given, but not what the shape was prepared for", name);
    return fail("{} is null, but what the shape was prepared for", name);
  }
  return check_alignment(kind, arrays, infos);
}

Status check_reserve(const void* reserve, size_t bytes, size_t needed) {
  if (needed > 0 && reserve == nullptr) return fail("reserve is null; {} bytes are needed", needed);
  if (bytes >= needed) return {};
  return fail("reserve has {} bytes; {} are needed", bytes, needed);
}

size_t row_bytes(const ArrayInfo& info) {
  return static_cast<size_t>(info.elements()) * size_of(info.dtype);
}

/// What the options want of `arrays`, one behind the other.
void append_wanted(std::span<void* const> arrays, const std::vector<bool>& wanted,
                   std::vector<const void*>& pointers) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) pointers.push_back(arrays[i]);
  }
}

}  // namespace

Result<PreparedTraining> PreparedTraining::make(const Planner& planner, const PlanShape& shape,
                                                const TrainingOptions& options, Backend& backend,
                                                const KernelCache& cache) {
  Result<TrainingGraphs> graphs = planner.differentiate(shape.features, options, backend.machine());
  if (!graphs) return tl::unexpected(graphs.error());
  PreparedTraining training(planner, backend);
  training.options_ = options;
  training.batch_ = shape.batch;
  training.id_ = next_id();
  training.adjoint_of_ = graphs->adjoint_of;
  training.find_residuals(*graphs);
  const auto prepare = [&](Graph half) -> Result<PreparedShape> {
    const ShapePlanner of_shape = planner.at(std::move(half), shape, backend.machine());
    Result<Plan> plan = of_shape.plan(planner.choice());
    if (!plan) return tl::unexpected(plan.error());
    return prepare_shape(of_shape, *std::move(plan), backend, cache, /*may_tune=*/false);
  };
  Result<PreparedShape> forward = prepare(std::move(graphs->forward));
  if (!forward) return tl::unexpected(forward.error());
  training.forward_ = *std::move(forward);
  Result<PreparedShape> backward = prepare(std::move(graphs->backward));
  if (!backward) return tl::unexpected(backward.error());
  training.backward_ = *std::move(backward);
  return training;
}

void PreparedTraining::find_residuals(const TrainingGraphs& graphs) {
  const Signature& signature = planner_->signature();
  const auto element = size_of(planner_->options().dtype);
  const std::vector<InputDecl>& inputs = graphs.backward.inputs;
  for (size_t i = inputs.size() - graphs.residuals; i < inputs.size(); ++i) {
    residual_bytes_.push_back(static_cast<size_t>(element_count(inputs[i].type.shape)) * element);
  }
  outputs_.reserve(signature.outputs.size() + residual_bytes_.size());
  inputs_.reserve(inputs.size());
  params_.reserve(graphs.backward.params.size());
  gradients_of_inputs_.reserve(signature.inputs.size());
  results_.reserve(signature.params.size() + signature.states.size());
}

size_t PreparedTraining::zeros_bytes(int64_t rows) const {
  size_t most = 0;
  for (const ArrayInfo& output : planner_->signature().outputs) {
    most = std::max(most, row_bytes(output));
  }
  return static_cast<size_t>(rows) * most + kWorkspaceAlignment;
}

TrainingSizes PreparedTraining::sizes(int64_t steps) const {
  const int64_t rows = steps * batch_;
  size_t reserve = 0;
  for (const size_t bytes : residual_bytes_) {
    reserve += aligned_size(static_cast<size_t>(rows) * bytes);
  }
  return {.forward_workspace = forward_.workspace_bytes(steps),
          .backward_workspace = backward_.workspace_bytes(steps),
          .zeros = zeros_bytes(rows),
          .reserve = reserve == 0 ? 0 : reserve + kWorkspaceAlignment - 1};
}

void PreparedTraining::point_at_residuals(const void* reserve, int64_t rows,
                                          std::vector<const void*>& pointers) {
  // What reads a reserve takes it as an input.
  const std::byte* next = aligned(const_cast<void*>(reserve));
  for (const size_t bytes : residual_bytes_) {
    pointers.push_back(next);
    next += aligned_size(static_cast<size_t>(rows) * bytes);
  }
}

// ---- Forward ----

Status PreparedTraining::check(const ForwardArgs& args) const {
  const std::vector<ArrayInfo>& states = planner_->signature().states;
  for (size_t i = 0; i < states.size(); ++i) {
    const bool given = !args.initial_states.empty() && args.initial_states[i] != nullptr;
    if (given == options_.given_states[i]) continue;
    return fail("initial state {} is {}, and the shape was prepared for training {} it",
                quote(states[i].name), given ? "given" : "not given", given ? "without" : "with");
  }
  return check_reserve(args.reserve, args.reserve_bytes, sizes(args.steps).reserve);
}

Status PreparedTraining::forward(const ForwardArgs& args, uint64_t params) {
  choose_initial_states(planner_->graph(), args.initial_states, forward_.initial_states);
  outputs_.assign(args.outputs.begin(), args.outputs.end());
  point_at_residuals(args.reserve, args.steps * args.batch, outputs_);
  Call call = make_call(args, forward_.initial_states);
  call.arrays.set(Role::Output, outputs_);
  return forward_.run(call, params);
}

// ---- Backward ----

Status PreparedTraining::check(const BackwardArgs& args) const {
  const Signature& signature = planner_->signature();
  const Status counts[] = {
      check_lengths(args.lengths),
      check_pointers("input", args.inputs, signature.inputs),
      check_pointers("param", args.params, signature.params),
      check_count("gradients of outputs", args.output_gradients.size(), signature.outputs.size()),
      check_count("gradients of final states", args.final_state_gradients.size(),
                  signature.states.size()),
      check_wanted("the gradient of param", "gradients of params", args.param_gradients,
                   options_.params, signature.params),
      check_wanted("the gradient of input", "gradients of inputs", args.input_gradients,
                   options_.inputs, signature.inputs),
      check_wanted("the gradient of initial state", "gradients of initial states",
                   args.initial_state_gradients, options_.initial_states, signature.states)};
  for (const Status& status : counts) {
    if (!status) return status;
  }
  const Status aligned[] = {
      check_alignment("input", args.inputs, signature.inputs),
      check_alignment("param", args.params, signature.params),
      check_alignment("the gradient of output", args.output_gradients, signature.outputs),
      check_alignment("the gradient of final state", args.final_state_gradients, signature.states)};
  for (const Status& status : aligned) {
    if (!status) return status;
  }
  const TrainingSizes needed = sizes(args.steps);
  if (Status status = check_reserve(args.reserve, args.reserve_bytes, needed.reserve); !status) {
    return status;
  }
  const bool zeros =
      args.output_gradients.empty() ||
      std::ranges::find(args.output_gradients, nullptr) != args.output_gradients.end();
  return check_workspace(args.workspace, args.workspace_bytes,
                         needed.backward_workspace + (zeros ? needed.zeros : 0));
}

/// Where one is null, zeros behind the plan's part of the workspace.
Status PreparedTraining::point_at_output_gradients(const BackwardArgs& args) {
  const std::vector<ArrayInfo>& outputs = planner_->signature().outputs;
  std::byte* zeros = nullptr;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const void* gradient = args.output_gradients.empty() ? nullptr : args.output_gradients[i];
    if (gradient == nullptr) {
      if (zeros == nullptr) {
        zeros = aligned(static_cast<std::byte*>(args.workspace) +
                        backward_.workspace_bytes(args.steps));
        const size_t bytes = zeros_bytes(args.steps * batch_) - kWorkspaceAlignment;
        if (Status status = backend_->clear(zeros, bytes, args.stream); !status) return status;
      }
      gradient = zeros;
    }
    inputs_.push_back(gradient);
  }
  return {};
}

void PreparedTraining::point_at_gradients(const BackwardArgs& args) {
  gradients_of_inputs_.clear();
  append_wanted(args.input_gradients, options_.inputs, gradients_of_inputs_);
  results_.clear();
  append_wanted(args.param_gradients, options_.params, results_);
  params_.assign(args.params.begin(), args.params.end());
  if (options_.accumulate) params_.insert(params_.end(), results_.begin(), results_.end());
  append_wanted(args.initial_state_gradients, options_.initial_states, results_);
  for (size_t i = 0; i < adjoint_of_.size(); ++i) {
    backward_.initial_states[i] =
        args.final_state_gradients.empty() ? nullptr : args.final_state_gradients[adjoint_of_[i]];
  }
}

Status PreparedTraining::backward(const BackwardArgs& args, uint64_t params) {
  inputs_.assign(args.inputs.begin(), args.inputs.end());
  if (Status status = point_at_output_gradients(args); !status) return status;
  point_at_residuals(args.reserve, args.steps * batch_, inputs_);
  point_at_gradients(args);
  Call call;
  call.steps = args.steps;
  call.stream = args.stream;
  call.lengths = args.lengths;
  call.reset = args.reset;
  call.workspace = aligned(args.workspace);
  call.arrays.set(Role::Input, inputs_);
  call.arrays.set(Role::Param, params_);
  call.arrays.set(Role::Output, gradients_of_inputs_);
  call.arrays.set(Role::InitialState, backward_.initial_states);
  call.arrays.set(Role::Result, results_);
  return backward_.run(call, params);
}

}  // namespace rnnc
