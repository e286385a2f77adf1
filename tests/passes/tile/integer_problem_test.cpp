// The integer solver against brute force on random problems, and by hand.
#include "passes/solver/integer_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace rnnc::test {
namespace {

using Values = std::vector<int64_t>;

/// An expression, and its value by other means.
struct Sample {
  IntegerExpression expression;
  std::function<int64_t(const Values&)> value;
};

struct SampleConstraint {
  IntegerConstraint constraint;
  std::function<bool(const Values&)> holds;
};

int64_t ceiling(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  while (quotient * b < a) ++quotient;
  return quotient;
}

class RandomProblem {
 public:
  explicit RandomProblem(uint32_t seed) : random_(seed) {
    const int64_t variables = number(1, 4);
    for (int64_t i = 0; i < variables; ++i) {
      choices_.push_back(choices());
      variables_.push_back(problem.variable("x" + std::to_string(i), choices_.back()));
      weights_.push_back(number(-9, 9));
    }
    const int64_t constraints = number(0, 5);
    for (int64_t i = 0; i < constraints; ++i) {
      constraints_.push_back(constraint());
      problem.require(constraints_.back().constraint, "constraint " + std::to_string(i));
    }
  }

  /// The costs of all solutions, sorted.
  std::vector<double> costs() const {
    std::vector<double> result;
    for (Values values(choices_.size()); const Values& solution : all(values, 0)) {
      result.push_back(cost(solution));
    }
    std::ranges::sort(result);
    return result;
  }

  bool is_solution(const Values& values) const {
    return std::ranges::all_of(constraints_,
                               [&](const SampleConstraint& c) { return c.holds(values); });
  }

  double cost(const Values& values) const {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      sum += static_cast<double>(weights_[i] * values[i]);
    }
    return std::abs(sum - 5);
  }

  IntegerExpression expression_of_cost() const {
    IntegerExpression sum = -5;
    for (size_t i = 0; i < variables_.size(); ++i) sum = sum + weights_[i] * variables_[i];
    return max(max(sum, 0 - sum), 0);
  }

  double lower_bound(const Box& box) const {
    return static_cast<double>(box.value(expression_of_cost()).least);
  }

  IntegerProblem problem;

 private:
  int64_t number(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }

  Choices choices() {
    switch (number(0, 4)) {
      case 0:
        return powers_of_two(1, 1 << number(0, 6));
      case 1:
        return multiples_of(number(1, 8), 40);
      case 2:
        return divisors_of(number(1, 60));
      case 3:
        return one_of({number(-9, 9), number(-9, 9), number(0, 99)});
      default:
        return range(number(-4, 2), number(2, 9), number(1, 3));
    }
  }

  Sample sample(int depth) {
    if (depth == 0 || number(0, 3) == 0) {
      if (number(0, 2) == 0) {
        const int64_t constant = number(-4, 30);
        return {constant, [=](const Values&) { return constant; }};
      }
      const auto i = static_cast<size_t>(number(0, static_cast<int64_t>(variables_.size()) - 1));
      return {variables_[i], [=](const Values& values) { return values[i]; }};
    }
    const Sample a = sample(depth - 1);
    const Sample b = sample(depth - 1);
    const auto [x, f] = a;
    const auto [y, g] = b;
    switch (number(0, 6)) {
      case 0:
      case 1:
        return {x + y, [=](const Values& v) { return f(v) + g(v); }};
      case 2:
        return {x - y, [=](const Values& v) { return f(v) - g(v); }};
      case 3:
      case 4:
        return {x * y, [=](const Values& v) { return f(v) * g(v); }};
      case 5:
        return {min(x, y), [=](const Values& v) { return std::min(f(v), g(v)); }};
      default:
        return {ceil_div(x, max(y, 1)),
                [=](const Values& v) { return ceiling(f(v), std::max<int64_t>(g(v), 1)); }};
    }
  }

