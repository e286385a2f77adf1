// 1. Look for the winner of an earlier measurement. What is remembered is its name and, since a
//    name alone could come to mean another plan, its tiles: if the plan of that name has others,
//    the entry counts as absent.
// 2. Of the candidates (passes/candidates.h) whose plans differ, leave out what the device refuses,
//    and time calls on random arrays.
// 3. Remember the fastest.
#include "runtime/program/tune.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/arrays/random_arrays.h"
#include "runtime/base/describe.h"
#include "runtime/program/choose_plan.h"

namespace rnnc {
namespace {

// A call that is timed has so many chunks of the first plan, or, since others may have longer ones,
// so many steps; or all that there may be.
constexpr int64_t kChunks = 4;
constexpr int64_t kFewestSteps = 128;
constexpr int kFewestCalls = 3;
constexpr int kMostCalls = 50;
constexpr double kSecondsOfPlan = 0.05;  // while which calls are timed
constexpr uint64_t kSeed = 1;
constexpr double kShareOfOwn = 0.99;  // that the options' own choice is held to take

/// Whether there is a choice.
bool may_be_resident(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) {
    return is_resident(stage) ||
           (stage.domain == Domain::Step && (stage.recurrence == RecurrenceClass::Block ||
                                             stage.recurrence == RecurrenceClass::Dense));
  });
}

// ---- Remembering ----

/// All that decides which plan is fastest. The first is the model's choice.
std::string key_of(const Planner& planner, const Plan& first, const Backend& backend) {
  return fmt::format("fastest plan on {}, strategy {}\n{}", backend.identity(),
                     to_string(planner.options().strategy), to_string(first));
}

std::string entry_of(const PlanCandidate& candidate, const Plan& plan) {
  return fmt::format("{}\n{}", candidate.name, fmt::join(tiles_of(plan), "\n"));
}

/// Of an entry, which may be anything.
std::optional<PlanCandidate> candidate_of(const std::string& entry, const Planner& planner) {
  const std::vector<PlanCandidate> all = plan_candidates(planner.choice());
  const auto found =
      std::ranges::find(all, entry.substr(0, entry.find('\n')), &PlanCandidate::name);
  return found == all.end() ? std::nullopt : std::optional(*found);
}

// ---- Measuring ----

/// Memory of the device, until the end.
class DeviceMemory {
 public:
  explicit DeviceMemory(Backend& backend) : backend_(backend) {}
  ~DeviceMemory() {
    for (void* memory : memories_) backend_.release(memory);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Result<std::byte*> add(size_t bytes) {
    Result<void*> memory = backend_.allocate(std::max<size_t>(bytes, 1));
    if (!memory) return tl::unexpected(memory.error());
    memories_.push_back(*memory);
    return static_cast<std::byte*>(*memory);
  }
  /// The same random numbers over and over: a device takes as long with any.
  Status fill(std::byte* to, size_t bytes, const Buffer& buffer, double bound) {
    const ArrayInfo numbers = {.name = buffer.name, .shape = {kNumbers}, .dtype = buffer.dtype};
    const Array array = random_array(numbers, bound, kSeed);
    for (size_t at = 0; at < bytes; at += array.data.size()) {
      const size_t piece = std::min(bytes - at, array.data.size());
      if (Status status = backend_.upload(to + at, array.data.data(), piece); !status) {
        return status;
      }
    }
    return {};
  }

 private:
  static constexpr int64_t kNumbers = 1 << 18;

  Backend& backend_;
  std::vector<void*> memories_;
};

/// A call of any plan of a graph that can be made again and again. States begin as declared.
class TimedCall {
 public:
  TimedCall(Backend& backend, int64_t steps) : memory_(backend) { call_.steps = steps; }

  /// With what the plan reads and writes.
  Result<Call> of(const Plan& plan);

 private:
  Status add(const Plan& plan, const Buffer& buffer, std::vector<const void*>& arrays);

  DeviceMemory memory_;
  std::array<std::vector<const void*>, kCallerRoles> arrays_;
  Call call_;
  size_t workspace_bytes_ = 0;
};

Result<Call> TimedCall::of(const Plan& plan) {
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.placement != Placement::Caller || buffer.role == Role::InitialState) continue;
    std::vector<const void*>& arrays = arrays_[static_cast<size_t>(buffer.role)];
    if (Status status = add(plan, buffer, arrays); !status) return tl::unexpected(status.error());
    call_.arrays.set(buffer.role, arrays);
  }
  const auto bytes = static_cast<size_t>(workspace_bytes(plan, call_.steps));
  if (bytes <= workspace_bytes_) return call_;
  const Result<std::byte*> workspace = memory_.add(bytes);
  if (!workspace) return tl::unexpected(workspace.error());
  call_.workspace = *workspace;
  workspace_bytes_ = bytes;
  return call_;
}

