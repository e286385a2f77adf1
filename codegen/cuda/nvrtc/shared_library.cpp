#include "codegen/cuda/nvrtc/shared_library.h"

#include <dlfcn.h>
#include <link.h>
#include <linux/limits.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>

namespace rnnc {
namespace {

constexpr const char* kToolkitFolder = "/usr/local/cuda/lib64/";
/// Which folders the system's search path has, and what is in them.
constexpr const char* kSystemLibraries = "/etc/ld.so.cache";

std::mutex folders_mutex;
std::vector<std::string>& added_folders() {
  static auto* const folders = new std::vector<std::string>;  // programs may end after main
  return *folders;
}

/// Where it may be apart from the system's search path.
std::vector<std::string> own_places(const std::string& soname) {
  std::vector<std::string> places;
  const std::scoped_lock lock(folders_mutex);
  for (const std::string& folder : added_folders())
    places.push_back(fmt::format("{}/{}", folder, soname));
  places.push_back(kToolkitFolder + soname);
  return places;
}

}  // namespace

void SharedLibrary::add_folder(const std::string& folder) {
  const std::scoped_lock lock(folders_mutex);
  std::vector<std::string>& folders = added_folders();
  if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
}

Result<SharedLibrary> SharedLibrary::open(const std::string& soname, const std::string& package) {
  std::string reason;
  std::vector<std::string> names = own_places(soname);
  names.insert(names.begin(), soname);
  for (const std::string& name : names) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return SharedLibrary(handle, soname);
    if (reason.empty()) reason = dlerror();
  }
  return fail(
      "{} cannot be loaded ({}). It comes with CUDA toolkit 13 and with NVIDIA's Python wheels: "
      "`pip install nvidia-cuda-nvrtc nvidia-cublas`; put its folder into LD_LIBRARY_PATH",
      package, reason);
}

bool SharedLibrary::is_open(const std::string& soname) {
  void* handle = dlopen(soname.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

std::vector<std::string> SharedLibrary::places(const std::string& soname) {
  void* program = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo head = {};
  if (program == nullptr || dlinfo(program, RTLD_DI_SERINFOSIZE, &head) != 0) return {};
  std::vector<std::byte> bytes(head.dls_size);
  auto* folders = reinterpret_cast<Dl_serinfo*>(bytes.data());
  if (dlinfo(program, RTLD_DI_SERINFOSIZE, folders) != 0 ||
      dlinfo(program, RTLD_DI_SERINFO, folders) != 0) {
    return {};
  }
  std::vector<std::string> places;
  for (unsigned i = 0; i < folders->dls_cnt; ++i) {
    const Dl_serpath* folder = static_cast<const Dl_serpath*>(folders->dls_serpath) + i;
    places.push_back(fmt::format("{}/{}", folder->dls_name, soname));
  }
  places.emplace_back(kSystemLibraries);
  for (std::string& place : own_places(soname)) places.push_back(std::move(place));
  return places;
}

std::string SharedLibrary::path() const {
  const link_map* map = nullptr;
  return dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
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
