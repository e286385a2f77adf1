/// The syntax tree: what was written, names not yet looked up.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/base/source_location.h"

namespace rnnc::ast {

struct Identifier {
  std::string text;
  SourceLocation location;
};

enum class BinaryOp : uint8_t { Add, Sub, Mul, Div, MatMul, Lt, Le, Gt, Ge, Eq, Ne };

/// "+", "@", "<=".
std::string_view spelling(BinaryOp op);

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

/// `H = 256` in a call.
struct DimArgument {
  Identifier name;
  ExprPtr value;
};

/// One plain struct for all expressions; `kind` says which members count.
struct Expr {
  enum class Kind : uint8_t {
    Number,  // number; text as written
    Name,    // text
    Negate,  // children: operand
    Binary,  // op; children: left, right
    Index,   // children: base, index
    Slice,   // children: base, begin, end; begin and end may be null
    Vector,  // children: elements
    Call,    // text; dims; children: arguments; reverse; layer; layer_index
  };
  Kind kind = Kind::Number;
  BinaryOp op = BinaryOp::Add;
  bool reverse = false;
  int depth = 1;  // of the tree from here down; bounded by the parser
  double number = 0;
  SourceLocation location;
  std::string text;
  SourceLocation text_location;  // Call: the callee's name alone
  std::vector<ExprPtr> children;
  std::vector<DimArgument> dims;
  std::optional<Identifier> layer;  // `as layer`
  ExprPtr layer_index;              // `as layer[index]`; may be null
};

/// `state h, c: [H] = 0`, `param R[L]: [H, H] blocks N`.
struct Declaration {
  struct Entry {
    Identifier name;
    ExprPtr length;  // of an array; null for a single one
  };
  bool is_state = false;
  std::vector<Entry> entries;
  std::vector<ExprPtr> shape;
  ExprPtr blocks;   // may be null
  ExprPtr initial;  // may be null
};

/// What stands left of `=`: `y`, `h[t]`, `s[l][t]`.
struct Target {
  Identifier name;
  std::vector<ExprPtr> indices;
  SourceLocation location;
};

/// `y = …`, or `(a, b) = …` with several targets.
struct Assignment {
  std::vector<Target> targets;
  ExprPtr value;
};

struct Statement;

/// `for l in begin..end { … }`.
struct Loop {
  Identifier index;
  ExprPtr begin;
  ExprPtr end;
  std::vector<Statement> body;
};

struct Statement {
  std::variant<Declaration, Assignment, Loop> node;
  SourceLocation location;
};

struct DimParameter {
  Identifier name;
  ExprPtr default_value;  // may be null
};

/// `x: [I]`, `token: int []`.
struct Input {
  Identifier name;
  std::vector<ExprPtr> shape;
  bool integer = false;
};

/// A cell or a network.
struct Definition {
  bool is_network = false;
  std::string doc;
  Identifier name;
  std::vector<DimParameter> dims;
  std::vector<Input> inputs;
  std::vector<Identifier> outputs;
  std::vector<Statement> body;
  /// "cell" or "network".
  std::string_view kind() const { return is_network ? "network" : "cell"; }
  bool has_dim(std::string_view dim) const {
    return std::ranges::any_of(
        dims, [dim](const DimParameter& parameter) { return parameter.name.text == dim; });
  }
};

struct Function {
  std::string doc;
  Identifier name;
  std::vector<Identifier> parameters;
  ExprPtr body;
};

struct Constant {
  std::string doc;
  Identifier name;
  ExprPtr value;
};

struct Import {
  std::string path;
  SourceLocation location;
  uint32_t file = 0;  // the imported file's index, once it is read
};

using Item = std::variant<Import, Constant, Function, Definition>;

/// What the item defines; null for an import.
const Identifier* name_of(const Item& item);

struct Module {
  std::vector<Item> items;  // in source order
};

/// The tree as .rnn text, with parentheses around every operation inside another: parsing it gives
/// the same tree.
std::string print(const Expr& expr);
std::string print(const Input& input);
std::string print(const Item& item);
std::string print(const Module& module);

}  // namespace rnnc::ast
