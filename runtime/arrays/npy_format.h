/// The parts of the .npy format, wherever they are read from: a file or a member of an archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/status.h"
#include "runtime/arrays/array.h"

namespace rnnc {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// An element type as headers and as NumPy's users spell it.
struct NpyElement {
  enum class Kind : uint8_t { floating, integer, boolean, other };
  std::string code;  // "f4"
  std::string name;  // "float32"; of others what the header has
  Kind kind = Kind::other;
  size_t size = 0;        // bytes; 0: of another type
  bool is_signed = true;  // of integers
  bool big_endian = false;
};

/// What is read as an array of which use.
enum class NpyUse : uint8_t { values, whole_numbers, mask };

struct NpyHeader {
  NpyElement element;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // of the data
  uint64_t size = 0;   // of the data, which is the rest of the file
};

/// Reads what comes before the data of a file of `file_size` bytes. `read(size)` gives the next
/// `size` bytes, and fewer where the file ends. The data's size is that of the array, or an error.
Result<NpyHeader> read_npy_header(const std::function<Result<std::string>(uint64_t)>& read,
                                  uint64_t file_size);

/// The data in C order and our endianness; `read` fills that many bytes with what follows the
/// header.
Result<std::vector<std::byte>> read_npy_data(
    const NpyHeader& header, const std::function<Status(std::byte*, uint64_t)>& read);

/// An array of such data; the elements are floats.
Array make_floats(const NpyHeader& header, std::vector<std::byte> data);

/// What is wrong with such elements for this use, and what to do, or "": "holds int64; rnnc reads
/// float64, float32 and float16 here …".
std::string check_npy_element(const NpyElement& element, NpyUse use);

}  // namespace rnnc
