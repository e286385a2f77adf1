#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "frontend/unit.h"
#include "runtime/backend/backend.h"
#include "tests/api/calls.h"
#include "tests/api/training_calls.h"
#include "tests/support/cells/random_graph.h"

namespace rnnc::test {
namespace {

constexpr const char* kCells[] = {
    R"(
cell Gated[I = 3, H = 5](x: [I]) -> h {
  state h: [H]
  param W, U: [H, I]
  param R: [H, H]
  param b: [H]
  h[t] = sigmoid(U @ x[t] + b) * tanh(W @ x[t] + R @ h[t-1])
}
)",
    R"(
cell Late[H = 4](x: [H], s: []) -> (h, total) {
  state h: [H]
  param g: [H]
  param m: []
  h[t] = g * x[t-2] + 0.5 * h[t-1] + s[t] * h[t-3]
  total = sum(h[t]) + m
}
)",
    R"(
cell Plain[H = 4](x: [H]) -> y {
  y = tanh(x[t])
}
)"};

Result<Graph> cell(Random& random) {
  if (random.one_in(3)) return random_graph(random.below(1000), {.operations = 10});
  Unit unit("cell.rnn", random.pick(kCells));
  std::optional<Graph> graph = unit.lower(unit.definitions()[0], {});
  if (!graph) return fail("{}", unit.render());
  return *std::move(graph);
}

std::vector<std::byte> bits_of(const RunResult& result) {
  std::vector<std::byte> bits;
  for (const auto* arrays : {&result.outputs, &result.final_states}) {
    for (const NamedArray& named : *arrays) {
      bits.insert(bits.end(), named.array.data.begin(), named.array.data.end());
    }
  }
  return bits;
}

/// What a call may end with.
template <typename T>
Status check_told(const Result<T>& result) {
  return result || !result.error().message.empty() ? Status() : fail("an error without words");
}

Status check_result(const Result<RunResult>& result) {
  if (!result) return check_told(result);
  for (const auto* arrays : {&result->outputs, &result->final_states}) {
    for (const NamedArray& named : *arrays) {
      if (Status status = named.array.check(); !status) return status;
    }
  }
  return {};
}

std::vector<std::byte> bits_of(const RunGradients& gradients) {
  std::vector<std::byte> bits = bits_of(gradients.result);
  for (const auto* arrays : {&gradients.params, &gradients.inputs, &gradients.initial_states}) {
    for (const NamedArray& named : *arrays) {
      bits.insert(bits.end(), named.array.data.begin(), named.array.data.end());
    }
  }
  return bits;
}

Status check_result(const Result<RunGradients>& gradients) {
  if (!gradients) return check_told(gradients);
  for (const auto* arrays : {&gradients->params, &gradients->inputs, &gradients->initial_states}) {
    for (const NamedArray& named : *arrays) {
      if (Status status = named.array.check(); !status) return status;
    }
  }
  return check_result(gradients->result);
}

/// Some calls of one program and two runners of it. Errors are of this test, not the calls'.
class ProgramCalls {
 public:
  ProgramCalls(Random& random, const Graph& graph, const CompileOptions& options, Program program)
      : random_(random), graph_(graph), options_(options), program_(std::move(program)) {
    for (int i = 0; i < 2; ++i) runners_.emplace_back(program_);
  }

  Status call() {
    switch (random_.below(17)) {
      case 0:
        return check_told(program_.prepare(random_.size(4), random_.size(8), features()));
      case 1:
        return query();
      case 2:
      case 3:
        return forward();
      case 4:
        return check_told(runner().load_params(args(random_.one_in(2)).params));
      case 5:
        return check_told(runner().prepare(args(random_.one_in(2))));
      case 6:
        return time();
      case 7:
        return move();
      case 8:
        return overlap();
      case 9:
        return starve();
      case 10:
        return gradients();
      case 11:
      case 12:
      case 13:
        return training_.call(program_);
      case 14:
        return forget();
      default:
        return check_result(runner().run(args(random_.one_in(2))));
    }
  }

