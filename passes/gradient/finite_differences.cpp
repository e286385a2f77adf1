#include "passes/gradient/finite_differences.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "ir/graph/sweeps.h"
#include "passes/graph/rebuild.h"

namespace rnnc {
namespace {

using Arrays = std::vector<std::vector<double>>;

/// The wider of the two widths with which an element is tried first; next, if these disagree.
constexpr double kWidths[] = {1e-4, 2e-5};
constexpr double kNarrower = 5;  // the other width, so many times
/// Added to norms, so that gradients of zero can be compared.
constexpr double kLeastNorm = 1e-3;

double dot(const Arrays& left, const Arrays& right) {
  double sum = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    for (size_t j = 0; j < right[i].size(); ++j) sum += left[i][j] * right[i][j];
  }
  return sum;
}

double norm_of(const std::vector<double>& array) {
  double squares = 0;
  for (const double element : array) squares += element * element;
  return std::sqrt(squares);
}

class Comparison {
 public:
  Comparison(GradientArgs& args,
             const std::function<InterpreterResult(const InterpreterArgs&)>& run,
             const DifferenceOptions& options)
      : args_(args), run_(run), options_(options), random_(options.seed), loss_(loss()) {}

  DifferenceReport compare(std::string kind, std::string name, const std::vector<double>& gradient,
                           std::vector<double>& array) {
    RNNC_CHECK(gradient.size() == array.size(), "the gradient of {} `{}`", kind, name);
    DifferenceReport report{.kind = std::move(kind), .name = std::move(name)};
    report.elements = array.size();
    report.norm = norm_of(gradient);
    for (const size_t at : choose(array.size()))
      compare_element(at, gradient[at], array[at], report);
    return report;
  }

 private:
  /// Differences of one width: from both sides, and how far those from either are apart.
  struct Differences {
    double central = 0;
    double bend = 0;
    double below() const { return central - bend / 2; }
    double above() const { return central + bend / 2; }
  };

  double loss() const {
    const InterpreterResult result = run_(args_.forward);
    return dot(result.outputs, args_.output_gradients) +
           dot(result.final_states, args_.final_state_gradients);
  }

  std::vector<size_t> choose(size_t count) {
    std::vector<size_t> chosen(count);
    std::iota(chosen.begin(), chosen.end(), size_t{0});
    if (count <= options_.elements) return chosen;
    for (size_t i = 0; i < options_.elements; ++i) {
      std::swap(chosen[i], chosen[i + random_() % (count - i)]);
    }
    chosen.resize(options_.elements);
    return chosen;
  }

  Differences differences(double& element, double width) const {
    const double before = element;
    element = before + width;
    const double above = loss();
    element = before - width;
    const double below = loss();
    element = before;
    return {(above - below) / (2 * width), (above - 2 * loss_ + below) / width};
  }

  /// Of two widths, and how far these disagree.
  struct Trial {
    Differences narrow;
    double central = 0;  // between the central differences
    double kink = 0;     // between bends: that of a smooth function is in proportion to the width
  };

  Trial try_widths(double& element, double width) const {
    const Differences wide = differences(element, width);
    const Differences narrow = differences(element, width / kNarrower);
    return {narrow, std::abs(wide.central - narrow.central),
            std::abs(narrow.bend * kNarrower - wide.bend) / (kNarrower - 1)};
  }

  void compare_element(size_t at, double gradient, double& element,
                       DifferenceReport& report) const {
    const double scale = report.norm + kLeastNorm;
    Trial trial;
    for (const double width : kWidths) {
      trial = try_widths(element, width);
      if (std::max(trial.central, trial.kink) > kMostDifference * scale) continue;
      ++report.compared;  // NaN too
      const double central = trial.narrow.central;
      return note(at, gradient, central, std::abs(gradient - central), scale, report);
    }
    const double below = trial.narrow.below();
    const double above = trial.narrow.above();
    report.kinks.push_back({at, gradient, below, above});
    const auto [low, high] = std::minmax({below, above});
    const double outside = std::max({0.0, low - gradient, gradient - high}) - trial.central;
    note(at, gradient, gradient < low ? low : high, std::max(0.0, outside), scale, report);
  }

