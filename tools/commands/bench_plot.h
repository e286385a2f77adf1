/// Bar charts as SVG.
#pragma once

#include <string>
#include <vector>

namespace rnnc::tools {

struct Bar {
  std::string label;  // in front of the bar
  double length = 0;
  std::string value;  // behind it
};
/// Charts are drawn one below the other, each to a scale of its own.
struct BarChart {
  std::string title;
  std::string note;  // below the title
  std::vector<Bar> bars;
};
std::string draw_bars(const std::vector<BarChart>& charts);

}  // namespace rnnc::tools
