/// What the check of an item looks at, so that the next check knows whether that has changed.
#pragma once

#include <map>
#include <vector>

#include "frontend/elaborate/check_memory.h"
#include "frontend/syntax/ast.h"
#include "frontend/syntax/lexer.h"

namespace rnnc {

using ItemIds = std::map<const void*, CheckMemory::Id>;

/// Of the definitions and fns of all files but the prelude. `tokens` are those of the first file.
/// Items that name each other in a circle have no id.
ItemIds item_ids(const std::vector<ast::Module>& modules, const std::vector<SourceFile>& files,
                 const std::vector<Token>& tokens, CheckMemory& memory);

}  // namespace rnnc
