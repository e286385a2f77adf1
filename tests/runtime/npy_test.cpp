#include "runtime/arrays/npy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/temporary_directory.h"

namespace rnnc {
namespace {

using test::TemporaryDirectory;

/// A file with this header text, as NumPy lays it out.
std::string npy(std::string_view header, std::string_view data, char major = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += major;
  bytes += '\0';
  const size_t length = header.size();
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) bytes += static_cast<char>(length >> (8 * i));
  bytes += header;
  bytes += data;
  return bytes;
}

template <typename T>
std::string raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string swapped(std::string bytes, size_t element) {
  for (size_t i = 0; i < bytes.size(); i += element) {
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i),
                 bytes.begin() + static_cast<ptrdiff_t>(i + element));
  }
  return bytes;
}

Array parse(const std::string& bytes) {
  const Result<Array> array = parse_npy(bytes, "x.npy");
  EXPECT_TRUE(array) << array.error().message;
  return array.value_or(Array::zeros(DType::f64, {0}));
}

std::string npy_problem(const std::string& bytes) {
  const Result<Array> array = parse_npy(bytes, "x.npy");
  EXPECT_FALSE(array);
  if (array) return "";
  const std::string prefix = "`x.npy` is not a .npy file that can be read: ";
  EXPECT_EQ(array.error().message.substr(0, prefix.size()), prefix);
  return array.error().message.substr(prefix.size());
}

TEST(Npy, ReadsWhatNumpyWrites) {
  // np.save of np.arange(6, dtype=np.float32).reshape(2, 3), byte for byte.
  const std::string header =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" + std::string(58, ' ') + "\n";
  const Array array = parse(npy(header, raw<float>({0, 1, 2, 3, 4, 5})));
  EXPECT_EQ(array.dtype, DType::f32);
  EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(array.to_doubles(), (std::vector<double>{0, 1, 2, 3, 4, 5}));
}

TEST(Npy, ReadsEveryVersionOrderAndType) {
  const std::string f8 = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }";
  for (const char major : {1, 2, 3}) {
    EXPECT_EQ(parse(npy(f8, raw<double>({1.5, -2}), major)).to_doubles(),
              (std::vector<double>{1.5, -2}));
  }
  const std::string big = "{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_EQ(parse(npy(big, swapped(raw<double>({1.5, -2}), 8))).to_doubles(),
            (std::vector<double>{1.5, -2}));
  const std::string half = "{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }";
  const Array halves = parse(npy(half, raw<uint16_t>({0x3c00, 0xc500})));
  EXPECT_EQ(halves.dtype, DType::f16);
  EXPECT_EQ(halves.to_doubles(), (std::vector<double>{1, -5}));
  // Keys in another order, other quotes, Python 2's long integers.
  const std::string odd = "{\"shape\": (2L,),\"fortran_order\":False,'descr':\"<f8\"}  \n";
  EXPECT_EQ(parse(npy(odd, raw<double>({7, 8}))).to_doubles(), (std::vector<double>{7, 8}));
}

TEST(Npy, ReadsFortranOrderAsC) {
  // np.asfortranarray(np.arange(24.).reshape(2, 3, 4)): the first index moves fastest.
  std::vector<double> columns;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) columns.push_back(12 * i + 4 * j + k);
    }
  }
  const std::string header = "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3, 4), }";
  const std::vector<double> values = parse(npy(header, raw(columns))).to_doubles();
  ASSERT_EQ(values.size(), 24U);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<double>(i));
}

TEST(Npy, ReadsScalarsEmptyArraysAndNan) {
  EXPECT_EQ(parse(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", raw<double>({3})))
                .to_doubles(),
            (std::vector<double>{3}));
  const Array empty = parse(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (0, 3), }", ""));
  EXPECT_EQ(empty.shape, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(empty.elements(), 0);
  const Array special = parse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
                                  raw<float>({std::nanf(""), -INFINITY})));
  EXPECT_TRUE(std::isnan(special.to_doubles()[0]));
  EXPECT_EQ(special.to_doubles()[1], -INFINITY);
}

