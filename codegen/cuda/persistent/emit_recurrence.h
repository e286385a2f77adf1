/// One recurrence launch's kernel as a CUDA C++ function.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/persistent/recurrence_layout.h"
#include "codegen/cuda/persistent/traits_writer.h"

namespace rnnc {

/// A function without its name, to stand behind recurrence.cuh. Launches that differ only in where
/// their arrays lie have the same.
struct RecurrenceFunction {
  int64_t threads = 0;
  size_t accesses = 0;
  std::string traits;  // structs that the body names
  std::string body;
  friend auto operator<=>(const RecurrenceFunction&, const RecurrenceFunction&) = default;

  std::string text(std::string_view name) const;
};

/// `sides`: one for each.
RecurrenceFunction emit_recurrence_function(const Plan& plan, const RecurrenceTile& tile,
                                            const std::vector<RecurrenceLayout>& sides);

struct RecurrenceSideText {
  std::vector<TemplateTraits> traits;
  std::string body;
  friend bool operator==(const RecurrenceSideText&, const RecurrenceSideText&) = default;
};

/// What the blocks of a side do, once they know their group of rows and which of its blocks they
/// are. Where the side's arrays and slices lie it takes by name, so that like sides have one text.
RecurrenceSideText emit_recurrence_side(const Plan& plan, const RecurrenceTile& tile,
                                        const RecurrenceLayout& layout);

}  // namespace rnnc
