#include "runtime/arrays/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/runtime/temporary_directory.h"

namespace rnnc {
namespace {

using test::TemporaryDirectory;

std::string file(std::string_view header, std::string_view data) {
  const uint64_t size = header.size();
  std::string bytes(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += header;
  bytes += data;
  return bytes;
}

template <typename T>
std::string raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string safetensors_problem(const std::string& bytes) {
  const Result<std::vector<NamedArray>> tensors = parse_safetensors(bytes, "w.safetensors");
  EXPECT_FALSE(tensors);
  if (tensors) return "";
  const std::string prefix = "`w.safetensors` is not a safetensors file that can be read: ";
  EXPECT_EQ(tensors.error().message.substr(0, prefix.size()), prefix);
  return tensors.error().message.substr(prefix.size());
}

std::string header_problem(std::string_view header) {
  const std::string text = safetensors_problem(file(header, ""));
  const std::string prefix = "its header is damaged: ";
  EXPECT_EQ(text.substr(0, prefix.size()), prefix);
  return text.substr(prefix.size());
}

TEST(Safetensors, ReadsWhatTheReferenceWriterWrites) {
  // safetensors.numpy.save of {"b": float64 [2], "a": float32 [1, 2]} with metadata {"format":
  // "np"}.
  const std::string header =
      R"({"__metadata__":{"format":"np"},"b":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},)"
      R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[16,24]}}  )";
  const auto tensors =
      parse_safetensors(file(header, raw<double>({1, 2}) + raw<float>({3, 4})), "w");
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 2U);
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_EQ((*tensors)[0].array.dtype, DType::f64);
  EXPECT_EQ((*tensors)[0].array.to_doubles(), (std::vector<double>{1, 2}));
  EXPECT_EQ((*tensors)[1].name, "a");
  EXPECT_EQ((*tensors)[1].array.shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ((*tensors)[1].array.to_doubles(), (std::vector<double>{3, 4}));
}

TEST(Safetensors, ReadsHalvesScalarsAndEmptyTensorsInFileOrder) {
  const std::string header = R"({"late":{"dtype":"BF16","shape":[],"data_offsets":[2,4]},)"
                             R"("empty":{"dtype":"F32","shape":[0,3],"data_offsets":[2,2]},)"
                             R"("early":{"data_offsets":[0,2],"shape":[1],"dtype":"F16"}})";
  const auto tensors = parse_safetensors(file(header, raw<uint16_t>({0x3c00, 0x4040})), "w");
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 3U);
  EXPECT_EQ((*tensors)[0].name, "early");
  EXPECT_EQ((*tensors)[0].array.to_doubles(), (std::vector<double>{1}));
  EXPECT_EQ((*tensors)[1].name, "empty");
  EXPECT_EQ((*tensors)[2].array.to_doubles(), (std::vector<double>{3}));
  const auto none = parse_safetensors(file("{}", ""), "w");
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
}

TEST(Safetensors, RejectsHeadersThatCannotBe) {
  EXPECT_EQ(safetensors_problem("1234567"), "it has only 7 bytes");
  EXPECT_EQ(safetensors_problem(std::string(8, '\xff')),
            "it says that its header has 18446744073709551615 bytes, more than any file's");
  EXPECT_EQ(safetensors_problem(std::string("\x05\0\0\0\0\0\0\0{}", 10)),
            "it is cut short: its header should have 5 bytes, but only 2 follow");
  EXPECT_EQ(header_problem(""), "it is not JSON: unexpected text at its byte 1");
  EXPECT_EQ(header_problem("{\"a\":"), "it is not JSON: unexpected text at its byte 6");
  EXPECT_EQ(header_problem("{} {}"), "it is not JSON: unexpected text at its byte 4");
  EXPECT_EQ(header_problem("{\"\xff\":1}"), "it is not JSON: unexpected text at its byte 3");
  EXPECT_EQ(header_problem("[]"), "it is not an object but an array");
  EXPECT_EQ(header_problem("3"), "it is not an object but a number");
  EXPECT_EQ(header_problem("null"), "it is not an object but null");
  EXPECT_EQ(header_problem(std::string(100000, '[')), "it is not an object but an array");
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += "{\"dtype\":";
  EXPECT_EQ(header_problem(deep), "`dtype` of tensor `a` holds an object");
}

