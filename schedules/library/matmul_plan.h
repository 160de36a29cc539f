// Shared by the parts of a matmul's schedule: the roles of the axes, and the packed copies of the
// operands.
#pragma once

#include "schedules/library/matmul.h"
#include "schedules/library/product.h"

namespace kumiko::library {

// A product of two tensors read at plain axes, with the extents that are constant.
struct MatmulRoles : MatrixProduct {
    std::optional<int64_t> M, N, K;
};

// nullopt if the op is not such a product.
std::optional<MatmulRoles> matmul_roles(const Op &op);

// Whether neighbours along the axis are neighbours in memory.
bool contiguous_in(const Operand &o, const std::string &axis);

// The number of equal parts, at most `most`, into which the reduction may be divided; 1 if parts'
// sums may not be added afterwards.
int64_t parts_of_depth(const MatmulRoles &r, const Product &product, int64_t most);

// The parameters and decisions that parts of a schedule share.
struct MatmulPlan {
    const MatmulRoles &r;
    const MatmulParameters &p;
    Product product;
    bool copies_a, panels; // A is packed; B is packed panel by panel
    bool copies_b;
    int64_t columns;  // of the register tile
    int64_t together; // neighbours in a row of A that stay contiguous in its copy
};

// A layout of the operand's batches, followed by the terms.
std::vector<std::string> batched_layout(const MatmulPlan &plan, const Operand &o,
                                        const std::vector<std::string> &terms);

// Layouts, types and loops of the packed copies of A and B.
void copy_rows(const Op &op, const MatmulPlan &plan, StageHandle A);
std::vector<std::string> columns_layout(const MatmulPlan &plan);
void copy_columns(const Op &op, const MatmulPlan &plan, StageHandle B);

// Schedules the product with an instruction on tiles (Product::tiles).
Schedule schedule_tiles(const Op &op, const Machine &machine, const MatmulPlan &plan);

} // namespace kumiko::library
