#include "runtime/arrays/array_source.h"

#include "runtime/base/describe.h"

namespace rnnc {

Result<std::vector<NamedArray>> read_all(const ArraySource& source, std::string_view name) {
  std::vector<NamedArray> arrays;
  for (size_t i = 0; i < source.arrays().size(); ++i) {
    const auto& [header, problem] = source.arrays()[i];
    if (!problem.empty()) return fail("{} of {} {}", quote(header.name), quote(name), problem);
    Result<Array> array = source.read(i);
    if (!array) return tl::unexpected(array.error());
    arrays.push_back({header.name, std::move(*array)});
  }
  return arrays;
}

}  // namespace rnnc