TEST(Safetensors, RejectsEntriesThatCannotBe) {
  EXPECT_EQ(header_problem(R"({"a":1})"), "`a` is a number, not a tensor");
  EXPECT_EQ(header_problem(R"({"a":{"shape":[],"data_offsets":[0,4]}})"),
            "tensor `a` has no `dtype`");
  EXPECT_EQ(header_problem(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})"),
            "tensor `a` has no `shape`");
  EXPECT_EQ(header_problem(R"({"a":{"dtype":"F32","shape":[]}})"),
            "tensor `a` has no `data_offsets`");
  EXPECT_EQ(header_problem(R"({"a":{"dtype":"F32","dtype":"F32"}})"), "tensor `a` has two `dtype`");
  EXPECT_EQ(header_problem(R"({"a":{"strides":[1]}})"),
            "tensor `a` has an unknown field `strides`");
  EXPECT_EQ(header_problem(R"({"a":{"dtype":7}})"), "`dtype` of tensor `a` holds a number");
  EXPECT_EQ(header_problem(R"({"a":{"shape":"x"}})"), "`shape` of tensor `a` holds a string");
  EXPECT_EQ(header_problem(R"({"a":{"shape":[-1]}})"),
            "`shape` of tensor `a` holds a negative number");
  EXPECT_EQ(header_problem(R"({"a":{"shape":[1.5]}})"), "`shape` of tensor `a` holds a fraction");
  EXPECT_EQ(header_problem(R"({"a":{"shape":[9223372036854775808]}})"),
            "`shape` of tensor `a` holds a number above 2^63");
  EXPECT_EQ(header_problem(R"({"a":{"shape":[99999999999999999999999]}})"),
            "`shape` of tensor `a` holds a fraction");
  EXPECT_EQ(header_problem(R"({"a":{"shape":[[1]]}})"), "`shape` of tensor `a` holds an array");
  EXPECT_EQ(header_problem(R"({"a":{"shape":[true]}})"), "`shape` of tensor `a` holds a boolean");
  EXPECT_EQ(header_problem(R"({"__metadata__":{"a":1}})"),
            "`__metadata__` holds a number, not a string");
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(header_problem("{" + a + "," + a + "}"), "tensor `a` occurs twice");
  std::string ranks = R"({"a":{"shape":[1)";
  for (int i = 0; i < 40; ++i) ranks += ",1";
  EXPECT_EQ(header_problem(ranks + "]}}"),
            "`shape` of tensor `a` holds a longer list than any tensor has");
}

