/// Writes one cell or network of a random program: statements in program_writer.cpp, what stands in
/// them in program_expressions.cpp.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/programs/program_parts.h"

namespace rnnc::test {

class BodyWriter {
 public:
  BodyWriter(DrawnProgram& program, std::string name, bool network)
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
  void values();
  void scan();
  std::string new_state(Shape shape);
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
  Expression of_token(Shape shape);
  Expression of_step();
  std::string jumping_operand(Shape shape);
  std::string token();
  std::string param(const std::string& shape, const std::string& suffix = "");
  std::string number();
  Shape any_shape() { return random_.chance(5) ? Shape::Scalar : random_.pick(kVectors); }
  void line(const std::string& text) { body_ += indent_ + text + "\n"; }
  std::string fresh(const char* prefix) { return fmt::format("{}{}", prefix, count_++); }

  DrawnProgram& program_;
  Random& random_;
  std::string name_;
  bool network_;
  Callable callable_;
  std::string inputs_, params_, states_text_, body_, outputs_;
  std::string indent_ = "  ";
  std::vector<State> states_;
  std::vector<Variable> variables_;
  std::vector<Variable> exact_;  // inputs and params
  std::string token_;            // an input of integers, empty without
  std::string index_;            // of the loop around, empty outside
  int count_ = 0;
};

}  // namespace rnnc::test