  /// Remembers the worst.
  static void note(size_t at, double gradient, double difference, double distance, double scale,
                   DifferenceReport& report) {
    double error = distance / scale;
    if (!std::isfinite(error)) error = std::numeric_limits<double>::infinity();
    if (error <= report.error && report.tried() > 1) return;
    report.error = std::max(error, report.error);
    report.worst = at;
    report.gradient = gradient;
    report.difference = difference;
  }

  GradientArgs& args_;
  const std::function<InterpreterResult(const InterpreterArgs&)>& run_;
  const DifferenceOptions& options_;
  std::mt19937_64 random_;
  const double loss_;
};

}  // namespace

void freeze_stops(Graph& graph, InterpreterArgs& args) {
  const std::vector<Direction> directions = find_directions(graph);
  const auto name_of = [](NodeId id) { return fmt::format("stop@{}", id); };
  std::vector<NodeId> varying;
  std::vector<NodeId> invariant;
  Graph recorded = graph;
  recorded.outputs.clear();
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (graph[id].op != Op::StopGradient) continue;
    if (directions[id] == Direction::Invariant) {
      recorded.results.push_back({name_of(id), id, {}});
      invariant.push_back(id);
    } else {
      const bool reversed = directions[id] == Direction::Reversed;
      const NodeId value = reversed ? recorded.apply(Op::Reverse, {id}) : id;
      recorded.outputs.push_back({name_of(id), value, {}});
      varying.push_back(id);
    }
  }
  if (varying.empty() && invariant.empty()) return;
  InterpreterResult values = interpret(recorded, args);
  std::map<NodeId, uint32_t> decls;
  for (size_t i = 0; i < varying.size(); ++i) {
    decls[varying[i]] = static_cast<uint32_t>(graph.inputs.size());
    graph.inputs.push_back({name_of(varying[i]), graph[varying[i]].type, {}});
    args.inputs.push_back(std::move(values.outputs[i]));
  }
  for (size_t i = 0; i < invariant.size(); ++i) {
    decls[invariant[i]] = static_cast<uint32_t>(graph.params.size());
    graph.params.push_back({name_of(invariant[i]), graph[invariant[i]].type, {}});
    args.params.push_back(std::move(values.results[i]));
  }
  rebuild(graph, all_nodes(graph), [&](Node node, NodeId id, const auto&) {
    if (node.op != Op::StopGradient) return append_node(graph, std::move(node));
    if (directions[id] == Direction::Invariant) return graph.param(decls[id], node.location);
    const NodeId input = graph.input(decls[id], 0, node.location);
    const bool reversed = directions[id] == Direction::Reversed;
    return reversed ? graph.apply(Op::Reverse, {input}, node.location) : input;
  });
}

std::vector<DifferenceReport> compare_with_differences(
    const Graph& graph, GradientArgs args, const Gradients& gradients,
    const std::function<InterpreterResult(const InterpreterArgs&)>& run,
    const DifferenceOptions& options) {
  std::vector<DifferenceReport> reports;
  Comparison comparison(args, run, options);
  const auto compare_all = [&](const std::string& kind, const auto& decls, const Arrays& wanted,
                               Arrays& arrays) {
    for (size_t i = 0; i < wanted.size() && i < arrays.size(); ++i) {
      if (wanted[i].empty()) continue;
      reports.push_back(comparison.compare(kind, decls[i].name, wanted[i], arrays[i]));
    }
  };
  compare_all("input", graph.inputs, gradients.inputs, args.forward.inputs);
  compare_all("param", graph.params, gradients.params, args.forward.params);
  compare_all("state", graph.states, gradients.initial_states, args.forward.initial_states);
  return reports;
}

}  // namespace rnnc