  /// That a right call gives what it gives in a program of its own.
  Status check_right() {
    if (signature_.inputs.empty()) return {};
    const RunArgs right = args(/*right=*/true);
    Result<Program> fresh = Program::compile(graph_, options_);
    if (!fresh) return tl::unexpected(fresh.error());
    const Result<RunResult> expected = Runner(*fresh).run(right);
    const Result<RunResult> got = runner().run(right);
    if (!expected) return fail("a right call: {}", expected.error().message);
    if (!got) return fail("a right call after wrong ones: {}", got.error().message);
    if (bits_of(*got) != bits_of(*expected)) return fail("a right call gave other bits");
    return check_right_gradients(*fresh);
  }

 private:
  Runner& runner() { return random_.pick(runners_); }
  SequenceFeatures features() { return {random_.one_in(4), random_.one_in(4)}; }
  RunArgs args(bool right, int64_t most_steps = 6) {
    const int64_t steps = 1 + random_.below(most_steps);
    RunArgs args = right_args(random_, signature_, steps, 1 + random_.below(3));
    if (!right) test::spoil(random_, args);
    return args;
  }

  Status query() {
    const int64_t batch = random_.size(4);
    const int64_t steps = random_.size(8);
    static_cast<void>(program_.notes());
    static_cast<void>(program_.options());
    static_cast<void>(program_.backend().machine());
    const Result<PreparedPlan> prepared = program_.prepared(batch, steps, features());
    if (prepared && prepared->plan == nullptr) return fail("a prepared shape without a plan");
    return check_told(program_.workspace_size(batch, steps, features()));
  }

  Status forget() {
    const int64_t batch = random_.size(4);
    const SequenceFeatures with = features();
    const bool all = random_.one_in(2);
    if (Status status = all ? program_.forget() : program_.forget(batch, with); !status) {
      return status;
    }
    const bool gone =
        !program_.prepared(batch, 1, with) && !program_.training_sizes(batch, 1, with);
    return gone ? Status() : fail("a shape that was forgotten is prepared");
  }

  Status check_right_gradients(Program& fresh) {
    const GradientCall right = gradient_call(/*right=*/true);
    // So that the shape is prepared anew: for more steps it may have other chunks.
    const SequenceFeatures with{right.args.lengths.has_value(), right.args.reset.has_value()};
    static_cast<void>(program_.prepare_training(right.batch, 1, {.accumulate = true}, with));
    Runner other(fresh);
    const Result<RunGradients> expected = right.run(other);
    const Result<RunGradients> got = right.run(runner());
    if (!expected) return fail("right gradients: {}", expected.error().message);
    if (!got) return fail("right gradients after wrong calls: {}", got.error().message);
    return bits_of(*got) == bits_of(*expected) ? Status() : fail("right gradients, other bits");
  }

  struct GradientCall {
    int64_t batch = 0;
    RunArgs args;
    LossGradients loss;
    ResidualChoice residuals = ResidualChoice::Auto;
    int64_t checkpoint = 0;

    Result<RunGradients> run(Runner& runner) const {
      return runner.gradients(args, loss, residuals, checkpoint);
    }
  };
  GradientCall gradient_call(bool right) {
    constexpr ResidualChoice kChoices[] = {ResidualChoice::All, ResidualChoice::Least,
                                           ResidualChoice::Auto};
    const int64_t steps = 1 + random_.below(6);
    const int64_t batch = 1 + random_.below(3);
    GradientCall call{.batch = batch,
                      .args = right_args(random_, signature_, steps, batch),
                      .loss = right_loss(random_, signature_, steps, batch),
                      .residuals = random_.pick(kChoices)};
    call.args.piece = 0;
    if (signature_.streams && random_.one_in(2)) call.checkpoint = random_.below(4);
    if (right) return call;
    if (random_.one_in(2)) test::spoil(random_, call.args);
    if (random_.one_in(2)) test::spoil(random_, call.loss);
    if (random_.one_in(4)) call.checkpoint = random_.number(4);
    return call;
  }
  Status gradients() { return check_result(gradient_call(random_.one_in(2)).run(runner())); }

