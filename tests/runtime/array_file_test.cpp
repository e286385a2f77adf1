#include "runtime/arrays/array_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>

#include "runtime/arrays/npy.h"
#include "runtime/arrays/npz.h"
#include "runtime/arrays/safetensors.h"
#include "runtime/base/byte_source.h"
#include "tests/runtime/temporary_directory.h"

namespace rnnc {
namespace {

using test::TemporaryDirectory;

const std::vector<NamedArray>& arrays() {
  static const std::vector<NamedArray> all = {
      {"lstm.W", Array::from_doubles({1, 2, 3, 4, 5, 6}, {2, 3}, DType::f32)},
      {"lstm.b", Array::from_doubles({0.5, -0.5}, {2}, DType::f64)},
      {"head.s", Array::from_doubles({7}, {}, DType::f32)}};
  return all;
}

void expect_equal(const std::vector<NamedArray>& actual, const std::vector<NamedArray>& wanted,
                  size_t prefix, bool with_data) {
  ASSERT_EQ(actual.size(), wanted.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].name, wanted[i].name.substr(prefix));
    EXPECT_EQ(actual[i].array.dtype, wanted[i].array.dtype);
    EXPECT_EQ(actual[i].array.shape, wanted[i].array.shape);
    EXPECT_EQ(actual[i].array.data, with_data ? wanted[i].array.data : std::vector<std::byte>{});
  }
}

TEST(ArrayFile, ReadsEitherFormatByItsBytesAndDataOnlyWhenWanted) {
  const TemporaryDirectory directory;
  for (const char* name : {"w.npz", "w.safetensors"}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(write_arrays(directory / name, arrays()));
    std::filesystem::rename(directory / name, directory / "w");
    const Result<ArrayFile> file = ArrayFile::open(directory / "w");
    ASSERT_TRUE(file) << file.error().message;
    expect_equal(*file->headers(), arrays(), 0, false);
    expect_equal(*file->read(), arrays(), 0, true);
    const std::vector<NamedArray> lstm(arrays().begin(), arrays().begin() + 2);
    expect_equal(*file->headers("lstm."), lstm, 5, false);
    expect_equal(*file->read("lstm."), lstm, 5, true);
    EXPECT_EQ(file->read("gru.").error().message,
              "`" + (directory / "w").string() +
                  "`: no tensor's name starts with `gru.`; there is `lstm.W`");
    const std::string bytes = TemporaryDirectory::read(directory / "w");
    expect_equal(*ArrayFile::parse(bytes, "w")->read(), arrays(), 0, true);
  }
}

TEST(ArrayFile, OtherElementTypesAreAnErrorOnlyWhereTheyAreWanted) {
  std::string npz = *format_npz({{"a.W", Array::from_doubles({1}, {1}, DType::f64)},
                                 {"b.n", Array::from_doubles({2}, {1}, DType::f64)}});
  // As np.savez writes an array of int64; the checksum of a member that is not read is not looked
  // at.
  npz.replace(npz.rfind("<f8"), 3, "<i8");
  const Result<ArrayFile> file = ArrayFile::parse(npz, "w.npz");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->read("a.")->front().array.to_doubles(), (std::vector<double>{1}));
  const std::string problem =
      "`b.n` of `w.npz` holds int64; rnnc reads float64, float32 and float16 here "
      "(`a.astype(\"float32\")` converts)";
  EXPECT_EQ(file->headers("b.").error().message, problem);
  EXPECT_EQ(file->headers().error().message, problem);
  EXPECT_EQ(file->read().error().message, problem);
}

/// A zip archive of one empty member.
std::string archive(const std::string& member) {
  const auto size = static_cast<char>(member.size());
  std::string bytes = "PK\x03\x04" + std::string(26, '\0') + member;
  bytes[26] = size;
  std::string entry = "PK\x01\x02" + std::string(42, '\0') + member;
  entry[28] = size;
  std::string end = "PK\x05\x06" + std::string(18, '\0');
  end[8] = end[10] = 1;
  end[12] = static_cast<char>(entry.size());
  end[16] = static_cast<char>(bytes.size());
  return bytes + entry + end;
}

