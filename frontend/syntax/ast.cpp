#include "frontend/syntax/ast.h"

#include <fmt/format.h>

namespace rnnc::ast {
namespace {

template <typename List, typename Print>
std::string join(const List& list, Print&& print_one) {
  std::string text;
  for (const auto& item : list) {
    if (!text.empty()) text += ", ";
    text += print_one(item);
  }
  return text;
}

std::string print_operand(const Expr& expr) {
  const bool compound = expr.kind == Expr::Kind::Binary || expr.kind == Expr::Kind::Negate;
  return compound ? "(" + print(expr) + ")" : print(expr);
}

bool is_comparison(const Expr& expr) {
  return expr.kind == Expr::Kind::Binary && expr.op >= BinaryOp::Lt;
}

/// Where the grammar has a sum: a dim, an index, a bound.
std::string print_sum(const Expr& expr) {
  return is_comparison(expr) ? "(" + print(expr) + ")" : print(expr);
}

std::string print_shape(const std::vector<ExprPtr>& dims) {
  return "[" + join(dims, [](const ExprPtr& dim) { return print_sum(*dim); }) + "]";
}

std::string print_call(const Expr& call) {
  std::string text = (call.reverse ? "reverse " : "") + call.text;
  if (!call.dims.empty()) {
    text +=
        "[" +
        join(call.dims,
             [](const DimArgument& dim) { return dim.name.text + " = " + print_sum(*dim.value); }) +
        "]";
  }
  text += "(" + join(call.children, [](const ExprPtr& argument) { return print(*argument); }) + ")";
  if (call.layer) text += " as " + call.layer->text;
  if (call.layer_index) text += "[" + print_sum(*call.layer_index) + "]";
  return text;
}

std::string print_doc(const std::string& doc) {
  std::string text;
  for (size_t begin = 0; begin < doc.size();) {
    const size_t end = doc.find('\n', begin);
    const std::string line = doc.substr(begin, end - begin);
    text += line.empty() ? "///\n" : "/// " + line + "\n";
    begin = end + 1;
  }
  return text;
}

std::string print_declaration(const Declaration& declaration) {
  std::string text = declaration.is_state ? "state " : "param ";
  text += join(declaration.entries, [](const Declaration::Entry& entry) {
    return entry.length ? fmt::format("{}[{}]", entry.name.text, print_sum(*entry.length))
                        : entry.name.text;
  });
  text += ": " + print_shape(declaration.shape);
  if (declaration.blocks) text += " blocks " + print_sum(*declaration.blocks);
  if (declaration.initial) text += " = " + print(*declaration.initial);
  return text;
}

std::string print_assignment(const Assignment& assignment) {
  const auto print_target = [](const Target& target) {
    std::string text = target.name.text;
    for (const ExprPtr& index : target.indices) text += "[" + print_sum(*index) + "]";
    return text;
  };
  const bool tuple = assignment.targets.size() > 1;
  const std::string targets = join(assignment.targets, print_target);
  return (tuple ? "(" + targets + ")" : targets) + " = " + print(*assignment.value);
}

std::string print_body(const std::vector<Statement>& body, const std::string& indent) {
  std::string text;
  for (const Statement& statement : body) {
    text += indent;
    if (const auto* declaration = std::get_if<Declaration>(&statement.node)) {
      text += print_declaration(*declaration);
    } else if (const auto* assignment = std::get_if<Assignment>(&statement.node)) {
      text += print_assignment(*assignment);
    } else {
      const Loop& loop = std::get<Loop>(statement.node);
      text += fmt::format("for {} in {}..{} {{\n", loop.index.text, print_sum(*loop.begin),
                          print_sum(*loop.end));
      text += print_body(loop.body, indent + "  ");
      text += indent;
      text += '}';
    }
    text += "\n";
  }
  return text;
}

std::string print_definition(const Definition& definition) {
  const auto name = [](const Identifier& identifier) { return identifier.text; };
  std::string text = print_doc(definition.doc);
  text += fmt::format("{} {}", definition.kind(), definition.name.text);
  if (!definition.dims.empty()) {
    text += "[" +
            join(definition.dims,
                 [](const DimParameter& dim) {
                   return dim.name.text +
                          (dim.default_value ? " = " + print_sum(*dim.default_value) : "");
                 }) +
            "]";
  }
  text += "(" + join(definition.inputs, [](const Input& input) { return print(input); }) + ") -> ";
  const std::string outputs = join(definition.outputs, name);
  text += definition.outputs.size() > 1 ? "(" + outputs + ")" : outputs;
  return text + " {\n" + print_body(definition.body, "  ") + "}\n";
}

}  // namespace

std::string_view spelling(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
      return "+";
    case BinaryOp::Sub:
      return "-";
    case BinaryOp::Mul:
      return "*";
    case BinaryOp::Div:
      return "/";
    case BinaryOp::MatMul:
      return "@";
    case BinaryOp::Lt:
      return "<";
    case BinaryOp::Le:
      return "<=";
    case BinaryOp::Gt:
      return ">";
    case BinaryOp::Ge:
      return ">=";
    case BinaryOp::Eq:
      return "==";
    case BinaryOp::Ne:
      return "!=";
  }
  return "?";
}