  Status time() {
    constexpr int kRepeats[] = {-1, 0, 1, 2, INT32_MIN};
    Runner& timed = runner();
    const int repeats = random_.pick(kRepeats);
    const Result<double> seconds = random_.one_in(4)   ? timed.time_per_step(repeats)
                                   : random_.one_in(3) ? timed.time_training_per_step(repeats)
                                   : random_.one_in(2)
                                       ? timed.time_replayed_training_per_step(repeats)
                                       : timed.time_replayed_per_step(repeats);
    return seconds && *seconds < 0 ? fail("a time below 0") : check_told(seconds);
  }

  /// Objects that were moved from are called, and given back what they had.
  Status move() {
    Program other(std::move(program_));
    Runner of_nothing(program_);  // NOLINT(bugprone-use-after-move)
    const RunArgs right = args(/*right=*/true);
    const bool refused =
        !program_.prepare(1, 1) && !program_.prepared(1, 1) && !program_.workspace_size(1, 1) &&
        !program_.forward({}) && !program_.prepare_training(1, 1) &&
        !program_.training_sizes(1, 1) && !program_.training_plans(1, 1) && !program_.forget() &&
        !program_.forget(1) && !program_.reserve_bound() && !program_.backward({}) &&
        !of_nothing.gradients(right, {}) && !program_.backend().allocate(8) &&
        !of_nothing.run(right) && program_.signature().inputs.empty();
    program_ = std::move(other);
    Runner moved(std::move(runners_.front()));
    const bool empty = !runners_.front().run(right) && !runners_.front().load_params(right.params);
    runners_.erase(runners_.begin());
    runners_.push_back(std::move(moved));
    return refused && empty ? Status() : fail("what was moved from takes calls");
  }

  /// From two threads: the contract forbids it, and each call is right or refused.
  Status overlap() {
    Runner& first = runners_[0];
    Runner& second = random_.one_in(2) ? runners_[0] : runners_[1];
    const RunArgs ours = args(/*right=*/true);
    const RunArgs theirs = args(random_.one_in(2));
    Status told;
    std::thread other([&] {
      for (int i = 0; i < 3 && told; ++i) told = check_result(second.run(theirs));
    });
    Status status;
    for (int i = 0; i < 3 && status; ++i) {
      status = check_result(first.run(ours));
      static_cast<void>(program_.notes());
    }
    other.join();
    return status ? told : status;
  }

  /// Of what a call takes: compilers that run out of memory are not our code.
  Status starve() {
    const RunArgs right = args(/*right=*/true, /*most_steps=*/200);
    const GradientCall gradients = gradient_call(/*right=*/true);
    const bool trains = random_.one_in(3);
    const auto call = [&] {
      Runner& called = runner();
      return trains ? check_result(gradients.run(called)) : check_result(called.run(right));
    };
    static_cast<void>(call());
    const ScarceMemory scarce(size_t{1024} << random_.below(6));
    return call();
  }

