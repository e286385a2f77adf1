/// The safetensors format (https://huggingface.co/docs/safetensors): an 8-byte header length, a
/// JSON header, then the tensors' bytes. Headers are never trusted.
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

/// The header is read now. Tensors of other dtypes than F64, F32, F16 and BF16 are not read.
Result<std::unique_ptr<ArraySource>> open_safetensors(ByteSource bytes, std::string_view name);

/// Every tensor of dtype F64, F32, F16 or BF16, in file order; another dtype is an error naming it.
Result<std::vector<NamedArray>> read_safetensors(const std::filesystem::path& path);
Result<std::vector<NamedArray>> parse_safetensors(std::string_view bytes, std::string_view name);
/// The bytes of a file, and a file that is written whole or not at all. Names must differ.
Result<std::string> format_safetensors(const std::vector<NamedArray>& arrays);
Status write_safetensors(const std::filesystem::path& path, const std::vector<NamedArray>& arrays);

}  // namespace rnnc
