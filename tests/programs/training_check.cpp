// 1. Move the arguments off the grid that they lie on, so that no two of them are equal.
// 2. Gradients of all passes, and how far rounding of the arguments moves them.
// 3. Their sum along a random direction beside difference quotients over two distances, which agree
//    where the loss is smooth.
// 4. The same gradients by other ways.
#include "tests/programs/training_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/program/run.h"
#include "tests/support/reference/interpreter_run.h"
#include "tests/support/reference/sequence_oracle.h"

namespace rnnc::test {
namespace {

double unit_of(const Device& device) {
  return device.kind == Device::Kind::cpu ? 1e-15 : 1e-6;
}

/// Calls `change` with each number that has a gradient.
template <typename Change>
InterpreterArgs changed(const Graph& graph, InterpreterArgs args, const Change& change) {
  const auto all = [&change](std::vector<double>& array) {
    for (double& value : array) value = change(value);
  };
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    if (!graph.inputs[i].integer) all(args.inputs[i]);
  }
  std::ranges::for_each(args.params, all);
  std::ranges::for_each(args.initial_states, all);
  return args;
}

class Directions {
 public:
  explicit Directions(uint64_t seed) : engine_(seed) {}
  double next() { return std::uniform_real_distribution<double>(-1, 1)(engine_); }
  size_t below(size_t count) { return engine_() % count; }

 private:
  std::mt19937_64 engine_;
};

/// Weights of a loss that is linear in the results.
struct Weights {
  std::vector<std::vector<double>> outputs, states;
};

Weights draw_weights(const InterpreterResult& results, Directions& random) {
  const auto draw = [&random](const std::vector<std::vector<double>>& arrays) {
    std::vector<std::vector<double>> weights = arrays;
    for (std::vector<double>& array : weights) {
      for (double& weight : array) weight = random.next();
    }
    return weights;
  };
  return {.outputs = draw(results.outputs), .states = draw(results.final_states)};
}

double loss_of(const Weights& weights, const InterpreterResult& results) {
  double loss = 0;
  const auto add = [&loss](const std::vector<std::vector<double>>& factors,
                           const std::vector<std::vector<double>>& arrays) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      for (size_t j = 0; j < arrays[i].size(); ++j) loss += factors[i][j] * arrays[i][j];
    }
  };
  add(weights.outputs, results.outputs);
  add(weights.states, results.final_states);
  return loss;
}

LossGradients named_weights(const Graph& graph, const Weights& weights,
                            const InterpreterArgs& args) {
  InterpreterArgs states = args;
  states.initial_states = weights.states;
  LossGradients loss{.final_states = named_args(graph, states, {}, {}).initial_states};
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    std::vector<int64_t> shape = {args.steps, args.batch};
    for (const Dim& dim : graph[graph.outputs[i].value].type.shape) {
      shape.push_back(dim.constant().value());
    }
    loss.outputs.push_back(
        {graph.outputs[i].name, Array::from_doubles(weights.outputs[i], shape, DType::f64)});
  }
  return loss;
}

struct Way {
  Device device = {};
  DType dtype = DType::f64;
  PassSet passes = PassSet::all();
  int threads = 1;
  int64_t chunk = 0;
  ResidualChoice residuals = ResidualChoice::Auto;
  int64_t checkpoint = 0;
  CpuTarget cpu = {};
  int64_t tile_rank = 0;
  Strategy strategy = Strategy::Any;

  std::string text() const {
    return fmt::format(
        "passes {}, {} threads, chunk {}, residuals {}, checkpoints {}, {}, rank {}, "
        "strategy {}",
        passes.to_string(), threads, chunk, to_string(residuals), checkpoint, to_string(cpu.level),
        tile_rank, to_string(strategy));
  }
};

/// A program that gives gradients by one way.
class Trainer {
 public:
  static Result<Trainer> compile(const Graph& graph, const Setting& setting, const Way& way) {
    Result<Program> program = Program::compile(graph, {.dtype = way.dtype,
                                                       .device = way.device,
                                                       .threads = way.threads,
                                                       .cpu = way.cpu,
                                                       .chunk = way.chunk,
                                                       .passes = way.passes,
                                                       .strategy = way.strategy,
                                                       .tile_rank = way.tile_rank});
    if (!program) return tl::unexpected(program.error());
    return Trainer(graph, setting, way, *program);
  }

  /// All of them, in an order that is the same for all ways.
  Result<std::vector<NamedArray>> gradients(const InterpreterArgs& args, const Weights& weights) {
    Result<RunGradients> result =
        runner_.gradients(named_args(*graph_, args, setting_->lengths, setting_->resets),
                          named_weights(*graph_, weights, args), way_.residuals, way_.checkpoint);
    if (!result) return tl::unexpected(result.error());
    std::vector<NamedArray> all = std::move(result->params);
    for (auto* more : {&result->inputs, &result->initial_states}) {
      for (NamedArray& array : *more) all.push_back(std::move(array));
    }
    return all;
  }

 private:
  Trainer(const Graph& graph, const Setting& setting, const Way& way, Program& program)
      : graph_(&graph), setting_(&setting), way_(way), runner_(program) {}

  const Graph* graph_;
  const Setting* setting_;
  Way way_;
  Runner runner_;  // which keeps its program alive
};

double along(const std::vector<NamedArray>& gradients, const RunArgs& direction) {
  double sum = 0;
  for (const auto* arrays : {&direction.params, &direction.inputs, &direction.initial_states}) {
    for (const NamedArray& moved : *arrays) {
      const auto found = std::ranges::find(gradients, moved.name, &NamedArray::name);
      if (found == gradients.end()) continue;
      const std::vector<double> slope = found->array.to_doubles();
      const std::vector<double> step = moved.array.to_doubles();
      for (size_t i = 0; i < slope.size(); ++i) sum += slope[i] * step[i];
    }
  }
  return sum;
}

