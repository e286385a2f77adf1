#include "tools/serve/texts.h"

#include <algorithm>

#include "frontend/syntax/source.h"
#include "frontend/syntax/utf8.h"
#include "runtime/base/describe.h"
#include "runtime/base/files.h"
#include "runtime/program/shipped_units.h"

namespace rnnc::serve {

namespace fs = std::filesystem;

Result<Texts> Texts::of(const fs::path& folder) {
  if (folder.empty()) return Texts(fs::path());
  std::error_code error;
  const fs::path place = fs::canonical(folder, error);
  const bool is_folder = !error && fs::is_directory(place, error);
  if (!error && !is_folder) error = std::make_error_code(std::errc::not_a_directory);
  if (!error) return Texts(place);
  return fail(
      "cannot serve {}: {}\n  hint: name a folder of .rnn files, or none: rnnc's own cells are "
      "there",
      quote(folder.string()), error.message());
}

std::vector<std::string> Texts::files() const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_plain = !name.starts_with('.') && utf8::printable(name) == name;
    if (is_plain && !place_of(name).empty()) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

fs::path Texts::place_of(const fs::path& name) const {
  if (folder_.empty() || name.extension() != ".rnn") return {};
  std::error_code error;
  fs::path place = fs::canonical(folder_ / name, error);
  if (error || place.extension() != ".rnn") return {};
  const bool is_below = std::ranges::mismatch(folder_, place).in1 == folder_.end();
  return is_below && fs::is_regular_file(place, error) ? place : fs::path();
}

Result<std::string> Texts::text(const fs::path& name) const {
  const fs::path path = name.lexically_normal();
  const bool is_below = path.is_relative() && !path.empty() && *path.begin() != "..";
  const fs::path place = is_below ? place_of(path) : fs::path();
  if (!place.empty()) return read_file(place, kLargestSource, Readable::regular_file);
  const auto shipped = std::ranges::find(shipped_files(), path.string(), &ShippedFile::path);
  if (shipped != shipped_files().end()) return std::string(shipped->text);
  return fail(
      "cannot read {}: it is neither in the folder that is served nor one of rnnc's own files",
      quote(name.string()));
}

}  // namespace rnnc::serve