TEST(Safetensors, RejectsOtherElementTypes) {
  for (const char* dtype : {"I64", "BOOL", "F8_E4M3", "f32", ""}) {
    const std::string header =
        std::string(R"({"n":{"dtype":")") + dtype + R"(","shape":[1],"data_offsets":[0,8]}})";
    const auto tensors = parse_safetensors(file(header, std::string(8, '\0')), "w.safetensors");
    ASSERT_FALSE(tensors);
    EXPECT_EQ(tensors.error().message,
              std::string("`n` of `w.safetensors` holds `") + dtype +
                  "`; rnnc reads F64, F32, F16 and BF16 (in PyTorch `t.float()` converts)");
  }
}

TEST(Safetensors, WritesOnlyWholeArraysOfDifferentNames) {
  const NamedArray a{"a", Array::zeros(DType::f32, {2})};
  EXPECT_TRUE(format_safetensors({a}));
  EXPECT_EQ(format_safetensors({a, a}).error().message, "array `a` is given twice");
  EXPECT_EQ(format_safetensors({{"b", Array{DType::f32, {3}, {}}}}).error().message,
            "array `b` has 0 bytes, but [3] in f32 takes 12");
}

/// One tensor `a` of F32 with these fields, over `bytes` bytes of data.
std::string one(std::string_view shape, std::string_view offsets, size_t bytes) {
  return file(
      fmt::format(R"({{"a":{{"dtype":"F32","shape":{},"data_offsets":{}}}}})", shape, offsets),
      std::string(bytes, '\0'));
}

TEST(Safetensors, NeverTrustsSizesAndPlaces) {
  EXPECT_EQ(safetensors_problem(one("[2]", "[0,8]", 4)),
            "tensor `a` ends at byte 8 of the data, but only 4 bytes are there");
  EXPECT_EQ(safetensors_problem(one("[2]", "[8,0]", 8)),
            "`data_offsets` of tensor `a` are not a begin and an end");
  EXPECT_EQ(safetensors_problem(one("[2]", "[0]", 8)),
            "`data_offsets` of tensor `a` are not a begin and an end");
  EXPECT_EQ(safetensors_problem(one("[2]", "[0,4,8]", 8)),
            "`data_offsets` of tensor `a` are not a begin and an end");
  EXPECT_EQ(safetensors_problem(one("[3]", "[0,8]", 8)),
            "tensor `a` of F32 with shape [3] does not fill its 8 bytes");
  EXPECT_EQ(safetensors_problem(one("[2]", "[0,9]", 9)),
            "tensor `a` of F32 with shape [2] does not fill its 9 bytes");
  EXPECT_EQ(safetensors_problem(one("[4611686018427387904,4]", "[0,0]", 0)),
            "tensor `a` of F32 with shape [4611686018427387904, 4] does not fill its 0 bytes");
  EXPECT_EQ(safetensors_problem(one("[2]", "[0,8]", 12)), "4 bytes at its end belong to no tensor");
  EXPECT_EQ(safetensors_problem(one("[2]", "[4,12]", 12)),
            "4 bytes before tensor `a` belong to no tensor");
  const std::string overlap = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                              R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})";
  EXPECT_EQ(safetensors_problem(file(overlap, std::string(12, '\0'))),
            "tensors `a` and `b` overlap");
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string whole = one("[2]", "[0,8]", 8);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse_safetensors(whole.substr(0, size), "w")) << size;
  }
  EXPECT_TRUE(parse_safetensors(whole, "w"));
}

TEST(Safetensors, WritesWhatItReads) {
  const TemporaryDirectory directory;
  const std::vector<NamedArray> tensors = {
      {"LSTM.0.W", Array::from_doubles({1, 2, 3, 4, 5, 6}, {2, 3}, DType::f32)},
      {"a \"quoted\"\nname", Array::from_doubles({7}, {}, DType::f64)},
      {"half", Array::from_doubles({0.5, -1}, {2}, DType::f16)},
      {"brain", Array::from_doubles({0.5, -1}, {2}, DType::bf16)},
  };
  ASSERT_TRUE(write_safetensors(directory / "w.safetensors", tensors));
  const auto back = read_safetensors(directory / "w.safetensors");
  ASSERT_TRUE(back) << back.error().message;
  ASSERT_EQ(back->size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ((*back)[i].name, tensors[i].name);
    EXPECT_EQ((*back)[i].array.dtype, tensors[i].array.dtype);
    EXPECT_EQ((*back)[i].array.shape, tensors[i].array.shape);
    EXPECT_EQ((*back)[i].array.data, tensors[i].array.data);
  }
  // The data starts at a multiple of 8 bytes.
  uint64_t header = 0;
  const std::string bytes = TemporaryDirectory::read(directory / "w.safetensors");
  std::memcpy(&header, bytes.data(), sizeof header);
  EXPECT_EQ(header % 8, 0U);
}

}  // namespace
}  // namespace rnnc