/// Of the loss, from its values at two distances: none where they do not agree.
std::optional<double> difference_quotient(const Graph& graph, const InterpreterArgs& args,
                                          const Setting& setting, const Weights& weights,
                                          uint64_t seed) {
  const auto quotient = [&](double distance) {
    const auto at = [&](double along) {
      Directions random(seed);
      const InterpreterArgs moved =
          changed(graph, args, [&](double value) { return value + along * random.next(); });
      return loss_of(weights, interpret_sequences(graph, moved, setting.lengths, setting.resets));
    };
    return (at(distance) - at(-distance)) / (2 * distance);
  };
  const double near = quotient(1e-6);
  const double far = quotient(4e-6);
  if (!(std::fabs(near - far) <= 1e-5 * (1 + std::fabs(near)))) return std::nullopt;
  return near;
}

/// `narrow`: the same on the CPU in float32, or empty. What exceeds that there may be anything.
Status compare(const std::vector<NamedArray>& expected, const std::vector<NamedArray>& moved,
               const std::vector<NamedArray>& got, const std::vector<NamedArray>& narrow,
               double unit) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> a = expected[i].array.to_doubles();
    const std::vector<double> b = got[i].array.to_doubles();
    const std::vector<double> c = moved[i].array.to_doubles();
    const std::vector<double> d = narrow.empty() ? a : narrow[i].array.to_doubles();
    if (a.size() != b.size()) return fail("{} has {} elements", expected[i].name, b.size());
    double tolerance = 10 * unit;
    for (size_t j = 0; j < a.size(); ++j) {
      tolerance = std::max({tolerance, std::fabs(a[j] - c[j]), 10 * unit * std::fabs(a[j])});
    }
    for (size_t j = 0; j < a.size(); ++j) {
      if (std::isnan(a[j]) ? std::isnan(b[j]) : std::fabs(a[j] - b[j]) <= 1000 * tolerance)
        continue;
      if (std::isfinite(a[j]) && !std::isfinite(d[j])) continue;
      return fail("the gradient of {}[{}] is {}, and {} with all passes (tolerance {})",
                  expected[i].name, j, b[j], a[j], 1000 * tolerance);
    }
  }
  return {};
}

Way other_way(const Setting& setting, const Device& device, Directions& random) {
  const auto any = [&random](size_t most) { return static_cast<int64_t>(1 + random.below(most)); };
  const auto of = [&random](auto one, auto another) {
    return random.below(2) == 0 ? one : another;
  };
  return {.device = device,
          .dtype = device.kind == Device::Kind::cpu ? DType::f64 : DType::f32,
          .passes = of(setting.passes, PassSet::all()),
          .threads = static_cast<int>(any(3)),
          .chunk = any(5),
          .residuals = of(ResidualChoice::Least, ResidualChoice::All),
          .checkpoint = setting.reversed ? 0 : of(int64_t{0}, any(5)),
          .cpu = {.level = of(CpuLevel::Baseline, of(CpuLevel::Avx2, CpuLevel::Host))},
          .tile_rank = of(int64_t{0}, any(9)),
          .strategy = setting.strategy};
}

}  // namespace

Status check_training(const Graph& graph, const InterpreterArgs& given, const Setting& setting,
                      const Device& device, uint64_t seed) {
  const double unit = unit_of(device);
  Directions random(seed);
  const InterpreterArgs args =
      changed(graph, given, [&random](double value) { return value + 0.003 * random.next(); });
  const Weights weights =
      draw_weights(interpret_sequences(graph, args, setting.lengths, setting.resets), random);
  Result<Trainer> trainer = Trainer::compile(graph, setting, {});
  if (!trainer) return tl::unexpected(trainer.error());
  const auto expected = trainer->gradients(args, weights);
  if (!expected) return tl::unexpected(expected.error());
  const InterpreterArgs rounded = changed(graph, args, [&](double value) {
    return value * (1 + (random.below(2) == 0 ? unit : -unit));
  });
  const auto moved = trainer->gradients(rounded, weights);
  if (!moved) return tl::unexpected(moved.error());

  if (const auto quotient = difference_quotient(graph, args, setting, weights, seed)) {
    Directions direction(seed);
    const InterpreterArgs steps =
        changed(graph, args, [&direction](double) { return direction.next(); });
    const double slope = along(*expected, named_args(graph, steps, {}, {}));
    if (!(std::fabs(slope - *quotient) <= 1e-4 * (1 + std::fabs(*quotient)))) {
      return fail("the gradients' sum along a direction is {}, the difference quotient {}", slope,
                  *quotient);
    }
  }
  Way way = other_way(setting, device, random);
  const auto train = [&](const Way& by) -> Result<std::vector<NamedArray>> {
    Result<Trainer> other = Trainer::compile(graph, setting, by);
    if (!other) return tl::unexpected(other.error());
    return other->gradients(args, weights);
  };
  auto got = train(way);
  if (!got && is_refusal(got.error())) {
    way.strategy = Strategy::Any;
    got = train(way);
  }
  Status same = got ? compare(*expected, *moved, *got, {}, unit) : tl::unexpected(got.error());
  if (got && !same && way.dtype == DType::f32) {
    const auto narrow = train({.dtype = DType::f32});
    if (!narrow) return tl::unexpected(narrow.error());
    same = compare(*expected, *moved, *got, *narrow, unit);
  }
  if (!same) return fail("with {}: {}", way.text(), same.error().message);
  return {};
}

}  // namespace rnnc::test
