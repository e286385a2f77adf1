#include "frontend/elaborate/fixed_dims.h"

namespace rnnc {
namespace {

using ast::Expr;
using Extents = std::vector<ast::ExprPtr>;

class FixedDims {
 public:
  FixedDims(Context& context, const ast::Definition& definition, std::set<std::string>& found)
      : context_(context), definition_(definition), found_(found) {}

  void run() {
    for (const ast::Input& input : definition_.inputs) divisors_of(input.shape);
    statements(definition_.body);
  }

 private:
  void statements(const std::vector<ast::Statement>& list) {
    for (const ast::Statement& statement : list) {
      if (const auto* declaration = std::get_if<ast::Declaration>(&statement.node)) {
        declared(*declaration);
      } else if (const auto* loop = std::get_if<ast::Loop>(&statement.node)) {
        all_of(*loop->begin);
        all_of(*loop->end);
        statements(loop->body);
      } else {
        expression(*std::get<ast::Assignment>(statement.node).value);
      }
    }
  }

  void declared(const ast::Declaration& declaration) {
    for (const ast::Declaration::Entry& entry : declaration.entries) {
      if (entry.length) all_of(*entry.length);
    }
    divisors_of(declaration.shape);
    if (declaration.blocks) all_of(*declaration.blocks);
    if (declaration.initial) expression(*declaration.initial);
  }

  /// Dims stand in positions and in calls.
  void expression(const Expr& expr) {
    const bool part = expr.kind == Expr::Kind::Index || expr.kind == Expr::Kind::Slice;
    for (const ast::ExprPtr& child : expr.children) {
      if (!child) continue;
      if (part && child != expr.children[0]) divisors_of(*child);
      if (!part || child == expr.children[0]) expression(*child);
    }
    for (const ast::DimArgument& argument : expr.dims) divisors_of(*argument.value);
    const ast::Definition* callee =
        expr.kind == Expr::Kind::Call ? context_.definition(expr.text) : nullptr;
    if (!callee) return;
    if (context_.enter(expr.location)) handed(expr, *callee);
    context_.leave();
  }

  /// Dims that a call gives by name, and those of an input whose argument is a declared name.
  void handed(const Expr& call, const ast::Definition& callee) {
    const std::set<std::string>& fixed = fixed_dims(context_, callee);
    for (const ast::DimArgument& argument : call.dims) {
      if (fixed.contains(argument.name.text)) all_of(*argument.value);
    }
    for (size_t i = 0; i < std::min(call.children.size(), callee.inputs.size()); ++i) {
      const Extents& input = callee.inputs[i].shape;
      const Extents* argument = shape_of(*call.children[i]);
      if (!argument || argument->size() != input.size()) continue;
      for (size_t axis = 0; axis < input.size(); ++axis) {
        if (fixed.contains(input[axis]->text)) all_of(*(*argument)[axis]);
      }
    }
  }

  /// Of `x`, `x[t]`; null where it is not declared.
  const Extents* shape_of(const Expr& value) const {
    const Expr& name = value.kind == Expr::Kind::Index ? *value.children[0] : value;
    for (const ast::Input& input : definition_.inputs) {
      if (input.name.text == name.text) return &input.shape;
    }
    for (const ast::Statement& statement : definition_.body) {
      const auto* declaration = std::get_if<ast::Declaration>(&statement.node);
      if (!declaration) continue;
      for (const ast::Declaration::Entry& entry : declaration->entries) {
        if (entry.name.text == name.text && !entry.length) return &declaration->shape;
      }
    }
    return nullptr;
  }

  void all_of(const Expr& dim) {
    if (dim.kind == Expr::Kind::Name && definition_.has_dim(dim.text)) found_.insert(dim.text);
    for (const ast::ExprPtr& child : dim.children) {
      if (child) all_of(*child);
    }
  }

  void divisors_of(const Expr& dim) {
    if (dim.kind == Expr::Kind::Binary && dim.op == ast::BinaryOp::Div) all_of(*dim.children[1]);
    for (const ast::ExprPtr& child : dim.children) {
      if (child) divisors_of(*child);
    }
  }

  void divisors_of(const Extents& shape) {
    for (const ast::ExprPtr& dim : shape) divisors_of(*dim);
  }

  Context& context_;
  const ast::Definition& definition_;
  std::set<std::string>& found_;
};

}  // namespace

const std::set<std::string>& fixed_dims(Context& context, const ast::Definition& definition) {
  const auto [place, fresh] = context.fixed_dims().try_emplace(&definition);
  const Context::View view(context, definition.name.location.file);
  if (fresh) FixedDims(context, definition, place->second).run();
  return place->second;
}

}  // namespace rnnc