  SampleConstraint constraint() {
    const auto [x, f] = sample(2);
    const auto [y, g] = sample(1);
    switch (number(0, 5)) {
      case 0:
      case 1:
        return {x <= y + 40, [=](const Values& v) { return f(v) <= g(v) + 40; }};
      case 2:
        return {x >= y, [=](const Values& v) { return f(v) >= g(v); }};
      case 3:
        return {x == y, [=](const Values& v) { return f(v) == g(v); }};
      default:
        return {divides(y, x), [=](const Values& v) { return g(v) > 0 && f(v) % g(v) == 0; }};
    }
  }

  std::vector<Values> all(Values& values, size_t from) const {
    if (from == values.size()) {
      return is_solution(values) ? std::vector<Values>{values} : std::vector<Values>{};
    }
    std::vector<Values> result;
    for (const int64_t value : choices_[from].values) {
      values[from] = value;
      const std::vector<Values> some = all(values, from + 1);
      result.insert(result.end(), some.begin(), some.end());
    }
    return result;
  }

  std::mt19937 random_;
  std::vector<Choices> choices_;
  std::vector<IntegerVariable> variables_;
  std::vector<int64_t> weights_;
  std::vector<SampleConstraint> constraints_;
};

TEST(IntegerProblem, AgreesWithBruteForce) {
  int feasible = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    const RandomProblem random(seed);
    std::vector<double> costs = random.costs();
    feasible += costs.empty() ? 0 : 1;
    const auto cost = [&](const Solution& s) { return random.cost(s.values); };
    const auto bound = [&](const Box& box) { return random.lower_bound(box); };
    for (const Search& search :
         {Search{.cost = cost, .most = 4}, Search{.cost = cost, .lower_bound = bound, .most = 4},
          Search{.least = random.expression_of_cost(), .most = 4}}) {
      const Result<Ranking> ranking = random.problem.solve(search);
      ASSERT_EQ(ranking.has_value(), !costs.empty()) << seed;
      if (!ranking) {
        EXPECT_TRUE(ranking.error().message.find("constraint ") == 0) << ranking.error().message;
        continue;
      }
      costs.resize(std::min<size_t>(costs.size(), 4));
      std::vector<double> found;
      for (const Solution& solution : ranking->best) {
        EXPECT_TRUE(random.is_solution(solution.values)) << seed;
        EXPECT_EQ(solution.cost, random.cost(solution.values));
        found.push_back(solution.cost);
      }
      EXPECT_EQ(found, costs) << seed;
      EXPECT_TRUE(ranking->is_complete);
    }
  }
  // Both happen often.
  EXPECT_GT(feasible, 150);
  EXPECT_LT(feasible, 450);
}

TEST(IntegerProblem, WithoutACostTheFirstSolutionsWillDo) {
  IntegerProblem problem;
  const auto x = problem.variable("x", range(1, 100));
  const auto y = problem.variable("y", range(1, 100));
  problem.require(x * y == 91);
  const Result<Ranking> ranking = problem.solve({.most = 3});
  ASSERT_TRUE(ranking);
  ASSERT_EQ(ranking->best.size(), 3U);
  EXPECT_EQ(problem.to_string(ranking->best[0]), "x 1, y 91");
  EXPECT_EQ(problem.to_string(ranking->best[1]), "x 7, y 13");
  EXPECT_EQ(ranking->best[2].value(x * 2 - y), 13 * 2 - 7);
}

TEST(IntegerProblem, Choices) {
  EXPECT_EQ(range(3, 10, 3).values, Values({3, 6, 9}));
  EXPECT_EQ(range(3, 2).values, Values());
  EXPECT_EQ(range(Interval::kMax - 1, Interval::kMax).values.size(), 2U);
  EXPECT_EQ(multiples_of(8, 30).values, Values({8, 16, 24}));
  EXPECT_EQ(powers_of_two(3, 20).values, Values({4, 8, 16}));
  EXPECT_EQ(powers_of_two(-5, Interval::kMax).values.size(), 63U);
  EXPECT_EQ(divisors_of(36).values, Values({1, 2, 3, 4, 6, 9, 12, 18, 36}));
  EXPECT_EQ(divisors_of(1).values, Values({1}));
  EXPECT_EQ(one_of({5, 1, 5}).values, Values({1, 5}));
}

