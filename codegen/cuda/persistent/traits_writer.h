/// What a kernel's templates are made for, as structs of named constants:
///
///   struct carry0_traits {
///     static constexpr int kValues = 2;
///   };
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/text_writer.h"

namespace rnnc {

/// A struct, or a type that is made of one.
struct TemplateTraits {
  std::string name;
  std::string constants;  // or none…
  std::string meaning;    // …of a type
  friend auto operator<=>(const TemplateTraits&, const TemplateTraits&) = default;
};

class TraitsWriter : TextWriter {
 public:
  template <typename T>
  void constant(std::string_view type, std::string_view name, const T& value) {
    line("  static constexpr {} {} = {};", type, name, value);
  }
  /// A struct of the constants before.
  void end(std::string_view name) {
    traits_.push_back({.name = std::string(name), .constants = take_text(), .meaning = ""});
  }
  /// Such a struct, and what a template makes of it. Its name with `_traits` is the struct's.
  void end(std::string_view name, std::string_view made_by) {
    const std::string traits = fmt::format("{}_traits", name);
    end(traits);
    traits_.push_back({.name = std::string(name),
                       .constants = "",
                       .meaning = fmt::format("{}<{}>", made_by, traits)});
  }
  std::vector<TemplateTraits> take() { return std::exchange(traits_, {}); }

 private:
  std::vector<TemplateTraits> traits_;
};

}  // namespace rnnc
