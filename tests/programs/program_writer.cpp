// 1. Choose the dims' values, write a few consts and fns.
// 2. Write one to three cells, each of which may call those before it, then perhaps a network.
// 3. A body first gets its states; then statements one by one, each an expression of a random type
//    that may declare params, and an input of integers, as it goes; then its states' next values;
//    at last its outputs.
#include "tests/programs/program_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/programs/body_writer.h"
#include "tests/programs/program_parts.h"

namespace rnnc::test {

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
  if (random_.chance(12)) return values();
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

/// An array of values, each of which is made of the one before.
void BodyWriter::values() {
  const Shape shape = any_shape();
  const std::string name = fresh("a");
  line(fmt::format("{}[0] = {}", name, within(expression(shape, 1)).text));
  line("for n in 0..L {");
  line(fmt::format("  {0}[n + 1] = tanh({1} - 0.5 * {0}[n])", name, expression(shape, 2).text));
  line("}");
  variables_.push_back({name + "[0]", shape, kMostBound});
  variables_.push_back({name + "[-1]", shape, 1});
  if (network_ && random_.chance(2)) outputs_ = name;
}

/// Its name.
std::string BodyWriter::new_state(Shape shape) {
  const std::string name = fresh("s");
  states_text_ += fmt::format("  state {}: [{}]{}\n", name, text_of(shape),
                              random_.chance(3)   ? " = 0.25"
                              : random_.chance(3) ? fmt::format(" = {}", param(text_of(shape)))
                                                  : "");
  return name;
}

/// A recurrence without products that may run as a scan: its factors are of inputs alone.
void BodyWriter::scan() {
  const std::vector<Variable> others = std::exchange(variables_, exact_);
  const Shape shape = any_shape();
  const std::string a = fresh("v");
  const std::string b = fresh("v");
  line(fmt::format("{} = {}", a, expression(shape, 2).text));
  line(fmt::format("{} = tanh({})", b, expression(shape, 2).text));
  const std::string s = new_state(shape);
  variables_ = others;
  switch (random_.below(6)) {
    case 0:
      line(fmt::format("{0}[t] = sigmoid({1}) * {0}[t-1] + (1 - sigmoid({1})) * {2}", s, a, b));
      break;
    case 1:
      line(fmt::format("{0}[t] = {2}(0.9 * {0}[t-1], {1})", s, b,
                       random_.chance(2) ? "max" : "min"));
      break;
    case 2:
      line(fmt::format("{0}[t] = max({0}[t-1] - 0.3 * sigmoid({1}), {2})", s, a, b));
      break;
    case 3:
      line(fmt::format("{0}[t] = {2} - tanh({1}) * {0}[t-1] / 2", s, a, b));
      break;
    case 4:
      line(fmt::format("{0}[t] = where({3} == 1, {2}, {0}[t-1] * cos({1}))", s, a, b, token()));
      break;
    default: {  // complex
      const std::string other = new_state(shape);
      line(fmt::format("{0}[t] = 0.9 * (cos({2}) * {0}[t-1] - sin({2}) * {1}[t-1]) + {3}", s, other,
                       a, b));
      line(fmt::format("{1}[t] = 0.9 * (sin({2}) * {0}[t-1] + cos({2}) * {1}[t-1])", s, other, a));
      variables_.push_back({fmt::format("tanh({}[t])", other), shape, 1});
    }
  }
  variables_.push_back({fmt::format("tanh({}[t])", s), shape, 1});
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
  if (callee.token) arguments += ", " + token();
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
  if (!states_.empty() && random_.chance(3)) {
    const State& state = random_.pick(states_);
    if (state.length == 0) {
      outputs_ = state.name;
      callable_.outputs.push_back(state.shape);
    }
  }
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
  if (!network_ && random_.chance(4)) scan();
  give_states();
  choose_outputs();
  const bool several = outputs_.find(',') != std::string::npos;
  return fmt::format("{} {}[I, H, N = 2, L = 2]({}) -> {}{}{} {{\n{}{}{}}}\n",
                     network_ ? "network" : "cell", name_, inputs_, several ? "(" : "", outputs_,
                     several ? ")" : "", states_text_, params_, body_);
}

WrittenProgram write_program(uint64_t seed) {
  DrawnProgram program(seed);
  Random& random = program.random;
  // Mostly small, sometimes several vectors of a processor and a rest.
  const bool large = random.chance(5);
  program.hidden = 2 * (1 + static_cast<int64_t>(random.below(large ? 12 : 3)));
  program.input = 1 + static_cast<int64_t>(random.below(large ? 20 : 5));
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
