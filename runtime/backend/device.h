/// Devices that programs run on.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"

namespace rnnc {

struct Device {
  enum class Kind : uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;

  /// "cpu", "cuda", "cuda:1".
  static Result<Device> parse(std::string_view text);
  std::string to_string() const;
};

/// For `rnnc devices`: what this build and this machine have, a line each.
struct DeviceDescription {
  std::string name;    // "cpu", "cuda:0"
  std::string detail;  // "AMD EPYC, 2 threads, avx512" or "NVIDIA H200, sm_90, 139 GiB"
  bool usable = false;
  std::string reason;  // why not, if not usable
};
std::vector<DeviceDescription> list_devices();

/// A further folder where the libraries that devices need, NVRTC and cuBLASLt, are looked for when
/// they are first needed, such as those of NVIDIA's Python wheels. Any thread may add one.
Status add_library_folder(const std::filesystem::path& folder);

}  // namespace rnnc
