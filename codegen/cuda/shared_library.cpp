#include "codegen/cuda/shared_library.h"

#include <dlfcn.h>
#include <linux/limits.h>

#include <array>

namespace rnnc {
namespace {

constexpr const char* kToolkitFolder = "/usr/local/cuda/lib64/";

}  // namespace

Result<SharedLibrary> SharedLibrary::open(const std::string& soname, const std::string& package) {
  std::string reason;
  for (const std::string& name : {soname, kToolkitFolder + soname}) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return SharedLibrary(handle, soname);
    if (reason.empty()) reason = dlerror();
  }
  return fail(
      "{} cannot be loaded ({}). It comes with CUDA toolkit 13 and with NVIDIA's Python wheels: "
      "`pip install nvidia-cuda-nvrtc nvidia-cublas`; put its folder into LD_LIBRARY_PATH",
      package, reason);
}

void SharedLibrary::preload_neighbour(const std::string& soname) const {
  std::array<char, PATH_MAX> folder = {};
  if (dlinfo(handle_, RTLD_DI_ORIGIN, folder.data()) != 0) return;
  dlopen((std::string(folder.data()) + "/" + soname).c_str(), RTLD_NOW | RTLD_LOCAL);
}

Result<void*> SharedLibrary::symbol(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr) return fail("{} has no function {}", soname_, name);
  return address;
}

}  // namespace rnnc
