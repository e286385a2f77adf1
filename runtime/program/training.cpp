#include "runtime/program/training.h"

#include <algorithm>
#include <atomic>

#include "ir/base/arithmetic.h"
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

/// Where the arrays of a reserve begin. As little aligned as memory is that allocators give: a copy then
/// has them at the same places. Who reads a reserve takes it as an input.
std::byte* begin_of_reserve(const void* reserve) {
  constexpr uintptr_t kAlignment = 64;
  const auto address = reinterpret_cast<uintptr_t>(reserve);
  return static_cast<std::byte*>(const_cast<void*>(reserve)) +
         (kAlignment - address % kAlignment) % kAlignment;
}

/// A row is that of one step of one sequence.
PackedArrays residuals_of(const TrainingGraphs& graphs, DType dtype) {
  const std::vector<InputDecl>& inputs = graphs.backward.inputs;
  PackedArrays residuals;
  for (size_t i = inputs.size() - graphs.residuals; i < inputs.size(); ++i) {
    residuals.add(static_cast<size_t>(element_count(inputs[i].type.shape)) * size_of(dtype));
  }
  return residuals;
}

/// Appends where row `row` of each array is.
template <typename Array>
void append_rows(std::span<Array const> arrays, const std::vector<ArrayInfo>& infos, int64_t row,
                 std::vector<const void*>& addresses) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto* array = static_cast<const std::byte*>(arrays[i]);
    addresses.push_back(array == nullptr ? nullptr : array + row * row_bytes(infos[i]));
  }
}

/// What the options want of `arrays`, one behind the other.
void append_wanted(std::span<void* const> arrays, const std::vector<bool>& wanted,
                   std::vector<const void*>& pointers) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i]) pointers.push_back(arrays[i]);
  }
}

}  // namespace

Result<ReserveBound> reserve_bound(const Planner& planner, SequenceFeatures features,
                                   const TrainingOptions& options, const Machine& machine) {
  if (options.checkpoint > 0) {
    return bound_of_checkpoints(PackedArrays(planner.signature().states), options.checkpoint);
  }
  const Result<TrainingGraphs> graphs = planner.differentiate(features, options, machine);
  if (!graphs) return tl::unexpected(graphs.error());
  return bound_of_residuals(residuals_of(*graphs, planner.options().dtype));
}

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
  training.notes_ = graphs->notes;
  training.measure_arrays(*graphs);
  const auto prepare = [&](Graph half) -> Result<PreparedShape> {
    const ShapePlanner of_shape =
        planner.at(std::move(half), options.residuals, shape, backend.machine());
    Result<Plan> plan = of_shape.plan(planner.choice());
    if (!plan) return tl::unexpected(plan.error());
    return prepare_shape(of_shape, *std::move(plan), backend, cache);
  };
  Result<PreparedShape> forward = prepare(std::move(graphs->forward));
  if (!forward) return tl::unexpected(forward.error());
  training.forward_ = *std::move(forward);
  Result<PreparedShape> backward = prepare(std::move(graphs->backward));
  if (!backward) return tl::unexpected(backward.error());
  training.backward_ = *std::move(backward);
  training.choose_piece();
  return training;
}

void PreparedTraining::measure_arrays(const TrainingGraphs& graphs) {
  const Signature& signature = planner_->signature();
  const std::vector<InputDecl>& inputs = graphs.backward.inputs;
  residuals_ = residuals_of(graphs, planner_->options().dtype);
  outputs_ = PackedArrays(signature.outputs);
  states_ = PackedArrays(signature.states);
  for (const uint32_t state : adjoint_of_) adjoints_.add(row_bytes(signature.states[state]));

  at_.inputs.reserve(signature.inputs.size());
  at_.outputs.reserve(outputs_.count() + residuals_.count());
  at_.final_states.reserve(states_.count());
  at_.given.reserve(states_.count());
  at_.output_gradients.reserve(outputs_.count());
  at_.arrays.reserve(inputs.size());
  at_.params.reserve(graphs.backward.params.size());
  at_.gradients.reserve(signature.inputs.size());
  at_.results.reserve(signature.params.size() + signature.states.size());
  at_.carried.reserve(adjoints_.count());
}