std::string print(const Expr& expr) {
  const auto optional = [](const ExprPtr& child) {
    return child ? print_sum(*child) : std::string();
  };
  switch (expr.kind) {
    case Expr::Kind::Number:
    case Expr::Kind::Name:
      return expr.text;
    case Expr::Kind::Negate:
      return "-" + print_operand(*expr.children[0]);
    case Expr::Kind::Binary:
      return fmt::format("{} {} {}", print_operand(*expr.children[0]), spelling(expr.op),
                         print_operand(*expr.children[1]));
    case Expr::Kind::Index: {
      // Right behind a layer's name the index would be the layer's.
      const bool named = expr.children[0]->layer && !expr.children[0]->layer_index;
      const std::string base = print_operand(*expr.children[0]);
      return fmt::format("{}[{}]", named ? "(" + base + ")" : base, print_sum(*expr.children[1]));
    }
    case Expr::Kind::Slice:
      return fmt::format("{}[{}:{}]", print_operand(*expr.children[0]), optional(expr.children[1]),
                         optional(expr.children[2]));
    case Expr::Kind::Vector:
      return "[" + join(expr.children, [](const ExprPtr& element) { return print(*element); }) +
             "]";
    case Expr::Kind::Call:
      return print_call(expr);
  }
  return {};
}

std::string print(const Input& input) {
  return input.name.text + ": " + (input.integer ? "int " : "") + print_shape(input.shape);
}

const Identifier* name_of(const Item& item) {
  if (const auto* constant = std::get_if<Constant>(&item)) return &constant->name;
  if (const auto* function = std::get_if<Function>(&item)) return &function->name;
  if (const auto* definition = std::get_if<Definition>(&item)) return &definition->name;
  return nullptr;
}

std::string print(const Item& item) {
  if (const auto* import = std::get_if<Import>(&item)) {
    return fmt::format("import \"{}\"\n", import->path);
  }
  if (const auto* constant = std::get_if<Constant>(&item)) {
    return fmt::format("{}const {} = {}\n", print_doc(constant->doc), constant->name.text,
                       print(*constant->value));
  }
  if (const auto* function = std::get_if<Function>(&item)) {
    return fmt::format("{}fn {}({}) = {}\n", print_doc(function->doc), function->name.text,
                       join(function->parameters, [](const Identifier& name) { return name.text; }),
                       print(*function->body));
  }
  return print_definition(std::get<Definition>(item));
}

std::string print(const Module& module) {
  std::string text;
  for (const Item& item : module.items) text += (text.empty() ? "" : "\n") + print(item);
  return text;
}

}  // namespace rnnc::ast
