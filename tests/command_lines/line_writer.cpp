#include "tests/command_lines/line_writer.h"

#include <algorithm>
#include <sstream>

namespace rnnc::test {
namespace {

using Words = std::vector<std::string>;

const Words kNumbers = {"0",  "1",    "2",   "3", "5",          "16",
                        "-1", "1e30", "nan", "",  "0x10",       "99999999999999999999",
                        "07", "+3",   "1.5", " ", "2147483648", "one"};
const Words kDims = {"L=2", "L=9", "H=0", "H=-1", "I=2147483647", "H=99999999", "Q=1", "=", "H"};
const Words kNames = {"x", "h", "y", "s", "Toy", "Sum", "Both", "x@1", "\xd1\x85", "none"};
const Words kMarks = {"--", "-", "++", "---", "-o", "-h", "-x", "--=", "=", "--help", "--version"};

}  // namespace

LineWriter::LineWriter(LineRunner& runner) : runner_(runner) {
  find_commands({});
}

const LineWriter::Answer& LineWriter::complete(const Words& line) {
  const auto [place, is_new] = answers_.try_emplace(line);
  if (!is_new) return place->second;
  Words words = {"__complete"};
  words.insert(words.end(), line.begin(), line.end());
  std::istringstream text(runner_.ask(words));
  std::string first;
  std::getline(text, first);
  Answer& answer = place->second;
  answer.files = first.starts_with("files");
  for (std::string word; std::getline(text, word);) {
    answer.words.push_back(word.substr(0, word.find('\t')));
  }
  return answer;
}

void LineWriter::find_commands(const Words& command) {
  if (!command.empty()) commands_.push_back(command);
  if (!command.empty() && command[0] == "help") return;
  Words line = command;
  line.emplace_back();
  const Words inner = complete(line).words;
  line.emplace_back("--");
  for (const std::string& word : inner) {
    if (word == "serve") continue;  // goes on until it is told to end
    line[command.size()] = word;
    // What has options of its own is a command.
    if (!complete(line).words.empty()) find_commands({line.begin(), line.end() - 1});
  }
}

bool LineWriter::chance(int percent) {
  return below(100) < static_cast<size_t>(percent);
}

size_t LineWriter::below(size_t count) {
  return random_() % count;
}

const std::string& LineWriter::one_of(const Words& words) {
  return words[below(words.size())];
}

std::string LineWriter::noise() {
  std::string bytes;
  for (size_t i = below(12); i > 0; --i) {
    const auto byte = static_cast<char>(1 + below(255));
    bytes += byte == '/' ? '=' : byte;  // files stay in the folder
  }
  return bytes;
}

std::string LineWriter::file() {
  if (chance(80)) return one_of(runner_.files());
  const Words others = {"new", "below/new", "none/new", "below", ".", "-", "/dev/null", ""};
  return chance(80) ? one_of(others) : noise();
}

std::string LineWriter::any_value() {
  switch (below(5)) {
    case 0:
      return one_of(kNumbers);
    case 1:
      return one_of(kNames) + "=" + file();
    case 2:
      return file();
    case 3:
      return one_of(kDims);
    default:
      return noise();
  }
}

std::string LineWriter::value(const Words& command, const std::string& option) {
  if (chance(10)) return any_value();
  // Times that a run would take by itself.
  if (option == "--seconds" || option == "--runs") return chance(70) ? "1" : one_of({"0.01", "x"});
  if (option == "--dim") return one_of(kDims);
  Words line = command;
  line.insert(line.end(), {"toy.rnn", option, ""});
  const Answer& answer = complete(line);
  if (answer.files) return file();
  if (answer.words.empty()) return chance(90) ? one_of(kNumbers) : any_value();
  const std::string& word = one_of(answer.words);
  return word.ends_with('=') ? word + file() : word;
}

void LineWriter::add_option(const Words& command, Words& line) {
  Words asking = command;
  asking.emplace_back("--");
  const Words& options = complete(asking).words;
  if (options.empty()) return;
  const std::string& option = one_of(options);
  if (option == "--help" && chance(90)) return;  // after which nothing counts
  if (chance(10)) {
    line.push_back(option);
  } else if (chance(20)) {
    line.push_back(option + "=" + value(command, option));
  } else {
    line.push_back(option);
    // A flag takes none; most of what follows it is then unexpected.
    asking.back() = "toy.rnn";
    asking.insert(asking.end(), {option, "--"});
    if (complete(asking).words.empty()) line.push_back(value(command, option));
  }
}

void LineWriter::damage(Words& line) {
  if (line.empty()) return;
  const size_t place = below(line.size());
  const auto at = line.begin() + static_cast<std::ptrdiff_t>(place);
  switch (below(6)) {
    case 0:
      line.insert(at, std::string(*at));
      break;
    case 1:
      line.erase(at);
      break;
    case 2:
      at->resize(below(at->size() + 1));
      break;
    case 3:
      *at += noise();
      break;
    case 4:
      line.insert(at, one_of(kMarks));
      break;
    default:
      std::swap(*at, line[below(line.size())]);
  }
}

Line LineWriter::write(uint64_t seed) {
  random_.seed(seed);
  const Words command = commands_[below(commands_.size())];
  Words line = command;
  Words asking = command;
  asking.emplace_back();
  const Answer& first = complete(asking);
  if (first.files && chance(95)) line.push_back(chance(80) ? "toy.rnn" : file());
  if (!first.files && !first.words.empty()) line.push_back(one_of(first.words));
  const auto maybe = [&](const std::string& name, Words words) {
    if (command[0] == name && chance(70)) line.insert(line.end(), words.begin(), words.end());
  };
  for (const char* name : {"weights", "run", "explain", "emit", "bench", "compile"}) {
    maybe(name, {"--dim", "I=3", "--dim", "H=4"});
  }
  maybe("run", {"--input", "x=x.npy"});
  maybe("run", {"--weights", "w.safetensors"});
  maybe("emit", {"--as", "plan"});
  // Each measurement takes a second else.
  if (command[0] == "bench") line.insert(line.end(), {"--runs", "1"});
  for (size_t i = below(6); i > 0; --i) add_option(command, line);
  while (chance(20)) damage(line);
  for (std::string& word : line) std::erase(word, '\0');
  // A ladder without a file climbs with networks that take minutes.
  const bool ladder = std::ranges::count(line, "ladder") > 0;
  const auto is_file = [](const std::string& word) { return word == "toy.rnn"; };
  if (ladder && std::ranges::none_of(line, is_file)) line.emplace_back("toy.rnn");
  // A sweep over scans goes on to a million steps.
  const bool sweeps = line.size() > 1 && line[0] == "bench" && line[1] == "scan";
  if (sweeps && std::ranges::count(line, "--most-steps") == 0) {
    line.insert(line.end(), {"--most-steps", "1024"});
  }
  return {std::move(line), chance(80) ? "/dev/null" : "toy.rnn"};
}

}  // namespace rnnc::test