TEST(Npy, RejectsWhatIsNoNpyFile) {
  EXPECT_EQ(npy_problem(""), "it does not start with NumPy's magic bytes");
  EXPECT_EQ(npy_problem("PK\x03\x04 an npz file"),
            "it is a zip archive, as `np.savez` writes, and one array as `np.save` writes it is "
            "expected");
  EXPECT_EQ(npy_problem(npy(std::string(1 << 20, ' '), "", 2)),
            "its header has 1048588 bytes, more than any array's");
  EXPECT_EQ(npy_problem("\x93NUMPY"), "it ends within its header");
  EXPECT_EQ(npy_problem(npy("{}", "", 4)), "its format version is 4.0; rnnc reads 1.0 to 3.0");
  EXPECT_EQ(npy_problem(std::string("\x93NUMPY\x01\x00\xff\xff{}", 12)),
            "it ends within its header");
  EXPECT_EQ(npy_problem(std::string("\x93NUMPY\x02\x00\xff\xff", 10)), "it ends within its header");
}

TEST(Npy, RejectsDamagedHeaders) {
  const auto header_problem = [](std::string_view header) {
    const std::string text = npy_problem(npy(header, ""));
    const std::string prefix = "its header is damaged: ";
    EXPECT_EQ(text.substr(0, prefix.size()), prefix);
    return text.substr(prefix.size());
  };
  EXPECT_EQ(header_problem(""), "it is not a dict");
  EXPECT_EQ(header_problem("[1, 2]"), "it is not a dict");
  EXPECT_EQ(header_problem("{1: 2}"), "it is not a dict of names and values");
  EXPECT_EQ(header_problem("{'descr"), "it is not a dict of names and values");
  EXPECT_EQ(header_problem("{'descr': '<f4'"), "it is not a dict");
  EXPECT_EQ(header_problem("{'descr': '<f4'} x"), "it goes on after its dict");
  EXPECT_EQ(header_problem("{'descr': '<f4', 'shape': ()}"), "it lacks `fortran_order`");
  EXPECT_EQ(header_problem("{'fortran_order': False, 'shape': ()}"), "it lacks `descr`");
  EXPECT_EQ(header_problem("{'descr': '<f4', 'fortran_order': False}"), "it lacks `shape`");
  EXPECT_EQ(header_problem("{'descr': '<f4', 'descr': '<f4'}"), "it has two entries `descr`");
  EXPECT_EQ(header_problem("{'evil\x1b[2J': 1}"), "it has an unknown entry `evil\\x1b[2J`");
  EXPECT_EQ(header_problem("{'fortran_order': 0}"), "`fortran_order` is neither True nor False");
  EXPECT_EQ(header_problem("{'shape': [2, 3]}"), "`shape` is not a tuple");
  EXPECT_EQ(header_problem("{'shape': (2 3)}"), "`shape` is not a tuple");
  EXPECT_EQ(header_problem("{'shape': (-2,)}"), "`shape` has an entry that is not a size");
  EXPECT_EQ(header_problem("{'shape': (99999999999999999999,)}"),
            "`shape` has an entry that is not a size");
  EXPECT_EQ(header_problem(
                "{'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}"),
            "`shape` has more than 32 axes");
  EXPECT_EQ(header_problem("{'descr': [('a', '<f4')]}"),
            "the array is structured; rnnc reads arrays of numbers");
}

TEST(Npy, RejectsOtherElementTypes) {
  const auto type_problem = [](const std::string& descr) {
    const std::string header =
        "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (1,), }";
    const Result<Array> array = parse_npy(npy(header, std::string(8, '\0')), "x.npy");
    EXPECT_FALSE(array);
    return array ? "" : array.error().message;
  };
  const std::string hint =
      "; rnnc reads float64, float32 and float16 here (`a.astype(\"float32\")` converts)";
  EXPECT_EQ(type_problem("<i8"), "`x.npy` holds int64" + hint);
  EXPECT_EQ(type_problem(">u8"), "`x.npy` holds uint64" + hint);
  for (const char* descr : {"<c16", "|O", "<U3", "<f16", "f", "", "<"}) {
    EXPECT_EQ(type_problem(descr),
              std::string("`x.npy` holds elements of type `") + descr + "`" + hint);
  }
}

