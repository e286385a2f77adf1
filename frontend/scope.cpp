#include "frontend/scope.h"

namespace rnnc {

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
