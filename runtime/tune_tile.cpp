// 1. Look for the winner of an earlier measurement. What is remembered is its rank and, since a
//    rank alone could come to mean another one, its tiles: if the plan of that rank has others, the
//    entry counts as absent.
// 2. Prepare the plan of each of the best few ranks, leave out those that the device refuses, and
//    time calls on random arrays.
// 3. Remember the fastest.
#include "runtime/tune_tile.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "runtime/choose_plan.h"
#include "runtime/describe.h"
#include "runtime/random_arrays.h"

namespace rnnc {
namespace {

constexpr int64_t kRanks = 4;
constexpr int64_t kMostChunks = 4;  // of a call that is timed
constexpr int kFewestCalls = 3;
constexpr int kMostCalls = 50;
constexpr double kSecondsOfRank = 0.05;  // while which calls are timed
constexpr uint64_t kSeed = 1;

// ---- Remembering ----

/// All that decides how fast tiles are. The plan's own tiles are the model's first choice.
std::string key_of(const Planner& planner, const Plan& first, const Backend& backend) {
  return fmt::format("fastest tile on {}, strategy {}\n{}", backend.identity(),
                     to_string(planner.options().strategy), to_string(first));
}

std::string entry_of(int64_t rank, const Plan& plan) {
  return fmt::format("{}\n{}", rank, fmt::join(tiles_of(plan), "\n"));
}

/// Of an entry, which may be anything.
std::optional<int64_t> rank_of(const std::string& entry) {
  int64_t rank = 0;
  const char* end = entry.data() + entry.size();
  const auto [rest, error] = std::from_chars(entry.data(), end, rank);
  const bool is_rank = error == std::errc() && rest != end && rank >= 0 && rank < kRanks;
  return is_rank ? std::optional(rank) : std::nullopt;
}

// ---- Measuring ----

/// Arrays of a call in the device's memory.
class Arrays {
 public:
  explicit Arrays(Backend& backend) : backend_(backend) {}
  ~Arrays() {
    for (void* memory : memories_) backend_.release(memory);
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  /// Random in ±bound.
  Status add(const ArrayInfo& info, double bound, std::vector<const void*>& pointers) {
    const Array values = random_array(info, bound, kSeed);
    Result<void*> memory = add(values.data.size());
    if (!memory) return tl::unexpected(memory.error());
    pointers.push_back(*memory);
    return backend_.upload(*memory, values.data.data(), values.data.size());
  }
  Result<void*> add(size_t bytes) {
    Result<void*> memory = backend_.allocate(std::max<size_t>(bytes, 1));
    if (memory) memories_.push_back(*memory);
    return memory;
  }

 private:
  Backend& backend_;
  std::vector<void*> memories_;
};

/// A call that can be made again and again.
struct Call {
  explicit Call(Backend& backend) : arrays(backend) {}
  Status make(const Planner& planner, const PlanShape& shape, int64_t steps);
  /// Workspaces of plans differ.
  Status reserve(const Plan& plan);

