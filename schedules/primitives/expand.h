// Sums of products of two factors, each an element plus or minus a number, (A - y) * (B - z), as in
// quantised products with zero points.
#pragma once

#include "dsl/op.h"

namespace kumiko {

// Whether `expand` can multiply the product out.
bool is_shifted_product(const Stage &sum);
// Whether, in addition, each factor has an axis of the sum that the other lacks, as in matrix
// products and convolutions.
bool is_shifted_contraction(const Stage &sum);

} // namespace kumiko
