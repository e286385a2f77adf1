// 1. Choose the dims' values, write a few consts and fns.
// 2. Write one to three cells, each of which may call those before it, then perhaps a network.
// 3. A body first gets its states; then statements one by one, each an expression of a random type
//    that may declare params as it goes; then its states' next values; at last its outputs.
//
// An expression comes with a bound of its absolute value, from which follows what may be done with
// it: what grows beyond kMostBound is squashed.
#include "tests/programs/program_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/programs/program_parts.h"

namespace rnnc::test {
namespace {

/// Writes one cell or network.
class BodyWriter {
 public:
  BodyWriter(Program& program, std::string name, bool network)
      : program_(program), random_(program.random), name_(std::move(name)), network_(network) {}

  std::string write();
  const Callable& callable() const { return callable_; }

 private:
  struct State {
    std::string name;
    Shape shape;
    size_t length;  // of an array, 0 for none
  };

  void declare_inputs();
  void declare_states();
  void statement();
  void loop();
  void nest();
  void memory();
  void layer();
  void look_back(Variable variable, size_t one_in);
  void give_states();
  void choose_outputs();

  Expression expression(Shape shape, int depth);
  Expression leaf(Shape shape);
  Expression unary(Shape shape, int depth);
  Expression binary(Shape shape, int depth);
  Expression choice(Shape shape, int depth);
  Expression reduction(int depth);
  Expression product(Shape shape, int depth);
  Expression structure(Shape shape, int depth);
  Expression function(Shape shape, int depth);
  Expression within(Expression expression) const;
  std::string jumping_operand(Shape shape);
  std::string param(const std::string& shape, const std::string& suffix = "");
  std::string number();
  Shape any_shape() { return random_.chance(5) ? Shape::Scalar : random_.pick(kVectors); }
  void line(const std::string& text) { body_ += indent_ + text + "\n"; }
  std::string fresh(const char* prefix) { return fmt::format("{}{}", prefix, count_++); }