  /// Memory enough for any call that is right; what is wrong can be told without reading it.
  Status forward() {
    const int64_t steps = 1 + random_.below(6);
    const int64_t batch = 1 + random_.below(3);
    ForwardArgs call;
    call.steps = steps;
    call.batch = batch;
    const SequenceFeatures with = features();
    static_cast<void>(program_.prepare(batch, steps, with));
    const Result<size_t> bytes = program_.workspace_size(batch, steps, with);
    if (!bytes) return check_told(bytes);
    std::vector<std::vector<double>> memory;  // for elements of any type
    const auto allocate = [&](const std::vector<ArrayInfo>& arrays, int64_t rows) {
      std::vector<void*> pointers;
      for (const ArrayInfo& info : arrays) {
        pointers.push_back(memory.emplace_back(rows * info.elements(), 0.125).data());
      }
      return pointers;
    };
    const auto constant = [](const std::vector<void*>& pointers) {
      return std::vector<const void*>(pointers.begin(), pointers.end());
    };
    std::vector<const void*> inputs = constant(allocate(signature_.inputs, steps * batch));
    std::vector<const void*> params = constant(allocate(signature_.params, 1));
    std::vector<const void*> initial = constant(allocate(signature_.states, batch));
    std::vector<void*> outputs = allocate(signature_.outputs, steps * batch);
    std::vector<void*> final = allocate(signature_.states, batch);
    const std::vector<int32_t> lengths(batch, static_cast<int32_t>(random_.number(9)));
    const std::vector<uint8_t> reset(steps * batch, static_cast<uint8_t>(random_.below(2)));
    std::vector<char> workspace(*bytes);
    if (random_.one_in(2)) initial.clear();
    if (random_.one_in(2)) final.clear();
    call.workspace = workspace.data();
    call.workspace_bytes = workspace.size();
    if (with.lengths) call.lengths = lengths.data();
    if (with.resets) call.reset = reset.data();
    call.reuse_params = random_.one_in(2);
    if (random_.one_in(2)) {
      for (auto* pointers : {&inputs, &params, &initial}) spoil(*pointers);
      for (auto* pointers : {&outputs, &final}) spoil(*pointers);
      spoil(call);
    }
    call.inputs = inputs;
    call.params = params;
    call.initial_states = initial;
    call.outputs = outputs;
    call.final_states = final;
    return check_told(program_.forward(call));
  }

  template <typename Pointer>
  void spoil(std::vector<Pointer*>& pointers) {
    if (!random_.one_in(4)) return;
    switch (pointers.empty() ? 0 : random_.below(4)) {
      case 0:
        pointers.push_back(nullptr);
        break;
      case 1:
        pointers.pop_back();
        break;
      case 2:
        random_.pick(pointers) = nullptr;
        break;
      default:
        random_.pick(pointers) = reinterpret_cast<Pointer*>(uintptr_t{3});
    }
  }

  void spoil(ForwardArgs& call) {
    switch (random_.below(8)) {
      case 0:
        call.steps = random_.one_in(2) ? -1 : int64_t{1} << (41 + random_.below(22));
        break;
      case 1:
        call.batch = random_.one_in(2) ? -1 : int64_t{1} << (41 + random_.below(22));
        break;
      case 2:
        call.workspace = nullptr;
        break;
      case 3:
        call.workspace_bytes /= 2;
        break;
      case 4:
        call.reserve_bytes = 1;
        break;
      default:
        break;
    }
  }

  Random& random_;
  const Graph& graph_;
  const CompileOptions& options_;
  Program program_;
  const Signature signature_ = program_.signature();
  std::vector<Runner> runners_;
  TrainingCalls training_{random_, graph_, options_};
};

}  // namespace

Status make_program_calls(Random& random, const std::filesystem::path& folder) {
  const Result<Graph> graph = cell(random);
  if (!graph) return tl::unexpected(graph.error());
  static_cast<void>(Program::compile(*graph, odd_options(random)));
  const CompileOptions options{.dtype = random.one_in(2) ? DType::f32 : DType::f64,
                               .threads = static_cast<int>(1 + random.below(3)),
                               .cache_directory = folder / "cache",
                               .chunk = random.below(5),
                               .reverse = random.one_in(5)};
  Result<Program> program = Program::compile(*graph, options);
  if (!program && options.reverse) return {};
  if (!program) return tl::unexpected(program.error());
  ProgramCalls calls(random, *graph, options, *std::move(program));
  for (int i = 0; i < 20; ++i) {
    if (Status status = calls.call(); !status) return status;
  }
  return calls.check_right();
}

}  // namespace rnnc::test
