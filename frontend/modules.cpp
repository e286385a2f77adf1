#include "frontend/modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/prelude.h"
#include "frontend/syntax/ast.h"
#include "frontend/syntax/parser.h"
#include "frontend/syntax/utf8.h"

namespace rnnc {
namespace {

constexpr size_t kMostFiles = 256;
constexpr size_t kMostBytes = 4 * kLargestSource;

class Loader {
 public:
  Loader(std::vector<SourceFile>& files, const Importer& importer, Diagnostics& diagnostics)
      : files_(files), importer_(importer), diagnostics_(diagnostics) {}

  /// Parses this file, then, depth first, what it imports.
  void load(uint32_t file) {
    ast::Module module = parse(files_[file], file, diagnostics_);
    bytes_ += files_[file].text().size();
    open_.push_back(file);
    for (ast::Item& item : module.items) {
      if (diagnostics_.is_full()) break;
      if (auto* import = std::get_if<ast::Import>(&item)) import->file = imported(*import);
    }
    open_.pop_back();
    modules_.resize(std::max<size_t>(modules_.size(), file + 1));
    modules_[file] = std::move(module);
  }

  std::vector<ast::Module> modules() { return std::move(modules_); }

 private:
  /// The imported file's index; after an error, that of the importing one.
  uint32_t imported(const ast::Import& import) {
    const uint32_t importing = import.location.file;
    const auto wrong = [&](std::string message, std::string hint = {}) {
      diagnostics_.error(import.location, std::move(message), std::move(hint));
      return importing;
    };
    if (!importer_) {
      return wrong("there is no place here to import files from", "write its cells into this text");
    }
    Result<ImportedFile> found = importer_(files_[importing].name(), import.path);
    if (!found) {
      return wrong(std::move(found.error().message), "a path is relative to the file that imports");
    }
    const auto known = std::ranges::find(files_, found->name, &SourceFile::name);
    const auto file = static_cast<uint32_t>(known - files_.begin());
    if (known != files_.end()) {
      if (std::ranges::find(open_, file) == open_.end()) return file;
      return wrong(fmt::format("this import closes a circle: {}", circle(file)),
                   "what both files need belongs into a third one");
    }
    if (files_.size() == kMostFiles) {
      return wrong(fmt::format("with this one, more than {} files are imported", kMostFiles),
                   "import only what is used, or join small files");
    }
    if (bytes_ + found->text.size() > kMostBytes) {
      return wrong(fmt::format("with this one, more than {} MiB are imported", kMostBytes >> 20),
                   "import only what is used");
    }
    files_.emplace_back(std::move(found->name), std::move(found->text));
    load(file);
    return file;
  }

  /// "a.rnn → b.rnn → a.rnn".
  std::string circle(uint32_t file) const {
    std::string text;
    for (auto at = std::ranges::find(open_, file); at != open_.end(); ++at) {
      text += utf8::printable(files_[*at].name()) + " → ";
    }
    return text + utf8::printable(files_[file].name());
  }

  std::vector<SourceFile>& files_;
  const Importer& importer_;
  Diagnostics& diagnostics_;
  std::vector<ast::Module> modules_;
  std::vector<uint32_t> open_;  // from the first file to the one being read: each imports the next
  size_t bytes_ = 0;
};

}  // namespace

std::vector<ast::Module> parse_modules(std::vector<SourceFile>& files, const Importer& importer,
                                       Diagnostics& diagnostics) {
  Loader loader(files, importer, diagnostics);
  loader.load(0);
  std::vector<ast::Module> modules = loader.modules();
  files.emplace_back("<prelude>", std::string(kPrelude));
  modules.push_back(parse(files.back(), static_cast<uint32_t>(files.size() - 1), diagnostics));
  return modules;
}

}  // namespace rnnc