/// Totals add up chunk by chunk, and so do pieces of whole chunks. Rows of the forward half are what
/// they are in any chunk; where its chunks fit into pieces too, not even other kernels compute them.
void PreparedTraining::choose_piece() {
  if (options_.checkpoint == 0) return;
  const int64_t forward = forward_.chosen.plan.chunk;
  const int64_t backward = backward_.chosen.plan.chunk;
  const int64_t chunk = forward % backward == 0 ? forward : backward;
  piece_ = ceil_div(std::min(options_.checkpoint, max_steps()), chunk) * chunk;
}

// ---- Memory ----

PreparedTraining::ForwardParts PreparedTraining::forward_parts(MemoryParts& parts,
                                                               int64_t steps) const {
  ForwardParts forward;
  const int64_t most = std::min(steps, pieces(steps).length);
  forward.plan = parts.add(static_cast<size_t>(workspace_bytes(forward_.chosen.plan, most)));
  if (has_checkpoints()) forward.residuals = parts.add(residuals_.bytes(most * batch_));
  forward.bytes = parts.bytes();
  return forward;
}

PreparedTraining::BackwardParts PreparedTraining::backward_parts(int64_t steps) const {
  MemoryParts parts;
  BackwardParts backward;
  const int64_t most = std::min(steps, pieces(steps).length);
  backward.plan = parts.add(static_cast<size_t>(workspace_bytes(backward_.chosen.plan, most)));
  if (has_checkpoints()) {
    backward.forward = forward_parts(parts, steps);
    backward.outputs = parts.add(outputs_.bytes(most * batch_));
  }
  backward.adjoints = parts.add(adjoints_.bytes(batch_));
  backward.bytes = parts.bytes();
  backward.zeros = parts.add(static_cast<size_t>(most * batch_) * outputs_.most_row_bytes());
  backward.bytes_with_zeros = parts.bytes();
  return backward;
}

TrainingSizes PreparedTraining::sizes(int64_t steps) const {
  MemoryParts workspace;
  MemoryParts reserve;
  if (has_checkpoints()) {
    reserve.add(static_cast<size_t>(pieces(steps).count()) * states_.bytes(batch_));
  } else {
    reserve.add(residuals_.bytes(steps * batch_));
  }
  const BackwardParts backward = backward_parts(steps);
  return {.forward_workspace = forward_parts(workspace, steps).bytes,
          .backward_workspace = backward.bytes,
          .zeros = backward.bytes_with_zeros - backward.bytes,
          .reserve = std::max<size_t>(reserve.bytes(), 1)};
}

/// Where the states lie with which a piece begins.
std::byte* PreparedTraining::checkpoint(const void* reserve, int64_t piece) const {
  return begin_of_reserve(reserve) + static_cast<size_t>(piece) * states_.bytes(batch_);
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
  if (has_checkpoints()) {
    if (Status status = keep_given_states(args); !status) return status;
  }
  MemoryParts workspace;
  const ForwardParts parts = forward_parts(workspace, args.steps);
  std::byte* const memory = aligned(args.workspace);
  std::byte* const residuals =
      has_checkpoints() ? memory + parts.residuals : begin_of_reserve(args.reserve);
  const Signature& signature = planner_->signature();
  const Pieces all = pieces(args.steps);
  for (int64_t index = 0; index < all.count(); ++index) {
    const Piece piece = all.at(index);
    const int64_t row = piece.begin * batch_;
    if (index > 0) begin_at(args.reserve, index);
    at_.inputs.clear();
    append_rows(args.inputs, signature.inputs, row, at_.inputs);
    at_.outputs.clear();
    append_rows(args.outputs, signature.outputs, row, at_.outputs);
    at_.final_states.clear();
    if (index == all.last()) {
      append_rows(args.final_states, signature.states, 0, at_.final_states);
    } else {
      states_.append_addresses(checkpoint(args.reserve, index + 1), batch_, at_.final_states);
    }
    Call call = make_call(args, forward_.initial_states);
    call.workspace = memory + parts.plan;
    call.arrays.set(Role::FinalState, at_.final_states);
    if (Status status = run_forward(call, piece, residuals, params); !status) return status;
  }
  return {};
}

