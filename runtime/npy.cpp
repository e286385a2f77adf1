#include "runtime/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>

#include "runtime/describe.h"
#include "runtime/files.h"

namespace rnnc {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so are we");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 32;

/// What a header says.
struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// Reads the header, a Python literal of a dict:
///
///     header = "{" [entry {"," entry} [","]] "}"
///     entry  = string ":" (string | "True" | "False" | tuple)
///     tuple  = "(" [integer {"," integer} [","]] ")"
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<Header> parse();

 private:
  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t')) {
      text_.remove_prefix(1);
    }
  }
  bool take(std::string_view token) {
    skip_space();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  std::optional<std::string> string();
  std::optional<int64_t> integer();
  Status entry();
  Status shape();

  std::string_view text_;
  Header header_;
  bool has_descr_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

/// string = "'" {character} "'" | '"' {character} '"'
std::optional<std::string> HeaderParser::string() {
  skip_space();
  if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return std::nullopt;
  const size_t end = text_.find(text_[0], 1);
  if (end == std::string_view::npos) return std::nullopt;
  std::string value(text_.substr(1, end - 1));
  text_.remove_prefix(end + 1);
  return value;
}

/// integer = digit {digit} ["L"]
std::optional<int64_t> HeaderParser::integer() {
  skip_space();
  int64_t value = 0;
  size_t digits = 0;
  while (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') {
    if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
        __builtin_add_overflow(value, int64_t{text_[digits] - '0'}, &value)) {
      return std::nullopt;
    }
    ++digits;
  }
  if (digits == 0) return std::nullopt;
  text_.remove_prefix(digits);
  if (text_.starts_with("L")) text_.remove_prefix(1);  // written by Python 2
  return value;
}

Status HeaderParser::shape() {
  if (!take("(")) return fail("`shape` is not a tuple");
  while (!take(")")) {
    const std::optional<int64_t> size = integer();
    if (!size) return fail("`shape` has an entry that is not a size");
    header_.shape.push_back(*size);
    if (header_.shape.size() > kMaxRank) return fail("`shape` has more than {} axes", kMaxRank);
    if (!take(",") && !text_.starts_with(")")) return fail("`shape` is not a tuple");
  }
  return {};
}

Status HeaderParser::entry() {
  const std::optional<std::string> key = string();
  if (!key || !take(":")) return fail("it is not a dict of names and values");
  bool* seen = *key == "descr"           ? &has_descr_
               : *key == "fortran_order" ? &has_order_
               : *key == "shape"         ? &has_shape_
                                         : nullptr;
  if (seen == nullptr) return fail("it has an unknown entry {}", quote(*key));
  if (std::exchange(*seen, true)) return fail("it has two entries {}", quote(*key));
  if (*key == "shape") return shape();
  if (*key == "fortran_order") {
    header_.fortran_order = take("True");
    if (!header_.fortran_order && !take("False")) {
      return fail("`fortran_order` is neither True nor False");
    }
    return {};
  }
  std::optional<std::string> descr = string();
  if (!descr) return fail("the array is structured; rnnc reads arrays of numbers");
  header_.descr = std::move(*descr);
  return {};
}

Result<Header> HeaderParser::parse() {
  if (!take("{")) return fail("it is not a dict");
  while (!take("}")) {
    if (Status status = entry(); !status) return tl::unexpected(status.error());
    skip_space();
    if (!take(",") && !text_.starts_with("}")) return fail("it is not a dict");
  }
  skip_space();
  if (!text_.empty()) return fail("it goes on after its dict");
  if (!has_descr_) return fail("it lacks `descr`");
  if (!has_order_) return fail("it lacks `fortran_order`");
  if (!has_shape_) return fail("it lacks `shape`");
  return header_;
}

/// One element type: as headers and as NumPy's users spell it.
struct Element {
  std::string_view code;
  std::string_view name;
  size_t size = 0;
};

constexpr std::array kFloats = {Element{"f8", "float64", 8}, Element{"f4", "float32", 4},
                                Element{"f2", "float16", 2}};
