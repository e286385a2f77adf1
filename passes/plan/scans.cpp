// 1. For each loop, prove that the states of its kernel go on by affine maps
//    (passes/affine/affine_forms.h), of few states at a time. What it stores none of its loads may
//    read, but for what it carries.
// 2. Give the kernel what the proof added to its body: a copy of it, if others run it too.
// 3. Choose the length of its tiles, and give the scan an exchange on a GPU.
#include "passes/plan/scans.h"

#include <algorithm>
#include <optional>

#include "ir/base/arithmetic.h"
#include "ir/plan/scan_exchange.h"
#include "ir/plan/scan_values.h"
#include "passes/affine/affine_forms.h"

namespace rnnc {
namespace {

using Kind = Instruction::Kind;

// Measured on an H100, MinGRU and others from their gates' pre-activations.
//
// Of what a thread keeps of its steps (ir/plan/scan_values.h), floats: many leave room for few
// blocks beside each other, which is right where there are few channels, since states pass through
// long tiles faster.
constexpr int64_t kMostValues = 32;
constexpr int64_t kMostValuesOfFew = 64;
constexpr int64_t kFewChannels = 4096;
// Pairs of channels load twice as much at once, and take the registers of two.
constexpr int64_t kMostValuesOfPairs = 2;
// So many tiles side by side are on their way at once. Of their channels' each, those of a group
// wait for the first at the same time, but compose the maps between.
constexpr int64_t kTilesAtOnce = 256;
constexpr int64_t kMostGroup = 16;
// A warp's maps of more states would not all find room in shared memory.
constexpr size_t kMostStatesOfManyWarps = 2;

// On a CPU: bytes of a row's tile, which stay in a core's second level cache from one pass over
// them to the next, and its steps, which are worth a hand-over to other threads.
constexpr int64_t kTileBytes = int64_t{128} << 10;
constexpr int64_t kLeastTileSteps = 16;
constexpr int64_t kMostTileSteps = 1024;

class ScanMaker {
 public:
  ScanMaker(Plan& plan, const LoopLaunch& loop, const Machine& machine)
      : plan_(plan),
        loop_(loop),
        kernel_(plan.kernels[loop.kernel]),
        on_cpu_(machine.kind == Machine::Kind::Cpu) {}

  /// Changes nothing but the plan's kernels and buffers, and these only if it is one.
  Result<ScanLaunch> run() {
    if (Status status = check_apart(); !status) return tl::unexpected(status.error());
    const auto forms = find_affine_forms(kernel_.body, states());
    if (!forms) return fail("{}", forms.error().why);
    for (const ScanRound& round : forms->rounds) {
      const size_t m = round.states.size();
      if (m > kMostScanStates) {
        return fail("{} of its states need each other, and a scan takes at most {}", m,
                    kMostScanStates);
      }
    }
    ScanLaunch scan = {
        .accesses = loop_.accesses, .carries = loop_.carries, .rounds = forms->rounds};
    scan.kernel = kernel_with(forms->instructions);
    if (on_cpu_) {
      scan.warps = 1;
      scan.steps_of_warp = steps_in_cache();
      return scan;
    }
    choose_tile(scan);
    scan.exchange = static_cast<BufferId>(plan_.buffers.size());
    plan_.buffers.push_back({.name = "exchange",
                             .dtype = DType::f32,
                             .extent = Extent::Chunk,
                             .width = scan_exchange_width(plan_, scan)});
    return scan;
  }

 private:
  std::vector<CarriedState> states() const {
    std::vector<CarriedState> states(loop_.carries.size());
    for (uint32_t id = 0; id < kernel_.body.size(); ++id) {
      const Instruction& instruction = kernel_.body[id];
      for (size_t i = 0; i < states.size(); ++i) {
        if (instruction.kind == Kind::Load && instruction.argument == loop_.carries[i].load) {
          states[i].loads.push_back(id);
        }
        if (instruction.kind == Kind::Store && instruction.argument == loop_.carries[i].store) {
          states[i].next = instruction.operands[0];
        }
      }
    }
    return states;
  }

  bool is_carried(uint32_t argument) const {
    return std::ranges::any_of(loop_.carries, [&](const LoopLaunch::Carry& carry) {
      return carry.load == argument || carry.store == argument;
    });
  }