// -- Intervals --------------------------------------------------------------------------------

TEST(IntegerExpression, WhatOverflowsIsUnknown) {
  const std::vector<Interval> big = {{int64_t{1} << 40, int64_t{1} << 40}};
  const IntegerVariable x{0};
  constexpr int64_t kMax = Interval::kMax;
  EXPECT_EQ((x * x).over(big), (Interval{kMax, kMax}));
  EXPECT_EQ((x * x * 0).over(big), (Interval{0, 0}));
  EXPECT_EQ((x * x - x * x).over(big), Interval::unknown());
  EXPECT_EQ((0 - x * x).over(big), (Interval{Interval::kMin, Interval::kMin}));
  EXPECT_EQ(min(x * x, 5).over(big), (Interval{5, 5}));
  EXPECT_EQ(ceil_div(x * x, 2).over(big), (Interval{(int64_t{1} << 62), kMax}));
  EXPECT_EQ((x * x <= x * x).holds(big), Truth::Unknown);
  EXPECT_EQ((x * x == x * x).holds(big), Truth::Unknown);
  EXPECT_EQ((x * x <= 5).holds(big), Truth::No);
  EXPECT_EQ((x * x >= 5).holds(big), Truth::Yes);
  EXPECT_EQ(divides(x, x * x).holds(big), Truth::Unknown);
  EXPECT_EQ(divides(0, x).holds(big), Truth::No);
  EXPECT_EQ((ceil_div(x, 0) >= 0).holds(big), Truth::Unknown);
}

TEST(IntegerTape, MakesEqualStepsOnce) {
  const IntegerVariable x{0};
  const IntegerVariable y{1};
  IntegerTape tape(2);
  const uint32_t product = tape.add((x + y) * (y + x));  // x, y, a sum, a product
  const uint32_t more = tape.add(ceil_div((y + x) * (x + y) - y, 2));
  EXPECT_EQ(tape.size(), 7U);

  const IntegerTape::Parts parts = tape.parts_of({{more}});
  EXPECT_EQ(parts.variables, std::vector<uint32_t>({0, 1}));
  EXPECT_EQ(parts.users[0].size(), 4U);
  std::vector<Interval> values = tape.values(std::vector<Interval>{{1, 2}, {3, 3}});
  EXPECT_EQ(values[product], (Interval{16, 25}));
  EXPECT_EQ(values[more], (Interval{7, 11}));
  values[0] = {5, 5};
  tape.update(parts.users[0], values);
  EXPECT_EQ(values, tape.values(std::vector<Interval>{{5, 5}, {3, 3}}));
  EXPECT_EQ(tape.add(1 * (IntegerExpression(2) + 3) * x + 0 * y), tape.add(x * 5));
}

TEST(IntegerExpression, HoldsOverIntervals) {
  const std::vector<Interval> box = {{3, 5}, {-2, 4}};
  const IntegerVariable x{0};
  const IntegerVariable y{1};
  EXPECT_EQ((x * y).over(box), (Interval{-10, 20}));
  EXPECT_EQ((x - y).over(box), (Interval{-1, 7}));
  EXPECT_EQ(ceil_div(y, x).over(box), (Interval{0, 2}));
  EXPECT_EQ(ceil_div(x, y).over(box), (Interval{1, 5}));
  EXPECT_EQ((x <= 5).holds(box), Truth::Yes);
  EXPECT_EQ((x >= y).holds(box), Truth::Unknown);
  EXPECT_EQ((x == y + 8).holds(box), Truth::No);
  EXPECT_EQ(divides(7, x).holds(box), Truth::No);
  EXPECT_EQ(divides(7, x - 9).holds(box), Truth::No);
  EXPECT_EQ(divides(7, x - 12).holds(box), Truth::Unknown);
  EXPECT_EQ(divides(4, x).holds(box), Truth::Unknown);
  EXPECT_EQ(divides(x, 2).holds(box), Truth::No);
}

