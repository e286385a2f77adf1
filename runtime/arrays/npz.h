/// NumPy's .npz format: a zip archive with a member `NAME.npy` for each array
/// (https://numpy.org/doc/stable/reference/generated/numpy.savez.html). Sizes that a file claims
/// are never trusted: they are checked against its bytes before anything is allocated.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"
#include "runtime/arrays/array.h"
#include "runtime/arrays/array_source.h"
#include "runtime/base/byte_source.h"

namespace rnnc {

/// What `np.savez` and `np.savez_compressed` write. The headers of its members are read now; an
/// archive without arrays that is known to be something else is named.
Result<std::unique_ptr<ArraySource>> open_npz(ByteSource bytes, std::string_view name);

/// Every array of what `np.savez` and `np.savez_compressed` write, in file order; element types as
/// in `read_npy`.
Result<std::vector<NamedArray>> read_npz(const std::filesystem::path& path);
/// The same from bytes; `name` is used in errors.
Result<std::vector<NamedArray>> parse_npz(std::string_view bytes, std::string_view name);
/// Arrays as `format_npy` writes them, as the bytes of a file with stored members; the same arrays
/// give the same bytes. Names must differ.
Result<std::string> format_npz(const std::vector<NamedArray>& arrays);

}  // namespace rnnc
