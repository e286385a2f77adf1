#include "runtime/arrays/zip_library.h"

#include <dlfcn.h>

namespace rnnc {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

const Result<ZipLibrary>& loaded() {
  static const Result<ZipLibrary> library = load_zip(RNNC_ZIP_LIBRARY);
  return library;
}

}  // namespace

Result<ZipLibrary> load_zip(const char* file) {
  void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  ZipLibrary zip;
  const bool found =
      library != nullptr && find(library, "zip_close", zip.close) &&
      find(library, "zip_discard", zip.discard) &&
      find(library, "zip_error_fini", zip.error_fini) &&
      find(library, "zip_error_init", zip.error_init) &&
      find(library, "zip_error_strerror", zip.error_strerror) &&
      find(library, "zip_fclose", zip.fclose) && find(library, "zip_file_add", zip.file_add) &&
      find(library, "zip_file_set_dostime", zip.file_set_dostime) &&
      find(library, "zip_file_strerror", zip.file_strerror) &&
      find(library, "zip_fopen_index", zip.fopen_index) && find(library, "zip_fread", zip.fread) &&
      find(library, "zip_get_name", zip.get_name) &&
      find(library, "zip_get_num_entries", zip.get_num_entries) &&
      find(library, "zip_open_from_source", zip.open_from_source) &&
      find(library, "zip_set_file_compression", zip.set_file_compression) &&
      find(library, "zip_source_buffer", zip.source_buffer) &&
      find(library, "zip_source_buffer_create", zip.source_buffer_create) &&
      find(library, "zip_source_close", zip.source_close) &&
      find(library, "zip_source_error", zip.source_error) &&
      find(library, "zip_source_free", zip.source_free) &&
      find(library, "zip_source_keep", zip.source_keep) &&
      find(library, "zip_source_open", zip.source_open) &&
      find(library, "zip_source_read", zip.source_read) &&
      find(library, "zip_source_stat", zip.source_stat) &&
      find(library, "zip_stat_index", zip.stat_index) &&
      find(library, "zip_strerror", zip.strerror);
  if (!found) return fail(".npz files need libzip, which cannot be loaded: {}", ::dlerror());
  return zip;
}

Status open_zip() {
  return loaded().map([](const ZipLibrary&) {});
}

const ZipLibrary& zip() {
  return *loaded();
}

}  // namespace rnnc
