#include "runtime/run.h"

#include <algorithm>
#include <new>
#include <set>

#include "runtime/backend.h"
#include "runtime/describe.h"
#include "runtime/host_memory.h"
#include "runtime/match_arrays.h"

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
    const std::vector<std::byte>& bytes = array.dtype == dtype ? array.data : converted.data;
    if (Status status = reserve(bytes.size()); !status) return status;
    return backend_->upload(memory_, bytes.data(), bytes.size());
  }

  /// As float64 for f64 and float32 otherwise.
  Result<Array> download(DType dtype, std::vector<int64_t> shape) const {
    Array array = Array::zeros(dtype, std::move(shape));
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

/// The arrays of one run, matched.
struct Matched {
  int64_t steps = 0;
  int64_t batch = 0;
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

/// `with_params`: all params must be there.
Result<Matched> match_run(const Signature& signature, const RunArgs& args, bool with_params) {
  if (signature.inputs.empty()) {
    return fail("{} has no inputs, so that no array says how many steps to run",
                quote(signature.name));
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
  if (!problems.empty()) {
    return tl::unexpected(Error{list_problems(signature.name, problems)});
  }
  RNNC_CHECK(steps && batch, "inputs of a wrong shape pass");
  return Matched{*steps, *batch, std::move(inputs.arrays), std::move(params.arrays),
                 std::move(states.arrays)};
}

}  // namespace

struct Runner::Impl {
  Program& program;
  Backend& backend;
  std::vector<Memory> inputs, params, outputs, initial_states, final_states;
  Memory workspace;
  bool params_loaded = false;
  std::set<int64_t> batches_with_params;  // those whose Once stages ran on the loaded params

  // The last run's arguments; the pointer lists are what the spans of `args` point at.
  ForwardArgs args;
  std::vector<const void*> input_pointers, param_pointers, initial_pointers;
  std::vector<void*> output_pointers, final_pointers;

  explicit Impl(Program& owner)
      : program(owner),
        backend(owner.backend()),
        inputs(make_memories(backend, owner.signature().inputs.size())),
        params(make_memories(backend, owner.signature().params.size())),
        outputs(make_memories(backend, owner.signature().outputs.size())),
        initial_states(make_memories(backend, owner.signature().states.size())),
        final_states(make_memories(backend, owner.signature().states.size())),
        workspace(backend) {}

  /// Whether the params of this call are needed.
  bool takes_params(const RunArgs& run_args) const {
    return !params_loaded || !run_args.params.empty();
  }
  /// Refuses what the machine cannot hold beside the caller's own copies.
  Status check_memory(int64_t steps, int64_t batch) const;
  Status prepare(const Matched& matched);
  Status upload_params(const std::vector<const Array*>& arrays);
  Status reserve_results(int64_t steps, int64_t batch);
  Status upload_arrays(const Matched& matched);
  void point_args(const Matched& matched, size_t workspace_bytes);
  Status forward();
  Result<RunResult> run(const RunArgs& run_args);
  Result<RunResult> download_results() const;
};

Status Runner::Impl::check_memory(int64_t steps, int64_t batch) const {
  if (program.options().device.kind != Device::Kind::cpu) return {};
  const Signature& signature = program.signature();
  int64_t bytes = 0;
  const auto add = [&bytes](const std::vector<ArrayInfo>& arrays, int64_t rows) {
    for (const ArrayInfo& array : arrays) {
      bytes += rows * array.elements() * static_cast<int64_t>(size_of(array.dtype));
    }
  };
  add(signature.inputs, steps * batch);
  add(signature.params, 1);
  add(signature.outputs, steps * batch);
  return check_host_memory(fmt::format("the arrays of {}, once given and once on the device, take",
                                       quote(signature.name)),
                           2 * bytes);
}

Status Runner::Impl::prepare(const Matched& matched) {
  if (Status status = check_memory(matched.steps, matched.batch); !status) return status;
  return program.prepare(matched.batch, matched.steps);
}

Status Runner::Impl::upload_params(const std::vector<const Array*>& arrays) {
  params_loaded = false;
  batches_with_params.clear();
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

Status Runner::Impl::upload_arrays(const Matched& matched) {
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
  return {};
}

void Runner::Impl::point_args(const Matched& matched, size_t workspace_bytes) {
  const auto point = [](auto& pointers, const std::vector<Memory>& memories) {
    pointers.clear();
    for (const Memory& memory : memories) pointers.push_back(memory.get());
  };
  point(input_pointers, inputs);
  point(param_pointers, params);
  point(output_pointers, outputs);
  point(initial_pointers, initial_states);
  point(final_pointers, final_states);
  for (size_t i = 0; i < initial_pointers.size(); ++i) {
    if (matched.initial_states[i] == nullptr) initial_pointers[i] = nullptr;
  }
  args = {};
  args.steps = matched.steps;
  args.batch = matched.batch;
  args.inputs = input_pointers;
  args.params = param_pointers;
  args.outputs = output_pointers;
  args.initial_states = initial_pointers;
  args.final_states = final_pointers;
  args.workspace = workspace.get();
  args.workspace_bytes = workspace_bytes;
}

Status Runner::Impl::forward() {
  args.reuse_params = batches_with_params.contains(args.batch);
  Status status = program.forward(args);
  if (status) batches_with_params.insert(args.batch);
  return status;
}

Result<RunResult> Runner::Impl::download_results() const {
  RunResult result;
  const Signature& signature = program.signature();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ArrayInfo& info = signature.outputs[i];
    Result<Array> array =
        outputs[i].download(info.dtype, with_leading({args.steps, args.batch}, info.shape));
    if (!array) return tl::unexpected(array.error());
    result.outputs.push_back({info.name, std::move(*array)});
  }
  for (size_t i = 0; i < final_states.size(); ++i) {
    const ArrayInfo& info = signature.states[i];
    Result<Array> array =
        final_states[i].download(info.dtype, with_leading({args.batch}, info.shape));
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
  if (status) status = reserve_results(matched->steps, matched->batch);
  if (status) status = upload_arrays(*matched);
  if (!status) return tl::unexpected(status.error());
  const Result<size_t> bytes = program.workspace_size(matched->batch, matched->steps);
  if (!bytes) return tl::unexpected(bytes.error());
  status = workspace.reserve(*bytes);
  if (status) point_args(*matched, *bytes);
  if (status) status = forward();
  if (status) status = backend.synchronize(nullptr);
  if (!status) return tl::unexpected(status.error());
  return download_results();
}

Runner::Runner(Program& program) : impl_(std::make_unique<Impl>(program)) {}
Runner::~Runner() = default;
Runner::Runner(Runner&&) noexcept = default;

Status Runner::load_params(const std::vector<NamedArray>& params) {
  const Signature& signature = impl_->program.signature();
  const ArrayMatch match =
      match_arrays("param", signature.name, expect(signature.params, {}), params, true);
  std::vector<std::string> problems;
  append(problems, match);
  if (!problems.empty()) return tl::unexpected(Error{list_problems(signature.name, problems)});
  try {
    return impl_->upload_params(match.arrays);
  } catch (const std::bad_alloc&) {
    return fail("not enough memory for the params of {}", quote(signature.name));
  }
}

Status Runner::prepare(const RunArgs& args) {
  const Result<Matched> matched =
      match_run(impl_->program.signature(), args, impl_->takes_params(args));
  if (!matched) return tl::unexpected(matched.error());
  return impl_->prepare(*matched);
}

Result<RunResult> Runner::run(const RunArgs& args) {
  try {
    return impl_->run(args);
  } catch (const std::bad_alloc&) {
    return fail("not enough memory to run {}", quote(impl_->program.signature().name));
  }
}

Result<double> Runner::time_per_step(int repeats) {
  if (impl_->args.steps == 0) return fail("there was no run whose time could be measured");
  if (repeats < 1) return fail("repeats must be at least 1, got {}", repeats);
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const Result<double> time =
        impl_->backend.time([this] { return impl_->forward(); }, impl_->args.stream);
    if (!time) return time;
    seconds.push_back(*time / static_cast<double>(impl_->args.steps));
  }
  std::ranges::sort(seconds);
  const size_t middle = seconds.size() / 2;
  return seconds.size() % 2 == 1 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
}

}  // namespace rnnc
