/// Imports of which the user's file uses nothing.
#pragma once

#include <vector>

#include "frontend/syntax/ast.h"
#include "frontend/syntax/diagnostics.h"
#include "frontend/syntax/source.h"

namespace rnnc {

/// Warns of each import in `modules[0]` that brings no name that is read or called there. A file of
/// imports alone collects them for others and gets none.
void warn_unused_imports(const std::vector<ast::Module>& modules,
                         const std::vector<SourceFile>& files, Diagnostics& diagnostics);

}  // namespace rnnc