TEST(IntegerProblem, ASolutionNeverOverflows) {
  IntegerProblem problem;
  const auto x = problem.variable("x", powers_of_two(1, Interval::kMax));
  const auto y = problem.variable("y", powers_of_two(1, Interval::kMax));
  problem.require(x * y >= int64_t{1} << 60);
  problem.require(x * y * 4 <= Interval::kMax);
  const Result<Ranking> ranking = problem.solve({.most = 1000});
  ASSERT_TRUE(ranking);
  EXPECT_EQ(ranking->best.size(), 61U);
  for (const Solution& solution : ranking->best) {
    EXPECT_EQ(solution.value(x * y), int64_t{1} << 60);
  }
  problem.require(x + y >= Interval::kMax);
  EXPECT_FALSE(problem.solve());
}

// -- Reasons ----------------------------------------------------------------------------------

TEST(IntegerProblem, SaysByHowMuchWeightsDoNotFit) {
  IntegerProblem problem;
  const auto blocks = problem.variable("blocks", range(1, 132));
  const auto registers = problem.variable("KB in registers", multiples_of(16, 160));
  const IntegerExpression bytes = ceil_div(2048 * 4, blocks) * 2048 * 4;
  problem.require(registers <= 128, "{value} KB of registers, has {limit}");
  problem.require(bytes - registers * 1024 <= 227 * 1024,
                  "needs {value:KB} KB of weights per SM, has {limit:KB}");
  problem.require(divides(blocks, 2048), "{limit} blocks do not divide {value} units");
  const Result<Ranking> ranking = problem.solve();
  ASSERT_FALSE(ranking);
  EXPECT_EQ(ranking.error().message, "needs 384 KB of weights per SM, has 227");
}

TEST(IntegerProblem, KilobytesAreRoundedApart) {
  const IntegerVariable x{0};
  const std::vector<Interval> box = {{2049, 2049}};
  EXPECT_EQ((x <= 2048).describe("{value:KB} > {limit:KB}", box), "3 > 2");
  EXPECT_EQ((x >= 2050).describe("{value:KB} < {limit:KB}, {value}", box), "2 < 3, 2049");
}

TEST(IntegerProblem, AlternativesComeNearestFirst) {
  IntegerProblem problem;
  const auto x = problem.variable("x", range(1, 50));
  problem.require(x <= 20, "at most {limit}, has {value}");
  problem.require(x >= 30, "at least {limit}, has {value}");
  problem.require(x <= 45, "never in the way");
  const Result<Ranking> ranking = problem.solve();
  ASSERT_FALSE(ranking);
  EXPECT_EQ(ranking.error().message, "at least 30, has 20; or at most 20, has 30");
}

TEST(IntegerProblem, SeveralReasonsAtOnce) {
  IntegerProblem problem;
  const auto x = problem.variable("x", range(1, 50));
  const auto y = problem.variable("y", range(1, 50));
  problem.require(divides(64, x), "{value} is no multiple of {limit}");
  problem.require(x + y <= 60, "in all {value}");
  problem.require(y >= 100, "{value} rows of {limit}");
  const Result<Ranking> ranking = problem.solve();
  ASSERT_FALSE(ranking);
  EXPECT_EQ(ranking.error().message, "50 rows of 100; and 1 is no multiple of 64");
}

TEST(IntegerProblem, DefinitionsAreNeverTheReason) {
  IntegerProblem problem;
  const auto x = problem.variable("x", range(2, 9));
  const auto z = problem.variable("z", range(0, 9));
  problem.require(z == ceil_div(x, 4));
  problem.require(z == 0, "z is {value}");
  const Result<Ranking> ranking = problem.solve();
  ASSERT_FALSE(ranking);
  EXPECT_EQ(ranking.error().message, "z is 1");

  problem.require(z == 5);
  const Result<Ranking> none = problem.solve();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "no values of the variables go together");
}

