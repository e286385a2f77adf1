/// What `explain --html` prints: page/page.html with its style and scripts, a string of the
/// program.
#pragma once

#include <string_view>

namespace rnnc::explain {

/// RNNC_DATA stands where the JSON goes.
extern const std::string_view kPage;

}  // namespace rnnc::explain
