#include "frontend/elaborate/scope.h"

namespace rnnc {
namespace {

void collect_given(const std::vector<ast::Statement>& list, std::vector<Frame::Given>& given) {
  for (const ast::Statement& statement : list) {
    if (const auto* assignment = std::get_if<ast::Assignment>(&statement.node)) {
      for (const ast::Target& target : assignment->targets) {
        given.push_back({target.name.text, target.location, statement.location});
      }
    } else if (const auto* loop = std::get_if<ast::Loop>(&statement.node)) {
      collect_given(loop->body, given);
    }
  }
}

}  // namespace

std::vector<Frame::Given> Frame::given() const {
  std::vector<Given> given;
  if (definition) collect_given(definition->body, given);
  return given;
}

const char* describe(Binding::Kind kind) {
  switch (kind) {
    case Binding::Kind::Dim:
      return "a dim";
    case Binding::Kind::Input:
      return "an input";
    case Binding::Kind::Param:
      return "a param";
    case Binding::Kind::State:
      return "a state";
    case Binding::Kind::Local:
      return "a value";
    case Binding::Kind::LoopIndex:
      return "a loop's index";
    case Binding::Kind::Poison:
      break;
  }
  return "a name";
}

bool is_time_step(const ast::Expr& expr) {
  return expr.kind == ast::Expr::Kind::Name && expr.text == "t";
}

}  // namespace rnnc
