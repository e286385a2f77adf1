/// Which shapes an operation takes, in words for the user.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace rnnc {

/// "[H, I]", or "a scalar".
std::string describe(const Type& type);

/// Of a text in backquotes.
std::string without_backquotes(const std::string& quoted);

/// An operand as the user wrote it, in backquotes, and its type.
struct Operand {
  std::string text;
  Type type;
  bool blocks = false;  // block-diagonal, [N, P, Q]
};

/// Two dims that must be equal.
struct Equation {
  Dim left;
  Dim right;
};

/// What must hold for `op` to take operands of these types; empty where their ranks do not fit, or
/// nothing is asked.
std::vector<Equation> equations(Op op, const std::vector<Type>& operands);
/// The same for two shapes to be one.
std::vector<Equation> equations(const Shape& left, const Shape& right);

struct Misfit {
  std::string message;
  std::string hint;
};

/// Why `op` does not take these operands (it must not). `whole` is the expression's text.
Misfit misfit(Op op, const std::string& whole, const std::vector<Operand>& operands);

/// How a value comes to have another shape.
std::string misfit_hint(const Shape& expected, const Type& found);

/// Why a block-diagonal param, named in backquotes, cannot stand where it does.
Misfit blocks_misfit(const std::string& operand);

/// The same for `dot`, which takes two vectors of one size; nothing if it has them.
std::optional<Misfit> dot_misfit(const std::string& whole, const std::vector<Operand>& operands);

}  // namespace rnnc