constexpr std::array kIntegers = {Element{"i8", "int64", 8}, Element{"i4", "int32", 4}};
constexpr std::array kMasks = {Element{"b1", "bool", 1}, Element{"u1", "uint8", 1}, kFloats[0],
                               kFloats[1], kFloats[2]};

/// "float64, float32 and float16"
std::string names_of(std::span<const Element> elements) {
  std::string text;
  for (size_t i = 0; i < elements.size(); ++i) {
    text += i == 0 ? "" : i + 1 == elements.size() ? " and " : ", ";
    text += elements[i].name;
  }
  return text;
}

struct ElementType {
  Element element;
  bool big_endian = false;
};

Result<ElementType> parse_element_type(std::string_view descr, std::span<const Element> accepted) {
  const bool ordered =
      !descr.empty() && std::string_view("<>=|").find(descr[0]) != std::string_view::npos;
  const std::string_view code = ordered ? descr.substr(1) : descr;
  const auto found = std::ranges::find(accepted, code, &Element::code);
  if (found != accepted.end()) return ElementType{*found, ordered && descr[0] == '>'};
  const std::string_view target = accepted[accepted.size() == kFloats.size() ? 1 : 0].name;
  return fail("it holds elements of type {}; rnnc reads {} here (`a.astype(\"{}\")` converts)",
              quote(descr), names_of(accepted), target);
}

/// Copies `source`, in Fortran order, to `target` in C order.
void reorder(const std::byte* source, std::byte* target, const std::vector<int64_t>& shape,
             size_t element) {
  std::vector<int64_t> strides(shape.size());  // of the source, in elements
  int64_t count = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = count;
    count *= shape[axis];
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    int64_t rest = i;
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) {
      offset += rest % shape[axis] * strides[axis];
    }
    std::memcpy(target, source + static_cast<size_t>(offset) * element, element);
    target += element;
  }
}

/// The header's text, and the data after it.
struct Parts {
  std::string_view header;
  std::string_view data;
};

Result<Parts> split(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return fail("it does not start with NumPy's magic bytes");
  if (bytes.size() < kMagic.size() + 2) return fail("it ends within its header");
  const int major = static_cast<unsigned char>(bytes[6]);
  const int minor = static_cast<unsigned char>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return fail("its format version is {}.{}; rnnc reads 1.0 to 3.0", major, minor);
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t start = kMagic.size() + 2 + length_bytes;
  if (bytes.size() < start) return fail("it ends within its header");
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + start - length_bytes, length_bytes);
  if (length > bytes.size() - start) return fail("it ends within its header");
  return Parts{bytes.substr(start, length), bytes.substr(start + length)};
}

/// What a file holds, in C order and our endianness.
struct Contents {
  Element element;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  size_t count() const { return data.size() / element.size; }
};

Result<Contents> parse(std::string_view bytes, std::span<const Element> accepted) {
  const Result<Parts> parts = split(bytes);
  if (!parts) return tl::unexpected(parts.error());
  const Result<Header> header = HeaderParser(parts->header).parse();
  if (!header) return fail("its header is damaged: {}", header.error().message);
  const Result<ElementType> type = parse_element_type(header->descr, accepted);
  if (!type) return tl::unexpected(type.error());

  const std::optional<int64_t> count = count_elements(header->shape);
  const size_t element = type->element.size;
  const size_t present = parts->data.size();
  // Compared by division: the product may overflow.
  if (!count || static_cast<size_t>(*count) > present / element) {
    return fail(
        "it is cut short: {} elements of shape {} need more than the {} bytes that are there",
        type->element.name, shape_text(header->shape), present);
  }
  const size_t size = static_cast<size_t>(*count) * element;
  if (size != present) {
    return fail("{} bytes follow its array of shape {}", present - size, shape_text(header->shape));
  }

  Contents contents{type->element, header->shape, std::vector<std::byte>(size)};
  const auto* source = reinterpret_cast<const std::byte*>(parts->data.data());
  if (header->fortran_order && contents.shape.size() > 1 && size > 0) {
    reorder(source, contents.data.data(), contents.shape, element);
  } else {
    std::copy_n(source, size, contents.data.begin());
  }
  if (type->big_endian) {
    for (size_t i = 0; i < size; i += element) {
      std::reverse(contents.data.begin() + static_cast<ptrdiff_t>(i),
                   contents.data.begin() + static_cast<ptrdiff_t>(i + element));
    }
  }
  return contents;
}

