// For each wave of each sweep:
// 1. put the stages that are at work in it one after the other, each lag on a track of its own;
// 2. if the machine cannot do all of that in the time of the longest track, or it takes longer to
//    make the launches, stretch them all;
// 3. go on where the longest ends, after the time between waves.
#include "runtime/explain/waves.h"

#include <algorithm>
#include <map>

#include "ir/plan/waves.h"
#include "passes/cost/side_by_side.h"

namespace rnnc::explain {
namespace {

class Clock {
 public:
  Clock(const Plan& plan, const std::vector<Cost>& costs, int64_t steps, const Machine& machine)
      : plan_(plan), costs_(costs), steps_(steps), machine_(machine), runs_(side_by_side(plan)) {
    waves_.chunks = chunks_of(plan, steps);
  }

  Waves run() {
    for (uint32_t sweep = 0; sweep < plan_.sweeps; ++sweep) {
      const uint32_t lags = lags_of(sweep);
      waves_.lags = std::max(waves_.lags, lags);
      for (int64_t wave = 0; wave < waves_.chunks + lags; ++wave, ++waves_.total) {
        if (waves_.bars.size() + plan_.stages.size() > Waves::kMostBars) {
          waves_.cut = true;
        } else {
          add_wave(sweep, wave);
        }
      }
    }
    return std::move(waves_);
  }

 private:
  uint32_t lags_of(uint32_t sweep) const {
    uint32_t lags = 0;
    for (const Stage& stage : plan_.stages) {
      if (stage.sweep == sweep) lags = std::max(lags, stage.lag);
    }
    return lags;
  }

  void add_wave(uint32_t sweep, int64_t wave) {
    const size_t first_bar = waves_.bars.size();
    std::map<uint32_t, double> ends;  // of each lag's track, since the wave began
    double needed = 0;                // of the machine, by all
    double submitted = 0;             // when the last is launched
    clock_ += fork_seconds(plan_, sweep, machine_);
    for (const StageRun& run : runs_) {
      const Stage& first = plan_.stages[run.begin];
      const int64_t chunk = wave - first.lag;
      const bool here = is_of_sweeps(first.domain) && first.sweep == sweep;
      if (!here || chunk < 0 || chunk >= waves_.chunks) continue;
      const double start = ends[first.lag];
      for (size_t id = run.begin; id < run.end; ++id) {
        const double times = runs_in_chunk(plan_.stages[id], chunk);
        const double seconds = costs_[id].seconds * times;
        waves_.bars.push_back({static_cast<uint32_t>(id), static_cast<uint32_t>(waves_.total),
                               chunk, clock_ + start, seconds});
        ends[first.lag] = std::max(ends[first.lag], start + seconds);
        needed += machine_.kind == Machine::Kind::Cpu ? seconds : costs_[id].floor_seconds * times;
        submitted += costs_[id].submit_seconds * times;
      }
    }
    double longest = 0;
    for (const auto& [lag, end] : ends) longest = std::max(longest, end);
    needed = std::max(needed, submitted);
    if (needed > longest && longest > 0) stretch(first_bar, needed / longest);
    clock_ += std::max(longest, needed) + machine_.wave_seconds;
  }

  double runs_in_chunk(const Stage& stage, int64_t chunk) const {
    if (stage.domain != Domain::Step) return 1;
    return static_cast<double>(std::min(plan_.chunk, steps_ - chunk * plan_.chunk));
  }

  void stretch(size_t first_bar, double factor) {
    for (size_t i = first_bar; i < waves_.bars.size(); ++i) {
      Waves::Bar& bar = waves_.bars[i];
      bar.start = clock_ + (bar.start - clock_) * factor;
      bar.seconds *= factor;
    }
  }

  const Plan& plan_;
  const std::vector<Cost>& costs_;
  int64_t steps_;
  const Machine& machine_;
  std::vector<StageRun> runs_;
  Waves waves_;
  double clock_ = 0;
};

}  // namespace

Waves run_waves(const Plan& plan, const std::vector<Cost>& costs, int64_t steps,
                const Machine& machine) {
  return Clock(plan, costs, steps, machine).run();
}

}  // namespace rnnc::explain
