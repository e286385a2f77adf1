/// Charts as SVG.
#pragma once

#include <cstddef>
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

/// How some numbers are spread at each step.
struct SpreadChart {
  struct Step {
    bool empty = false;  // there are no numbers; a gap
    double least = 0, most = 0, mean = 0, deviation = 0;
    bool marked = false;  // by a red line
  };
  std::string title;
  std::string note;
  std::vector<Step> steps;
};
/// One below the other: from the least to the most, one deviation around the mean, the mean.
std::string draw_spreads(const std::vector<SpreadChart>& charts);

}  // namespace rnnc::tools
