#include "runtime/program/run.h"

#include <algorithm>

#include "runtime/backend/backend.h"
#include "runtime/base/call.h"
#include "runtime/base/describe.h"
#include "runtime/base/host_memory.h"
#include "runtime/program/device_arrays.h"
#include "runtime/program/match_run.h"
#include "runtime/program/training_arrays.h"

namespace rnnc {
namespace {

constexpr std::string_view kNoTraining = "the last run was not one for gradients";
constexpr int kReplaysAtOnce = 4;  // that are timed

}  // namespace

struct Runner::Impl {
  Program program;  // the caller's, shared
  Backend& backend;
  std::vector<DeviceArray> inputs, params, outputs, initial_states, final_states;
  DeviceArray lengths;  // [pieces, B]: of each sequence, as far as it lies in the piece
  DeviceArray reset;
  DeviceArray workspace;
  std::optional<TrainingArrays> training;  // of the last run, if it was one for gradients
  bool params_loaded = false;
  bool params_run = false;  // as they are now: the program may have kept what it derived from them
  CallState calls;

  // The last run's shape and arguments; the pointer lists are what the spans of `args` point at.
  RunShape shape;
  std::vector<bool> state_given;
  ForwardArgs args;
  std::vector<const void*> input_pointers, param_pointers, initial_pointers;
  std::vector<void*> output_pointers, final_pointers;

  explicit Impl(Program owner)
      : program(std::move(owner)),
        backend(program.backend()),
        inputs(make_arrays(backend, program.signature().inputs.size())),
        params(make_arrays(backend, program.signature().params.size())),
        outputs(make_arrays(backend, program.signature().outputs.size())),
        initial_states(make_arrays(backend, program.signature().states.size())),
        final_states(make_arrays(backend, program.signature().states.size())),
        lengths(backend),
        reset(backend),
        workspace(backend) {}