/// A file with elements of this type.
std::string typed(const std::string& descr, const std::string& shape, const std::string& data) {
  return npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }", data);
}

TEST(Npy, ReadsWholeNumbers) {
  const auto read = [](const std::string& bytes) {
    const Result<IntegerArray> array = parse_npy_integers(bytes, "n.npy");
    EXPECT_TRUE(array) << array.error().message;
    return array.value_or(IntegerArray{});
  };
  const IntegerArray wide = read(typed("<i8", "(3,)", raw<int64_t>({7, -1, int64_t{1} << 40})));
  EXPECT_EQ(wide.shape, (std::vector<int64_t>{3}));
  EXPECT_EQ(wide.values, (std::vector<int64_t>{7, -1, int64_t{1} << 40}));
  EXPECT_EQ(read(typed("<i4", "(2, 1)", raw<int32_t>({5, -6}))).values,
            (std::vector<int64_t>{5, -6}));
  EXPECT_EQ(read(typed(">i4", "(2,)", swapped(raw<int32_t>({5, -6}), 4))).values,
            (std::vector<int64_t>{5, -6}));
  EXPECT_EQ(read(typed("|i1", "(2,)", raw<int8_t>({5, -6}))).values, (std::vector<int64_t>{5, -6}));
  EXPECT_EQ(read(typed("|u1", "(2,)", raw<uint8_t>({5, 250}))).values,
            (std::vector<int64_t>{5, 250}));
  EXPECT_EQ(read(typed("<u2", "(1,)", raw<uint16_t>({65535}))).values,
            (std::vector<int64_t>{65535}));
  EXPECT_EQ(parse_npy_integers(typed("<f4", "(1,)", raw<float>({5})), "n.npy").error().message,
            "`n.npy` holds float32; rnnc reads integers here (`a.astype(\"int64\")` converts)");
  EXPECT_EQ(read_npy_integers("no/such.npy").error().message,
            "cannot read `no/such.npy`: No such file or directory");
}

TEST(Npy, ReadsMasks) {
  const auto read = [](const std::string& bytes) {
    const Result<Array> array = parse_npy_mask(bytes, "m.npy");
    EXPECT_TRUE(array) << array.error().message;
    if (!array) return std::vector<double>{};
    EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 2}));
    return array->to_doubles();
  };
  EXPECT_EQ(read(typed("|b1", "(2, 2)", raw<uint8_t>({0, 1, 1, 0}))),
            (std::vector<double>{0, 1, 1, 0}));
  EXPECT_EQ(read(typed("|u1", "(2, 2)", raw<uint8_t>({0, 255, 1, 0}))),
            (std::vector<double>{0, 1, 1, 0}));
  EXPECT_EQ(read(typed("<i8", "(2, 2)", raw<int64_t>({0, -1, int64_t{1} << 62, 0}))),
            (std::vector<double>{0, 1, 1, 0}));
  EXPECT_EQ(read(typed("<f4", "(2, 2)", raw<float>({0, 1, -0.5F, 2}))),
            (std::vector<double>{0, 1, -0.5, 2}));
  EXPECT_EQ(read(typed("<f8", "(2, 2)", raw<double>({0, 1e-300, 1, 0}))),
            (std::vector<double>{0, 1e-300, 1, 0}));
  EXPECT_EQ(parse_npy_mask(typed("<c8", "(1,)", raw<double>({1})), "m.npy").error().message,
            "`m.npy` holds elements of type `<c8`; rnnc reads bool, integers and floats here "
            "(`a.astype(\"bool\")` converts)");
  EXPECT_EQ(read_npy_mask("no/such.npy").error().message,
            "cannot read `no/such.npy`: No such file or directory");
}

