// What is said where NVIDIA's libraries are old, or see no GPU: others are found in their place, whose
// sources are in stubs/.
#include <cstdlib>

#include "tests/tools/tools_test.h"

namespace rnnc::test {
namespace {

#ifdef RNNC_STUBS

class StubLibraries : public Tools {
 protected:
  /// In whose folder libraries are found first.
  static void put_in_place(const std::string& stub) {
    ::setenv("LD_LIBRARY_PATH", fmt::format("{}/{}", RNNC_STUBS, stub).c_str(), 1);
  }
  StubLibraries() {
    if (const char* path = std::getenv("LD_LIBRARY_PATH"); path != nullptr) before_ = path;
  }
  ~StubLibraries() override { ::setenv("LD_LIBRARY_PATH", before_.c_str(), 1); }

  /// Of the device, in the list and by a command that needs it.
  void expect_unusable(const std::string& reason) const {
    const std::string list = good({"devices"});
    EXPECT_NE(list.find("cuda  not usable: " + reason + "\n"), std::string::npos) << list;
    const std::vector<std::string> bench = {"bench", "toy.rnn", "--dim",    "I=3",
                                            "--dim", "H=4",     "--device", "cuda"};
    EXPECT_EQ(bad(1, bench),
              fmt::format("rnnc: error: device `cuda:0` cannot be used: {}\n", reason));
  }

 private:
  std::string before_;
};

TEST_F(StubLibraries, AnOldDriverSaysWhichIsNeeded) {
  put_in_place("old_driver");
  expect_unusable(
      "the NVIDIA driver is too old: it supports CUDA 12.2, and rnnc needs 13.0 (driver 580 or "
      "newer)");
}

TEST_F(StubLibraries, ADriverWithoutAGpuSaysWhereToLook) {
  put_in_place("no_device");
  expect_unusable(
      "the NVIDIA driver shows no GPU: see `nvidia-smi`, and CUDA_VISIBLE_DEVICES if it is set");
}

TEST_F(StubLibraries, AnOldCompilerSaysWhichIsNeeded) {
  put_in_place("old_nvrtc");
  const std::string error = bad(1, {"emit", "toy.rnn", "--as", "cubin", "--device", "cuda", "--dim",
                                    "I=3", "--dim", "H=4", "-o", "toy.cubin"});
  EXPECT_NE(
      error.find("NVRTC 12.9 is too old; rnnc needs 13.0, which comes with CUDA toolkit 13 and "
                 "with `pip install nvidia-cuda-nvrtc`"),
      std::string::npos)
      << error;
}

TEST_F(StubLibraries, NoDriverSaysWhichIsNeeded) {
  if (std::system("ldconfig -p | grep -q libcuda.so.1") == 0) GTEST_SKIP() << "there is one";
  expect_unusable("this machine has no NVIDIA driver: a GPU needs driver 580 or newer");
}

#endif

}  // namespace
}  // namespace rnnc::test
