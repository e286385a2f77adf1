#include "codegen/cuda/nvrtc/nvrtc_library.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "codegen/cuda/nvrtc/shared_library.h"

namespace rnnc {
namespace {

constexpr int kOldestMajor = 13;

Status find_functions(const SharedLibrary& library, NvrtcLibrary& nvrtc) {
  return library.find("nvrtcVersion", nvrtc.version)
      .and_then([&] { return library.find("nvrtcGetErrorString", nvrtc.error_string); })
      .and_then([&] { return library.find("nvrtcGetNumSupportedArchs", nvrtc.arch_count); })
      .and_then([&] { return library.find("nvrtcGetSupportedArchs", nvrtc.archs); })
      .and_then([&] { return library.find("nvrtcCreateProgram", nvrtc.create); })
      .and_then([&] { return library.find("nvrtcDestroyProgram", nvrtc.destroy); })
      .and_then([&] { return library.find("nvrtcCompileProgram", nvrtc.compile); })
      .and_then([&] { return library.find("nvrtcGetProgramLogSize", nvrtc.log_size); })
      .and_then([&] { return library.find("nvrtcGetProgramLog", nvrtc.log); })
      .and_then([&] { return library.find("nvrtcGetPTXSize", nvrtc.ptx_size); })
      .and_then([&] { return library.find("nvrtcGetPTX", nvrtc.ptx); })
      .and_then([&] { return library.find("nvrtcGetCUBINSize", nvrtc.cubin_size); })
      .and_then([&] { return library.find("nvrtcGetCUBIN", nvrtc.cubin); });
}

Result<NvrtcLibrary> load() {
  Result<SharedLibrary> library = SharedLibrary::open(kNvrtcSoname, "NVRTC 13");
  if (!library) return tl::unexpected(library.error());
  NvrtcLibrary nvrtc;
  nvrtc.path = library->path();
  if (Status found = find_functions(*library, nvrtc); !found) return tl::unexpected(found.error());

  if (nvrtc.version(&nvrtc.major, &nvrtc.minor) != NVRTC_SUCCESS || nvrtc.major < kOldestMajor) {
    return fail(
        "NVRTC {}.{} is too old; rnnc needs {}.0, which comes with CUDA toolkit {} and with `pip "
        "install nvidia-cuda-nvrtc`",
        nvrtc.major, nvrtc.minor, kOldestMajor, kOldestMajor);
  }
  // NVRTC opens this by name, which works only where its folder is on the system's search path.
  library->preload_neighbour(fmt::format("libnvrtc-builtins.so.{}.{}", nvrtc.major, nvrtc.minor));

  int count = 0;
  if (nvrtc.arch_count(&count) != NVRTC_SUCCESS) count = 0;
  nvrtc.supported_archs.resize(static_cast<size_t>(count));
  if (count > 0 && nvrtc.archs(nvrtc.supported_archs.data()) != NVRTC_SUCCESS) {
    return fail("NVRTC {}.{} does not say what it compiles for", nvrtc.major, nvrtc.minor);
  }
  std::ranges::sort(nvrtc.supported_archs);
  return nvrtc;
}

}  // namespace

Result<const NvrtcLibrary*> nvrtc_library() {
  static std::mutex mutex;
  static std::optional<NvrtcLibrary> loaded;
  const std::scoped_lock lock(mutex);
  if (!loaded) {
    Result<NvrtcLibrary> library = load();
    if (!library) return tl::unexpected(library.error());
    loaded = *std::move(library);
  }
  return &*loaded;
}

}  // namespace rnnc