TEST(IntegerProblem, TooFewAndTooManyChoices) {
  IntegerProblem empty;
  empty.variable("x", range(1, 5));
  empty.variable("rows", multiples_of(8, 7));
  const Result<Ranking> none = empty.solve();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "no value to choose from for rows");

  IntegerProblem full;
  full.variable("steps", range(1, Interval::kMax));
  const Result<Ranking> many = full.solve();
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().message, "more than 4096 values to choose from for steps");
}

TEST(IntegerProblem, WithoutVariables) {
  IntegerProblem problem;
  problem.require(IntegerExpression(3) <= 4, "wrong");
  EXPECT_TRUE(problem.solve());
  problem.require(IntegerExpression(128) <= 64, "batch {value} is above {limit}");
  const Result<Ranking> ranking = problem.solve();
  ASSERT_FALSE(ranking);
  EXPECT_EQ(ranking.error().message, "batch 128 is above 64");
}

// -- Work -------------------------------------------------------------------------------------

/// A kernel's tile, much as strategies ask for it.
struct Tile {
  IntegerProblem problem;
  IntegerVariable units = problem.variable("units", powers_of_two(1, 64));
  IntegerVariable groups = problem.variable("groups", divisors_of(64));
  IntegerVariable warps = problem.variable("warps", range(1, 32));
  IntegerVariable split = problem.variable("split", range(1, 32));
  IntegerVariable rows = problem.variable("rows", multiples_of(8, 128));
  IntegerVariable in_registers = problem.variable("in registers", range(0, 63));
  IntegerVariable in_memory = problem.variable("in memory", range(0, 63));
  IntegerVariable stages = problem.variable("stages", range(1, 8));
  IntegerVariable pad = problem.variable("pad", one_of({0, 8, 16}));
  IntegerVariable cluster = problem.variable("cluster", powers_of_two(1, 16));

  explicit Tile(int64_t hidden = 1024, int64_t batch = 64) {
    const IntegerExpression blocks = ceil_div(hidden, units);
    problem.require(blocks * groups <= 132, "{value} blocks, has {limit}");
    problem.require(divides(cluster, blocks), "clusters of {limit}");
    problem.require(rows * groups >= batch, "{value} rows for a batch of {limit}");
    problem.require((rows - 8) * groups <= batch, "rows that no batch fills");
    problem.require(divides(split, warps), "{value} warps in parts of {limit}");
    problem.require(divides(split * 16, hidden), "{value} columns in parts of {limit}");
    problem.require(in_registers + in_memory == 64);
    problem.require(ceil_div(in_registers * units * 4 * hidden * 2, warps * 64) + 4096 <= 160 * 128,
                    "needs {value} bytes of registers a warp, has {limit}");
    problem.require(in_memory * units * 4 * hidden * 2 + 64 * rows * (hidden + pad) * 2 * stages +
                            64 * split * rows * units * 16 <=
                        64 * 227 * 1024,
                    "needs {value:KB} KB of shared memory, has {limit:KB}");
  }

  Search search() const {
    const auto time = [this](const Box& box) {
      const auto of = [&](IntegerVariable x) { return static_cast<double>(box[x].least); };
      return of(rows) * 0.01 + 20 / static_cast<double>(box[warps].most) + of(split) * 0.05 +
             of(groups) * 0.02 + 1.0 / static_cast<double>(box[stages].most) + of(in_memory) / 64 +
             (box[pad].most == 0 ? 0.3 : 0);
    };
    const auto cost = [time](const Solution& solution) {
      std::vector<Interval> box;
      for (const int64_t value : solution.values) box.push_back({value, value});
      return time({box});
    };
    return {.cost = cost, .lower_bound = time, .most = 5};
  }
};

TEST(IntegerProblem, VisitsFewNodesOfAKernelsTile) {
  const Tile tile;
  const Result<Ranking> ranking = tile.problem.solve(tile.search());
  ASSERT_TRUE(ranking) << ranking.error().message;
  EXPECT_TRUE(ranking->is_complete);
  EXPECT_EQ(ranking->best.size(), 5U);
  // Brute force would see 7 * 7 * 32 * 32 * 16 * 64 * 64 * 8 * 3 * 5 = 4e11.
  EXPECT_LT(ranking->nodes, 3000);
}

