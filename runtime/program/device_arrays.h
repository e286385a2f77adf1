/// Device arrays by the lists of a signature.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/arrays/signature.h"
#include "runtime/program/device_array.h"

namespace rnnc {

/// Room for one device array per entry of a signature's list.
std::vector<DeviceArray> make_arrays(Backend& backend, size_t count);

std::vector<int64_t> with_leading(std::vector<int64_t> leading, const std::vector<int64_t>& shape);

/// Uploads those that there are; the others' pointers are null.
Status upload_some(const std::vector<const Array*>& arrays, const std::vector<ArrayInfo>& infos,
                   std::vector<DeviceArray>& memories, std::vector<const void*>& pointers);

/// Of `wanted` ones, of so many rows; the others' pointers are null.
Status reserve_some(const std::vector<bool>& wanted, const std::vector<ArrayInfo>& infos,
                    int64_t rows, std::vector<DeviceArray>& memories, std::vector<void*>& pointers);

/// Of `wanted` ones.
Result<std::vector<NamedArray>> download_some(const std::vector<bool>& wanted,
                                              const std::vector<ArrayInfo>& infos,
                                              const std::vector<int64_t>& leading,
                                              const std::vector<DeviceArray>& memories);

}  // namespace rnnc
