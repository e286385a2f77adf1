#include "tests/support/reference/sequence_oracle.h"

#include <algorithm>

namespace rnnc {
namespace {

size_t width(const Type& type) {
  return static_cast<size_t>(element_count(type.shape));
}

/// Steps [begin, end) of one sequence.
struct Segment {
  size_t begin = 0;
  size_t end = 0;
};

class Oracle {
 public:
  Oracle(const Graph& graph, const InterpreterArgs& args, const std::vector<uint8_t>& resets)
      : graph_(graph), args_(args), resets_(resets), batch_(static_cast<size_t>(args.batch)) {
    const auto steps = static_cast<size_t>(args.steps);
    for (const OutputDecl& output : graph.outputs) {
      result_.outputs.emplace_back(steps * batch_ * width(graph[output.value].type), 0.0);
    }
    for (const StateDecl& state : graph.states) {
      result_.final_states.emplace_back(batch_ * width(state.type));
    }
  }

  void run_sequence(size_t b, size_t length) {
    std::vector<Segment> segments = {{0, 0}};
    for (size_t t = 0; t < length; ++t) {
      if (t > 0 && is_reset(t, b)) segments.push_back({t, t});
      segments.back().end = t + 1;
    }
    for (const Segment& segment : segments) {
      const bool first = segment.begin == 0;
      const bool last = segment.end == length;
      const bool begins_anew = segment.end > 0 && is_reset(segment.begin, b);
      InterpreterArgs args = inputs_of(b, segment);
      for (size_t s = 0; s < graph_.states.size(); ++s) {
        const bool starts = graph_.states[s].reversed ? last : first && !begins_anew;
        args.initial_states.push_back(starts ? given(s, b) : std::vector<double>());
      }
      store(interpret(graph_, args), b, segment, first, last);
    }
  }

  InterpreterResult result() { return std::move(result_); }

 private:
  bool is_reset(size_t t, size_t b) const {
    return !resets_.empty() && resets_[t * batch_ + b] != 0;
  }

  InterpreterArgs inputs_of(size_t b, const Segment& segment) const {
    InterpreterArgs args;
    args.steps = static_cast<int64_t>(segment.end - segment.begin);
    args.batch = 1;
    args.params = args_.params;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const size_t size = width(graph_.inputs[i].type);
      std::vector<double>& sequence = args.inputs.emplace_back();
      for (size_t t = segment.begin; t < segment.end; ++t) {
        const double* row = args_.inputs[i].data() + (t * batch_ + b) * size;
        sequence.insert(sequence.end(), row, row + size);
      }
    }
    return args;
  }

  std::vector<double> given(size_t state, size_t b) const {
    if (args_.initial_states.empty() || args_.initial_states[state].empty()) return {};
    const size_t size = width(graph_.states[state].type);
    const double* row = args_.initial_states[state].data() + b * size;
    return {row, row + size};
  }

  void store(const InterpreterResult& run, size_t b, const Segment& segment, bool first,
             bool last) {
    for (size_t o = 0; o < run.outputs.size(); ++o) {
      const size_t size = width(graph_[graph_.outputs[o].value].type);
      for (size_t t = segment.begin; t < segment.end; ++t) {
        std::copy_n(run.outputs[o].data() + (t - segment.begin) * size, size,
                    result_.outputs[o].data() + (t * batch_ + b) * size);
      }
    }
    for (size_t s = 0; s < run.final_states.size(); ++s) {
      if (!(graph_.states[s].reversed ? first : last)) continue;
      std::ranges::copy(run.final_states[s],
                        result_.final_states[s].data() + b * run.final_states[s].size());
    }
  }

  const Graph& graph_;
  const InterpreterArgs& args_;
  const std::vector<uint8_t>& resets_;
  const size_t batch_;
  InterpreterResult result_;
};

}  // namespace

InterpreterResult interpret_sequences(const Graph& graph, const InterpreterArgs& args,
                                      const std::vector<int64_t>& lengths,
                                      const std::vector<uint8_t>& resets) {
  Oracle oracle(graph, args, resets);
  for (size_t b = 0; b < static_cast<size_t>(args.batch); ++b) {
    oracle.run_sequence(b, static_cast<size_t>(lengths.empty() ? args.steps : lengths[b]));
  }
  return oracle.result();
}

}  // namespace rnnc
