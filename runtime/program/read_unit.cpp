#include "runtime/program/read_unit.h"

#include <map>
#include <memory>

#include "runtime/base/describe.h"
#include "runtime/base/files.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;

/// Finds imported files, and gives each one name: that under which it was first met, which is
/// relative to the working folder if the first file's is, and so short to read.
class FileImporter {
 public:
  FileImporter(const fs::path& first, Shadow shadow) : shadow_(std::move(shadow)) {
    std::error_code ignored;
    names_.emplace(fs::weakly_canonical(fs::absolute(first, ignored), ignored), first.string());
  }

  Result<ImportedFile> operator()(const std::string& importer, const std::string& path) {
    const fs::path file = (fs::path(importer).parent_path() / path).lexically_normal();
    std::error_code ignored;
    const fs::path place = fs::weakly_canonical(fs::absolute(file, ignored), ignored);
    // An error shows the line that it is about, which for other files is nobody's business.
    if (file.extension() != ".rnn") {
      return fail("cannot import {}: its name does not end in `.rnn`", quote(file.string()));
    }
    if (place.extension() != ".rnn") {
      return fail("cannot import {}: it is a link to what is no .rnn file", quote(file.string()));
    }
    if (const auto known = names_.find(place); known != names_.end()) {
      return ImportedFile{known->second, ""};
    }
    Result<std::optional<std::string>> shadow = std::nullopt;
    if (shadow_) shadow = shadow_(file);
    if (!shadow) return tl::unexpected(shadow.error());
    Result<std::string> text = *shadow ? Result<std::string>(std::move(**shadow))
                                       : read_file(file, kLargestSource, Readable::regular_file);
    if (!text) return tl::unexpected(text.error());
    names_.emplace(place, file.string());
    return ImportedFile{file.string(), std::move(*text)};
  }

 private:
  std::map<fs::path, std::string> names_;  // by where the file lies
  Shadow shadow_;
};

}  // namespace

Result<Unit> read_unit(const fs::path& path) {
  Result<std::string> text = read_file(path, kLargestSource);
  if (!text) return tl::unexpected(text.error());
  return parse_unit(path.string(), std::move(*text));
}

Unit parse_unit(const std::string& name, std::string text, const Shadow& shadow) {
  return {name, std::move(text), FileImporter(name, shadow)};
}

}  // namespace rnnc
