#include "tests/support/reference/scan_tiles.h"

#include <algorithm>
#include <cmath>

namespace rnnc {
namespace {

using Row = std::vector<double>;

class Tiles {
 public:
  Tiles(const Kernel& kernel, const ScanLaunch& launch, const ScanValues& values)
      : kernel_(kernel), launch_(launch), values_(values) {}

  /// The states of a round after steps [begin, end): those of earlier rounds are right in `before`.
  /// Where the composed map is not finite they are what the steps make of them, one by one.
  void compose(size_t number, int64_t begin, int64_t end, ScanStates before, ScanStates& after) {
    const ScanRound& round = launch_.rounds[number];
    const size_t m = round.states.size();
    const ScanStates first = before;
    ScanStates one_by_one = before;
    std::vector<Row> map = identity(round);
    for (int64_t step = begin; step < end; ++step) {
      const ScanStates values = values_(before, step);
      map = composed(round, values, map);
      advance(number, values, before);
      advance(number + 1, values_(one_by_one, step), one_by_one);
    }
    for (size_t i = 0; i < m; ++i) {
      Row& state = after[round.states[i]];
      for (size_t e = 0; e < state.size(); ++e) {
        state[e] = map[i * (m + 1) + m][e];
        for (size_t j = 0; j < m; ++j) {
          const double h = first[round.states[j]][e];
          state[e] = joined(round.semiring, state[e], map[i * (m + 1) + j][e], h);
        }
        if (!std::isfinite(state[e])) state[e] = one_by_one[round.states[i]][e];
      }
    }
  }

 private:
  /// [m, m + 1] rows, the last column the offsets.
  std::vector<Row> identity(const ScanRound& round) const {
    const size_t m = round.states.size();
    std::vector<Row> map(m * (m + 1), row(zero(round.semiring)));
    const double one = round.semiring == Semiring::SumProduct ? 1 : 0;
    for (size_t i = 0; i < m; ++i) map[i * (m + 1) + i] = row(one);
    return map;
  }

  std::vector<Row> composed(const ScanRound& round, const ScanStates& values,
                            const std::vector<Row>& map) const {
    const size_t m = round.states.size();
    std::vector<Row> next(map.size(), row(zero(round.semiring)));
    for (size_t e = 0; e < next[0].size(); ++e) {
      for (size_t i = 0; i < m; ++i) {
        next[i * (m + 1) + m][e] = element(values, round.offsets[i], e);
        for (size_t k = 0; k < m; ++k) {
          const double a = element(values, round.coefficients[i * m + k], e);
          for (size_t j = 0; j <= m; ++j) {
            double& sum = next[i * (m + 1) + j][e];
            sum = joined(round.semiring, sum, a, map[k * (m + 1) + j][e]);
          }
        }
      }
    }
    return next;
  }

  /// The states of rounds before that one, by a step.
  void advance(size_t number, const ScanStates& values, ScanStates& states) const {
    for (size_t round = 0; round < number; ++round) {
      for (const uint32_t state : launch_.rounds[round].states) {
        const auto stored = std::ranges::find_if(kernel_.body, [&](const Instruction& instruction) {
          return instruction.kind == Instruction::Kind::Store &&
                 instruction.argument == launch_.carries[state].store;
        });
        for (size_t e = 0; e < states[state].size(); ++e) {
          states[state][e] = element(values, stored->operands[0], e);
        }
      }
    }
  }

  Row row(double value) const { return Row(static_cast<size_t>(kernel_.length), value); }
  static double zero(Semiring semiring) {
    if (semiring == Semiring::SumProduct) return 0;
    return semiring == Semiring::MaxPlus ? -INFINITY : INFINITY;
  }
  static double joined(Semiring semiring, double sum, double a, double b) {
    if (semiring == Semiring::SumProduct) return sum + a * b;
    return evaluate(semiring == Semiring::MaxPlus ? Op::Max : Op::Min, sum, a + b, 0);
  }
  static double element(const ScanStates& values, uint32_t id, size_t e) {
    return values[id][values[id].size() == 1 ? 0 : e];
  }

  const Kernel& kernel_;
  const ScanLaunch& launch_;
  const ScanValues& values_;
};

}  // namespace

std::vector<ScanStates> scan_tiles(const Kernel& kernel, const ScanLaunch& launch,
                                   const std::vector<int64_t>& begins, const ScanStates& first,
                                   const ScanValues& values) {
  std::vector<ScanStates> before(begins.size(), first);
  Tiles tiles(kernel, launch, values);
  for (size_t round = 0; round < launch.rounds.size(); ++round) {
    for (size_t tile = 0; tile + 1 < begins.size(); ++tile) {
      tiles.compose(round, begins[tile], begins[tile + 1], before[tile], before[tile + 1]);
    }
  }
  return before;
}

}  // namespace rnnc
