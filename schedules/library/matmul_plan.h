// What the parts of a matmul's schedule share: what the op's axes are, and the copies of its operands in reading order.
#pragma once

#include "schedules/library/matmul.h"
#include "schedules/library/product.h"

namespace kumiko::library {

// A product of two tensors as they lie; extents that are known.
struct MatmulRoles : MatrixProduct {
    std::optional<int64_t> M, N, K;
};

// Nothing when the op is none.
std::optional<MatmulRoles> matmul_roles(const Op &op);

// Whether neighbours along the axis are neighbours in memory.
bool contiguous_in(const Operand &o, const std::string &axis);

// Into how many equal parts the reduction may be cut, at most so many: 1 where the parts' sums may not be added afterwards.
int64_t parts_of_depth(const MatmulRoles &r, const Product &product, int64_t most);

// What the parts of a schedule have to know.
struct MatmulPlan {
    const MatmulRoles &r;
    const MatmulParameters &p;
    Product product;
    bool copies_a, panels; // A is copied; B is, panel by panel
    bool copies_b;
    int64_t columns;  // of the register tile
    int64_t together; // neighbours of a row of A that stay together in its copy
};

// A layout of the operand's batches, then the terms.
std::vector<std::string> batched_layout(const MatmulPlan &plan, const Operand &o,
                                        const std::vector<std::string> &terms);

// Orders, types and loops of the copies of A and of B.
void copy_rows(const Op &op, const MatmulPlan &plan, StageHandle A);
std::vector<std::string> columns_layout(const MatmulPlan &plan);
void copy_columns(const Op &op, const MatmulPlan &plan, StageHandle B);

// By an instruction on tiles (Product::tiles).
Schedule schedule_tiles(const Op &op, const Machine &machine, const MatmulPlan &plan);

} // namespace kumiko::library