/// The first checkpoint: the caller's memory may be another call's until the backward call.
Status PreparedTraining::keep_given_states(const ForwardArgs& args) {
  at_.given.clear();
  states_.append_addresses(checkpoint(args.reserve, 0), batch_, at_.given);
  for (size_t i = 0; i < args.initial_states.size(); ++i) {
    const void* given = args.initial_states[i];
    if (given == nullptr) continue;
    const size_t bytes = row_bytes(planner_->signature().states[i]) * static_cast<size_t>(batch_);
    Status status = backend_->copy(const_cast<void*>(at_.given[i]), given, bytes, args.stream);
    if (!status) return status;
  }
  return {};
}

/// Sets the forward half's initial states to those of a checkpoint.
void PreparedTraining::begin_at(const void* reserve, int64_t index) {
  at_.given.clear();
  states_.append_addresses(checkpoint(reserve, index), batch_, at_.given);
  for (size_t i = 0; i < at_.given.size() && index == 0; ++i) {
    if (!options_.given_states[i]) at_.given[i] = nullptr;
  }
  choose_initial_states(planner_->graph(), at_.given, forward_.initial_states);
}

/// `call`'s inputs and outputs are those of `at_`, its residuals still to be found.
Status PreparedTraining::run_forward(Call call, const Piece& piece, std::byte* residuals,
                                     uint64_t params) {
  residuals_.append_addresses(residuals, piece.steps * batch_, at_.outputs);
  call.steps = piece.steps;
  call.piece.first_step = piece.begin;
  call.arrays.set(Role::Input, at_.inputs);
  call.arrays.set(Role::Output, at_.outputs);
  call.arrays.set(Role::InitialState, forward_.initial_states);
  return forward_.run(call, params);
}

// ---- Backward ----