Array to_floats(Contents contents) {
  const DType dtype = contents.element.size == 8   ? DType::f64
                      : contents.element.size == 4 ? DType::f32
                                                   : DType::f16;
  return {dtype, std::move(contents.shape), std::move(contents.data)};
}

IntegerArray to_integers(Contents contents) {
  IntegerArray result{std::move(contents.shape), std::vector<int64_t>(contents.count())};
  for (size_t i = 0; i < result.values.size(); ++i) {
    int32_t narrow = 0;
    if (contents.element.size == sizeof narrow) {
      std::memcpy(&narrow, contents.data.data() + i * sizeof narrow, sizeof narrow);
      result.values[i] = narrow;
    } else {
      std::memcpy(&result.values[i], contents.data.data() + i * sizeof(int64_t), sizeof(int64_t));
    }
  }
  return result;
}

Array to_mask(Contents contents) {
  if (contents.element.size > 1) return to_floats(std::move(contents));
  std::vector<double> values(contents.count());
  std::ranges::transform(contents.data, values.begin(),
                         [](std::byte byte) { return static_cast<double>(byte); });
  return Array::from_doubles(values, std::move(contents.shape), DType::f32);
}

/// `convert` of what the bytes hold, or an error that names the file.
template <typename Convert>
auto parse_as(std::string_view bytes, std::string_view name, std::span<const Element> accepted,
              Convert convert) -> Result<decltype(convert(Contents{}))> {
  Result<Contents> contents = parse(bytes, accepted);
  if (!contents) {
    return fail("{} is not a .npy file that can be read: {}", quote(name),
                contents.error().message);
  }
  return convert(std::move(*contents));
}

/// `parse` of a file's bytes.
template <typename T>
Result<T> read_as(const std::filesystem::path& path,
                  Result<T> (*parse_bytes)(std::string_view, std::string_view)) {
  const Result<std::string> bytes = read_file(path);
  if (!bytes) return tl::unexpected(bytes.error());
  return parse_bytes(*bytes, path.string());
}

}  // namespace

Result<Array> parse_npy(std::string_view bytes, std::string_view name) {
  return parse_as(bytes, name, kFloats, to_floats);
}

Result<Array> read_npy(const std::filesystem::path& path) {
  return read_as(path, parse_npy);
}

Result<IntegerArray> parse_npy_integers(std::string_view bytes, std::string_view name) {
  return parse_as(bytes, name, kIntegers, to_integers);
}

Result<IntegerArray> read_npy_integers(const std::filesystem::path& path) {
  return read_as(path, parse_npy_integers);
}

Result<Array> parse_npy_mask(std::string_view bytes, std::string_view name) {
  return parse_as(bytes, name, kMasks, to_mask);
}

Result<Array> read_npy_mask(const std::filesystem::path& path) {
  return read_as(path, parse_npy_mask);
}

namespace {

/// A version 1.0 file of `data`.
std::string format_file(std::string_view descr, const std::vector<int64_t>& shape,
                        std::string_view data) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   descr, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // Spaces and a line end, so that the data starts at a multiple of 64 bytes.
  constexpr size_t kPrefix = kMagic.size() + 4;
  const size_t unpadded = kPrefix + header.size() + 1;
  header.append((64 - unpadded % 64) % 64, ' ');
  header += '\n';

  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes += data;
  return bytes;
}

}  // namespace

std::string format_npy(const Array& array) {
  RNNC_CHECK(array.dtype == DType::f64 || array.dtype == DType::f32);
  return format_file(array.dtype == DType::f64 ? "<f8" : "<f4", array.shape,
                     {reinterpret_cast<const char*>(array.data.data()), array.data.size()});
}

std::string format_npy_integers(const IntegerArray& array) {
  return format_file(
      "<i8", array.shape,
      {reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(int64_t)});
}

Status write_npy(const std::filesystem::path& path, const Array& array) {
  return write_file(path, format_npy(array));
}

}  // namespace rnnc
