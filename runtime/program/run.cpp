#include "runtime/program/run.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "runtime/arrays/match_arrays.h"
#include "runtime/backend/backend.h"
#include "runtime/base/call.h"
#include "runtime/base/describe.h"
#include "runtime/base/host_memory.h"

namespace rnnc {
namespace {

/// Device memory that grows to what is asked for.
class Memory {
 public:
  explicit Memory(Backend& backend) : backend_(&backend) {}
  ~Memory() {
    if (memory_ != nullptr) backend_->release(memory_);
  }
  Memory(Memory&& other) noexcept
      : backend_(other.backend_),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&&) = delete;

  Status reserve(size_t bytes) {
    if (bytes <= bytes_) return {};
    if (memory_ != nullptr) backend_->release(std::exchange(memory_, nullptr));
    bytes_ = 0;
    const Result<void*> memory = backend_->allocate(bytes);
    if (!memory) return tl::unexpected(memory.error());
    memory_ = *memory;
    bytes_ = bytes;
    return {};
  }

  Status upload(const Array& array, DType dtype) {
    const Array converted = array.dtype == dtype ? Array{} : array.as(dtype);
    return upload(array.dtype == dtype ? array.data : converted.data);
  }

  template <typename T>
  Status upload(const std::vector<T>& values) {
    const size_t bytes = values.size() * sizeof(T);
    if (Status status = reserve(bytes); !status) return status;
    return backend_->upload(memory_, values.data(), bytes);
  }

  /// As float64 for f64 and float32 otherwise.
  Result<Array> download(DType dtype, std::vector<int64_t> shape) const {
    Array array = Array::zeros(dtype, std::move(shape));
    if (Status whole = array.check(); !whole) {
      return fail("not enough memory for an array of shape {}", shape_text(array.shape));
    }
    if (Status status = backend_->download(array.data.data(), memory_, array.data.size());
        !status) {
      return tl::unexpected(status.error());
    }
    return array.as(compute_type(dtype));
  }

  void* get() const { return memory_; }

