/// libzip, opened when the first archive is: with what it brings along, libcrypto above all, loading it
/// takes as long as `rnnc check` takes to run.
#pragma once

#include <zip.h>

#include "ir/base/status.h"

namespace rnnc {

/// libzip's functions under their names without `zip_`.
struct ZipLibrary {
  decltype(&::zip_close) close = nullptr;
  decltype(&::zip_discard) discard = nullptr;
  decltype(&::zip_error_fini) error_fini = nullptr;
  decltype(&::zip_error_init) error_init = nullptr;
  decltype(&::zip_error_strerror) error_strerror = nullptr;
  decltype(&::zip_fclose) fclose = nullptr;
  decltype(&::zip_file_add) file_add = nullptr;
  decltype(&::zip_file_set_dostime) file_set_dostime = nullptr;
  decltype(&::zip_file_strerror) file_strerror = nullptr;
  decltype(&::zip_fopen_index) fopen_index = nullptr;
  decltype(&::zip_fread) fread = nullptr;
  decltype(&::zip_get_name) get_name = nullptr;
  decltype(&::zip_get_num_entries) get_num_entries = nullptr;
  decltype(&::zip_open_from_source) open_from_source = nullptr;
  decltype(&::zip_set_file_compression) set_file_compression = nullptr;
  decltype(&::zip_source_buffer) source_buffer = nullptr;
  decltype(&::zip_source_buffer_create) source_buffer_create = nullptr;
  decltype(&::zip_source_close) source_close = nullptr;
  decltype(&::zip_source_error) source_error = nullptr;
  decltype(&::zip_source_free) source_free = nullptr;
  decltype(&::zip_source_keep) source_keep = nullptr;
  decltype(&::zip_source_open) source_open = nullptr;
  decltype(&::zip_source_read) source_read = nullptr;
  decltype(&::zip_source_stat) source_stat = nullptr;
  decltype(&::zip_stat_index) stat_index = nullptr;
  decltype(&::zip_strerror) strerror = nullptr;
};

/// From a file or the system's search path.
Result<ZipLibrary> load_zip(const char* file);

/// Nothing happens if it is open. The error says that it is missing.
Status open_zip();

/// Once it is open.
const ZipLibrary& zip();

}  // namespace rnnc