  /// Whether the params of this call are needed.
  bool takes_params(const RunArgs& run_args) const {
    return !params_loaded || !run_args.params.empty();
  }
  /// Refuses what the machine cannot hold beside the caller's own copies.
  Status check_memory(int64_t steps, int64_t batch) const;
  Status prepare(const Matched& matched);
  Status prepare(const RunArgs& run_args);
  Status load_params(const std::vector<NamedArray>& given);
  Status upload_params(const std::vector<const Array*>& arrays);
  Status reserve_results(int64_t steps, int64_t batch);
  Status upload_arrays(const Matched& matched, const RunArgs& run_args);
  Status upload_lengths(const std::vector<int64_t>& whole, const RunShape& run_shape);
  void forget_last_run();
  Status make_args(const Matched& matched);
  void point_at_piece(int64_t begin);
  /// All pieces of the last run's arrays.
  Status forward();
  Result<RunResult> run(const RunArgs& run_args);
  Result<RunResult> download_results() const;
  Result<RunGradients> gradients(const RunArgs& run_args, const LossGradients& loss,
                                 ResidualChoice residuals, int64_t checkpoint);
  Status make_training(const Matched& matched, const ArrayMatch& outputs_match,
                       const ArrayMatch& states_match);
  Status train();
  Result<RunGradients> download_gradients() const;
  /// Why the last run cannot be timed so often.
  Status check_repeats(int repeats) const;
  /// The median seconds of `work`, which is a whole run, divided by its steps; of so many in a row.
  Result<double> median_per_step(int repeats, const std::function<Status()>& work, Stream stream,
                                 int at_once = 1) const;
  Result<std::unique_ptr<CapturedWork>> capture(const std::function<Status()>& work);
  Result<double> time_per_step(int repeats);
  Result<double> time_training_per_step(int repeats);
  Result<double> time_replays_per_step(int repeats, const std::function<Status()>& work);
  Result<double> time_replayed_per_step(int repeats);
  Result<double> time_replayed_training_per_step(int repeats);
  Result<RecordedRun> record_run();
  Result<RecordedRun> record_launches(int repeats);
};

Status Runner::Impl::check_memory(int64_t steps, int64_t batch) const {
  if (program.options().device.kind != Device::Kind::cpu) return {};
  const Signature& signature = program.signature();
  double bytes = 0;
  const auto add = [&bytes](const std::vector<ArrayInfo>& arrays, double rows) {
    for (const ArrayInfo& array : arrays) {
      bytes +=
          rows * static_cast<double>(array.elements()) * static_cast<double>(size_of(array.dtype));
    }
  };
  const double rows = static_cast<double>(steps) * static_cast<double>(batch);
  add(signature.inputs, rows);
  add(signature.params, 1);
  add(signature.outputs, rows);
  return check_host_memory(fmt::format("the arrays of {}, once given and once on the device, take",
                                       quote(signature.name)),
                           2 * bytes);
}

Status Runner::Impl::prepare(const Matched& matched) {
  const auto& [steps, batch, piece, features] = matched.shape;
  if (Status status = check_memory(steps, batch); !status) return status;
  // For all steps, not for a piece: the plan is that of one run, and so are the bits.
  return program.prepare(batch, steps, features);
}

Status Runner::Impl::upload_params(const std::vector<const Array*>& arrays) {
  params_loaded = params_run = false;
  for (size_t i = 0; i < params.size(); ++i) {
    if (Status status = params[i].upload(*arrays[i], program.signature().params[i].dtype);
        !status) {
      return status;
    }
  }
  params_loaded = true;
  return {};
}

Status Runner::Impl::reserve_results(int64_t steps, int64_t batch) {
  const auto reserve = [](std::vector<DeviceArray>& memories, const std::vector<ArrayInfo>& arrays,
                          int64_t rows) -> Status {
    for (size_t i = 0; i < arrays.size(); ++i) {
      const int64_t elements = rows * arrays[i].elements();
      const size_t bytes = static_cast<size_t>(elements) * size_of(arrays[i].dtype);
      if (Status status = memories[i].reserve(bytes); !status) return status;
    }
    return {};
  };
  if (Status status = reserve(outputs, program.signature().outputs, steps * batch); !status) {
    return status;
  }
  return reserve(final_states, program.signature().states, batch);
}

Status Runner::Impl::upload_arrays(const Matched& matched, const RunArgs& run_args) {
  const Signature& signature = program.signature();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (Status status = inputs[i].upload(*matched.inputs[i], signature.inputs[i].dtype); !status) {
      return status;
    }
  }
  for (size_t i = 0; i < initial_states.size(); ++i) {
    if (matched.initial_states[i] == nullptr) continue;
    if (Status status =
            initial_states[i].upload(*matched.initial_states[i], signature.states[i].dtype);
        !status) {
      return status;
    }
  }
  if (run_args.lengths) {
    if (Status status = upload_lengths(*run_args.lengths, matched.shape); !status) return status;
  }
  if (!run_args.reset) return {};
  std::vector<uint8_t> mask;
  for (const double value : run_args.reset->to_doubles()) mask.push_back(value != 0 ? 1 : 0);
  return reset.upload(mask);
}

Status Runner::Impl::upload_lengths(const std::vector<int64_t>& whole, const RunShape& run_shape) {
  std::vector<int32_t> parts;
  for (int64_t begin = 0; begin < run_shape.steps; begin += run_shape.piece) {
    for (const int64_t length : whole) {
      parts.push_back(
          static_cast<int32_t>(std::clamp<int64_t>(length - begin, 0, run_shape.piece)));
    }
  }
  return lengths.upload(parts);
}

Status Runner::Impl::make_args(const Matched& matched) {
  shape = matched.shape;
  state_given.clear();
  for (const Array* state : matched.initial_states) state_given.push_back(state != nullptr);
  const Result<size_t> bytes = program.workspace_size(shape.batch, shape.piece, shape.features);
  if (!bytes) return tl::unexpected(bytes.error());
  if (Status status = workspace.reserve(*bytes); !status) return status;
  args = {};
  args.batch = shape.batch;
  args.workspace = workspace.get();
  args.workspace_bytes = *bytes;
  return {};
}

