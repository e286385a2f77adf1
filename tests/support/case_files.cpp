#include "tests/support/case_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "tests/support/reference/golden.h"

namespace rnnc::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFrame = "frame";
constexpr std::string_view kHole = "...";

bool updating = false;

std::string without_blank_end(std::string text) {
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

std::vector<FileCase> read_file(const std::string& file) {
  std::vector<FileCase> cases;
  std::string* text = nullptr;
  for (const std::string& line : lines_of(read_data(file))) {
    if (line.starts_with("=== ")) {
      const size_t colon = std::min(line.find(": "), line.size());
      FileCase& one = cases.emplace_back();
      one.file = file;
      one.command = line.substr(4, colon - 4);
      one.title = colon == line.size() ? "" : line.substr(colon + 2);
      text = &one.texts[""];
    } else if (line == "---") {
      text = &cases.back().expected;
    } else if (line.starts_with("--- ")) {
      text = &cases.back().texts[line.substr(4)];
    } else if (text != nullptr) {  // before the first case: what the file is
      *text += line + "\n";
    }
  }
  // Blank lines before the next case are for the reader.
  for (FileCase& one : cases) one.expected = without_blank_end(one.expected);
  std::string frame;
  for (FileCase& one : cases) {
    if (one.command == kFrame) frame = one.text();
    one.frame = frame;
  }
  std::erase_if(cases, [](const FileCase& one) { return one.command == kFrame; });
  return cases;
}

/// `text` with what `edits` says: "- old" and "+ new" by turns.
std::string edited(std::string text, const std::string& edits) {
  std::string old;
  for (const std::string& line : lines_of(edits)) {
    if (line.starts_with("- ")) {
      old = line.substr(2);
      EXPECT_NE(text.find(old), std::string::npos) << "there is no " << old;
    } else if (line.starts_with("+ ") && text.find(old) != std::string::npos) {
      text.replace(text.find(old), old.size(), line.substr(2));
    } else {
      ADD_FAILURE() << "neither - nor +: " << line;
    }
  }
  return text;
}

/// The file with `expected` behind the `---` of this case.
std::string with_expected(const FileCase& one, const std::string& expected) {
  std::string text;
  bool is_in = false;
  bool is_expected = false;
  for (const std::string& line : lines_of(read_data(one.file))) {
    if (line.starts_with("=== ")) {
      if (is_expected) text += "\n";
      is_in = line == "=== " + one.command + ": " + one.title;
      is_expected = false;
    }
    if (!is_expected) text += line + "\n";
    if (is_in && line == "---") {
      is_expected = true;
      text += expected + "\n";
    }
  }
  return text;
}

}  // namespace

std::string FileCase::framed(const std::string& part) const {
  const bool is_whole = part.starts_with("graph ") || part.starts_with("plan ");
  if (frame.empty() || is_whole) return part;
  std::string result;
  bool has_hole = false;
  for (const std::string& line : lines_of(frame)) {
    const size_t begin = line.find_first_not_of(' ');
    const bool is_hole = begin != std::string::npos && line.substr(begin) == kHole;
    has_hole = has_hole || is_hole;
    result += is_hole ? part : line + "\n";
  }
  return has_hole ? result : edited(frame, part);
}

std::string FileCase::name() const {
  std::string result = fs::path(file).stem().string() + "_" + title;
  std::ranges::replace_if(result, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return result;
}

std::vector<FileCase> read_file_cases(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(data_root() / folder)) {
    if (entry.path().extension() == ".txt") {
      files.push_back(folder + "/" + entry.path().filename().string());
    }
  }
  std::ranges::sort(files);
  std::vector<FileCase> cases;
  for (const std::string& file : files) std::ranges::move(read_file(file), back_inserter(cases));
  return cases;
}

void expect_output(const FileCase& one, const std::string& actual) {
  const std::string output = without_blank_end(actual);
  if (!updating) {
    EXPECT_EQ(output, one.expected) << one.file << ": " << one.title;
  } else if (output != one.expected) {
    const std::string text = with_expected(one, output);  // read before the file is opened
    std::ofstream(data_root() / one.file, std::ios::binary) << text;
  }
}

bool updates_cases() {
  return updating;
}

int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--update-cases") {
      std::fprintf(stderr, "%s: no such option; there is --update-cases\n", argv[i]);
      return 2;
    }
    updating = true;
  }
  return RUN_ALL_TESTS();
}

}  // namespace rnnc::test
