/// Numbers as people read them: three digits and a prefix.
#pragma once

#include <string>

namespace rnnc::explain {

std::string count_text(double count);   // "12.3 K"
std::string bytes_text(double bytes);   // "1.23 KiB"
std::string rate_text(double bytes);    // "1.23 GB/s", of bytes a second
std::string flop_text(double flops);    // "1.23 MFLOP"
std::string time_text(double seconds);  // "1.23 us"

}  // namespace rnnc::explain
