#include "runtime/arrays/npy_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "runtime/base/describe.h"
#include "runtime/base/host_memory.h"

namespace rnnc {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so are we");

constexpr size_t kMaxNpyRank = 32;
constexpr uint64_t kMaxNpyHeader = 1 << 20;

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
    if (header_.shape.size() > kMaxNpyRank)
      return fail("`shape` has more than {} axes", kMaxNpyRank);
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

using Kind = NpyElement::Kind;

struct KnownElement {
  std::string_view code, name;
  Kind kind;
  size_t size;
};
constexpr std::array kElements = {KnownElement{"f8", "float64", Kind::floating, 8},
                                  KnownElement{"f4", "float32", Kind::floating, 4},
                                  KnownElement{"f2", "float16", Kind::floating, 2},
                                  KnownElement{"i8", "int64", Kind::integer, 8},
                                  KnownElement{"i4", "int32", Kind::integer, 4},
                                  KnownElement{"i2", "int16", Kind::integer, 2},
                                  KnownElement{"i1", "int8", Kind::integer, 1},
                                  KnownElement{"u8", "uint64", Kind::integer, 8},
                                  KnownElement{"u4", "uint32", Kind::integer, 4},
                                  KnownElement{"u2", "uint16", Kind::integer, 2},
                                  KnownElement{"u1", "uint8", Kind::integer, 1},
                                  KnownElement{"b1", "bool", Kind::boolean, 1}};

NpyElement parse_element(std::string_view descr) {
  const bool ordered =
      !descr.empty() && std::string_view("<>=|").find(descr[0]) != std::string_view::npos;
  const std::string_view code = ordered ? descr.substr(1) : descr;
  for (const KnownElement& known : kElements) {
    if (known.code != code) continue;
    return {.code = std::string(code),
            .name = std::string(known.name),
            .kind = known.kind,
            .size = known.size,
            .is_signed = code[0] == 'i',
            .big_endian = ordered && descr[0] == '>'};
  }
  return {.code = std::string(code), .name = std::string(descr)};
}

/// As many bytes of a file as `find_data` looks at.
constexpr uint64_t kStart = 12;

/// Where the data of a file that starts so begins.
Result<uint64_t> find_data(std::string_view start) {
  if (start.starts_with("PK")) {
    return fail(
        "it is a zip archive, as `np.savez` writes, and one array as `np.save` writes it "
        "is expected");
  }
  if (!start.starts_with(kNpyMagic)) return fail("it does not start with NumPy's magic bytes");
  if (start.size() < kNpyMagic.size() + 2) return fail("it ends within its header");
  const int major = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return fail("its format version is {}.{}; rnnc reads 1.0 to 3.0", major, minor);
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t begin = kNpyMagic.size() + 2 + length_bytes;
  if (start.size() < begin) return fail("it ends within its header");
  uint32_t length = 0;
  std::memcpy(&length, start.data() + begin - length_bytes, length_bytes);
  return begin + length;
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

}  // namespace

Result<NpyHeader> read_npy_header(const std::function<Result<std::string>(uint64_t)>& read,
                                  uint64_t file_size) {
  Result<std::string> head = read(kStart);
  if (!head) return tl::unexpected(head.error());
  const Result<uint64_t> begin = find_data(*head);
  if (!begin) return tl::unexpected(begin.error());
  if (*begin > file_size) return fail("it ends within its header");
  if (*begin > kMaxNpyHeader) return fail("its header has {} bytes, more than any array's", *begin);
  if (*begin > head->size()) {
    const Result<std::string> rest = read(*begin - head->size());
    if (!rest) return tl::unexpected(rest.error());
    *head += *rest;
  }
  if (*begin > head->size()) return fail("it ends within its header");
  const size_t text = (*head)[6] == 1 ? 10 : 12;
  const Result<Header> header =
      HeaderParser(std::string_view(*head).substr(text, *begin - text)).parse();
  if (!header) return fail("its header is damaged: {}", header.error().message);

  NpyHeader result{parse_element(header->descr), header->fortran_order, header->shape, *begin,
                   file_size - *begin};
  const size_t element = result.element.size;
  if (element == 0) return result;  // which nobody reads
  const std::optional<int64_t> count = count_elements(result.shape);
  // Compared by division: the product may overflow.
  if (!count || static_cast<uint64_t>(*count) > result.size / element) {
    return fail(
        "it is cut short: {} elements of shape {} need more than the {} bytes that are there",
        result.element.name, shape_text(result.shape), result.size);
  }
  const uint64_t size = static_cast<uint64_t>(*count) * element;
  if (size != result.size) {
    return fail("{} bytes follow its array of shape {}", result.size - size,
                shape_text(result.shape));
  }
  return result;
}

Result<std::vector<std::byte>> read_npy_data(
    const NpyHeader& header, const std::function<Status(std::byte*, uint64_t)>& read) {
  const size_t element = header.element.size;
  const bool reordered = header.fortran_order && header.shape.size() > 1 && header.size > 0;
  Status fits = check_host_memory("its array takes",
                                  static_cast<double>(reordered ? 2 * header.size : header.size));
  if (!fits) return tl::unexpected(fits.error());
  std::vector<std::byte> data;
  try {
    data.resize(header.size);
    if (Status status = read(data.data(), header.size); !status) {
      return tl::unexpected(status.error());
    }
    if (reordered) {
      std::vector<std::byte> ordered(data.size());
      reorder(data.data(), ordered.data(), header.shape, element);
      data = std::move(ordered);
    }
  } catch (const std::bad_alloc&) {
    return fail("not enough memory for its array of shape {}", shape_text(header.shape));
  }
  for (size_t i = 0; header.element.big_endian && i < data.size(); i += element) {
    std::reverse(data.begin() + static_cast<ptrdiff_t>(i),
                 data.begin() + static_cast<ptrdiff_t>(i + element));
  }
  return data;
}

Array make_floats(const NpyHeader& header, std::vector<std::byte> data) {
  const DType dtype = header.element.size == 8   ? DType::f64
                      : header.element.size == 4 ? DType::f32
                                                 : DType::f16;
  return {dtype, header.shape, std::move(data)};
}

std::string check_npy_element(const NpyElement& element, NpyUse use) {
  struct Use {
    std::string_view accepted, target;
  };
  constexpr std::array kUses = {Use{"float64, float32 and float16", "float32"},
                                Use{"integers", "int64"}, Use{"bool, integers and floats", "bool"}};
  const bool fits = use == NpyUse::values          ? element.kind == Kind::floating
                    : use == NpyUse::whole_numbers ? element.kind == Kind::integer
                                                   : element.kind != Kind::other;
  if (fits) return "";
  const auto& [accepted, target] = kUses[static_cast<size_t>(use)];
  const std::string what = element.kind == Kind::other
                               ? fmt::format("elements of type {}", quote(element.name))
                               : element.name;
  return fmt::format("holds {}; rnnc reads {} here (`a.astype(\"{}\")` converts)", what, accepted,
                     target);
}

}  // namespace rnnc