  Status check_apart() const {
    if (loop_.carries.size() > kMostProvedStates) {
      return fail("it has {} states", loop_.carries.size());
    }
    for (uint32_t i = 0; i < loop_.accesses.size(); ++i) {
      if (is_carried(i)) {
        if (kernel_.length > 1 && !kernel_.arguments[i].vector) {
          return fail("one of its states is the same for all elements");
        }
        continue;
      }
      if (on_cpu_ && kernel_.length > 1 && kernel_.arguments[i].written &&
          !kernel_.arguments[i].vector) {
        return fail("it stores a value that is the same for all elements");
      }
      for (uint32_t store = 0; store < loop_.accesses.size(); ++store) {
        if (!kernel_.arguments[i].written && kernel_.arguments[store].written &&
            loop_.accesses[i].buffer == loop_.accesses[store].buffer) {
          return fail("it reads at a step what it stores at an earlier one");
        }
      }
    }
    return {};
  }

  uint32_t kernel_with(const std::vector<Instruction>& body) {
    if (body.size() == kernel_.body.size()) return loop_.kernel;
    Kernel kernel = kernel_;
    kernel.name += "_scan";
    kernel.body = body;
    plan_.kernels.push_back(std::move(kernel));
    return static_cast<uint32_t>(plan_.kernels.size() - 1);
  }

  bool changes(uint32_t argument) const {
    return plan_.buffers[loop_.accesses[argument].buffer].extent != Extent::Invariant &&
           !is_carried(argument);
  }

  /// The same for all numbers of threads, so that these change no bits.
  int64_t steps_in_cache() const {
    int64_t bytes = 1;
    for (uint32_t i = 0; i < loop_.accesses.size(); ++i) {
      if (!changes(i)) continue;
      bytes += (kernel_.arguments[i].vector ? kernel_.length : 1) *
               static_cast<int64_t>(size_of(plan_.dtype));
    }
    int64_t steps = kMostTileSteps;
    while (steps > kLeastTileSteps && steps * bytes > kTileBytes) steps /= 2;
    return steps;
  }

  void choose_tile(ScanLaunch& scan) const {
    const int64_t channels = plan_.batch * kernel_.length;
    const bool few = channels < kFewChannels;
    size_t states = 1;
    for (const ScanRound& round : scan.rounds) states = std::max(states, round.states.size());
    const std::vector<bool> kept = scan_values(plan_, scan);
    const int64_t values = std::max<int64_t>(std::ranges::count(kept, true), 1);
    const bool pairs = states == 1 && values <= kMostValuesOfPairs && channels >= 64 && can_pair();
    scan.items = pairs ? 2 : 1;
    scan.warps = few && states <= kMostStatesOfManyWarps ? 16 : 8;
    scan.steps_of_warp = 16;
    const int64_t most = few ? kMostValuesOfFew : kMostValues;
    while (scan.steps_of_warp > 4 && scan.steps_of_warp * scan.items * values > most) {
      scan.steps_of_warp /= 2;
    }
    const int64_t of_channels = ceil_div(channels, 32 * scan.items);
    scan.group = std::clamp<int64_t>(kTilesAtOnce / of_channels, 1, kMostGroup);
  }

  /// Quotients and roots branch, so that a thread's wait for each other: more threads do better.
  bool can_pair() const {
    const auto branches = [](const Instruction& one) {
      return one.kind == Kind::Scalar && (one.op == Op::Div || one.op == Op::Sqrt);
    };
    if (kernel_.length % 2 != 0 || std::ranges::any_of(kernel_.body, branches)) return false;
    for (size_t i = 0; i < loop_.accesses.size(); ++i) {
      const Access& access = loop_.accesses[i];
      if (kernel_.arguments[i].vector && (access.column % 2 != 0 || access.stride % 2 != 0)) {
        return false;
      }
    }
    return true;
  }

  Plan& plan_;
  const LoopLaunch& loop_;
  const Kernel kernel_;  // as it was
  const bool on_cpu_;
};

}  // namespace

ScanChanges run_scans(Plan& plan, const Machine& machine) {
  ScanChanges changes;
  for (Stage& stage : plan.stages) {
    if (stage.launches.size() != 1) continue;
    const auto* const loop = std::get_if<LoopLaunch>(&stage.launches[0]);
    if (loop == nullptr) continue;
    Result<ScanLaunch> scan = ScanMaker(plan, *loop, machine).run();
    if (scan) {
      stage.launches[0] = *std::move(scan);
      ++changes.made;
    } else if (changes.refusal.empty()) {
      changes.refusal = stage.name + ": " + scan.error().message;
    }
  }
  return changes;
}

}  // namespace rnnc
