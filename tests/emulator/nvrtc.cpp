// NVRTC by the system's C++ compiler:
// 1. Preprocess the unit, as for sm_90, with the functions of ptx.cuh left to device.h.
// 2. Say in C++ what is said in CUDA alone: variables in shared memory become references to a place
//    in the block's memory, large parameters references, and a table names the kernels.
// 3. Compile that to a shared object, unless one of the same text has been kept. Which one a source
//    comes to is kept, too, as long as this library stays as it is: steps 1 and 2 take a while.
#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/emulator/emulator.h"
#include "tests/emulator/unit_image.h"

struct _nvrtcProgram {
  std::string source;
  std::string log;
  std::string image;
};

namespace {

namespace fs = std::filesystem;

constexpr int kArchs[] = {80, 86, 89, 90, 100, 120};

const std::string kCompiler = RNNC_EMULATOR_COMPILER;
const fs::path kSources = RNNC_SOURCE_DIR;
const fs::path kKept = RNNC_EMULATOR_UNITS;  // compiled units

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A folder of its own, gone at the end.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "rnnc-nvrtc-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path file(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// Runs the compiler; what it says goes to `log`.
bool compile(const Folder& folder, const std::string& options, std::string& log) {
  const fs::path messages = folder.file("messages");
  const std::string command = fmt::format("'{}' {} 2> '{}'", kCompiler, options, messages.string());
  const bool done = std::system(command.c_str()) == 0;
  log = read_file(messages);
  return done;
}

bool preprocess(const Folder& folder, const std::string& source, std::string& text,
                std::string& log) {
  const fs::path input = folder.file("unit.cu");
  const fs::path output = folder.file("unit.i");
  std::ofstream(input) << source;
  const std::string options =
      fmt::format("-E -P -x c++ -std=gnu++17 -w -DRNNC_EMULATED -D__CUDA_ARCH__=900 -o '{}' '{}'",
                  output.string(), input.string());
  if (!compile(folder, options, log)) return false;
  text = read_file(output);
  return true;
}

/// Step 2.
std::string as_cpp(std::string text) {
  static const std::regex dynamic(
      R"(extern\s+__shared__\s+(?:__align__\(\d+\)\s*)?([\w\s]+?)\s*\b(\w+)\s*\[\s*\]\s*;)");
  static const std::regex declared(
      R"(__shared__\s+(?:__align__\(\d+\)\s*)?([\w\s]+?)\s*\b(\w+)\s*((?:\[[^\]]*\]\s*)*);)");
  static const std::regex constant(
      R"((?:const\s+)?__grid_constant__\s+(?:const\s+)?(\w+)\s+(\w+))");
  static const std::regex kernel(
      R"(__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\()");
  text = std::regex_replace(text, dynamic,
                            "\n#define $2 (reinterpret_cast<$1*>("
                            "const_cast<unsigned char*>(rnnc::emulator::here->shared)))\n");
  text =
      std::regex_replace(text, declared,
                         "typedef $1 type_of_$2 $3; static const unsigned at_$2 = "
                         "rnnc::emulator::reserve_shared(sizeof(type_of_$2)); type_of_$2& $2 = "
                         "*reinterpret_cast<type_of_$2*>(rnnc::emulator::here->shared + at_$2);");
  text = std::regex_replace(text, constant, "const $1& $2");
  std::set<std::string> kernels;
  for (std::sregex_iterator match(text.begin(), text.end(), kernel), end; match != end; ++match) {
    kernels.insert((*match)[1]);
  }
  std::string table;
  for (const std::string& name : kernels) {
    table += fmt::format("  KernelOf<::{}>::entry(\"{}\"),\n", name, name);
  }
  return fmt::format(
      "#include \"tests/emulator/device.h\"\n{}\nnamespace rnnc::emulator {{\n"
      "static const KernelEntry kernels[] = {{\n{}  {{}}}};\n"
      "extern \"C\" __attribute__((visibility(\"default\"))) void {}(Unit* unit) {{\n"
      "  *unit = {{&machine, &here, &static_shared_end, kernels}};\n}}\n}}\n",
      text, table, rnnc::emulator::kUnitFunction);
}

/// What every unit includes.
const std::string& headers() {
  static const std::string text = read_file(kSources / "tests/emulator/device.h") +
                                  read_file(kSources / "tests/emulator/machine.h");
  return text;
}

std::string compiler_options() {
  return fmt::format(
      "-shared -nostdlib -fPIC -std=gnu++17 -Og -w -fvisibility=hidden -fno-exceptions -fno-rtti "
      "-fno-threadsafe-statics -fno-strict-aliasing -ffp-contract=off -I'{}'",
      kSources.string());
}

std::string hash_of(const std::string& text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

/// Renamed when it is whole: other processes may look for the same.
void keep(const fs::path& path, const std::string& text) {
  std::error_code ignored;
  fs::create_directories(kKept, ignored);
  const fs::path mine = fmt::format("{}.{}", path.string(), getpid());
  std::ofstream(mine, std::ios::binary) << text;
  fs::rename(mine, path, ignored);
}

fs::path kept_object(const std::string& hash) {
  return kKept / (hash + ".so");
}

/// Of the library that this source is part of.
const std::string& hash_of_library() {
  static const std::string hash = [] {
    Dl_info info;
    if (dladdr(reinterpret_cast<const void*>(&hash_of_library), &info) == 0) std::abort();
    return hash_of(read_file(info.dli_fname));
  }();
  return hash;
}

/// Holds the hash of the object that a source comes to.
fs::path kept_hash(const std::string& source) {
  return kKept / (hash_of(hash_of_library() + compiler_options() + headers() + source) + ".hash");
}

/// Step 3, with the object's hash.
bool compile_object(const Folder& folder, const std::string& text, const std::string& hash,
                    std::string& object, std::string& log) {
  object = read_file(kept_object(hash));
  if (!object.empty()) return true;
  const fs::path input = folder.file("unit.cpp");
  const fs::path output = folder.file("unit.so");
  std::ofstream(input) << text;
  const std::string options =
      fmt::format("{} -o '{}' '{}'", compiler_options(), output.string(), input.string());
  if (!compile(folder, options, log)) return false;
  object = read_file(output);
  keep(kept_object(hash), object);
  return true;
}

/// All steps.
bool compile_unit(const std::string& source, std::string& object, std::string& log) {
  const fs::path known = kept_hash(source);
  if (const std::string hash = read_file(known); !hash.empty()) {
    object = read_file(kept_object(hash));
    if (!object.empty()) return true;
  }
  const Folder folder;
  std::string text;
  if (!preprocess(folder, source, text, log)) return false;
  text = as_cpp(text);
  const std::string hash = hash_of(kCompiler + compiler_options() + headers() + text);
  if (!compile_object(folder, text, hash, object, log)) return false;
  keep(known, hash);
  return true;
}

nvrtcResult give(const std::string& text, char* to) {
  std::ranges::copy(text, to);
  return NVRTC_SUCCESS;
}

}  // namespace

std::string rnnc::emulator::missing_compiler() {
  const Folder folder;
  std::ofstream(folder.file("empty.cpp")) << "int nothing;\n";
  const std::string options = fmt::format("-c -o '{}' '{}'", folder.file("empty.o").string(),
                                          folder.file("empty.cpp").string());
  std::string log;
  if (!compile(folder, options, log)) return fmt::format("{} does not compile: {}", kCompiler, log);
  if (!fs::exists(kSources / "tests/emulator/device.h")) {
    return fmt::format("{} has no sources", kSources.string());
  }
  return "";
}

/// A version that NVIDIA's has not, and another one when units change: rnnc keeps what it compiles
/// by the version.
nvrtcResult nvrtcVersion(int* major, int* minor) {
  constexpr int kMany = 1'000'000;
  *major = 13;
  *minor = kMany + static_cast<int>(XXH3_64bits(headers().data(), headers().size()) % kMany);
  return NVRTC_SUCCESS;
}
const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "no error" : "error of the emulated NVRTC";
}
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(kArchs));
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* archs) {
  std::ranges::copy(kArchs, archs);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int,
                               const char* const*, const char* const*) {
  *program = new _nvrtcProgram{.source = source, .log = "", .image = ""};
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int, const char* const*) {
  std::string object;
  if (!compile_unit(program->source, object, program->log)) return NVRTC_ERROR_COMPILATION;
  program->image = rnnc::emulator::make_image(object);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  *size = program->log.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  return give(program->log, log);
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram, size_t*) {
  return NVRTC_ERROR_INVALID_PROGRAM;
}
nvrtcResult nvrtcGetPTX(nvrtcProgram, char*) {
  return NVRTC_ERROR_INVALID_PROGRAM;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  *size = program->image.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  return give(program->image, cubin);
}