/// Points `args` at steps [begin, begin + piece) of the sequences, and at the states there.
void Runner::Impl::point_at_piece(int64_t begin) {
  const auto point = [](auto& pointers, const std::vector<DeviceArray>& memories,
                        const std::vector<ArrayInfo>& arrays, int64_t row) {
    pointers.clear();
    for (size_t i = 0; i < memories.size(); ++i) {
      const size_t bytes = static_cast<size_t>(arrays[i].elements()) * size_of(arrays[i].dtype);
      pointers.push_back(static_cast<std::byte*>(memories[i].get()) + row * bytes);
    }
  };
  const Signature& signature = program.signature();
  const int64_t row = begin * shape.batch;
  point(input_pointers, inputs, signature.inputs, row);
  point(param_pointers, params, signature.params, 0);
  point(output_pointers, outputs, signature.outputs, row);
  // A piece goes on from where the one before it ended.
  point(initial_pointers, begin == 0 ? initial_states : final_states, signature.states, 0);
  point(final_pointers, final_states, signature.states, 0);
  for (size_t i = 0; i < initial_pointers.size(); ++i) {
    if (begin == 0 && !state_given[i]) initial_pointers[i] = nullptr;
  }
  args.steps = std::min(shape.piece, shape.steps - begin);
  args.inputs = input_pointers;
  args.params = param_pointers;
  args.outputs = output_pointers;
  args.initial_states = initial_pointers;
  args.final_states = final_pointers;
  if (shape.features.lengths) {
    args.lengths = static_cast<const int32_t*>(lengths.get()) + begin / shape.piece * shape.batch;
  }
  if (shape.features.resets) args.reset = static_cast<const uint8_t*>(reset.get()) + row;
}

Status Runner::Impl::forward() {
  for (int64_t begin = 0; begin < shape.steps; begin += shape.piece) {
    point_at_piece(begin);
    args.reuse_params = params_run;
    if (Status status = program.forward(args); !status) return status;
    params_run = true;
  }
  return {};
}

Result<RunResult> Runner::Impl::download_results() const {
  RunResult result;
  const Signature& signature = program.signature();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ArrayInfo& info = signature.outputs[i];
    Result<Array> array =
        outputs[i].download(info.dtype, with_leading({shape.steps, shape.batch}, info.shape));
    if (!array) return tl::unexpected(array.error());
    result.outputs.push_back({info.name, std::move(*array)});
  }
  for (size_t i = 0; i < final_states.size(); ++i) {
    const ArrayInfo& info = signature.states[i];
    Result<Array> array =
        final_states[i].download(info.dtype, with_leading({shape.batch}, info.shape));
    if (!array) return tl::unexpected(array.error());
    result.final_states.push_back({info.name, std::move(*array)});
  }
  return result;
}

/// Its arrays are about to go; if the next run fails, there is none.
void Runner::Impl::forget_last_run() {
  training.reset();
  args = {};
  shape = {};
}

Result<RunResult> Runner::Impl::run(const RunArgs& run_args) {
  const bool load = takes_params(run_args);
  const Result<Matched> matched = match_run(program.signature(), run_args, load);
  if (!matched) return tl::unexpected(matched.error());
  Status status = prepare(*matched);
  if (status) forget_last_run();
  if (status && load) status = upload_params(matched->params);
  if (status) status = reserve_results(matched->shape.steps, matched->shape.batch);
  if (status) status = upload_arrays(*matched, run_args);
  if (status) status = make_args(*matched);
  if (status) status = forward();
  if (status) status = backend.synchronize(nullptr);
  if (!status) return tl::unexpected(status.error());
  return download_results();
}

// ---- Gradients ----

