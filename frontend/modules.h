/// The files of one compilation: the user's, what it imports, and the prelude.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontend/syntax/diagnostics.h"
#include "frontend/syntax/source.h"
#include "ir/base/status.h"

namespace rnnc {

namespace ast {
struct Module;
}

/// Finds the file that `import "path"` in the file `importer` means, and gives its text, or an
/// error in plain words. `name` becomes the file's name in diagnostics, and says whether two
/// imports mean the same file: the text of a name that was given before is not looked at.
struct ImportedFile {
  std::string name;
  std::string text;
};
using Importer =
    std::function<Result<ImportedFile>(const std::string& importer, const std::string& path)>;

/// Parses `files[0]`, then each file that is imported, by it or by another, once, and last the
/// prelude (prelude.rnn); appends them to `files`. Gives one module for each file and reports what
/// is wrong with the text or an import.
std::vector<ast::Module> parse_modules(std::vector<SourceFile>& files, const Importer& importer,
                                       Diagnostics& diagnostics);

}  // namespace rnnc
