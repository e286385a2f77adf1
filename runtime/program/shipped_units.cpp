#include "runtime/program/shipped_units.h"

#include <algorithm>
#include <filesystem>

#include "runtime/base/describe.h"

namespace rnnc {
namespace {

namespace fs = std::filesystem;

const ShippedFile* find_file(std::string_view path) {
  const auto found = std::ranges::find(shipped_files(), path, &ShippedFile::path);
  return found == shipped_files().end() ? nullptr : &*found;
}

Result<ImportedFile> import_shipped(const std::string& importer, const std::string& path) {
  const std::string place = (fs::path(importer).parent_path() / path).lexically_normal().string();
  const ShippedFile* file = find_file(place);
  RNNC_CHECK(file != nullptr, "{} imports {}, which is not shipped", importer, place);
  return ImportedFile{place, std::string(file->text)};
}

}  // namespace

std::vector<std::string> shipped_units() {
  std::vector<std::string> names;
  for (const ShippedFile& file : shipped_files()) names.push_back(fs::path(file.path).stem());
  return names;
}

Result<Unit> shipped_unit(std::string_view name) {
  for (const ShippedFile& file : shipped_files()) {
    if (fs::path(file.path).stem() != name) continue;
    return Unit(std::string(file.path), std::string(file.text), import_shipped);
  }
  return fail("rnnc has no cell or network {}{}", quote(name), did_you_mean(name, shipped_units()));
}

}  // namespace rnnc
