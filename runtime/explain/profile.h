/// What `rnnc profile` and `rnnc explain --measure` add to an explanation: how long its launches took.
#pragma once

#include <string>

#include "runtime/backend/launch_times.h"
#include "runtime/explain/training_explanation.h"

namespace rnnc::explain {

/// Of a half of training, or of calls without gradients.
struct MeasuredCall {
  const LaunchTimes& times;
  double seconds = 0;  // the median of `runs` calls whose launches were not timed
  int runs = 0;
};

/// `explanation` is of the plan that ran.
void add_measured(Explanation& explanation, const MeasuredCall& call);

/// Where the time of a measured explanation went, for a terminal.
std::string profile_text(const Explanation& explanation);
std::string profile_text(const TrainingExplanation& explanation);

/// The spans of one call, or of a forward call and its backward one, as JSON that chrome://tracing
/// and ui.perfetto.dev show.
std::string profile_trace(const Explanation& explanation, const LaunchTimes& times);
std::string profile_trace(const TrainingExplanation& explanation, const LaunchTimes& forward,
                          const LaunchTimes& backward);

}  // namespace rnnc::explain
