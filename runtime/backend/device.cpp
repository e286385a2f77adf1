#include "runtime/backend/device.h"

#include <charconv>

#ifdef RNNC_WITH_CUDA
#include "codegen/cuda/nvrtc/shared_library.h"
#endif
#include "runtime/backend/backend.h"
#include "runtime/base/describe.h"

namespace rnnc {

Result<Device> Device::parse(std::string_view text) {
  if (text == "cpu") return Device{Kind::cpu, 0};
  if (text == "cuda") return Device{Kind::cuda, 0};
  if (text.starts_with("cuda:")) {
    const std::string digits(text.substr(5));
    Device device{Kind::cuda, 0};
    const char* end = digits.data() + digits.size();
    const auto [rest, error] = std::from_chars(digits.data(), end, device.index);
    if (error == std::errc() && rest == end && device.index >= 0) return device;
  }
  return fail("unknown device {}: expected `cpu`, `cuda` or `cuda:1`", quote(text));
}

std::string Device::to_string() const {
  return kind == Kind::cpu ? "cpu" : fmt::format("cuda:{}", index);
}

std::vector<DeviceDescription> list_devices() {
  std::vector<DeviceDescription> devices;
#ifdef RNNC_WITH_CPU
  devices.push_back(describe_cpu_device());
#else
  devices.push_back({"cpu", "", false, "this build of rnnc has no CPU backend"});
#endif
#ifdef RNNC_WITH_CUDA
  for (DeviceDescription& device : describe_cuda_devices()) devices.push_back(std::move(device));
#else
  devices.push_back({"cuda", "", false, "this build of rnnc has no CUDA backend"});
#endif
  return devices;
}

Status add_library_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return fail("cannot look for libraries in {}: it is not a directory", quote(folder.string()));
  }
#ifdef RNNC_WITH_CUDA
  SharedLibrary::add_folder(std::filesystem::absolute(folder, ignored).string());
#endif
  return {};
}

}  // namespace rnnc