  Program& program_;
  Random& random_;
  std::string name_;
  bool network_;
  Callable callable_;
  std::string inputs_, params_, states_text_, body_, outputs_;
  std::string indent_ = "  ";
  std::vector<State> states_;
  std::vector<Variable> variables_;
  std::vector<Variable> exact_;  // inputs and params
  std::string index_;            // of the loop around, empty outside
  int count_ = 0;
};

std::string BodyWriter::number() {
  static constexpr std::array kNumbers = {"0.5", "1", "0.3", "2", "1.25", "0.07", "1e-1"};
  if (!program_.consts.empty() && random_.chance(5)) return random_.pick(program_.consts);
  return random_.pick(kNumbers);
}

std::string BodyWriter::param(const std::string& shape, const std::string& suffix) {
  const std::string name = fresh("p");
  if (!index_.empty() && random_.chance(2)) {
    params_ += fmt::format("  param {}[L]: [{}]{}\n", name, shape, suffix);
    return fmt::format("{}[{}]", name, index_);
  }
  if (random_.chance(8)) {
    params_ += fmt::format("  param {}[2]: [{}]{}\n", name, shape, suffix);
    return fmt::format("{}[{}]", name, random_.below(2));
  }
  params_ += fmt::format("  param {}: [{}]{}\n", name, shape, suffix);
  return name;
}

/// Squashed if it is too large.
Expression BodyWriter::within(Expression expression) const {
  if (expression.bound <= kMostBound) return expression;
  return {fmt::format("tanh({})", expression.text), 1};
}

Expression BodyWriter::leaf(Shape shape) {
  std::vector<const Variable*> fitting;
  for (const Variable& variable : variables_) {
    if (variable.shape == shape) fitting.push_back(&variable);
  }
  if (!fitting.empty() && !random_.chance(6)) {
    const Variable& variable = *random_.pick(fitting);
    return {variable.text, variable.bound};
  }
  if (shape == Shape::Scalar && random_.chance(2)) return {number(), 2};
  // Better something that varies over time than a param alone.
  const Variable& other = random_.pick(variables_);
  if (other.shape != Shape::Scalar && !random_.chance(4)) {
    const std::string sizes = shape == Shape::Scalar ? text_of(other.shape)
                                                     : text_of(shape) + ", " + text_of(other.shape);
    const char* const format = shape == Shape::Scalar ? "dot({}, {})" : "{} @ {}";
    return within({fmt::format(fmt::runtime(format), param(sizes), other.text),
                   other.bound * program_.size_of(other.shape) / 2});
  }
  return {param(text_of(shape)), 1};
}

Expression BodyWriter::expression(Shape shape, int depth) {
  if (depth <= 0) return leaf(shape);
  switch (random_.below(9)) {
    case 0:
    case 1:
      return within(unary(shape, depth - 1));
    case 2:
    case 3:
      return within(binary(shape, depth - 1));
    case 4:
      return within(choice(shape, depth - 1));
    case 5:
      return within(shape == Shape::Scalar ? reduction(depth - 1) : product(shape, depth - 1));
    case 6:
      return within(structure(shape, depth - 1));
    case 7:
      return within(function(shape, depth - 1));
    default:
      return leaf(shape);
  }
}

Expression BodyWriter::unary(Shape shape, int depth) {
  struct Function {
    const char* format;
    double bound;  // negative: times the operand's
  };
  static constexpr std::array kFunctions = {
      Function{"sigmoid({})", 1},
      Function{"tanh({})", 1},
      Function{"relu({})", -1},
      Function{"sin({})", 1},
      Function{"cos({})", 1},
      Function{"erf({})", 1},
      Function{"softplus({})", -1.2},
      Function{"silu({})", -1},
      Function{"gelu({})", -1},
      Function{"elu({})", -1.2},
      Function{"abs({})", -1},
      Function{"-({})", -1},
      Function{"sqrt(1 + abs({}))", -1},
      Function{"rsqrt(0.5 + abs({}))", 1.5},
      Function{"log(0.5 + abs({}))", 3},
      Function{"log1p(abs({}))", 3},
      Function{"exp(tanh({}))", 3},
      Function{"expm1(sigmoid({}))", 2},
      Function{"clamp({}, -0.5, 2)", 2},
      Function{"1 / (1.5 + abs({}))", 1},
      Function{"mish({})", -1},
      Function{"softsign({})", 1},
      Function{"logsigmoid({})", -1.2},
      Function{"leaky_relu({}, 0.1)", -1},
  };
  if (random_.chance(8)) {
    static constexpr std::array kJumps = {"sign({} - 0.3)", "floor({} * 3 + 0.11)",
                                          "mod({} + 0.01, 0.7)", "round({} * 3 + 0.11)"};
    return {fmt::format(fmt::runtime(random_.pick(kJumps)), jumping_operand(shape)), 4};
  }
  const Function& chosen = random_.pick(kFunctions);
  const Expression operand = expression(shape, depth);
  return {fmt::format(fmt::runtime(chosen.format), operand.text),
          chosen.bound > 0 ? chosen.bound : std::max(1.0, -chosen.bound * operand.bound + 1)};
}

/// An input or a param as it is.
std::string BodyWriter::jumping_operand(Shape shape) {
  std::vector<std::string> fitting;
  for (const Variable& variable : exact_) {
    if (variable.shape == shape) fitting.push_back(variable.text);
  }
  return fitting.empty() ? param(text_of(shape)) : random_.pick(fitting);
}

Expression BodyWriter::binary(Shape shape, int depth) {
  const Shape other = random_.chance(4) ? Shape::Scalar : shape;
  Expression left = expression(shape, depth);
  Expression right = expression(other, depth);
  const bool swap = random_.chance(2);
  if (swap) std::swap(left, right);
  switch (random_.below(6)) {
    case 0:
    case 1:
      return {fmt::format("({} + {})", left.text, right.text), left.bound + right.bound};
    case 2:
      return {fmt::format("({} - {})", left.text, right.text), left.bound + right.bound};
    case 3:
      return {fmt::format("{}({}, {})", random_.chance(2) ? "min" : "max", left.text, right.text),
              std::max(left.bound, right.bound)};
    case 4:
      return {fmt::format("pow(1.1 + sigmoid({}), tanh({}))", left.text, right.text), 2.2};
    default:
      return {fmt::format("({}) * ({})", left.text, right.text), left.bound * right.bound};
  }
}

Expression BodyWriter::choice(Shape shape, int depth) {
  static constexpr std::array kComparisons = {"<", "<=", ">", ">=", "!=", "=="};
  const Shape condition = random_.chance(2) ? Shape::Scalar : shape;
  const Expression left = expression(shape, depth);
  const Expression right = expression(shape, depth);
  return {fmt::format("where({} {} 0.3, {}, {})", jumping_operand(condition),
                      random_.pick(kComparisons), left.text, right.text),
          std::max(left.bound, right.bound)};
}

Expression BodyWriter::reduction(int depth) {
  const Shape shape = random_.pick(kVectors);
  const double size = program_.size_of(shape);
  const Expression operand = expression(shape, depth);
  switch (random_.below(7)) {
    case 0:
      return {fmt::format("sum({})", operand.text), operand.bound * size};
    case 1:
      return {fmt::format("mean({})", operand.text), operand.bound};
    case 2:
      return {fmt::format("var({})", operand.text), operand.bound * operand.bound};
    case 3:
      return {fmt::format("min({})", operand.text), operand.bound};
    case 4:
      return {fmt::format("max({})", operand.text), operand.bound};
    case 5: {
      const Expression other = expression(shape, depth);
      return {fmt::format("dot({}, {})", operand.text, other.text),
              operand.bound * other.bound * size};
    }
    default:
      return {fmt::format("({})[0]", operand.text), operand.bound};
  }
}

Expression BodyWriter::product(Shape shape, int depth) {
  const Shape inner = random_.pick(kVectors);
  const Expression operand = expression(inner, depth);
  const std::string out = text_of(shape);
  const std::string in = text_of(inner);
  const double bound = operand.bound * program_.size_of(inner) / 2;
  switch (random_.below(8)) {
    case 0:
      return {fmt::format("({}) @ {}", operand.text, param(in + ", " + out)), bound};
    case 1:
      if (shape == Shape::I || shape == Shape::HalfH || inner == Shape::I ||
          inner == Shape::HalfH) {
        break;
      }
      if (random_.chance(2)) {
        return {fmt::format("({}) @ {}", operand.text, param(in + ", " + out, " blocks N")), bound};
      }
      return {fmt::format("{} @ ({})", param(out + ", " + in, " blocks N"), operand.text), bound};
    case 2:
      return {fmt::format("transpose({}) @ ({})", param(in + ", " + out), operand.text), bound};
    case 3: {
      if (shape != inner) break;
      const std::string weight = param(out + ", " + out);
      return {
          fmt::format("({0} - transpose({0}) - 0.5 * eye({1})) @ ({2})", weight, out, operand.text),
          2 * bound + operand.bound};
    }
    case 4:
      return {fmt::format("{} @ {} @ ({})", param(out + ", 2"), param("2, " + in), operand.text),
              bound};
    case 5:
      if (shape != Shape::H) break;
      return {fmt::format("{}[H:] @ ({})", param("2 * H, " + in), operand.text), bound};
    default:
      break;
  }
  return {fmt::format("{} @ ({})", param(out + ", " + in), operand.text), bound};
}

Expression BodyWriter::structure(Shape shape, int depth) {
  const auto part = [&](Shape of, const char* format) {
    const Expression operand = expression(of, depth);
    return Expression{fmt::format(fmt::runtime(format), operand.text), operand.bound};
  };
  const auto join = [&](Shape of) {
    const Expression first = expression(of, depth);
    const Expression second = expression(of, depth);
    return Expression{fmt::format("concat({}, {})", first.text, second.text),
                      std::max(first.bound, second.bound)};
  };
  switch (shape) {
    case Shape::Scalar:
      if (random_.chance(3)) return part(Shape::H, "({})[-1]");
      return random_.chance(2) ? part(Shape::H, "({})[1]") : part(Shape::TwoH, "({})[H]");
    case Shape::I:
      if (random_.chance(3)) return {"cos(range(I))", 1};
      return random_.chance(2) ? Expression{"zeros(I)", 0} : leaf(shape);
    case Shape::H:
      if (random_.chance(3)) return join(Shape::HalfH);
      if (random_.chance(4)) return part(Shape::H, "concat(zeros(0), ({})[1:], [0.5])");
      if (random_.chance(4)) return part(Shape::TwoH, "({})[-H:]");
      return random_.chance(2) ? part(Shape::TwoH, "({})[:H]") : part(Shape::TwoH, "({})[H:]");
    case Shape::TwoH:
      return join(Shape::H);
    case Shape::HalfH:
      return random_.chance(2) ? part(Shape::H, "({})[H / 2:]")
                               : part(Shape::TwoH, "({})[H / 2:H]");
  }
  return leaf(shape);
}

Expression BodyWriter::function(Shape shape, int depth) {
  if (shape != Shape::Scalar && random_.chance(4)) {
    const Expression operand = expression(shape, depth);
    // Something that varies within the vector, so that its variance is not all rounding.
    const std::string spread = fmt::format("{} + {}", operand.text, param(text_of(shape)));
    switch (random_.below(3)) {
      case 0:
        return {fmt::format("softmax({})", spread), 1};
      case 1:
        return {fmt::format("rmsnorm({}, {})", spread, param(text_of(shape))), 4};
      default:
        return {fmt::format("tanh({} * layernorm({}, {}, {}))", number(), spread,
                            param(text_of(shape)), param(text_of(shape))),
                1};
    }
  }
  if (program_.fns.empty()) return leaf(shape);
  const auto& [name, arguments] = random_.pick(program_.fns);
  std::string list;
  for (size_t i = 0; i < arguments; ++i) {
    list += (i == 0 ? "" : ", ") + expression(shape, depth - 1).text;
  }
  return {fmt::format("{}({})", name, list), 2};
}

void BodyWriter::declare_inputs() {
  std::vector<Shape> shapes = {Shape::I};
  if (random_.chance(3)) shapes.push_back(Shape::Scalar);
  if (random_.chance(4)) shapes.push_back(Shape::H);
  for (const Shape shape : shapes) {
    const std::string name = fresh("x");
    inputs_ += fmt::format("{}{}: [{}]", inputs_.empty() ? "" : ", ", name, text_of(shape));
    callable_.inputs.push_back(shape);
    if (network_) {
      variables_.push_back({name, shape, 1});
      continue;
    }
    // A layer's input may be any value, up to the largest there is.
    variables_.push_back({name + "[t]", shape, kMostBound});
    look_back({name, shape, kMostBound}, 3);
    look_back({name, shape, kMostBound}, 8);
  }
}

void BodyWriter::declare_states() {
  if (network_) return;
  for (size_t i = random_.below(4); i > 0; --i) {
    const State state{fresh("h"), any_shape(), random_.chance(6) ? size_t{2} : size_t{0}};
    std::string text = fmt::format("  state {}{}: [{}]", state.name, state.length > 0 ? "[2]" : "",
                                   text_of(state.shape));
    if (random_.chance(4)) text += " = -0.75";
    if (text.back() == ']' && random_.chance(4)) {
      text += fmt::format(" = tanh({})", param(text_of(state.shape)));
    }
    states_text_ += text + "\n";
    for (size_t l = 0; l < std::max<size_t>(state.length, 1); ++l) {
      const std::string one = state.length > 0 ? fmt::format("{}[{}]", state.name, l) : state.name;
      variables_.push_back({one + "[t-1]", state.shape, 1});
      look_back({one, state.shape, 1}, 4);
    }
    states_.push_back(state);
  }
}

void BodyWriter::statement() {
  if (random_.chance(6)) return loop();
  if (!program_.cells.empty() && random_.chance(network_ ? 1 : 4)) return layer();
  const Shape shape = any_shape();
  const Expression value = expression(shape, 3);
  const std::string name = fresh("v") + (random_.chance(8) ? "[1]" : "");
  line(fmt::format("{} = {}", name, value.text));
  variables_.push_back({name, shape, value.bound});
  look_back(variables_.back(), 4);
}

/// What a cell has at earlier steps, if it draws that: mostly near, sometimes far.
void BodyWriter::look_back(Variable variable, size_t one_in) {
  if (network_ || !random_.chance(one_in)) return;
  const size_t reach = random_.chance(4) ? kFarthest : random_.chance(4) ? 20 : 3;
  const size_t delay = 1 + random_.below(reach);
  program_.farthest = std::max(program_.farthest, static_cast<int64_t>(delay));
  variable.text += fmt::format("[t-{}]", delay);
  variables_.push_back(std::move(variable));
}

/// Each turn changes a value of its own by what the loop around it declares.
void BodyWriter::loop() {
  if (!index_.empty()) return;
  const Shape shape = random_.pick(kVectors);
  const std::string name = fresh("v");
  line(fmt::format("{} = {}", name, within(expression(shape, 1)).text));
  line("for l in 0..L {");
  indent_ = "    ";
  index_ = "l";
  variables_.push_back({name, shape, kMostBound});
  look_back(variables_.back(), 3);
  line(fmt::format("{} = tanh({} + {} * l)", name, expression(shape, 2).text, number()));
  index_.clear();
  indent_ = "  ";
  line("}");
}

/// Rows that one loop reads and another changes, as many as plans keep loops over, or fewer.
void BodyWriter::memory() {
  const Shape shape = random_.pick(kVectors);
  const std::string rows = fresh("m");
  const std::string weights = fresh("p");
  const std::string read = fresh("v");
  const size_t count = 6 + random_.below(30);
  states_text_ += fmt::format("  state {}[{}]: [{}]\n", rows, count, text_of(shape));
  params_ += fmt::format("  param {}[{}]: [{}]\n", weights, count,
                         random_.chance(2) ? "" : text_of(shape));
  line(fmt::format("{} = {}", read, within(expression(shape, 1)).text));
  line(fmt::format("for l in 0..{} {{", count));
  line(random_.chance(2)
           ? fmt::format("  {0} = {0} + {1}[l] * {2}[l][t-1]", read, weights, rows)
           : fmt::format("  {0} = max({0}, {1}[l] - {2}[l][t-1])", read, weights, rows));
  line("}");
  const std::string change = fresh("v");
  line(fmt::format("{} = {}", change, binary(shape, 1).text));
  const std::string turned = random_.chance(2) ? "l" : fmt::format("{} - l", count - 1);
  line(fmt::format("for l in 0..{} {{", count));
  line(fmt::format("  {0}[{1}][t] = tanh(0.5 * {0}[{1}][t-1] + {2}[{1}] * {3})", rows, turned,
                   weights, change));
  if (random_.chance(2)) line(fmt::format("  {0} = {0} * 0.9 - {1}[{2}][t]", read, rows, turned));
  line("}");
  variables_.push_back({fmt::format("tanh({})", read), shape, 1});
}

/// Heads of rows: what a loop in a loop reads and another one changes.
void BodyWriter::nest() {
  const Shape shape = random_.pick(kVectors);
  const std::string rows = fresh("m");
  const std::string weights = fresh("p");
  const size_t heads = 3 + random_.below(4);
  const size_t count = 6 + random_.below(8);
  states_text_ += fmt::format("  state {}[{}]: [{}]\n", rows, heads * count, text_of(shape));
  params_ += fmt::format("  param {}[{}]: [{}]\n", weights, heads * count,
                         random_.chance(2) ? "" : text_of(shape));
  const std::string read = fresh("v");
  const std::string sum = fresh("v");
  const std::string row = fmt::format("n * {} + l", count);
  line(fmt::format("{} = {}", sum, within(expression(shape, 1)).text));
  line(fmt::format("for n in 0..{} {{", heads));
  line(fmt::format("  {} = {} * n", read, within(expression(shape, 1)).text));
  line(fmt::format("  for l in 0..{} {{", count));
  line(random_.chance(2)
           ? fmt::format("    {0} = {0} + {1}[{3}] * {2}[{3}][t-1]", read, weights, rows, row)
           : fmt::format("    {0} = max({0}, {1}[{3}] - {2}[{3}][t-1])", read, weights, rows, row));
  line(fmt::format("  }}\n  {0} = tanh({0})", read));
  line(fmt::format("  for l in 0..{} {{", count));
  line(fmt::format("    {0}[{1}][t] = tanh(0.5 * {0}[{1}][t-1] + {2}[{1}] * {3})", rows, row,
                   weights, read));
  if (random_.chance(2)) line(fmt::format("    {0} = {0} + 0.1 * {1}[{2}][t]", sum, rows, row));
  line(fmt::format("  }}\n  {0} = 0.9 * {0} - 0.3 * {1}", sum, read));
  line("}");
  variables_.push_back({fmt::format("tanh({})", sum), shape, 1});
}

void BodyWriter::layer() {
  const Callable& callee = random_.pick(program_.cells);
  std::string arguments;
  // The callee's I is whatever vector comes.
  const Shape input = random_.pick(kVectors);
  for (const Shape shape : callee.inputs) {
    const Shape given = shape == Shape::I ? input : shape;
    arguments += (arguments.empty() ? "" : ", ") + expression(given, 1).text;
  }
  std::string names;
  std::vector<Variable> results;
  for (const Shape shape : callee.outputs) {
    const std::string name = fresh("v");
    names += (names.empty() ? "" : ", ") + name;
    results.push_back({name, shape == Shape::I ? input : shape, kMostBound});
  }
  if (results.size() > 1) names = "(" + names + ")";
  const bool reverse = network_ && random_.chance(3);
  program_.reversed = program_.reversed || reverse;
  line(fmt::format("{} = {}{}[H = H]({}){}", names, reverse ? "reverse " : "", callee.name,
                   arguments, random_.chance(5) ? " as " + fresh("layer") : ""));
  for (const Variable& result : results) {
    variables_.push_back(result);
    look_back(result, 4);
  }
}

void BodyWriter::give_states() {
  for (const State& state : states_) {
    for (size_t l = 0; l < std::max<size_t>(state.length, 1); ++l) {
      const std::string one = state.length > 0 ? fmt::format("{}[{}]", state.name, l) : state.name;
      const std::string value = expression(state.shape, 3).text;
      switch (random_.below(3)) {
        case 0:
          line(fmt::format("{}[t] = tanh({})", one, value));
          break;
        case 1: {
          const std::string gate = expression(state.shape, 1).text;
          line(fmt::format("{0}[t] = sigmoid({1}) * {0}[t-1] + (1 - sigmoid({1})) * tanh({2})", one,
                           gate, value));
          break;
        }
        default:
          line(fmt::format("{}[t] = clamp({}, -1, 1)", one, value));
          break;
      }
      variables_.push_back({one + "[t]", state.shape, 1});
    }
  }
}

void BodyWriter::choose_outputs() {
  for (size_t i = 1 + random_.below(2); i > 0; --i) {
    const std::string name = fresh("y");
    const Shape shape = any_shape();
    const Expression value = expression(shape, 2);
    line(fmt::format("{} = {}", name, value.text));
    outputs_ += (outputs_.empty() ? "" : ", ") + name;
    callable_.outputs.push_back(shape);
  }
}

std::string BodyWriter::write() {
  callable_.name = name_;
  declare_inputs();
  for (const Variable& variable : variables_) exact_.push_back(variable);
  declare_states();
  for (size_t i = 1 + random_.below(4); i > 0; --i) statement();
  if (!network_ && random_.chance(4)) memory();
  if (!network_ && random_.chance(6)) nest();
  give_states();
  choose_outputs();
  const bool several = callable_.outputs.size() > 1;
  return fmt::format("{} {}[I, H, N = 2, L = 2]({}) -> {}{}{} {{\n{}{}{}}}\n",
                     network_ ? "network" : "cell", name_, inputs_, several ? "(" : "", outputs_,
                     several ? ")" : "", states_text_, params_, body_);
}

}  // namespace

WrittenProgram write_program(uint64_t seed) {
  Program program(seed);
  Random& random = program.random;
  program.hidden = 2 * (1 + static_cast<int64_t>(random.below(3)));
  program.input = 1 + static_cast<int64_t>(random.below(5));
  WrittenProgram result;
  result.dims = {{"I", program.input}, {"H", program.hidden}};
  if (random.chance(3)) {
    result.text += "const k = 0.4\n";
    program.consts.emplace_back("k");
  }
  if (random.chance(3)) {
    result.text += "fn blend(a, b) = tanh(a) * sigmoid(b) + 0.5 * sin(a - b)\n";
    program.fns.emplace_back("blend", 2);
  }
  if (random.chance(3)) {
    result.text += "fn squash(a) = a * rsqrt(1 + a * a)\n";
    program.fns.emplace_back("squash", 1);
  }
  const size_t cells = 1 + random.below(3);
  for (size_t i = 0; i <= cells; ++i) {
    const bool network = i == cells;
    if (network && random.chance(3)) break;
    BodyWriter writer(program, fmt::format("{}{}", network ? "Net" : "Cell", i), network);
    result.text += writer.write();
    result.main = writer.callable().name;
    program.cells.push_back(writer.callable());
  }
  result.reversed = program.reversed;
  result.farthest = program.farthest;
  return result;
}

}  // namespace rnnc::test