TEST(IntegerProblem, NarrowsByWhatIsToBeLeast) {
  const Tile tile;
  const IntegerExpression time =
      100 * tile.rows + ceil_div(200'000, tile.warps) + 500 * tile.split + 200 * tile.groups +
      ceil_div(10'000, tile.stages) + 156 * tile.in_memory + 3000 * (1 - min(tile.pad, 1));
  const auto cost = [&](const Solution& s) { return static_cast<double>(s.value(time)); };
  const auto bound = [&](const Box& box) { return static_cast<double>(box.value(time).least); };
  const Result<Ranking> bounded =
      tile.problem.solve({.cost = cost, .lower_bound = bound, .most = 5});
  const Result<Ranking> narrowed = tile.problem.solve({.least = time, .most = 5});
  ASSERT_TRUE(bounded && narrowed);
  EXPECT_TRUE(narrowed->is_complete);
  EXPECT_LT(narrowed->nodes, bounded->nodes);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(narrowed->best[i].cost, bounded->best[i].cost);
}

TEST(IntegerProblem, SameAnswerEveryTime) {
  const auto text = [] {
    const Tile tile;
    const Result<Ranking> ranking = tile.problem.solve(tile.search());
    std::string result = std::to_string(ranking->nodes);
    for (const Solution& solution : ranking->best)
      result += "\n" + tile.problem.to_string(solution);
    return result;
  };
  EXPECT_EQ(text(), text());
}

TEST(IntegerProblem, GivesUpWithTheBestFromAllCorners) {
  // The first tenth of the work would end far from the least cost, where x is greatest.
  IntegerProblem problem;
  const auto x = problem.variable("x", range(1, 20));
  for (int i = 0; i < 9; ++i) problem.variable("y", range(1, 30));
  const auto cost = [&](const Solution& solution) { return -static_cast<double>(solution[x]); };
  const Result<Ranking> ranking = problem.solve({.cost = cost, .most_work = 100'000});
  ASSERT_TRUE(ranking);
  EXPECT_FALSE(ranking->is_complete);
  EXPECT_EQ(ranking->best[0][x], 20);
  EXPECT_LT(ranking->nodes, 100'000);
}

TEST(IntegerProblem, GivesUpWithoutASolution) {
  // Parity: no value of one variable rules out any of another.
  IntegerProblem problem;
  IntegerExpression sum = 0;
  for (int i = 0; i < 12; ++i) sum = sum + 2 * problem.variable("x", range(-30, 30));
  problem.require(sum == 1, "odd");
  const Result<Ranking> ranking = problem.solve({.most_work = 100'000});
  ASSERT_FALSE(ranking);
  EXPECT_TRUE(ranking.error().message.find("though there may be one") != std::string::npos)
      << ranking.error().message;
}

TEST(IntegerProblem, ACostThatIsNoNumberIsWorst) {
  IntegerProblem problem;
  const auto x = problem.variable("x", range(1, 3));
  const auto cost = [&](const Solution& solution) { return solution[x] == 2 ? 1.0 : std::nan(""); };
  const Result<Ranking> ranking = problem.solve({.cost = cost, .most = 2});
  ASSERT_TRUE(ranking);
  EXPECT_EQ(ranking->best[0][x], 2);
  EXPECT_EQ(ranking->best.size(), 2U);

  // Where what is to be least is unknown, as with a quotient by 0.
  const Result<Ranking> known = problem.solve({.least = 100 - ceil_div(9, x - 1), .most = 3});
  ASSERT_TRUE(known);
  EXPECT_EQ(known->best[0][x], 2);
  EXPECT_EQ(known->best[2][x], 1);

  // A bound that is none bounds nothing.
  const auto bound = [](const Box&) { return std::nan(""); };
  const Result<Ranking> same = problem.solve({.cost = cost, .lower_bound = bound});
  ASSERT_TRUE(same);
  EXPECT_EQ(same->best[0][x], 2);
}

}  // namespace
}  // namespace rnnc::test
