/// Tokens to syntax tree: recursive descent over the whole grammar, also over what later stages
/// do not compile yet.
#pragma once

#include "frontend/syntax/ast.h"
#include "frontend/syntax/diagnostics.h"
#include "frontend/syntax/source.h"

namespace rnnc {

/// Reports every syntax error it can tell apart; what it could read is in the module.
ast::Module parse(const SourceFile& file, uint32_t file_index, Diagnostics& diagnostics);

}  // namespace rnnc
