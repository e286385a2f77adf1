#include "runtime/program/device_arrays.h"

namespace rnnc {

std::vector<DeviceArray> make_arrays(Backend& backend, size_t count) {
  std::vector<DeviceArray> memories;
  memories.reserve(count);
  for (size_t i = 0; i < count; ++i) memories.emplace_back(backend);
  return memories;
}

std::vector<int64_t> with_leading(std::vector<int64_t> leading, const std::vector<int64_t>& shape) {
  leading.insert(leading.end(), shape.begin(), shape.end());
  return leading;
}

Status upload_some(const std::vector<const Array*>& arrays, const std::vector<ArrayInfo>& infos,
                   std::vector<DeviceArray>& memories, std::vector<const void*>& pointers) {
  pointers.assign(arrays.size(), nullptr);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i] == nullptr) continue;
    if (Status status = memories[i].upload(*arrays[i], infos[i].dtype); !status) return status;
    pointers[i] = memories[i].get();
  }
  return {};
}

Status reserve_some(const std::vector<bool>& wanted, const std::vector<ArrayInfo>& infos,
                    int64_t rows, std::vector<DeviceArray>& memories,
                    std::vector<void*>& pointers) {
  pointers.assign(wanted.size(), nullptr);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    const auto bytes = static_cast<size_t>(rows * infos[i].elements()) * size_of(infos[i].dtype);
    if (Status status = memories[i].reserve(bytes); !status) return status;
    pointers[i] = memories[i].get();
  }
  return {};
}

Result<std::vector<NamedArray>> download_some(const std::vector<bool>& wanted,
                                              const std::vector<ArrayInfo>& infos,
                                              const std::vector<int64_t>& leading,
                                              const std::vector<DeviceArray>& memories) {
  std::vector<NamedArray> arrays;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    Result<Array> array =
        memories[i].download(infos[i].dtype, with_leading(leading, infos[i].shape));
    if (!array) return tl::unexpected(array.error());
    arrays.push_back({infos[i].name, std::move(*array)});
  }
  return arrays;
}

}  // namespace rnnc
