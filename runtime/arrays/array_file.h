/// Files of named arrays, such as weights and carried states: safetensors or .npz, which their
/// first bytes tell. What a file says of its arrays is read when it is opened, their data only when
/// they are wanted, so that names and shapes can be checked before memory is filled.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"
#include "runtime/arrays/array_source.h"

namespace rnnc {

/// Moved, not copied.
class ArrayFile {
 public:
  /// An error if the file cannot be read, is damaged, or has another format, which is named with
  /// the way to convert it if it is known.
  static Result<ArrayFile> open(const std::filesystem::path& path);
  /// The same of bytes; `name` is used in errors.
  static Result<ArrayFile> parse(std::string bytes, std::string_view name);

  /// The arrays whose names start with `prefix`, without it, in file order and without data. An
  /// error if there is none, or if one's elements are no floats.
  Result<std::vector<NamedArray>> headers(std::string_view prefix = "") const;
  /// The same with their data.
  Result<std::vector<NamedArray>> read(std::string_view prefix = "") const;

 private:
  ArrayFile(std::string name, std::unique_ptr<ArraySource> source)
      : name_(std::move(name)), source_(std::move(source)) {}

  std::string name_;
  std::unique_ptr<ArraySource> source_;
};

/// Writes float arrays as .npz if `path` ends so and as safetensors otherwise, whole or not at all.
/// Names must differ.
Status write_arrays(const std::filesystem::path& path, const std::vector<NamedArray>& arrays);

}  // namespace rnnc