/// Unless a plan before this one had it, too.
Status TimedCall::add(const Plan& plan, const Buffer& buffer, std::vector<const void*>& arrays) {
  if (arrays.size() <= buffer.slot) arrays.resize(buffer.slot + 1, nullptr);
  if (arrays[buffer.slot] != nullptr) return {};
  const int64_t rows = buffer.extent == Extent::Invariant ? 1
                       : buffer.extent == Extent::Batch   ? plan.batch
                                                          : call_.steps * plan.batch;
  const size_t bytes = static_cast<size_t>(rows * buffer.width) * size_of(buffer.dtype);
  const Result<std::byte*> memory = memory_.add(bytes);
  if (!memory) return tl::unexpected(memory.error());
  arrays[buffer.slot] = *memory;
  if (buffer.role != Role::Input && buffer.role != Role::Param) return {};
  // Of params as if all were square matrices: what they make is then as large as what they take.
  const double bound =
      buffer.role == Role::Param ? std::pow(static_cast<double>(buffer.width), -0.25) : 1;
  return memory_.fill(*memory, bytes, buffer, bound);
}

/// The least seconds of a call.
Result<double> time_calls(Executable& executable, const Call& call, Backend& backend) {
  const auto run = [&] { return executable.run(call, false); };
  // Clocks rise and caches fill before what counts.
  const Status warm = executable.run(call, true).and_then(run).and_then([&] {
    return backend.synchronize(call.stream);
  });
  if (!warm) return tl::unexpected(warm.error());
  double least = std::numeric_limits<double>::infinity();
  double all = 0;
  for (int calls = 0; calls < kFewestCalls || (calls < kMostCalls && all < kSecondsOfPlan);
       ++calls) {
    const Result<double> seconds = backend.time(run, call.stream);
    if (!seconds) return seconds;
    least = std::min(least, *seconds);
    all += *seconds;
  }
  return least;
}

/// Without a candidate if the device takes no plan of a resident recurrence.
struct Winner {
  std::optional<PlanCandidate> candidate = {};
  double seconds = std::numeric_limits<double>::infinity();
  Plan plan = {};
};

/// Plans of the same work have the same, whatever they say to people.
std::string work_of(Plan plan) {
  plan.note.clear();
  for (Stage& stage : plan.stages) stage.reason.clear();
  return to_string(plan);
}

Result<Winner> measure(const ShapePlanner& shape_planner, const Plan& first, Backend& backend) {
  const Planner& planner = shape_planner.planner();
  TimedCall timed(backend, std::min(shape_planner.shape().max_steps,
                                    std::max(kFewestSteps, kChunks * first.chunk)));
  Winner winner;
  bool refused = false;
  bool resident = false;  // one of them, at least
  std::set<std::string> tried;
  for (const PlanCandidate& candidate : plan_candidates(planner.choice())) {
    Result<Plan> plan =
        candidate.choice == planner.choice() ? first : shape_planner.plan(candidate.choice);
    if (!plan && candidate.choice.strategy != planner.options().strategy) continue;  // it cannot
    if (!plan) return tl::unexpected(plan.error());
    if (!tried.insert(work_of(*plan)).second) continue;
    const Result<std::unique_ptr<Executable>> executable = backend.prepare(*plan);
    if (!executable) return tl::unexpected(executable.error());
    if (!(*executable)->refusal().empty()) {
      refused = true;
      continue;
    }
    resident = resident || !tiles_of(*plan).empty();
    const Result<Call> call = timed.of(*plan);
    if (!call) return tl::unexpected(call.error());
    const Result<double> seconds = time_calls(**executable, *call, backend);
    if (!seconds) return tl::unexpected(seconds.error());
    const double held = (candidate.choice == planner.choice() ? kShareOfOwn : 1) * *seconds;
    if (held < winner.seconds) winner = {candidate, held, *std::move(plan)};
  }
  // Then choosing a plan finds that too, and says why.
  if (refused && !resident) return Winner{};
  return winner;
}

Result<PlanChoice> find_choice(const ShapePlanner& shape_planner, const Plan& first,
                               Backend& backend, const KernelCache& cache) {
  const Planner& planner = shape_planner.planner();
  const std::string key = key_of(planner, first, backend);
  const std::optional<std::string> entry = cache.get(key);
  const std::optional<PlanCandidate> remembered =
      entry ? candidate_of(*entry, planner) : std::nullopt;
  if (remembered) {
    const Result<Plan> plan = shape_planner.plan(remembered->choice);
    if (plan && *entry == entry_of(*remembered, *plan)) return remembered->choice;
  }
  const Result<Winner> winner = measure(shape_planner, first, backend);
  if (!winner) return tl::unexpected(winner.error());
  if (!winner->candidate) return planner.choice();
  cache.put(key, entry_of(*winner->candidate, winner->plan));
  return winner->candidate->choice;
}

}  // namespace

Tuned tune(const ShapePlanner& planner, const Plan& first, Backend& backend,
           const KernelCache& cache) {
  const PlanChoice own = planner.planner().choice();
  if (!may_be_resident(first) || !own.passes.has(Pass::Resident)) return {own};
  const Result<PlanChoice> choice = find_choice(planner, first, backend, cache);
  if (choice) return {*choice};
  return {own,
          fmt::format("{} at batch {} is not tuned: {}", quote(planner.planner().signature().name),
                      planner.shape().batch, choice.error().message)};
}

}  // namespace rnnc
