// Weights under other names and in other layouts.
#include "runtime/capi/border.h"
#include "runtime/capi/handles.h"
#include "runtime/weights/shipped_maps.h"
#include "runtime/weights/weight_layout.h"

using rnnc::Result;
using rnnc::Status;
using rnnc::capi::call;
using rnnc::capi::check_given;
using rnnc::capi::give;

struct rnnc_weight_map {
  rnnc::WeightMap map;
};

rnnc_status rnnc_weight_map_parse(const char* name, const char* text, rnnc_weight_map** map) {
  return call([&] {
    return give(map, "map", [&]() -> Result<rnnc_weight_map*> {
      const Status given = check_given({{name, "name"}, {text, "text"}});
      if (!given) return tl::unexpected(given.error());
      Result<rnnc::WeightMap> parsed = rnnc::WeightMap::parse(text, name);
      if (!parsed) return tl::unexpected(parsed.error());
      return new rnnc_weight_map{*std::move(parsed)};
    });
  });
}

rnnc_status rnnc_weight_map_shipped(const char* name, rnnc_weight_map** map) {
  return call([&] {
    return give(map, "map", [&]() -> Result<rnnc_weight_map*> {
      const Status given = check_given({{name, "name"}});
      if (!given) return tl::unexpected(given.error());
      Result<rnnc::WeightMap> shipped = rnnc::shipped_map(name);
      if (!shipped) return tl::unexpected(shipped.error());
      return new rnnc_weight_map{*std::move(shipped)};
    });
  });
}

rnnc_status rnnc_weight_map_resolve(const rnnc_weight_map* map, const rnnc_program* program,
                                    rnnc_text** layout) {
  return call([&] {
    return give(layout, "layout", [&]() -> Result<rnnc_text*> {
      const Status given = check_given({{map, "map"}, {program, "program"}});
      if (!given) return tl::unexpected(given.error());
      const Result<rnnc::WeightLayout> found =
          rnnc::lay_out_weights(map->map, program->program.signature());
      if (!found) return tl::unexpected(found.error());
      return new rnnc_text{rnnc::to_json(*found)};
    });
  });
}

void rnnc_weight_map_free(rnnc_weight_map* map) {
  delete map;
}