 private:
  Backend* backend_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

/// Room for one device array per entry of a signature's list.
std::vector<Memory> make_memories(Backend& backend, size_t count) {
  std::vector<Memory> memories;
  memories.reserve(count);
  for (size_t i = 0; i < count; ++i) memories.emplace_back(backend);
  return memories;
}

/// `arrays` with the sizes in `leading` in front, those not known yet under their letters.
std::vector<ExpectedArray> expect(const std::vector<ArrayInfo>& arrays,
                                  std::vector<std::optional<int64_t>> leading) {
  std::vector<ExpectedArray> expected;
  for (const ArrayInfo& array : arrays) {
    ExpectedArray entry{.name = array.name, .shape = leading, .shape_text = {}};
    std::vector<std::string> sizes;
    for (size_t axis = 0; axis < leading.size(); ++axis) {
      const char* letter = leading.size() - axis == 2 ? "T" : "B";
      const std::optional<int64_t>& size = leading[axis];
      sizes.push_back(size ? std::to_string(*size) : letter);
    }
    for (const int64_t size : array.shape) {
      entry.shape.push_back(size);
      sizes.push_back(std::to_string(size));
    }
    entry.shape_text = fmt::format("[{}]", fmt::join(sizes, ", "));
    expected.push_back(std::move(entry));
  }
  return expected;
}

std::vector<int64_t> with_leading(std::vector<int64_t> leading, const std::vector<int64_t>& shape) {
  leading.insert(leading.end(), shape.begin(), shape.end());
  return leading;
}

/// How a run's arrays are run.
struct RunShape {
  int64_t steps = 0;  // T; 0: there was no run
  int64_t batch = 0;
  int64_t piece = 0;  // steps of a forward call, at most T
  SequenceFeatures features;
};

/// The arrays of one run, matched.
struct Matched {
  RunShape shape;
  std::vector<const Array*> inputs, params, initial_states;
};

void append(std::vector<std::string>& problems, const ArrayMatch& match) {
  problems.insert(problems.end(), match.name_problems.begin(), match.name_problems.end());
  problems.insert(problems.end(), match.shape_problems.begin(), match.shape_problems.end());
}

/// T and B, which the first input of the right rank gives.
void find_steps_and_batch(const Signature& signature, const RunArgs& args,
                          std::optional<int64_t>& steps, std::optional<int64_t>& batch) {
  for (const ArrayInfo& input : signature.inputs) {
    const auto found = std::ranges::find(args.inputs, input.name, &NamedArray::name);
    if (found == args.inputs.end() || found->array.shape.size() != input.shape.size() + 2) continue;
    steps = found->array.shape[0];
    batch = found->array.shape[1];
    return;
  }
}

void check_lengths(const std::vector<int64_t>& lengths, int64_t steps, int64_t batch,
                   std::vector<std::string>& problems) {
  if (std::ssize(lengths) != batch) {
    problems.push_back(fmt::format("lengths are [{}], expected [B] = [{}]", lengths.size(), batch));
    return;
  }
  const auto wrong = std::ranges::find_if(
      lengths, [steps](int64_t length) { return length < 0 || length > steps; });
  if (wrong == lengths.end()) return;
  problems.push_back(fmt::format("lengths[{}] is {}, expected 0 to T = {}", wrong - lengths.begin(),
                                 *wrong, steps));
}

void check_reset(const Array& reset, int64_t steps, int64_t batch,
                 std::vector<std::string>& problems) {
  if (reset.shape != std::vector<int64_t>{steps, batch}) {
    problems.push_back(fmt::format("reset is {}, expected [T, B] = [{}, {}]",
                                   shape_text(reset.shape), steps, batch));
    return;
  }
  if (const Status whole = reset.check(); !whole) {
    problems.push_back("reset " + whole.error().message);
    return;
  }
  const std::vector<double> values = reset.to_doubles();
  const auto wrong = std::ranges::find_if(values, [](double value) { return std::isnan(value); });
  if (wrong == values.end()) return;
  const int64_t at = wrong - values.begin();
  problems.push_back(
      fmt::format("reset[{}, {}] is not a number, expected true or false", at / batch, at % batch));
}

/// Whether the program may begin or end amid a sequence, if it is asked to.
Status check_streaming(const Signature& signature, const RunArgs& args) {
  if (args.piece < 0) return fail("piece must be 0 or more steps, got {}", args.piece);
  if (signature.streams) return {};
  const auto refuse = [&signature](const std::string& request) {
    return fail(
        "{}, but {} cannot be run in pieces: {} runs in reverse, from a sequence's last "
        "step on",
        request, quote(signature.name), signature.in_reverse);
  };
  if (args.piece > 0) return refuse(fmt::format("pieces of {} steps are asked for", args.piece));
  // Names of implied states, and only they, have this sign.
  const auto carried = std::ranges::find_if(args.initial_states, [](const NamedArray& state) {
    return state.name.find('@') != std::string::npos;
  });
  if (carried == args.initial_states.end()) return {};
  return refuse(fmt::format("initial state {} carries a sequence on", quote(carried->name)));
}

/// `with_params`: all params must be there.
Result<Matched> match_run(const Signature& signature, const RunArgs& args, bool with_params) {
  if (signature.inputs.empty()) {
    return fail("{} has no inputs, so that no array says how many steps to run",
                quote(signature.name));
  }
  if (Status status = check_streaming(signature, args); !status) {
    return tl::unexpected(status.error());
  }
  std::optional<int64_t> steps;
  std::optional<int64_t> batch;
  find_steps_and_batch(signature, args, steps, batch);
  const std::string_view owner = signature.name;
  ArrayMatch inputs =
      match_arrays("input", owner, expect(signature.inputs, {steps, batch}), args.inputs, true);
  ArrayMatch states = match_arrays("initial state", owner, expect(signature.states, {batch}),
                                   args.initial_states, false);
  ArrayMatch params =
      match_arrays("param", owner, expect(signature.params, {}), args.params, with_params);
  std::vector<std::string> problems;
  append(problems, inputs);
  append(problems, params);
  append(problems, states);
  if (steps == 0) problems.push_back("the inputs have no steps (T = 0); at least 1 is needed");
  if (batch == 0) problems.push_back("the inputs have no sequences (B = 0); at least 1 is needed");
  if (args.lengths && steps) check_lengths(*args.lengths, *steps, *batch, problems);
  if (args.reset && steps) check_reset(*args.reset, *steps, *batch, problems);
  if (!problems.empty()) {
    return tl::unexpected(Error{list_problems(signature.name, problems)});
  }
  RNNC_CHECK(steps && batch, "inputs of a wrong shape pass");
  const RunShape shape = {
      .steps = *steps,
      .batch = *batch,
      .piece = args.piece == 0 ? *steps : std::min(args.piece, *steps),
      .features = {.lengths = args.lengths.has_value(), .resets = args.reset.has_value()}};
  return Matched{shape, std::move(inputs.arrays), std::move(params.arrays),
                 std::move(states.arrays)};
}

}  // namespace

struct Runner::Impl {
  Program program;  // the caller's, shared
  Backend& backend;
  std::vector<Memory> inputs, params, outputs, initial_states, final_states;
  Memory lengths;  // [pieces, B]: of each sequence, as far as it lies in the piece
  Memory reset;
  Memory workspace;
  bool params_loaded = false;
  bool params_run = false;  // as they are now: the program may have kept what it derived from them
  std::atomic_flag running;

