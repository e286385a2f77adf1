/// What a file format of named arrays gives: what the file says of its arrays, then any one's data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"
#include "runtime/arrays/array.h"

namespace rnnc {

/// A file that is open.
class ArraySource {
 public:
  /// What the file says of an array.
  struct Stored {
    NamedArray array;     // without its data
    std::string problem;  // why its data are not read, such as "holds int64; …"; empty: they are
  };

  virtual ~ArraySource() = default;

  /// In the file's order; names differ.
  const std::vector<Stored>& arrays() const { return arrays_; }
  /// One of them with its data, if it has no problem. An error says what is wrong with the file.
  virtual Result<Array> read(size_t index) const = 0;

 protected:
  std::vector<Stored> arrays_;
};

/// All arrays; an error if there is one whose data are not read. `name` is the file's.
Result<std::vector<NamedArray>> read_all(const ArraySource& source, std::string_view name);

}  // namespace rnnc