TEST(Npy, NeverTrustsSizes) {
  const std::string two = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_EQ(
      npy_problem(npy(two, raw<float>({1}))),
      "it is cut short: float32 elements of shape [2] need more than the 4 bytes that are there");
  EXPECT_EQ(npy_problem(npy(two, raw<float>({1, 2, 3}))), "4 bytes follow its array of shape [2]");
  const std::string huge =
      "{'descr': '<f8', 'fortran_order': True, 'shape': (4611686018427387904, 4), }";
  EXPECT_EQ(
      npy_problem(npy(huge, "")),
      "it is cut short: float64 elements of shape [4611686018427387904, 4] need more than the 0 "
      "bytes that are there");
  const std::string zero =
      "{'descr': '<f8', 'fortran_order': True, 'shape': (0, 4611686018427387904, 4), }";
  EXPECT_EQ(
      npy_problem(npy(zero, "")),
      "it is cut short: float64 elements of shape [0, 4611686018427387904, 4] need more than the "
      "0 bytes that are there");
}

TEST(Npy, WritesOnlyWholeArrays) {
  const TemporaryDirectory directory;
  const std::string path = directory / "w.npy";
  EXPECT_EQ(write_npy(path, Array{DType::f32, {2}, {}}).error().message,
            fmt::format("cannot write `{}`: its array has 0 bytes, but [2] in f32 takes 8", path));
  EXPECT_EQ(
      write_npy(path, Array{DType::f32, {-1}, {}}).error().message,
      fmt::format("cannot write `{}`: its array has the shape [-1], which no array has", path));
  // Shapes that no memory holds give arrays without data.
  EXPECT_TRUE(Array::zeros(DType::f64, {int64_t{1} << 40, int64_t{1} << 20}).data.empty());
  EXPECT_FALSE(Array::zeros(DType::f64, {int64_t{1} << 62}).check());
  EXPECT_FALSE(Array::zeros(DType::f32, {int64_t{1} << 62, 8}).check());
  const Array half = Array::from_doubles({0.5, 2}, {2}, DType::f16);
  EXPECT_EQ(parse(format_npy(half)).data, half.data);
  EXPECT_EQ(parse(format_npy(half.as(DType::bf16))).to_doubles(), (std::vector<double>{0.5, 2}));
}

TEST(Npy, EveryTruncationIsAnError) {
  const std::string whole = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n",
                                raw<float>({1, 2, 3, 4}));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse_npy(whole.substr(0, size), "x.npy")) << size;
  }
  EXPECT_TRUE(parse_npy(whole, "x.npy"));
}

TEST(Npy, WritesWhatItReads) {
  const TemporaryDirectory directory;
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {3}, {2, 3}, {2, 1, 3}, {0, 4}}) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      Array array = Array::zeros(dtype, shape);
      std::vector<double> values = array.to_doubles();
      for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5 + static_cast<double>(i);
      array = Array::from_doubles(values, shape, dtype);
      ASSERT_TRUE(write_npy(directory / "a.npy", array));
      const Result<Array> back = read_npy(directory / "a.npy");
      ASSERT_TRUE(back) << back.error().message;
      EXPECT_EQ(back->dtype, dtype);
      EXPECT_EQ(back->shape, shape);
      EXPECT_EQ(back->data, array.data);
    }
  }
  // NumPy wants the data at a multiple of 64 bytes, and a line end before it.
  const std::string bytes = format_npy(Array::zeros(DType::f32, {2, 3}));
  EXPECT_EQ((bytes.size() - 24) % 64, 0U);
  EXPECT_EQ(bytes[bytes.size() - 25], '\n');
  EXPECT_NE(bytes.find("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"),
            std::string::npos);
  EXPECT_NE(format_npy(Array::zeros(DType::f64, {7})).find("'shape': (7,), }"), std::string::npos);
}

TEST(Npy, SaysWhichFileCannotBeRead) {
  const TemporaryDirectory directory;
  EXPECT_EQ(read_npy("no/such.npy").error().message,
            "cannot read `no/such.npy`: No such file or directory");
  EXPECT_EQ(read_npy(directory.path()).error().message,
            "cannot read `" + directory.path().string() + "`: it is a directory");
  EXPECT_EQ(read_npy("/dev/zero").error().message,
            "cannot read `/dev/zero`: it is not a regular file");
}

}  // namespace
}  // namespace rnnc