Result<RunGradients> Runner::Impl::gradients(const RunArgs& run_args, const LossGradients& loss,
                                             ResidualChoice residuals, int64_t checkpoint) {
  const Signature& signature = program.signature();
  if (run_args.piece != 0) return fail("gradients are of whole runs: piece must be 0");
  const bool load = takes_params(run_args);
  const Result<Matched> matched = match_run(signature, run_args, load);
  if (!matched) return tl::unexpected(matched.error());
  const auto& [steps, batch, piece, features] = matched->shape;
  const ArrayMatch of_outputs =
      match_arrays("gradient of output", signature.name, expect(signature.outputs, {steps, batch}),
                   loss.outputs, false);
  const ArrayMatch of_states =
      match_arrays("gradient of final state", signature.name, expect(signature.states, {batch}),
                   loss.final_states, false);
  std::vector<std::string> problems;
  append(problems, of_outputs);
  append(problems, of_states);
  if (!problems.empty()) return tl::unexpected(Error{list_problems(signature.name, problems)});
  if (Status status = check_memory(steps, batch); !status) return tl::unexpected(status.error());
  forget_last_run();
  training.emplace(backend, signature);
  TrainingOptions& options = training->options;
  options.params.assign(signature.params.size(), true);
  for (const ArrayInfo& input : signature.inputs) {
    options.inputs.push_back(input.dtype != DType::i32);
  }
  for (const Array* state : matched->initial_states) {
    options.given_states.push_back(state != nullptr);
  }
  options.initial_states = options.given_states;
  options.residuals = residuals;
  options.outputs = true;
  options.checkpoint = checkpoint;
  Status status = program.prepare_training(batch, steps, options, features);
  if (status && load) status = upload_params(matched->params);
  if (status) status = reserve_results(steps, batch);
  if (status) status = upload_arrays(*matched, run_args);
  if (status) status = make_training(*matched, of_outputs, of_states);
  if (status) status = train();
  if (status) status = backend.synchronize(nullptr);
  if (!status) {
    forget_last_run();
    return tl::unexpected(status.error());
  }
  return download_gradients();
}

Status Runner::Impl::make_training(const Matched& matched, const ArrayMatch& outputs_match,
                                   const ArrayMatch& states_match) {
  const Signature& signature = program.signature();
  shape = matched.shape;
  state_given = training->options.given_states;
  const Result<TrainingSizes> sizes =
      program.training_sizes(shape.batch, shape.steps, shape.features);
  if (!sizes) return tl::unexpected(sizes.error());
  const size_t bytes = std::max(sizes->forward_workspace, sizes->backward_workspace + sizes->zeros);
  TrainingArrays& own = *training;
  const int64_t rows = shape.steps * shape.batch;
  Status status = workspace.reserve(bytes);
  if (status) status = own.reserve.reserve(sizes->reserve);
  if (status) {
    status = upload_some(outputs_match.arrays, signature.outputs, own.outputs, own.output_pointers);
  }
  if (status) {
    status =
        upload_some(states_match.arrays, signature.states, own.final_states, own.final_pointers);
  }
  if (status) {
    status = reserve_some(own.options.params, signature.params, 1, own.params, own.param_pointers);
  }
  if (status) {
    status =
        reserve_some(own.options.inputs, signature.inputs, rows, own.inputs, own.input_pointers);
  }
  if (status) {
    status = reserve_some(own.options.initial_states, signature.states, shape.batch,
                          own.initial_states, own.initial_pointers);
  }
  args = {};
  args.batch = shape.batch;
  args.workspace = workspace.get();
  args.workspace_bytes = bytes;
  args.reserve = own.reserve.get();
  args.reserve_bytes = sizes->reserve;
  return status;
}

Status Runner::Impl::train() {
  if (Status status = forward(); !status) return status;
  BackwardArgs& backward = training->args;
  backward = {.steps = args.steps,
              .batch = args.batch,
              .inputs = args.inputs,
              .params = args.params,
              .outputs = args.outputs,
              .output_gradients = training->output_pointers,
              .final_state_gradients = training->final_pointers,
              .param_gradients = training->param_pointers,
              .input_gradients = training->input_pointers,
              .initial_state_gradients = training->initial_pointers,
              .reuse_params = true,
              .workspace = args.workspace,
              .workspace_bytes = args.workspace_bytes,
              .stream = args.stream,
              .lengths = args.lengths,
              .reset = args.reset,
              .reserve = args.reserve,
              .reserve_bytes = args.reserve_bytes,
              .times = training->times};
  return program.backward(backward);
}

