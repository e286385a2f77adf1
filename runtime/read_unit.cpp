#include "runtime/read_unit.h"

#include <map>
#include <memory>

#include "runtime/files.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;

/// Finds imported files, and gives each one name: that under which it was first met, which is
/// relative to the working folder if the first file's is, and so short to read.
class FileImporter {
 public:
  explicit FileImporter(const fs::path& first) { name_of(first); }

  Result<ImportedFile> operator()(const std::string& importer, const std::string& path) {
    const fs::path file = (fs::path(importer).parent_path() / path).lexically_normal();
    Result<std::string> text = read_file(file);
    if (!text) return tl::unexpected(text.error());
    return ImportedFile{name_of(file), std::move(*text)};
  }

 private:
  std::string name_of(const fs::path& file) {
    std::error_code ignored;
    const fs::path place = fs::weakly_canonical(fs::absolute(file, ignored), ignored);
    return names_.try_emplace(place, file.string()).first->second;
  }

  std::map<fs::path, std::string> names_;  // by where the file lies
};

}  // namespace

Result<Unit> read_unit(const fs::path& path) {
  Result<std::string> text = read_file(path);
  if (!text) return tl::unexpected(text.error());
  return parse_unit(path.string(), std::move(*text));
}

Unit parse_unit(const std::string& name, std::string text) {
  return {name, std::move(text), FileImporter(name)};
}

}  // namespace rnnc