  // The last run's shape and arguments; the pointer lists are what the spans of `args` point at.
  RunShape shape;
  std::vector<bool> state_given;
  ForwardArgs args;
  std::vector<const void*> input_pointers, param_pointers, initial_pointers;
  std::vector<void*> output_pointers, final_pointers;

  explicit Impl(Program owner)
      : program(std::move(owner)),
        backend(program.backend()),
        inputs(make_memories(backend, program.signature().inputs.size())),
        params(make_memories(backend, program.signature().params.size())),
        outputs(make_memories(backend, program.signature().outputs.size())),
        initial_states(make_memories(backend, program.signature().states.size())),
        final_states(make_memories(backend, program.signature().states.size())),
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
  Status make_args(const Matched& matched);
  void point_at_piece(int64_t begin);
  /// All pieces of the last run's arrays.
  Status forward();
  Result<RunResult> run(const RunArgs& run_args);
  Result<RunResult> download_results() const;
  /// Why the last run cannot be timed so often.
  Status check_repeats(int repeats) const;
  /// The median seconds of `work`, which is a whole run, divided by its steps.
  Result<double> median_per_step(int repeats, const std::function<Status()>& work,
                                 Stream stream) const;
  Result<std::unique_ptr<CapturedWork>> capture();
  Result<double> time_per_step(int repeats);
  Result<double> time_replayed_per_step(int repeats);
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
  const auto reserve = [](std::vector<Memory>& memories, const std::vector<ArrayInfo>& arrays,
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
  const auto point = [](auto& pointers, const std::vector<Memory>& memories,
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

Result<RunResult> Runner::Impl::run(const RunArgs& run_args) {
  const bool load = takes_params(run_args);
  const Result<Matched> matched = match_run(program.signature(), run_args, load);
  if (!matched) return tl::unexpected(matched.error());
  Status status = prepare(*matched);
  if (status && load) status = upload_params(matched->params);
  if (status) status = reserve_results(matched->shape.steps, matched->shape.batch);
  if (status) status = upload_arrays(*matched, run_args);
  if (status) status = make_args(*matched);
  if (status) status = forward();
  if (status) status = backend.synchronize(nullptr);
  if (!status) return tl::unexpected(status.error());
  return download_results();
}

Status Runner::Impl::check_repeats(int repeats) const {
  if (shape.steps == 0) return fail("there was no run whose time could be measured");
  if (repeats < 1) return fail("repeats must be at least 1, got {}", repeats);
  return {};
}

Result<double> Runner::Impl::median_per_step(int repeats, const std::function<Status()>& work,
                                             Stream stream) const {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const Result<double> time = backend.time(work, stream);
    if (!time) return time;
    seconds.push_back(*time / static_cast<double>(shape.steps));
  }
  std::ranges::sort(seconds);
  const size_t middle = seconds.size() / 2;
  return seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
}

/// A run of all pieces.
Result<std::unique_ptr<CapturedWork>> Runner::Impl::capture() {
  // What is derived from params alone is then there, and no part of the graph.
  if (Status status = forward(); !status) return tl::unexpected(status.error());
  // The stream of replays does not wait for that of other calls.
  if (Status status = backend.synchronize(args.stream); !status) {
    return tl::unexpected(status.error());
  }
  const Stream plain = args.stream;
  Result<std::unique_ptr<CapturedWork>> captured = backend.capture([this](Stream stream) {
    args.stream = stream;
    return forward();
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

Result<double> Runner::Impl::time_replayed_per_step(int repeats) {
  if (Status status = check_repeats(repeats); !status) return tl::unexpected(status.error());
  const Result<std::unique_ptr<CapturedWork>> captured = capture();
  if (!captured) return tl::unexpected(captured.error());
  CapturedWork& work = **captured;
  return median_per_step(repeats, [&work] { return work.replay(); }, work.stream());
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
  return call_alone(impl_->running, verb, impl_->program.signature().name,
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
Result<double> Runner::time_replayed_per_step(int repeats) {
  return call("time", [&](Impl& impl) { return impl.time_replayed_per_step(repeats); });
}

}  // namespace rnnc
