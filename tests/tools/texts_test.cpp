/// What `rnnc` and the runtime can say to a user is tested on its words.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "tests/support/source_texts.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = RNNC_SOURCE_DIR;

// What no test can make happen, or not on every machine.
constexpr std::string_view kUntested[] = {
    // Memory and files that fail.
    "cannot read {}: it does not fit in memory",
    "cannot read {}: its {} bytes do not fit in memory",
    "cannot read standard input: it does not fit in memory",
    "cannot read cache directory {}: {}",
    "cannot read folder {}: {}",
    "cannot write {}: {} is not a directory",
    "cannot remove {}: {}",
    // A caller's environment, and builds and devices that are not there.
    "there is no cache directory: set RNNC_CACHE_DIR or HOME",
    "no folder for temporary files: {}",
    "device `cpu`: this build of rnnc has no CPU backend",
    "device `{}`: this build of rnnc has no CUDA backend",
    "not usable: {}",
    "rnnc: note: {}n",
    "no random numbers: {}",
    "its answer is longer than 64 MiBn",
    "the compiler ended without an answer: it needs more than 2 GiB, or has a bugn",
    // Parts: tests have the whole, put together otherwise.
    "not enough memory: {} {:.1f} GiB, and there are {:.1f} GiB",
    "its arrays take",
    "its array takes",
    "its bytes take",
    "not enough memory for {} bytes of it",
    "not enough memory for its array of shape {}",
    "not enough memory for an array of shape {}",
    "not enough memory for tensor {} {} of {}",
    "the arrays of {}, once given and once on the device, take",
    "the random weights take",
    "{} at batch {} needs",
    "holds {}; rnnc reads F64, F32, F16 and BF16 (in PyTorch `t.float()` converts)",
    "{} is {}; rnnc reads weights from safetensors and .npz files",
    "import torch; from safetensors.torch import save_file; save_file({{k: v.contiguous() for k, v "
    "in torch.load('{0}', map_location='cpu', weights_only=True).items()}}, '{1}')",
    "{} is not a weight map that can be read: ",
    // Wrong results, which no plan should give.
    "{}: with {} on, results differ from the naive plan's by {:.2g}, more than {:.0e}",
    // Promises between parts of rnnc.
    "{} values for shape {}",
    "inputs of a wrong shape pass",
    "files are little-endian, and so are we",
    "`{}` is not bound",
    "{} imports {}, which is not shipped",
    "this is a bug in rnnc: the graph of {}: {}",
    // Not errors.
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cpu, cuda or cuda:1",
};

/// Help starts with a capital letter, errors do not; pictures are tags, and programs have lines.
bool is_error(std::string_view text) {
  const bool sentence = text[0] >= 'A' && text[0] <= 'Z';
  const bool other = text.starts_with("rnnc ") || text.starts_with("compile  ") ||
                     text.find("[K") != text.npos || text.starts_with('<') ||
                     text.find('\n') != text.npos;
  return !sentence && !other && std::ranges::count(text, ' ') >= 2;
}

std::vector<std::string> texts_in(const std::vector<std::string>& folders) {
  std::vector<std::string> texts;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::directory_iterator(kRoot / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      std::ranges::move(literals(text.str()), std::back_inserter(texts));
    }
  }
  return texts;
}

TEST(Texts, AreTested) {
  const std::vector<std::string> said = texts_in({"tests/runtime", "tests/tools", "tests/capi"});
  size_t texts = 0;
  for (const std::string& text :
       texts_in({"runtime/base", "runtime/arrays", "runtime/weights", "runtime/backend",
                 "runtime/program", "runtime/capi", "tools", "tools/commands", "tools/completion",
                 "tools/serve"})) {
    if (!is_error(text) || std::ranges::count(kUntested, text) > 0) continue;
    ++texts;
    EXPECT_TRUE(says(said, fixed_parts(text))) << "no test has the text: " << text;
  }
  EXPECT_GT(texts, 100u);
}

}  // namespace
}  // namespace rnnc::test