Result<RunGradients> Runner::Impl::download_gradients() const {
  const Signature& signature = program.signature();
  RunGradients gradients;
  Result<RunResult> result = download_results();
  if (!result) return tl::unexpected(result.error());
  gradients.result = *std::move(result);
  const TrainingOptions& options = training->options;
  auto params_of = download_some(options.params, signature.params, {}, training->params);
  if (!params_of) return tl::unexpected(params_of.error());
  gradients.params = *std::move(params_of);
  auto inputs_of =
      download_some(options.inputs, signature.inputs, {shape.steps, shape.batch}, training->inputs);
  if (!inputs_of) return tl::unexpected(inputs_of.error());
  gradients.inputs = *std::move(inputs_of);
  auto states_of = download_some(options.initial_states, signature.states, {shape.batch},
                                 training->initial_states);
  if (!states_of) return tl::unexpected(states_of.error());
  gradients.initial_states = *std::move(states_of);
  return gradients;
}

// ---- Timing ----

Result<double> Runner::Impl::time_training_per_step(int repeats) {
  if (Status status = check_repeats(repeats); !status) return tl::unexpected(status.error());
  if (!training) return fail("{}", kNoTraining);
  return median_per_step(repeats, [this] { return train(); }, args.stream);
}

Status Runner::Impl::check_repeats(int repeats) const {
  if (shape.steps == 0) return fail("there was no run whose time could be measured");
  if (repeats < 1) return fail("repeats must be at least 1, got {}", repeats);
  return {};
}

Result<double> Runner::Impl::median_per_step(int repeats, const std::function<Status()>& work,
                                             Stream stream, int at_once) const {
  const auto several = [&] {
    Status status;
    for (int i = 0; i < at_once && status; ++i) status = work();
    return status;
  };
  std::vector<double> seconds;
  for (int i = 0; i < repeats; i += at_once) {
    const Result<double> time = backend.time(several, stream);
    if (!time) return time;
    seconds.push_back(*time / static_cast<double>(at_once * shape.steps));
  }
  std::ranges::sort(seconds);
  return (seconds[seconds.size() / 2] + seconds[(seconds.size() - 1) / 2]) / 2;
}

/// A whole run.
Result<std::unique_ptr<CapturedWork>> Runner::Impl::capture(const std::function<Status()>& work) {
  // What is derived from params alone is then there, and no part of the graph.
  if (Status status = work(); !status) return tl::unexpected(status.error());
  // The stream of replays does not wait for that of other calls.
  if (Status status = backend.synchronize(args.stream); !status) {
    return tl::unexpected(status.error());
  }
  const Stream plain = args.stream;
  Result<std::unique_ptr<CapturedWork>> captured = backend.capture([&](Stream stream) {
    args.stream = stream;
    return work();
  });
  args.stream = plain;
  return captured;
}

Status Runner::Impl::load_params(const std::vector<NamedArray>& given) {
  const Signature& signature = program.signature();
  const ArrayMatch match =
      match_arrays("param", signature.name, expect(signature.params, {}), given, true);
  std::vector<std::string> problems;
  append(problems, match);
  if (problems.empty()) return upload_params(match.arrays);
  return tl::unexpected(Error{list_problems(signature.name, problems)});
}

Status Runner::Impl::prepare(const RunArgs& run_args) {
  const Result<Matched> matched = match_run(program.signature(), run_args, takes_params(run_args));
  return matched ? prepare(*matched) : tl::unexpected(matched.error());
}

Result<double> Runner::Impl::time_per_step(int repeats) {
  if (Status status = check_repeats(repeats); !status) return tl::unexpected(status.error());
  return median_per_step(repeats, [this] { return forward(); }, args.stream);
}

Result<double> Runner::Impl::time_replays_per_step(int repeats,
                                                   const std::function<Status()>& work) {
  if (Status status = check_repeats(repeats); !status) return tl::unexpected(status.error());
  const Result<std::unique_ptr<CapturedWork>> captured = capture(work);
  if (!captured) return tl::unexpected(captured.error());
  CapturedWork& replayed = **captured;
  return median_per_step(
      repeats, [&] { return replayed.replay(); }, replayed.stream(), kReplaysAtOnce);
}