TEST(ArrayFile, OtherFormatsAreNamedWithTheWayToConvertThem) {
  const auto problem = [](std::string bytes, std::string_view name) {
    if (!bytes.starts_with("PK")) bytes.resize(std::max<size_t>(bytes.size(), 100));
    const Result<ArrayFile> file = ArrayFile::parse(bytes, name);
    EXPECT_FALSE(file);
    return file ? "" : file.error().message;
  };
  const std::string reads = "; rnnc reads weights from safetensors and .npz files";
  const std::string torch =
      " is what torch.save writes, pickled Python objects, which rnnc does not run" + reads +
      ". To convert it:\n  python3 -c \"import torch; from safetensors.torch import save_file; "
      "save_file({k: v.contiguous() for k, v in torch.load(";
  EXPECT_EQ(problem("\x80\x02}q", "models/w.pt"),
            "`models/w.pt`" + torch +
                "'models/w.pt', map_location='cpu', weights_only=True).items()}, "
                "'models/w.safetensors')\"");
  EXPECT_EQ(problem("\x80\x02\x8a\x0a", "it's.bin"),
            "`it's.bin`" + torch +
                "'FILE', map_location='cpu', weights_only=True).items()}, 'FILE.safetensors')\"");
  // Zip archives, of which the first member says what they are.
  for (const std::string member : {"m/data.pkl", "data.pkl", "m/version"}) {
    EXPECT_EQ(problem(archive(member), "w.pth").substr(0, 7 + torch.size()), "`w.pth`" + torch)
        << member;
  }
  EXPECT_EQ(
      problem(archive("config.json"), "w.keras"),
      "`w.keras` is a Keras model, a zip archive around an HDF5 file; rnnc reads weights from "
      "safetensors and .npz files. To convert it:\n  python3 -c \"import keras, numpy; "
      "numpy.savez('weights.npz', **{w.path: w.numpy() for w in "
      "keras.models.load_model('w.keras').weights})\"");
  EXPECT_EQ(
      problem("\x89HDF\r\n\x1a\n", "w.h5"),
      "`w.h5` is an HDF5 file, as Keras writes" + reads +
          ". To convert it:\n  python3 -c \"import h5py, numpy; f = h5py.File('w.h5'); a = {}; "
          "f.visititems(lambda name, v: a.update({name: v[()]}) if isinstance(v, h5py.Dataset) "
          "else None); numpy.savez('w.npz', **a)\"");
  EXPECT_EQ(
      problem("\x08\x08\x12\x07pytorch", "m.onnx"),
      "`m.onnx` is an ONNX model" + reads +
          ". To convert it:\n  python3 -c \"import onnx, numpy; from onnx.numpy_helper import "
          "to_array; numpy.savez('m.npz', **{t.name: to_array(t) for t in "
          "onnx.load('m.onnx').graph.initializer})\"");
  EXPECT_EQ(problem(format_npy(Array::zeros(DType::f32, {2})), "W.npy"),
            "`W.npy` is one array without a name (.npy), and weights are named" + reads +
                ". To convert it:\n  python3 -c \"import numpy; numpy.savez('W.npz', "
                "W=numpy.load('W.npy'))\"");
  EXPECT_EQ(problem("GGUF", "w.gguf"), "`w.gguf` is a GGUF model" + reads);
  EXPECT_EQ(problem(std::string("\x1c\0\0\0TFL3", 8), "w.tflite"),
            "`w.tflite` is a TFLite model" + reads);
  EXPECT_EQ(
      problem("", "w"),
      "`w` is not a safetensors file that can be read: its header is damaged: it is not JSON: "
      "unexpected text at its byte 1");
}

TEST(ArrayFile, NoPrefixOfAFileCrashes) {
  for (const std::string& bytes :
       {*format_npz(arrays()), *format_safetensors(arrays()),
        std::string("\x08\x08\x12\x07pytorch"), std::string("\x80\x02}q")}) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(ArrayFile::parse(bytes.substr(0, size), "w")) << size;
    }
  }
}

TEST(ArrayFile, AnArchiveTakesNoMemoryBeforeItsArraysAreWanted) {
  // 1 MB of zeros packed a thousandfold would be 1 GB.
  const Result<ArrayFile> file =
      ArrayFile::open(std::filesystem::path(RNNC_SOURCE_DIR) / "tests/runtime/data/deflated.npz");
  ASSERT_TRUE(file) << file.error().message;
  const std::vector<NamedArray> headers = *file->headers();
  EXPECT_EQ(headers.size(), 6U);
  for (const NamedArray& header : headers) EXPECT_TRUE(header.array.data.empty());
  EXPECT_EQ(file->read("zeros")->front().array.elements(), 1000);
}

TEST(ArrayFile, WhatCannotBeReadOrWrittenIsSaid) {
  const TemporaryDirectory directory;
  EXPECT_EQ(ArrayFile::open("no/such.npz").error().message,
            "cannot read `no/such.npz`: No such file or directory");
  const std::filesystem::path fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(ArrayFile::open(fifo).error().message,
            "cannot read `" + fifo.string() + "`: it is a named pipe, which might never end");
  const NamedArray broken{"W", Array{DType::f32, {2}, {}}};
  EXPECT_EQ(write_arrays(directory / "w.npz", {broken}).error().message,
            "cannot make a .npz file: array `W` has 0 bytes, but [2] in f32 takes 8");
  EXPECT_EQ(write_arrays(directory / "w", {broken}).error().message,
            "cannot write `" + (directory / "w").string() +
                "`: array `W` has 0 bytes, but [2] in f32 takes 8");
}

TEST(ByteSource, ReadsAnyPartOfAFileOrOfBytes) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.write("bytes", "0123456789");
  const Result<ByteSource> file = ByteSource::open(path);
  ASSERT_TRUE(file) << file.error().message;
  const ByteSource bytes("0123456789");
  for (const ByteSource* source : {&*file, &bytes}) {
    EXPECT_EQ(source->size(), 10U);
    EXPECT_EQ(*source->read(3, 4), "3456");
    EXPECT_EQ(*source->read(8, 100), "89");
    EXPECT_EQ(*source->read(20, 1), "");
    std::array<char, 4> part{};
    EXPECT_EQ(source->read(8, part.data(), 4).error().message, "it has only 10 bytes");
  }
  std::filesystem::resize_file(path, 5);
  EXPECT_EQ(file->read(3, 4).error().message, "it has become shorter while it was read");
}

}  // namespace
}  // namespace rnnc
