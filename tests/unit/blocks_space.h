// A small space of matrix products: blocks of rows and columns, vectorized or not. Some points are
// illegal.
#pragma once

#include "schedules/library/space.h"

namespace kumiko::testing {

struct Blocks {
    BOOST_HANA_DEFINE_STRUCT(Blocks, (Tile, rows), (Tile, columns), (Flag, vector));
};

inline std::unique_ptr<Space> blocks(const Op &op, std::vector<int64_t> rows = {1, 2, 4, 8},
                                     std::vector<int64_t> columns = {8, 16, 32, 64}) {
    return make_template<Blocks>(
               "blocks", "", [](const Op &) { return true; },
               [rows, columns](const Op &, const Machine &) {
                   return Blocks{Tile(1, rows), Tile(8, columns), Flag(false)};
               },
               [](const Op &op, const Machine &m, const Blocks &b) {
                   Schedule s(op, m);
                   auto c = s.stage("C");
                   if (b.columns == 64) throw UserError(std::source_location::current(), "too wide");
                   auto [io, ii] = c.split("i", b.rows);
                   auto [jo, ji] = c.split("j", b.columns);
                   c.reorder({io, jo, "k", ii, ji});
                   if (b.vector) c.vectorize(ji);
                   return s;
               })
        .make_space(op, Machine::host());
}

} // namespace kumiko::testing