Result<double> Runner::Impl::time_replayed_per_step(int repeats) {
  return time_replays_per_step(repeats, [this] { return forward(); });
}

Result<double> Runner::Impl::time_replayed_training_per_step(int repeats) {
  if (Status status = check_repeats(repeats); !status) return tl::unexpected(status.error());
  if (!training) return fail("{}", kNoTraining);
  return time_replays_per_step(repeats, [this] { return train(); });
}

Result<RecordedRun> Runner::Impl::record_run() {
  RecordedRun run;
  args.times = &run.forward;
  if (training) training->times = &run.backward.emplace();
  const Status status = training ? train() : forward();
  args.times = nullptr;
  if (training) training->times = nullptr;
  if (!status) return tl::unexpected(status.error());
  return run;
}

Result<RecordedRun> Runner::Impl::record_launches(int repeats) {
  if (Status status = check_repeats(repeats); !status) return tl::unexpected(status.error());
  if ((shape.piece > 0 && shape.piece < shape.steps) ||
      (training && training->options.checkpoint > 0)) {
    return fail("launches are timed in runs of one piece, without checkpoints");
  }
  std::vector<RecordedRun> runs;
  for (int i = 0; i < repeats; ++i) {
    Result<RecordedRun> run = record_run();
    if (!run) return run;
    runs.push_back(*std::move(run));
  }
  const auto middle = runs.begin() + (repeats - 1) / 2;
  std::ranges::nth_element(runs, middle, {}, &RecordedRun::seconds);
  return std::move(*middle);
}

Runner::Runner(Program& program) {
  if (program.impl_ == nullptr) return;
  static_cast<void>(without_exceptions("run", program.signature().name, [&]() -> Status {
    impl_ = std::make_unique<Impl>(Program(program.impl_));
    return {};
  }));
}
Runner::~Runner() = default;
Runner::Runner(Runner&&) noexcept = default;
Runner& Runner::operator=(Runner&&) noexcept = default;

template <typename Work>
auto Runner::call(std::string_view verb, const Work& work)
    -> decltype(work(std::declval<Impl&>())) {
  if (impl_ == nullptr) {
    return fail(
        "this runner has no program: it, or the program that it was made for, was moved "
        "from");
  }
  return call_alone(impl_->calls, verb, impl_->program.signature().name,
                    [&] { return work(*impl_); });
}

Status Runner::load_params(const std::vector<NamedArray>& params) {
  return call("load", [&](Impl& impl) { return impl.load_params(params); });
}
Status Runner::prepare(const RunArgs& args) {
  return call("prepare", [&](Impl& impl) { return impl.prepare(args); });
}
Result<RunResult> Runner::run(const RunArgs& args) {
  return call("run", [&](Impl& impl) { return impl.run(args); });
}
Result<double> Runner::time_per_step(int repeats) {
  return call("time", [&](Impl& impl) { return impl.time_per_step(repeats); });
}
Result<RunGradients> Runner::gradients(const RunArgs& args, const LossGradients& loss,
                                       ResidualChoice residuals, int64_t checkpoint) {
  return call("train",
              [&](Impl& impl) { return impl.gradients(args, loss, residuals, checkpoint); });
}
Result<double> Runner::time_training_per_step(int repeats) {
  return call("time", [&](Impl& impl) { return impl.time_training_per_step(repeats); });
}
Result<double> Runner::time_replayed_per_step(int repeats) {
  return call("time", [&](Impl& impl) { return impl.time_replayed_per_step(repeats); });
}

Result<double> Runner::time_replayed_training_per_step(int repeats) {
  return call("time", [&](Impl& impl) { return impl.time_replayed_training_per_step(repeats); });
}
Result<RecordedRun> Runner::record_launches(int repeats) {
  return call("time", [&](Impl& impl) { return impl.record_launches(repeats); });
}

}  // namespace rnnc