Status PreparedTraining::check(const BackwardArgs& args) const {
  const Signature& signature = planner_->signature();
  const Status counts[] = {
      check_lengths(args.lengths),
      check_pointers("input", args.inputs, signature.inputs),
      check_pointers("param", args.params, signature.params),
      takes_outputs() ? check_pointers("output", args.outputs, signature.outputs) : Status(),
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
      takes_outputs() ? check_alignment("output", args.outputs, signature.outputs) : Status(),
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

Status PreparedTraining::backward(const BackwardArgs& args, uint64_t params) {
  const BackwardParts parts = backward_parts(args.steps);
  if (Status status = find_output_gradients(args, parts); !status) return status;
  find_gradients(args);
  const Pieces all = pieces(args.steps);
  for (int64_t index = all.last(); index >= 0; --index) {
    if (has_checkpoints()) {
      if (Status status = run_again(args, parts, index, params); !status) return status;
    }
    if (Status status = run_backward(args, parts, index, params); !status) return status;
  }
  return {};
}

/// Where some are null, zeros that every piece reads.
Status PreparedTraining::find_output_gradients(const BackwardArgs& args,
                                               const BackwardParts& parts) {
  at_.output_gradients.assign(args.output_gradients.begin(), args.output_gradients.end());
  at_.output_gradients.resize(outputs_.count(), nullptr);
  at_.zeros = nullptr;
  if (std::ranges::find(at_.output_gradients, nullptr) == at_.output_gradients.end()) return {};
  at_.zeros = aligned(args.workspace) + parts.zeros;
  const int64_t rows = std::min(args.steps, pieces(args.steps).length) * batch_;
  return backend_->clear(at_.zeros, static_cast<size_t>(rows) * outputs_.most_row_bytes(),
                         args.stream);
}

/// Those that are not by steps.
void PreparedTraining::find_gradients(const BackwardArgs& args) {
  at_.results.clear();
  append_wanted(args.param_gradients, options_.params, at_.results);
  at_.params.assign(args.params.begin(), args.params.end());
  if (options_.accumulate) {
    at_.params.insert(at_.params.end(), at_.results.begin(), at_.results.end());
  }
  append_wanted(args.initial_state_gradients, options_.initial_states, at_.results);
}

/// The forward half of a piece, for its residuals.
Status PreparedTraining::run_again(const BackwardArgs& args, const BackwardParts& parts,
                                   int64_t index, uint64_t params) {
  const Piece piece = pieces(args.steps).at(index);
  std::byte* const memory = aligned(args.workspace);
  begin_at(args.reserve, index);
  at_.inputs.clear();
  append_rows(args.inputs, planner_->signature().inputs, piece.begin * batch_, at_.inputs);
  at_.outputs.clear();
  outputs_.append_addresses(memory + parts.outputs, piece.steps * batch_, at_.outputs);
  Call call = make_call(args);
  call.workspace = memory + parts.forward.plan;
  return run_forward(call, piece, memory + parts.forward.residuals, params);
}

Status PreparedTraining::run_backward(const BackwardArgs& args, const BackwardParts& parts,
                                      int64_t index, uint64_t params) {
  const Signature& signature = planner_->signature();
  const Pieces all = pieces(args.steps);
  const Piece piece = all.at(index);
  const int64_t row = piece.begin * batch_;
  std::byte* const memory = aligned(args.workspace);

  at_.arrays.clear();
  append_rows(args.inputs, signature.inputs, row, at_.arrays);
  append_rows(std::span<const void* const>(at_.output_gradients), signature.outputs, row,
              at_.arrays);
  for (size_t i = signature.inputs.size(); i < at_.arrays.size(); ++i) {
    if (at_.arrays[i] == nullptr) at_.arrays[i] = at_.zeros;
  }
  if (takes_outputs()) append_rows(args.outputs, signature.outputs, row, at_.arrays);
  residuals_.append_addresses(
      has_checkpoints() ? memory + parts.forward.residuals : begin_of_reserve(args.reserve),
      piece.steps * batch_, at_.arrays);

  at_.gradients.clear();
  for (size_t i = 0; i < args.input_gradients.size(); ++i) {
    if (!options_.inputs[i]) continue;
    at_.gradients.push_back(static_cast<std::byte*>(args.input_gradients[i]) +
                            row * static_cast<int64_t>(row_bytes(signature.inputs[i])));
  }

  at_.carried.clear();
  adjoints_.append_addresses(memory + parts.adjoints, batch_, at_.carried);
  for (size_t i = 0; i < adjoint_of_.size(); ++i) {
    const bool given = !args.final_state_gradients.empty();
    const void* last = given ? args.final_state_gradients[adjoint_of_[i]] : nullptr;
    backward_.initial_states[i] = index == all.last() ? last : at_.carried[i];
  }

  Call call = make_call(args);
  call.steps = piece.steps;
  call.workspace = memory + parts.plan;
  call.piece = {.first_step = piece.begin, .begins = index == all.last(), .ends = index == 0};
  call.arrays.set(Role::Input, at_.arrays);
  call.arrays.set(Role::Param, at_.params);
  call.arrays.set(Role::Output, at_.gradients);
  call.arrays.set(Role::InitialState, backward_.initial_states);
  call.arrays.set(Role::FinalState, at_.carried);
  call.arrays.set(Role::Result, at_.results);
  return backward_.run(call, params);
}

}  // namespace rnnc