  Arrays arrays;
  std::vector<const void*> inputs, params, initial_states;
  std::vector<void*> outputs, final_states;
  ForwardArgs args;
};

Status Call::make(const Planner& planner, const PlanShape& shape, int64_t steps) {
  const Signature& signature = planner.signature();
  const auto sequence_of = [&](ArrayInfo info) {
    info.shape.insert(info.shape.begin(), {steps, shape.batch});
    return info;
  };
  Status status;
  for (const ArrayInfo& input : signature.inputs) {
    if (status) status = arrays.add(sequence_of(input), 1, inputs);
  }
  for (const ArrayInfo& param : signature.params) {
    if (status) status = arrays.add(param, weight_bound(param), params);
  }
  for (const ArrayInfo& output : signature.outputs) {
    if (!status) break;
    const Result<void*> memory =
        arrays.add(static_cast<size_t>(sequence_of(output).elements()) * size_of(output.dtype));
    if (!memory) return tl::unexpected(memory.error());
    outputs.push_back(*memory);
  }
  initial_states.resize(signature.states.size());
  final_states.resize(signature.states.size());
  args = {.steps = steps,
          .batch = shape.batch,
          .inputs = inputs,
          .params = params,
          .outputs = outputs,
          .initial_states = initial_states,
          .final_states = final_states};
  return status;
}

Status Call::reserve(const Plan& plan) {
  const auto bytes = static_cast<size_t>(workspace_bytes(plan, args.steps));
  if (bytes <= args.workspace_bytes) return {};
  const Result<void*> memory = arrays.add(bytes);
  if (!memory) return tl::unexpected(memory.error());
  args.workspace = *memory;
  args.workspace_bytes = bytes;
  return {};
}

/// The least seconds of a call.
Result<double> time_calls(Executable& executable, const ForwardArgs& args, Backend& backend) {
  const auto call = [&] { return executable.forward(args, false); };
  // Clocks rise and caches fill before what counts.
  const Status warm = executable.forward(args, true).and_then(call).and_then([&] {
    return backend.synchronize(args.stream);
  });
  if (!warm) return tl::unexpected(warm.error());
  double least = std::numeric_limits<double>::infinity();
  double all = 0;
  for (int calls = 0; calls < kFewestCalls || (calls < kMostCalls && all < kSecondsOfRank);
       ++calls) {
    const Result<double> seconds = backend.time(call, args.stream);
    if (!seconds) return seconds;
    least = std::min(least, *seconds);
    all += *seconds;
  }
  return least;
}

/// The plan of the fastest rank; without one if the device takes none.
struct Winner {
  int64_t rank = 0;
  double seconds = std::numeric_limits<double>::infinity();
  std::optional<Plan> plan = {};
};

Result<Winner> measure(const Planner& planner, const PlanShape& shape, const Plan& first,
                       Backend& backend) {
  Call call(backend);
  const int64_t steps = std::min(shape.max_steps, kMostChunks * first.chunk);
  if (Status status = call.make(planner, shape, steps); !status) {
    return tl::unexpected(status.error());
  }
  Winner winner;
  PlanChoice choice = planner.choice();
  Plan plan = first;
  for (choice.tile_rank = 0; choice.tile_rank < kRanks; ++choice.tile_rank) {
    if (choice.tile_rank > 0) {
      Result<Plan> next = planner.plan(shape, backend.machine(), choice);
      if (!next) return tl::unexpected(next.error());
      if (tiles_of(*next) == tiles_of(plan)) break;  // there are no others
      plan = *std::move(next);
    }
    const Result<std::unique_ptr<Executable>> executable = backend.prepare(plan);
    if (!executable) return tl::unexpected(executable.error());
    if (!(*executable)->refusal().empty()) continue;
    if (Status status = call.reserve(plan); !status) return tl::unexpected(status.error());
    const Result<double> seconds = time_calls(**executable, call.args, backend);
    if (!seconds) return tl::unexpected(seconds.error());
    if (*seconds < winner.seconds) winner = {choice.tile_rank, *seconds, plan};
  }
  return winner;
}

Result<int64_t> find_rank(const Planner& planner, const PlanShape& shape, const Plan& first,
                          Backend& backend, const KernelCache& cache) {
  const std::string key = key_of(planner, first, backend);
  const std::optional<std::string> entry = cache.get(key);
  const std::optional<int64_t> remembered = entry ? rank_of(*entry) : std::nullopt;
  if (remembered) {
    const PlanChoice choice{planner.choice().passes, *remembered};
    const Result<Plan> plan = planner.plan(shape, backend.machine(), choice);
    if (!plan) return tl::unexpected(plan.error());
    if (*entry == entry_of(*remembered, *plan)) return *remembered;
  }
  const Result<Winner> winner = measure(planner, shape, first, backend);
  if (!winner) return tl::unexpected(winner.error());
  if (winner->plan) cache.put(key, entry_of(winner->rank, *winner->plan));
  return winner->rank;
}

}  // namespace

TunedTile tune_tile(const Planner& planner, const PlanShape& shape, const Plan& first,
                    Backend& backend, const KernelCache& cache) {
  if (tiles_of(first).empty()) return {};
  const Result<int64_t> rank = find_rank(planner, shape, first, backend, cache);
  if (rank) return {.rank = *rank};
  return {.note = fmt::format("{} at batch {} is not tuned: {}", quote(planner.signature().name),
                              shape.batch, rank.error().message)};
}

}  // namespace rnnc
